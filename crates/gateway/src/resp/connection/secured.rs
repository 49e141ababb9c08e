//! Connections that begin with a TLS handshake.

use std::sync::Arc;

use tokio::net::TcpStream;

use super::{Moving, begin};
use crate::notices::{Notice, What};
use crate::resp::client::Client;
use crate::server::Server;
use crate::serving_thread::ServingThread;
use crate::store::Store;
use crate::stream::Stream;
use crate::tls::{Failure, Handshake, Secured};

/// Forgets a connection that ends before it is served.
struct Leaving<S: Store> {
    server: Arc<Server<S>>,
    client: Arc<Client>,
    /// The connection is being served, and will remove itself from the list when it ends.
    has_begun: bool,
}

impl<S: Store> Drop for Leaving<S> {
    fn drop(&mut self) {
        if !self.has_begun {
            self.server.clients.leave(&self.client);
        }
    }
}

/// Serves `socket` after `handshake`.
pub(crate) async fn begin_secured<S: Store>(
    socket: TcpStream,
    handshake: Handshake,
    server: Arc<Server<S>>,
    client: Arc<Client>,
    thread: ServingThread,
) -> Option<Box<Moving<S>>> {
    let mut leaving = Leaving { server: Arc::clone(&server), client: Arc::clone(&client), has_begun: false };
    // Boxed, so that this memory is free again after the handshake: connections are idle for much longer than a
    // handshake takes.
    let made = Box::pin(handshake.make(socket, &server.clock)).await;
    match made {
        Ok(Secured { stream, names }) => {
            let connection = begin(Stream::Tls(Box::new(stream)), names, server, client, thread);
            leaving.has_begun = true;
            drop(leaving);
            connection.await
        }
        Err(why) => {
            // A probe connects and closes, to see whether somebody listens. That is not worth a line.
            if why != Failure::Closed {
                let notice = Notice { what: What::Handshake(why), tenant: None, address: Some(client.peer.ip()) };
                server.notices.tell(notice, server.clock.now());
            }
            None
        }
    }
}
