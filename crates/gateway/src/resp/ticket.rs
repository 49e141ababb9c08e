//! Answers that come later, for commands that block.
//!
//! The connection keeps the [`Later`] and reads on, but serves nothing until it is answered. Whoever has the [`Ticket`]
//! answers it once, from any thread. If the ticket is dropped, the answer is an error. A wait costs its memory and
//! nothing else.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use weir_command::error::Error;
use weir_command::{Command, Request};
use weir_io::Nanos;

use crate::tenant::byte_limit::Held;
use crate::waiting_rows::RowWait;

/// How a wait has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The wait has lasted as long as it may.
    TimedOut,
    /// The command has failed.
    Failed(Error),
}

/// Ends a wait.
pub(crate) struct Ticket(oneshot::Sender<Ending>);

impl Ticket {
    /// Ends the wait. If the other side no longer waits, nothing happens.
    pub(crate) fn answer(self, ending: Ending) {
        // The connection may have ended.
        let _ = self.0.send(ending);
    }
}

/// Resolves when the wait has ended.
pub(crate) struct Later(oneshot::Receiver<Ending>);

impl Future for Later {
    type Output = Ending;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ending> {
        const DROPPED: Error = Error::new("ERR internal error: nobody is left to answer this command");
        Pin::new(&mut self.0).poll(cx).map(|ending| ending.unwrap_or(Ending::Failed(DROPPED)))
    }
}

/// A command that is answered later.
pub(crate) struct Blocked {
    /// Resolves when the wait ends.
    pub(crate) later: Later,
    /// When the wait ends at the latest, on the server's clock.
    pub(crate) until: Option<Nanos>,
    /// The answer if it lasts that long, in bytes of the protocol.
    pub(crate) timed_out: Vec<u8>,
    /// The rows that the command waits for, if it waits for rows.
    pub(crate) rows: Option<BlockedOnRows>,
}

/// A command that waits for its rows to be filled, and is tried again when they may be.
pub(crate) struct BlockedOnRows {
    pub(crate) place: RowWait,
    pub(crate) command: &'static Command,
    pub(crate) request: Request,
    /// Whether the command takes something from the row ([`weir_command::Wait`]).
    pub(crate) takes: bool,
    /// Books the memory of the wait.
    pub(crate) _held: Held,
}

/// A new wait, and the ticket that ends it.
pub(crate) fn ticket() -> (Ticket, Later) {
    let (sender, receiver) = oneshot::channel();
    (Ticket(sender), Later(receiver))
}

#[cfg(test)]
mod tests {
    use weir_io::real::block_on;

    use super::*;

    #[test]
    fn a_ticket_is_answered_by_who_has_it_or_by_its_end() {
        let (first, later) = ticket();
        first.answer(Ending::TimedOut);
        assert_eq!(block_on(later), Ending::TimedOut);
        let (second, later) = ticket();
        drop(second);
        assert!(matches!(block_on(later), Ending::Failed(error) if error.text().starts_with(b"ERR internal error")));
        let (third, later) = ticket();
        drop(later);
        third.answer(Ending::TimedOut);
    }
}
