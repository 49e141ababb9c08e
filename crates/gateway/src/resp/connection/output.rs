//! Replies on their way to the client: nothing is told before its commit.

use std::io;

use weir_io::real::COPY_BYTES_MAX;
use weir_io::{Nanos, yield_now};
use weir_node::waits;

use super::Connection;
use super::data::LONG_VALUE_BYTES;
use crate::auth::account::Unread;
use crate::resp::client::Phase;
use crate::resp::error::{Error, Outcome};
use crate::resp::slow_replies::{SlowReplies, SlowReply};
use crate::store::Store;

/// Replies are written out when they reach this many bytes, even in the middle of a pipeline or of one long reply.
pub(in crate::resp) const FLUSH_BYTES: usize = 256 << 10;

impl<S: Store> Connection<S> {
    /// Makes room in the middle of a long reply: what is complete so far goes to the client.
    pub(in crate::resp) async fn flush_if_long(&mut self) -> Outcome {
        if self.replies.len() < FLUSH_BYTES {
            return Ok(());
        }
        if !self.answers() {
            self.replies.rewind(self.answer.from);
            self.let_go();
        }
        self.flush_or_close().await?;
        // Who reads as fast as it is written would never make it wait.
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Flushes in the middle of a command, or before it begins.
    ///
    /// # Errors
    /// A write of the command has failed, and it is to end with that; or the client is gone.
    pub(super) async fn flush_or_close(&mut self) -> Outcome {
        if !self.answers() {
            // Nobody waits for it; what is in front of it goes out later, however long that is.
            self.replies.own_values();
            return Ok(());
        }
        self.submit().await;
        self.await_commits().await;
        self.own_failure()?;
        let flushed = self.flush().await;
        flushed.map_err(|error| Error::bytes(error.to_string().into_bytes()))
    }

    /// Awaits every commit and writes every reply.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        self.submit().await;
        if !self.commits.is_empty() {
            self.book_turn(self.server.clock.now());
            // The thread's other connections that have requests go first: the log's next write then takes theirs along.
            yield_now().await;
        }
        self.await_commits().await;
        self.answer.has_left |= self.replies.mark() != self.answer.from;
        self.place_errors();
        if self.replies.is_empty() {
            return Ok(());
        }
        if self.is_cut {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.enter(Phase::Replying);
        self.count(|stats| stats.bytes_out.add(self.replies.len() as u64));
        if let Err(error) = self.write_out().await {
            // Nobody knows how much of a reply has left: whatever would be written now, the client would take for the rest of it.
            (self.is_cut, self.closing) = (true, true);
            return Err(error);
        }
        let now = self.server.clock.now();
        self.book_turn(now);
        let waited = now.saturating_sub(self.received);
        let answered = std::mem::take(&mut self.unanswered);
        self.count(|stats| stats.latency.add(waited, answered));
        self.remember_if_slow(waited / 1000, answered);
        self.replies.clear();
        let mark = self.replies.mark();
        (self.gathered.from, self.gathered.to, self.answer.from) = (mark, mark, mark);
        self.enter(Phase::Serving);
        Ok(())
    }

    /// Writes every reply.
    async fn write_out(&mut self) -> io::Result<()> {
        let mut written = 0;
        let mut unread = None;
        while written < self.replies.len() {
            let result = match self.replies.as_one_piece() {
                Some(bytes) => {
                    let rest = &bytes[written..];
                    self.stream.try_write(&rest[..rest.len().min(COPY_BYTES_MAX)])
                }
                None => self.stream.try_write_vectored(&self.replies.pieces(written, COPY_BYTES_MAX)),
            };
            match result {
                Ok(len) => {
                    written += len;
                    self.give_back_taken(self.replies.kept_bytes(written));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if unread.is_none() {
                        unread = Some(self.hold_unread((self.replies.len() - written) as u64)?);
                    }
                    if self.replies.holds_values() {
                        self.replies.detach(written);
                        written = 0;
                    }
                    self.stream.writable().await?;
                    // There is room again: the client is slow, not gone.
                    self.enter(Phase::Replying);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn remember_if_slow(&self, micros: u64, replies: u64) {
        if SlowReplies::wants(micros)
            && let Some(session) = &self.session
        {
            let unix_ms = self.server.clock.unix_ms();
            let at = self.server.clock.now();
            let reply = SlowReply { unix_ms, at, micros, replies, command: self.longest.1, waited: waits::so_far() };
            session.account().slow_replies.add(reply);
        }
    }

    /// Books what its thread has worked for it, on its tenant.
    fn book_turn(&self, now: Nanos) {
        let worked = self.client.worked(now);
        self.count(|stats| stats.busy.add(worked));
    }

    /// Books replies that the client does not take at once, on its tenant (S11): among its long values, where many are already and
    /// what is taken is given back at once, and where those leave no room among its unread replies.
    fn hold_unread(&mut self, bytes: u64) -> io::Result<Option<Unread>> {
        let (Some(session), Some(hold)) = (&self.session, &mut self.long_values) else { return Ok(None) };
        if hold.try_grow_to(bytes) {
            return Ok(None);
        }
        // Nobody waits here: replies take their memory while they wait.
        let unread = session.account().hold_unread(bytes.saturating_sub(hold.bytes()));
        unread.map(Some).ok_or_else(|| io::Error::other("the tenant's clients leave too much unread"))
    }

    /// For what is still to be written `left` bytes stay in memory: what of long values is not among them is not in hand any more.
    fn give_back_taken(&mut self, left: usize) {
        if let Some(hold) = self.long_values.as_mut().filter(|hold| !hold.is_empty()) {
            hold.shrink_to(left as u64);
        }
    }

    /// No value is in hand any more but those in the replies.
    pub(in crate::resp) fn let_go(&mut self) {
        let left = self.replies.kept_bytes(0);
        // There is none among short ones: a connection that holds nothing may wait for its next.
        self.give_back_taken(if left < LONG_VALUE_BYTES { 0 } else { left });
    }
}
