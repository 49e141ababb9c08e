//! Replies and the commits that they wait for: nothing is told before its commit.

use std::io;

use weir_io::real::COPY_BYTES_MAX;
use weir_io::{Nanos, yield_now};
use weir_model::Batch;
use weir_node::waits;

use super::data::LONG_VALUE_BYTES;
use super::{Connection, ReplyMode};
use crate::auth::account::Unread;
use crate::resp::client::Phase;
use crate::resp::error::{Error, Outcome};
use crate::resp::reply::Mark;
use crate::resp::slow_replies::{SlowReplies, SlowReply};
use crate::store::Store;

/// Replies are written out when they reach this many bytes, even in the middle of a pipeline or of one long reply.
pub(in crate::resp) const FLUSH_BYTES: usize = 256 << 10;

/// Most bytes of replies that a connection holds, beside one value (S11). No command comes near it that flushes as it goes; one that
/// does not is refused.
const OUTPUT_BYTES_MAX: usize = 32 << 20;

/// Plain writes that wait to become one batch. Their replies lie together between the marks.
pub(super) struct Gathered {
    pub(super) batch: Batch,
    pub(super) from: Mark,
    pub(super) to: Mark,
    pub(super) replies: usize,
}

/// A write in the store whose replies depend on its commit.
pub(super) struct Pending<C> {
    pub(super) commit: C,
    pub(super) from: Mark,
    /// `None` while the command is still writing its reply.
    pub(super) to: Option<Mark>,
    pub(super) replies: usize,
}

impl<S: Store> Connection<S> {
    /// Takes the reply back that the client does not want. Commits are awaited all the same.
    pub(super) fn keep_silent(&mut self, from: Mark) {
        if !self.flushed {
            self.replies.rewind(from);
        }
        self.commits
            .iter_mut()
            .rev()
            .take_while(|pending| pending.to.is_none())
            .for_each(|pending| pending.replies = 0);
        if self.reply_mode == ReplyMode::SkipThis {
            self.reply_mode = ReplyMode::On;
        }
    }

    /// Whether the command under way is answered.
    pub(super) fn answers(&self) -> bool {
        matches!(self.reply_mode, ReplyMode::On | ReplyMode::SkipNext)
    }

    /// Puts an error in the place of the command's reply.
    pub(super) fn fail(&mut self, from: Mark, error: &Error) {
        self.count(|stats| stats.errors.add(1));
        if self.flushed {
            // Half a reply is at the client already: only closing tells him.
            self.closing = true;
            return;
        }
        self.replies.rewind(from);
        self.replies.error(error.text());
    }

    /// Makes room in the middle of a long reply: what is complete so far goes to the client.
    pub(in crate::resp) async fn flush_if_long(&mut self) -> Outcome {
        if self.replies.len() < FLUSH_BYTES {
            return Ok(());
        }
        if !self.answers() {
            self.replies.rewind(self.begun);
            self.let_go();
        }
        self.flush_or_close().await
    }

    /// Refuses a reply that is longer than a connection may hold.
    pub(super) fn bound_output(&self) -> Outcome {
        if self.replies.len_beside_one_value() <= OUTPUT_BYTES_MAX {
            return Ok(());
        }
        Err(Error::new("ERR the reply is longer than 32 MB: ask for less at a time"))
    }

    /// Flushes in the middle of a command.
    pub(super) async fn flush_or_close(&mut self) -> Outcome {
        if !self.answers() {
            // Nobody waits for it; what is in front of it goes out later, however long that is.
            self.replies.own_values();
            return Ok(());
        }
        let flushed = self.flush().await;
        flushed.map_err(|error| {
            self.closing = true;
            Error::bytes(error.to_string().into_bytes())
        })
    }

    /// Awaits every commit and writes every reply.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        self.submit().await;
        if !self.commits.is_empty() {
            self.book_turn(self.server.clock.now());
            // The thread's other connections that have requests go first: the log's next write then takes theirs along.
            yield_now().await;
        }
        self.commit().await;
        if self.replies.is_empty() {
            return Ok(());
        }
        self.flushed = true;
        self.enter(Phase::Replying);
        self.count(|stats| stats.bytes_out.add(self.replies.len() as u64));
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
        let now = self.server.clock.now();
        self.book_turn(now);
        let waited = now.saturating_sub(self.received);
        let answered = std::mem::take(&mut self.unanswered);
        self.count(|stats| stats.latency.add(waited, answered));
        self.remember_if_slow(waited / 1000, answered);
        self.replies.clear();
        let mark = self.replies.mark();
        (self.gathered.from, self.gathered.to) = (mark, mark);
        self.enter(Phase::Serving);
        Ok(())
    }

    fn remember_if_slow(&self, micros: u64, replies: u64) {
        if SlowReplies::wants(micros)
            && let Some(session) = &self.session
        {
            let unix_ms = self.server.clock.unix_ms();
            let reply = SlowReply { unix_ms, micros, replies, command: self.longest.1, waited: waits::so_far() };
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

    /// Awaits every commit; replies whose commit failed become errors.
    pub(super) async fn commit(&mut self) {
        let mut failed = Vec::new();
        for mut pending in self.commits.drain(..) {
            if let Err(error) = (&mut pending.commit).await {
                failed.push((pending, Error::from(error)));
            }
        }
        // From the last to the first, so that the marks in front stay right. A command with several writes has one
        // reply: it is replaced once.
        let (mut replaced, mut errors) = (None, 0);
        for (pending, error) in failed.into_iter().rev() {
            let to = pending.to.unwrap_or_else(|| self.replies.mark());
            if replaced != Some((pending.from, to)) {
                self.replies.replace_with_error(pending.from, to, pending.replies, error.text());
                errors += pending.replies as u64;
                replaced = Some((pending.from, to));
            }
        }
        if errors > 0 {
            self.count(|stats| stats.errors.add(errors));
        }
    }
}
