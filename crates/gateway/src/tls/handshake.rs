//! The handshake of one connection, bounded in time and in number.

use std::io;
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};
use tokio::net::TcpStream;
use weir_io::{Clock, Nanos, sleep_until};

use super::Tls;
use super::certificate::names;
use super::failure::Failure;
use super::pending::PendingHandshake;
use crate::stream::{Socket, TlsStream};

/// How long a handshake may take.
const LIMIT_NANOS: Nanos = 5_000_000_000;
/// The first byte of a client's first record: the type of records that belong to handshakes.
pub(crate) const HANDSHAKE_RECORD: u8 = 0x16;

/// A handshake that is about to be made.
pub(crate) struct Handshake {
    tls: Arc<Tls>,
    place: PendingHandshake,
    until: Nanos,
}

/// A connection that has finished its handshake.
pub(crate) struct Secured {
    pub(crate) stream: TlsStream,
    /// The names in the client's certificate, if it has shown one.
    pub(crate) names: Vec<String>,
}

impl Handshake {
    pub(super) fn new(tls: Arc<Tls>, place: PendingHandshake, now: Nanos) -> Self {
        Self { tls, place, until: now + LIMIT_NANOS }
    }

    /// Makes the handshake over `socket`.
    pub(crate) async fn make(mut self, socket: TcpStream, clock: &Arc<dyn Clock>) -> Result<Secured, Failure> {
        let config = self.tls.config();
        let outcome = tokio::select! {
            biased;
            outcome = shake_hands(socket, config) => outcome,
            () = self.place.displaced() => Err(Failure::Displaced),
            () = sleep_until(clock, self.until) => Err(Failure::TimedOut),
        };
        self.tls.count(outcome.as_ref().err().copied());
        outcome
    }
}

async fn shake_hands(socket: TcpStream, config: Arc<ServerConfig>) -> Result<Secured, Failure> {
    let mut first = [0];
    match socket.peek(&mut first).await {
        Ok(1..) if first[0] == HANDSHAKE_RECORD => {}
        Ok(1..) => {
            // If the socket does not take all of this at once, the rest is not sent.
            let _ = socket.try_write(b"-ERR this port speaks TLS: connect with TLS, or to the port without\r\n");
            return Err(Failure::Plaintext);
        }
        Ok(0) | Err(_) => return Err(Failure::Closed),
    }
    let mut session = ServerConnection::new(config).map_err(|error| failed(&error))?;
    while session.is_handshaking() || session.wants_write() {
        if session.wants_write() {
            match session.write_tls(&mut Socket(&socket)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    socket.writable().await.map_err(|_| Failure::Closed)?;
                }
                Err(_) => return Err(Failure::Closed),
                Ok(_) => {}
            }
            continue;
        }
        match session.read_tls(&mut Socket(&socket)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                socket.readable().await.map_err(|_| Failure::Closed)?;
            }
            Ok(0) | Err(_) => return Err(Failure::Closed),
            Ok(_) => {
                if let Err(error) = session.process_new_packets() {
                    // Sends an alert that tells the client why, if the socket takes it at once.
                    let _ = session.write_tls(&mut Socket(&socket));
                    return Err(failed(&error));
                }
            }
        }
    }
    let names = session.peer_certificates().and_then(|chain| chain.first()).map(|first| names(first));
    Ok(Secured { stream: TlsStream::new(socket, session), names: names.unwrap_or_default() })
}

fn failed(error: &rustls::Error) -> Failure {
    tracing::debug!(%error, "a TLS handshake failed");
    Failure::from(error)
}
