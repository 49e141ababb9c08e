//! Becomes a replica of a Redis.

use std::sync::Arc;

use weir_command::rdb::Lack;
use weir_io::Clock;

use super::{Acks, SocketBytes};
use crate::address::Address;
use crate::failure::{Failure, Result};
use crate::import::Position;
use crate::rdb::Input;
use crate::resp::{Connection, Reply, Requests, is_full};

/// Bytes of the mark behind a snapshot whose length the source did not know before.
const MARK_BYTES: usize = 40;
/// Errors of a server that may take a replica later.
const NOT_YET: [&str; 4] = ["LOADING", "NOMASTERLINK", "MASTERDOWN", "BUSY"];
/// Longest line, in bytes; anything longer is no line.
const LINE_BYTES_MAX: usize = 4 << 10;

/// What the source gives.
pub enum Attached {
    /// A snapshot, and then everything from there on.
    Full(Snapshot),
    /// Everything from the position on that we asked for. The history may have a new name.
    Partial {
        /// The stream from the source.
        input: Input<SocketBytes>,
        /// Our acknowledgements to the source.
        acks: Acks,
        /// The name of the history from here on, if it has changed.
        history: Option<String>,
    },
}

/// A snapshot that begins.
pub struct Snapshot {
    /// The bytes from the source: the dump, then its end, then the stream.
    pub input: Input<SocketBytes>,
    /// Our acknowledgements to the source.
    pub acks: Acks,
    /// The position of the snapshot.
    pub position: Position,
    /// Its length in bytes, if known.
    pub bytes: Option<u64>,
    /// The mark behind it, if its length is not known.
    pub mark: Option<Vec<u8>>,
}

/// Becomes a replica of the server at `address` that goes on `from` there, if it can.
///
/// # Errors
/// There is no server, or it takes no replica.
pub async fn attach(address: &Address, from: Option<&Position>, clock: &Arc<dyn Clock>) -> Result<Attached> {
    let mut connection = Connection::open(address, clock).await?;
    if let Reply::Error(error) = connection.call(&["PING"]).await? {
        return Err(refused(address, "PING", &error));
    }
    // A server that does not know these words does without them.
    connection.call(&["REPLCONF", "capa", "eof", "capa", "psync2"]).await?;
    let (history, next) = match from {
        Some(position) => (position.history.as_str(), (position.offset + 1).to_string()),
        None => ("?", "-1".to_owned()),
    };
    let mut request = Requests::default();
    request.push(&["PSYNC", history, &next]);
    connection.send(request.bytes_from(0)).await?;
    let (stream, received) = connection.into_parts();
    let (reader, writer) = stream.into_split();
    let mut input = Input::new(SocketBytes::new(reader, clock), received);
    let line = line(&mut input).await?;
    let mut words = line.split(' ');
    match words.next() {
        Some("+FULLRESYNC") => {
            let (history, offset) = (words.next(), words.next().and_then(|offset| offset.parse().ok()));
            let (Some(history), Some(offset)) = (history.filter(|history| history.len() == 40), offset) else {
                return Err(Failure::new(format!("{address}: `{line}` names no position")));
            };
            let position = Position { history: history.to_owned(), offset, database: 0, in_step_ms: 0 };
            let acks = Acks::new(writer, Arc::clone(clock));
            snapshot(address, input, acks, position).await.map(Attached::Full)
        }
        Some("+CONTINUE") => {
            let history = words.next().map(ToOwned::to_owned);
            let (socket, received) = input.into_parts();
            let acks = Acks::new(writer, Arc::clone(clock));
            Ok(Attached::Partial { input: Input::new(socket, received), acks, history })
        }
        _ => Err(refused(address, "PSYNC", line.trim_start_matches('-'))),
    }
}

fn refused(address: &Address, what: &str, error: &str) -> Failure {
    if is_full(error) || error.split(' ').next().is_some_and(|name| NOT_YET.contains(&name)) {
        return Failure::broken(format!("{address}: not yet: {error}"));
    }
    Failure::new(format!(
        "{address} refuses {what}: {error}. Following needs a Redis (2.8 to 7.4) that lets this user be a replica \
         (`ACL SETUSER … +psync +replconf +ping +info`); where a provider forbids that, import a dump file"
    ))
}

async fn snapshot(
    address: &Address,
    mut input: Input<SocketBytes>,
    acks: Acks,
    position: Position,
) -> Result<Snapshot> {
    let line = line(&mut input).await?;
    let (bytes, mark) = match line.strip_prefix('$').map(|rest| (rest.strip_prefix("EOF:"), rest.parse().ok())) {
        Some((Some(mark), _)) if mark.len() == MARK_BYTES => (None, Some(mark.as_bytes().to_vec())),
        Some((None, Some(bytes))) => (Some(bytes), None),
        _ => return Err(Failure::broken(format!("{address}: `{line}` begins no snapshot"))),
    };
    let (socket, received) = input.into_parts();
    Ok(Snapshot { input: Input::new(socket, received), acks, position, bytes, mark })
}

/// The next line that is not empty: empty lines show that the source lives.
async fn line(input: &mut Input<SocketBytes>) -> Result<String> {
    let bytes = input
        .piece(|rest| {
            while let Some(after) = rest.strip_prefix(b"\n") {
                *rest = after;
            }
            let end = rest.iter().position(|&byte| byte == b'\n');
            let end = match end {
                Some(end) => end,
                None if rest.len() > LINE_BYTES_MAX => return Err(Lack::Malformed),
                None => return Err(Lack::More),
            };
            let line = rest[..end].to_vec();
            *rest = &rest[end + 1..];
            Ok(line)
        })
        .await?;
    Ok(String::from_utf8_lossy(bytes.strip_suffix(b"\r").unwrap_or(&bytes)).into_owned())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use weir_io::real::RealClock;

    use super::*;
    use crate::failure::Remedy;
    use crate::target::Target;

    /// The address of a server that answers everything with `answer`.
    async fn server(answer: &'static str) -> Address {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = Address::plain(&listener.local_addr().expect("bound").to_string()).expect("an address");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut received = [0; 1000];
                while stream.read(&mut received).await.is_ok_and(|read| read > 0) {
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        break;
                    }
                }
            }
        });
        address
    }

    #[test]
    fn a_server_that_loads_its_data_is_waited_for() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        runtime.block_on(async {
            let clock: Arc<dyn Clock> = RealClock::new();
            for (answer, remedy) in [
                ("-LOADING Redis is loading the dataset in memory\r\n", Remedy::Reconnect),
                ("-NOAUTH Authentication required.\r\n", Remedy::None),
            ] {
                let address = server(answer).await;
                let failure = attach(&address, None, &clock).await.err().expect("no source");
                assert_eq!(failure.remedy, remedy, "{failure}");
                let target = Target::new(address, Arc::clone(&clock));
                let failure = target.connect().await.err().expect("no target");
                assert_eq!(failure.remedy, remedy, "{failure}");
            }
        });
    }

    #[test]
    fn a_server_that_is_full_is_waited_for() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
        runtime.block_on(async {
            let clock: Arc<dyn Clock> = RealClock::new();
            for (answer, remedy) in [
                ("-ERR max number of clients reached\r\n", Remedy::Reconnect),
                ("-ERR too many logins at the same time, try again\r\n", Remedy::Reconnect),
                ("-ERR too many wrong passwords, try again in 3 s\r\n", Remedy::Reconnect),
                ("-WRONGPASS invalid username-password pair or user is disabled.\r\n", Remedy::None),
            ] {
                // It answers the login, or what comes without one.
                for password in ["secret", ""] {
                    let address = Address { password: password.to_owned(), ..server(answer).await };
                    let failure = attach(&address, None, &clock).await.err().expect("no source");
                    assert_eq!(failure.remedy, remedy, "{failure}");
                    let target = Target::new(address, Arc::clone(&clock));
                    let failure = target.connect().await.err().expect("no target");
                    assert_eq!(failure.remedy, remedy, "{failure}");
                }
            }
        });
    }
}
