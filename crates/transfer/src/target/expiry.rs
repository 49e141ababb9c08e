//! While a source is followed, nothing expires in the target that had not expired when the target was last in step.
//!
//! Clients of the source may have given a key more time, and the target does not know it yet: a key whose deadline has
//! passed here must still be there when that command comes. A key that really has expired is deleted by the source,
//! which sends that, too. So the target's expiry is paused at the last moment up to which the target has all that the
//! source did, and that moment moves on while the source is followed. It is kept with the position in the target: an
//! import that is started again pauses expiry where the one before it did. Each connection to the target asks for the
//! pause before anything else, and a task asks again once a second. If the import is gone, the pause ends by itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Target;
use crate::failure::Result;
use crate::resp::{Connection, Reply};
use crate::tally::Tally;
use crate::within::{pause, within};

/// How long the target pauses its expiry when it is asked to, in milliseconds: the most that it takes.
const PAUSE_MS: &str = "60000";
/// How often it is asked again, in milliseconds.
const AGAIN_MS: u64 = 1_000;
/// A target that does not answer within this many seconds is asked on another connection.
const ANSWER_SECONDS: u64 = 10;
/// How far the clocks of the source and of this machine may be apart, in milliseconds.
const CLOCKS_APART_MS: u64 = 1_000;

/// A pause of the target's expiry.
pub struct ExpiryPause {
    tally: Arc<Tally>,
}

impl ExpiryPause {
    /// The pause of an import with this `tally`, which knows when the target was in step.
    pub fn new(tally: &Arc<Tally>) -> Self {
        Self { tally: Arc::clone(tally) }
    }

    /// What had expired at this moment, in milliseconds since 1970, has expired at the source, too.
    pub fn at_ms(&self) -> u64 {
        self.tally.in_step_ms.load(Ordering::Relaxed).saturating_sub(CLOCKS_APART_MS)
    }

    /// Asks for the pause; gives the reason if the target refuses.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn try_begin(&self, connection: &mut Connection) -> Result<Option<String>> {
        let at = self.at_ms().to_string();
        Ok(match connection.call_patiently(&["CLIENT", "PAUSE", PAUSE_MS, "EXPIRY", &at]).await? {
            Reply::Error(error) => Some(error),
            _ => None,
        })
    }

    /// Asks for the pause again.
    ///
    /// # Errors
    /// The connection broke, or the target refuses.
    pub async fn renew(&self, connection: &mut Connection) -> Result {
        let at = self.at_ms().to_string();
        connection.ask(&["CLIENT", "PAUSE", PAUSE_MS, "EXPIRY", &at]).await.map(drop)
    }
}

/// Ends the pause of `target`, if there is one. Nothing of the import may be under way.
///
/// # Errors
/// The target is away, or refuses. The pause ends by itself then.
pub async fn end_expiry_pause(target: &Target) -> Result {
    if target.expiry_pause.is_none() {
        return Ok(());
    }
    // A new connection asks for the pause first, and this comes behind it.
    let mut connection = target.connect().await?;
    connection.ask(&["CLIENT", "PAUSE", "0", "EXPIRY", "0"]).await.map(drop)
}

/// Asks `target` again and again to pause its expiry, until it is dropped.
pub async fn keep_expiry_paused(target: Target) {
    let Some(expiry_pause) = &target.expiry_pause else { return };
    let mut connection: Option<Connection> = None;
    loop {
        pause(&target.clock, AGAIN_MS).await;
        let asked = async {
            match connection.take() {
                // Opening one asks.
                None => target.connect().await,
                Some(mut open) => expiry_pause.renew(&mut open).await.map(|()| open),
            }
        };
        // Those who write to the target report what is wrong with it. The next round opens another connection.
        connection = within(&target.clock, ANSWER_SECONDS, "CLIENT PAUSE", asked).await.ok();
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
    use weir_io::real::RealClock;

    use super::*;
    use crate::address::Address;
    use crate::resp::take_request;

    /// A target that answers every request with `answer`; and the requests.
    async fn server(answer: &'static str) -> (Target, UnboundedReceiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = Address::plain(&listener.local_addr().expect("bound").to_string()).expect("an address");
        let (told, requests) = unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut received = Vec::new();
                while stream.read_buf(&mut received).await.is_ok_and(|len| len > 0) {
                    let mut rest = &received[..];
                    let mut answers = String::new();
                    while let Some(words) = take_request(&mut rest).expect("requests") {
                        told.send(String::from_utf8_lossy(&words.join(&b' ')).into_owned()).expect("the test runs");
                        answers += answer;
                    }
                    received = rest.to_vec();
                    stream.write_all(answers.as_bytes()).await.expect("it reads");
                }
            }
        });
        (Target::new(address, RealClock::new()), requests)
    }

    fn in_runtime<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime").block_on(future)
    }

    #[test]
    fn every_connection_pauses_expiry_at_the_moment_at_which_the_import_was_in_step() {
        in_runtime(async {
            let (target, mut requests) = server("+OK\r\n").await;
            let tally = Arc::<Tally>::default();
            tally.in_step_ms.store(10_000, Ordering::Relaxed);
            let target = Target { expiry_pause: Some(Arc::new(ExpiryPause::new(&tally))), ..target };
            let mut sent = || requests.try_recv().expect("it was sent");
            drop(target.connect().await.expect("it answers"));
            assert_eq!([sent(), sent()], ["PING", "CLIENT PAUSE 60000 EXPIRY 9000"]);
            tally.in_step_ms.store(30_000, Ordering::Relaxed);
            end_expiry_pause(&target).await.expect("it answers");
            let last = ["PING", "CLIENT PAUSE 60000 EXPIRY 29000", "CLIENT PAUSE 0 EXPIRY 0"];
            assert_eq!([sent(), sent(), sent()], last);
        });
    }

    #[test]
    fn a_server_that_cannot_pause_expiry_says_so() {
        in_runtime(async {
            let (target, _requests) = server("-ERR mode\r\n").await;
            let mut connection = Connection::open(&target.address, &target.clock).await.expect("it listens");
            let refused = ExpiryPause::new(&Arc::default()).try_begin(&mut connection).await;
            assert_eq!(refused.expect("it answers").as_deref(), Some("ERR mode"));
        });
    }
}
