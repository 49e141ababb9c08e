//! A client's connection to a server.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use weir_io::Clock;

use super::{Reply, ReplyEnd, Requests, Verdict, is_full, judge, take_reply};
use crate::address::Address;
use crate::failure::{Failure, Result};
use crate::within::{pause, unless_told, within};

/// Longest time until a server takes a connection, in seconds.
const CONNECT_SECONDS: u64 = 10;
/// Longest time until a batch is answered: a write may wait for its tenant's units and for the disk.
const ANSWER_SECONDS: u64 = 120;
/// Room for what is read at once.
const READ_BYTES: usize = 64 << 10;

/// A connection that is logged in.
pub struct Connection {
    stream: TcpStream,
    clock: Arc<dyn Clock>,
    /// Bytes that were received; from `start` on they were not looked at yet.
    received: Vec<u8>,
    start: usize,
    /// Becomes true when the work is told to end: then a server that does not answer is not waited for.
    stop: Option<watch::Receiver<bool>>,
}

impl Connection {
    /// Connects, and logs in if `address` has a password or a user.
    ///
    /// # Errors
    /// There is no server, or it refuses the login.
    pub async fn open(address: &Address, clock: &Arc<dyn Clock>) -> Result<Self> {
        let connect = async {
            let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let stream =
            within(clock, CONNECT_SECONDS, "connecting", connect).await.map_err(|failure| failure.of(address))?;
        let mut connection = Self { stream, clock: Arc::clone(clock), received: Vec::new(), start: 0, stop: None };
        if !address.password.is_empty() || !address.user.is_empty() {
            let words: &[&[u8]] = match address.user.is_empty() {
                true => &[b"AUTH", address.password.as_bytes()],
                false => &[b"AUTH", address.user.as_bytes(), address.password.as_bytes()],
            };
            if let Reply::Error(error) = connection.call(words).await? {
                let message = format!("{address}: the login is refused: {error}");
                return Err(if is_full(&error) { Failure::broken(message) } else { Failure::new(message) });
            }
        }
        Ok(connection)
    }

    /// From the moment when `stop` becomes true, answers are waited for no longer than a second.
    pub fn heed(&mut self, stop: Option<watch::Receiver<bool>>) {
        self.stop = stop;
    }

    /// Sends one request, and gives the reply.
    ///
    /// # Errors
    /// The connection broke, or took too long. A refusal is an answer.
    pub async fn call<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Reply> {
        let mut requests = Requests::default();
        requests.push(words);
        let mut replies = self.exchange(&requests, 0).await?;
        replies.pop().ok_or_else(|| Failure::broken("no reply came"))
    }

    /// Like [`call`](Self::call), but asks again while the server says that it has no time.
    ///
    /// # Errors
    /// As [`Connection::call`].
    pub async fn call_patiently<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Reply> {
        loop {
            let reply = self.call(words).await?;
            match reply.error().map(|error| judge(error, false)) {
                Some(Verdict::Again(wait_ms)) => pause(&self.clock, wait_ms).await,
                _ => return Ok(reply),
            }
        }
    }

    /// Like [`call_patiently`](Self::call_patiently), but a refusal is a failure. If nobody knows whether it was done,
    /// the failure is that of a connection that broke.
    ///
    /// # Errors
    /// The connection broke, or the server refuses.
    pub async fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Reply> {
        match self.call_patiently(words).await? {
            Reply::Error(error) => {
                let name = words.first().map(|word| String::from_utf8_lossy(word.as_ref()).into_owned());
                let message = format!("{}: {error}", name.unwrap_or_default());
                Err(match judge(&error, false) {
                    Verdict::Unclear => Failure::broken(message),
                    _ => Failure::new(message),
                })
            }
            reply => Ok(reply),
        }
    }

    /// Sends all `requests` but the first `skipped`, and gives their replies. It reads while it writes: a server that
    /// waits for its replies to be read takes no further requests.
    ///
    /// # Errors
    /// The connection broke, or took too long: any of the requests may have been done.
    pub async fn exchange(&mut self, requests: &Requests, skipped: usize) -> Result<Vec<Reply>> {
        let mut replies = Vec::with_capacity(requests.len() - skipped);
        let each = |reply| {
            replies.push(reply);
            Ok(())
        };
        self.exchange_each(requests, skipped, each).await?;
        Ok(replies)
    }

    /// Sends `requests`, which may be done in any order, and gives their replies. Those that the server has no time for
    /// are sent again until it has.
    ///
    /// # Errors
    /// As [`Connection::exchange`].
    pub async fn exchange_patiently(&mut self, requests: &Requests) -> Result<Vec<Reply>> {
        let mut replies = self.exchange(requests, 0).await?;
        loop {
            let told_ms = |reply: &Reply| match judge(reply.error()?, false) {
                Verdict::Again(wait_ms) => Some(wait_ms),
                _ => None,
            };
            let late = replies.iter().enumerate().filter_map(|(at, reply)| Some((at, told_ms(reply)?)));
            let (late, waits_ms): (Vec<usize>, Vec<u64>) = late.unzip();
            let Some(wait_ms) = waits_ms.into_iter().max() else { return Ok(replies) };
            pause(&self.clock, wait_ms).await;
            let mut again = Requests::default();
            late.iter().for_each(|&at| again.copy(requests, at..at + 1));
            for (at, reply) in late.into_iter().zip(self.exchange(&again, 0).await?) {
                replies[at] = reply;
            }
        }
    }

    /// Like [`exchange`](Self::exchange), but `each` takes the replies as they come.
    ///
    /// # Errors
    /// The connection broke, or took too long; or the error of `each`: then no further request may be sent.
    pub async fn exchange_each(
        &mut self,
        requests: &Requests,
        skipped: usize,
        each: impl FnMut(Reply) -> Result,
    ) -> Result {
        let (clock, stop) = (Arc::clone(&self.clock), self.stop.clone());
        let exchanged = within(&clock, ANSWER_SECONDS, "a reply", self.exchange_now(requests, skipped, each));
        unless_told(&clock, stop, exchanged).await
    }

    async fn exchange_now(
        &mut self,
        requests: &Requests,
        skipped: usize,
        mut each: impl FnMut(Reply) -> Result,
    ) -> Result {
        let Self { stream, received, start, .. } = self;
        let (mut reader, mut writer) = stream.split();
        let write = async { writer.write_all(requests.bytes_from(skipped)).await.map_err(Failure::from) };
        let read = async {
            let mut wanted = requests.len() - skipped;
            let mut end = ReplyEnd::default();
            while wanted > 0 {
                let mut rest = &received[*start..];
                let before = rest.len();
                // Decoding copies the elements of a reply, so it is decoded once, when all of it is there.
                let reply = if end.is_whole(rest)? { take_reply(&mut rest)? } else { None };
                match reply {
                    Some(reply) => {
                        *start += before - rest.len();
                        wanted -= 1;
                        each(reply)?;
                    }
                    None => {
                        received.drain(..std::mem::take(start));
                        received.reserve(READ_BYTES);
                        if reader.read_buf(received).await? == 0 {
                            return Err(Failure::broken("the server closed the connection"));
                        }
                    }
                }
            }
            Ok(())
        };
        tokio::try_join!(write, read)?;
        Ok(())
    }

    /// Sends `bytes` and waits for no answer.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn send(&mut self, bytes: &[u8]) -> Result {
        Ok(self.stream.write_all(bytes).await?)
    }

    /// The socket, and the bytes that were received and not looked at.
    pub fn into_parts(mut self) -> (TcpStream, Vec<u8>) {
        self.received.drain(..self.start);
        (self.stream, self.received)
    }
}
