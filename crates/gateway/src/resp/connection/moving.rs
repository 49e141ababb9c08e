//! Connections move between threads: the gateway uses [as few threads](crate::spread) as can do the work, and long
//! requests and noisy neighbours have threads of their own.
//!
//! Copying a value of 8 MB to its destination, into the log and into the memtable takes milliseconds, in one turn of an
//! event loop, while every other connection of the thread waits. So a connection that sends or asks for long values
//! moves to a thread for long requests, and comes back when it has done without them for a while. A short request that
//! makes a long value (`SETRANGE k 60000000 x`) moves before it is served. The operating system shares the processors
//! between the two kinds of threads. A tenant that keeps threads busy while others want to be served
//! ([`crate::noisy_neighbour`]) goes there, too, with all its connections.

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

/// A request or a value of this many bytes is long: each copy of it takes some 0.1 ms.
pub(super) const LONG_BYTES: usize = 256 << 10;
/// After this many rounds without anything long a connection moves back.
const SHORT_ROUNDS: u32 = 128;

/// Whether the recent rounds of a connection were long.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lately {
    /// Something long was asked for in this round.
    pub(super) is_long: bool,
    /// The tenant was noisy after the last round.
    pub(super) is_noisy: bool,
    /// Rounds since the last one for which either was true.
    short_rounds: u32,
}

impl<S: Store> Connection<S> {
    /// Whether `args` are a short request for a long value, which should be served by a thread for long requests. If
    /// so, the request is put off until the connection has moved. On the next thread it is served in any case.
    pub(super) fn put_off(&mut self, command: Option<&Command>, args: Args<'_>) -> bool {
        if std::mem::take(&mut self.is_put_off) || self.thread.is_long || self.server.settings.long_threads == 0 {
            return false;
        }
        // Most commands have too few words for that, so this check is quick.
        self.is_put_off = args.len() > 3 && command.is_some_and(|command| command.reaches(args, LONG_BYTES));
        self.lately.is_long |= self.is_put_off;
        self.is_put_off
    }
}

impl Lately {
    /// A round begins on `thread`, with a request that will have `wanted` bytes, as far as that is known. Returns
    /// whether the connection belongs on a thread for long requests, if there is one.
    pub(super) fn belongs_to_long(&mut self, wanted: usize, thread: ServingThread) -> bool {
        let was_long = std::mem::take(&mut self.is_long) || wanted >= LONG_BYTES || self.is_noisy;
        self.short_rounds = if was_long { 0 } else { self.short_rounds.saturating_add(1) };
        if thread.is_long { self.short_rounds <= SHORT_ROUNDS } else { was_long }
    }
}

/// A connection on its way to another thread. It is always boxed, because the task of every connection has room for the
/// value that it may hand on.
pub(crate) struct Moving<S: Store> {
    connection: Box<Connection<S>>,
    input: Input,
    /// A new descriptor of the socket, because the old one belongs to the event loop that it was registered with.
    socket: OwnedFd,
    /// The number of the thread to move to.
    pub(crate) to: usize,
}

impl<S: Store> Moving<S> {
    pub(super) fn new(connection: Box<Connection<S>>, input: Input, socket: OwnedFd, to: usize) -> Self {
        Self { connection, input, socket, to }
    }

    /// Continues on `thread`, on whose event loop the caller runs, until the connection ends or moves again.
    ///
    /// # Errors
    /// The event loop cannot register the socket.
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

    /// The client of the connection.
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
