//! A connection whose command is answered later ([`crate::resp::ticket`]).
//!
//! What came before it is answered first. Then the connection serves nothing until the wait ends, and costs little: it
//! has no buffer for replies. It goes on to read, so that it notices when its client goes, and it is sent messages.

use std::future::{pending, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use weir_io::sleep_until;

use super::Connection;
use crate::pool;
use crate::resp::client::Phase;
use crate::resp::input::Input;
use crate::resp::ticket::{Blocked, Ending};
use crate::store::Store;

/// Bytes behind a command that blocks which are read meanwhile. With more the end of the client is not noticed.
const AHEAD_BYTES_MAX: usize = 64 << 10;

impl<S: Store> Connection<S> {
    /// Waits for the answer to the command under way, and writes it. `input` begins behind that command.
    ///
    /// # Errors
    /// The client is gone.
    pub(super) async fn answer_later(&mut self, blocked: Blocked, input: &mut Input) -> io::Result<()> {
        self.flush().await?;
        pool::give(self.session.outbox.replies.reclaim());
        let timed_out = blocked.timed_out;
        let ending = self.until_answered(blocked, input).await?;
        let outbox = &mut self.session.outbox;
        outbox.replies.lend(pool::take());
        outbox.enter(Phase::Serving);
        // Its wait is nobody's time.
        outbox.begin_round();
        self.turn_began = outbox.lap;
        let outcome = match ending {
            Ending::TimedOut => {
                outbox.replies.integer(timed_out);
                Ok(())
            }
            Ending::Failed(error) => Err(error),
        };
        self.end_command(outcome);
        Ok(())
    }

    async fn until_answered(&mut self, blocked: Blocked, input: &mut Input) -> io::Result<Ending> {
        let (client, clock) = (Arc::clone(&self.session.outbox.client), Arc::clone(&self.server.clock));
        let Blocked { mut later, until, .. } = blocked;
        let mut timeout = pin!(async {
            match until {
                Some(at) => sleep_until(&clock, at).await,
                None => pending().await,
            }
        });
        let outbox = &mut self.session.outbox;
        outbox.enter(Phase::Blocked);
        let ended = poll_fn(|cx| {
            if let Poll::Ready(ending) = pin!(&mut later).poll(cx) {
                return Poll::Ready(Ok(Some(ending)));
            }
            if timeout.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(None));
            }
            while input.bytes.len() - input.start < AHEAD_BYTES_MAX {
                match input.poll_fill(cx, &mut outbox.stream) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                    Poll::Ready(Ok(received)) => outbox.count(|stats| stats.bytes_in.add(received as u64)),
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                }
            }
            outbox.poll_push(cx);
            if outbox.closing { Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) } else { Poll::Pending }
        })
        .await;
        let ticket = client.take_ticket();
        match ended? {
            Some(ending) => Ok(ending),
            None if ticket.is_some() => Ok(Ending::TimedOut),
            // Somebody has the ticket, and has told others that the wait ends by that.
            None => Ok(later.await),
        }
    }
}
