//! Connections move: to [as few threads](crate::spread) as can do the work; and long requests have threads of their
//! own, as have noisy neighbours.
//!
//! To copy a value of 8 MB to where it is going, into the log and into the memtable, takes milliseconds, in one turn of
//! an event loop: whoever is served by the same thread waits. So a connection that sends or asks for long values moves
//! to a thread for such, and comes back when it has been without them for a while. A short request that makes a long
//! value (`SETRANGE k 60000000 x`) moves before it is served. The system shares the processors between the two kinds of
//! threads. A tenant that keeps threads busy while others want to be served ([`crate::noisy_neighbour`]) goes there,
//! too, with all its connections.

use std::io;
use std::net;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::net::TcpStream;
use weir_command::{Args, Command};

use super::{Connection, serve};
use crate::resp::client::Client;
use crate::resp::input::Input;
use crate::serving_thread::ServingThread;
use crate::store::Store;

/// A request or a value of so many bytes is long: some 0.1 ms for each time that it is copied.
pub(super) const LONG_BYTES: usize = 256 << 10;
/// After so many rounds without anything long a connection moves back.
const SHORT_ROUNDS: u32 = 128;

/// What is long about the rounds of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lately {
    /// In this round something long was asked for.
    pub(super) is_long: bool,
    /// After the last round its tenant was noisy.
    pub(super) is_noisy: bool,
    /// Rounds since the last one in which one of them was so.
    short_rounds: u32,
}

impl<S: Store> Connection<S> {
    /// Whether `args` are a short request for a long value, which is better served by a thread for such: then it is put
    /// off until the connection has moved. Where it is served next, it is served.
    pub(super) fn put_off(&mut self, command: Option<&Command>, args: Args<'_>) -> bool {
        if std::mem::take(&mut self.is_put_off) || self.thread.is_long || self.server.settings.long_threads == 0 {
            return false;
        }
        // Most commands are too short for that, which is seen at a glance.
        self.is_put_off = args.len() > 3 && command.is_some_and(|command| command.reaches(args, LONG_BYTES));
        self.lately.is_long |= self.is_put_off;
        self.is_put_off
    }
}

impl Lately {
    /// A round begins at `thread`, with a request that will have `wanted` bytes, as far as that is known. Whether its
    /// connection belongs on a thread for long requests, if there is such.
    pub(super) fn belongs_to_long(&mut self, wanted: usize, thread: ServingThread) -> bool {
        let was_long = std::mem::take(&mut self.is_long) || wanted >= LONG_BYTES || self.is_noisy;
        self.short_rounds = if was_long { 0 } else { self.short_rounds.saturating_add(1) };
        if thread.is_long { self.short_rounds <= SHORT_ROUNDS } else { was_long }
    }
}

/// A connection on its way to another thread. In a box wherever it goes: every connection has room for what its task
/// may hand on.
pub(crate) struct Moving<S: Store> {
    connection: Box<Connection<S>>,
    input: Input,
    /// A socket belongs to the event loop that it was registered with; this one is new.
    socket: OwnedFd,
    /// The number of that thread.
    pub(crate) to: usize,
}

impl<S: Store> Moving<S> {
    pub(super) fn new(connection: Box<Connection<S>>, input: Input, socket: OwnedFd, to: usize) -> Self {
        Self { connection, input, socket, to }
    }

    /// Goes on at `thread`, whose event loop the caller runs on, until it ends or moves again.
    ///
    /// # Errors
    /// The event loop cannot have it.
    pub(crate) fn arrive(
        mut self,
        thread: ServingThread,
    ) -> io::Result<impl Future<Output = Option<Box<Self>>> + Send> {
        let outbox = &mut self.connection.session.outbox;
        outbox.stream.go_on_over(TcpStream::from_std(net::TcpStream::from(self.socket))?);
        outbox.thread = thread.index;
        self.connection.thread = thread;
        Ok(serve(self.connection, self.input))
    }

    /// Whose it is.
    pub(crate) fn client(&self) -> Arc<Client> {
        Arc::clone(&self.connection.session.outbox.client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_at_once_and_back_after_a_while() {
        let (short, long) = (ServingThread { index: 0, is_long: false }, ServingThread { index: 1, is_long: true });
        let mut lately = Lately::default();
        assert!(!lately.belongs_to_long(0, short), "before its first round nobody knows whose it is");
        assert!(!lately.belongs_to_long(LONG_BYTES - 1, short));
        assert!(lately.belongs_to_long(LONG_BYTES, short));
        for _ in 0..SHORT_ROUNDS {
            assert!(lately.belongs_to_long(100, long));
        }
        assert!(!lately.belongs_to_long(100, long));
        lately.is_long = true;
        assert!(lately.belongs_to_long(100, long), "a long reply keeps it there");
        assert!(!lately.belongs_to_long(100, short));
        lately.is_noisy = true;
        assert!(lately.belongs_to_long(100, short), "its tenant is noisy");
        assert!(lately.belongs_to_long(100, long));
    }
}
