//! Answers that come later: of commands that block.
//!
//! The connection keeps the [`Later`] and reads on, but serves nothing until it is answered. Whoever has the [`Ticket`]
//! answers it, once, from any thread; a ticket that is dropped is answered with an error. While nobody does, it costs
//! its memory and nothing else.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use weir_command::error::Error;
use weir_command::{Command, Request};
use weir_io::Nanos;

use crate::waiting_rows::RowWait;

/// How a wait has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It has lasted as long as it may.
    TimedOut,
    /// It has failed.
    Failed(Error),
}

/// See the module.
pub(crate) struct Ticket(oneshot::Sender<Ending>);

impl Ticket {
    /// Ends the wait. Who has given up waiting is not told.
    pub(crate) fn answer(self, ending: Ending) {
        // The connection may have ended.
        let _ = self.0.send(ending);
    }
}

/// See the module.
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
    /// What its wait ends with.
    pub(crate) later: Later,
    /// When it ends at the latest, on the server's clock.
    pub(crate) until: Option<Nanos>,
    /// What it is answered when it has lasted so long: bytes of the protocol.
    pub(crate) timed_out: Vec<u8>,
    /// What it waits for, where that is a row.
    pub(crate) rows: Option<BlockedOnRows>,
}

/// A command that waits for its rows to be filled, and is tried again when they may be.
pub(crate) struct BlockedOnRows {
    pub(crate) place: RowWait,
    pub(crate) command: &'static Command,
    pub(crate) request: Request,
    /// See [`weir_command::Wait`].
    pub(crate) takes: bool,
}

/// A wait, and what ends it.
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
