//! Turns the outcome of a command into its one reply.
//!
//! Every command is answered by exactly one reply, in the order of the commands, whatever fails. Three rules ensure
//! this:
//!
//! 1. [`Outbox::begin_answer`] marks where a command's reply begins, and only [`Outbox::end_answer`] ends it. If a
//!    handler fails, or has written anything but one whole reply, its output is taken back to the mark and replaced by
//!    an error. So it cannot leave a piece of a reply.
//! 2. Nothing in front of the mark changes while the command runs. A write that fails, at once or at its commit, is
//!    only remembered ([`Pending`]); [`Outbox::place_errors`] puts the errors in their places right before everything
//!    is written.
//! 3. A part of a long reply may have been sent when its command fails, or when one of its writes turns out to have
//!    failed. That part cannot be taken back, so nothing more is written, and the connection is closed
//!    ([`Outbox::break_off`]). The client sees the end of the stream in the middle of that reply, and takes nothing for
//!    an answer that is none.

use weir_command::error::{Error, Outcome, REPLY_TOO_LONG};
use weir_command::reply::Mark;
use weir_model::Batch;

use super::{Outbox, ReplyMode};
use crate::store::Store;

/// The reply of the command under way.
pub(super) struct Answer {
    /// Where it begins.
    pub(super) from: Mark,
    /// The reply's command has begun and not ended.
    pub(super) is_under_way: bool,
    /// A part of the reply has been sent already, of `left_bytes` bytes.
    pub(super) has_left: bool,
    pub(super) left_bytes: u64,
    /// The command is answered with messages instead, which stand in front of the reply.
    pub(super) is_messages: bool,
}

impl Answer {
    /// No command is under way, and the next reply begins at `from`.
    pub(super) fn new(from: Mark) -> Self {
        Self { from, is_under_way: false, has_left: false, left_bytes: 0, is_messages: false }
    }
}

/// Plain writes that wait to become one batch. Their replies lie next to each other between the marks.
pub(in crate::resp) struct Gathered {
    pub(in crate::resp) batch: Batch,
    pub(in crate::resp) from: Mark,
    pub(in crate::resp) to: Mark,
    /// How many of the writes are answered.
    pub(in crate::resp) replies: usize,
    /// The command under way is the last of the writes, and its reply has not ended.
    pub(in crate::resp) is_open: bool,
}

/// A write on whose outcome replies depend.
pub(super) struct Pending<C> {
    stage: Stage<C>,
    from: Mark,
    /// `None` while the command that wrote has not ended. It has one reply, however many writes it makes.
    to: Option<Mark>,
    replies: usize,
    /// A part of the command's reply was sent before the write was awaited.
    has_left: bool,
}

/// A place within the reply of the command under way.
#[derive(Clone, Copy)]
pub(in crate::resp) struct Place {
    mark: Mark,
    /// Bytes of the reply that had been sent.
    left_bytes: u64,
    /// Bytes of the reply in front of the place.
    bytes: u64,
}

enum Stage<C> {
    UnderWay(C),
    Safe,
    Failed(Error),
}

impl<S: Store> Outbox<S> {
    /// To be called when the next command is about to write its reply.
    pub(in crate::resp) fn begin_answer(&mut self) {
        self.answer = Answer { is_under_way: true, ..Answer::new(self.replies.begin()) };
    }

    /// Whether the client gets the reply of the command under way.
    pub(in crate::resp) fn answers(&self) -> bool {
        matches!(self.reply_mode, ReplyMode::On | ReplyMode::SkipNext)
    }

    /// The outcome of a command, judged by what its handler returned and what it has written.
    pub(in crate::resp) fn judge(&self, outcome: Outcome) -> Outcome {
        outcome?;
        if self.replies.is_too_long() {
            return Err(REPLY_TOO_LONG);
        }
        // Only now is it known whether the command is answered, because `CLIENT REPLY` also applies to its own reply.
        if self.reply_mode == ReplyMode::On && !self.answer.is_messages && !self.replies.is_whole() {
            tracing::error!(client = self.client.id, "a command did not write a whole reply");
            return Err(Error::new("ERR internal error: the reply was not whole"));
        }
        Ok(())
    }

    /// Where the reply of the command under way begins.
    pub(in crate::resp) fn answer_from(&self) -> Mark {
        self.answer.from
    }

    /// Bytes of the reply of the command under way.
    pub(in crate::resp) fn answer_len(&self) -> usize {
        self.replies.len_since(self.answer.from)
    }

    /// Bytes of the reply of the command under way, including those that were sent already.
    pub(in crate::resp) fn answer_bytes(&self) -> u64 {
        self.answer.left_bytes + self.answer_len() as u64
    }

    /// Whether the whole reply of the command under way is still here, and its client gets it.
    pub(in crate::resp) fn has_whole_answer(&self) -> bool {
        self.answers() && !self.answer.has_left && !self.answer.is_messages
    }

    /// Where the reply of the command under way goes on.
    pub(in crate::resp) fn place(&self) -> Place {
        let Answer { left_bytes, .. } = self.answer;
        Place { mark: self.replies.mark(), left_bytes, bytes: self.answer_bytes() }
    }

    /// Takes back what was written to the reply of the command under way since `place`. `false` if a part of that was
    /// sent already.
    pub(in crate::resp) fn take_back_to(&mut self, place: Place) -> bool {
        let Answer { from, left_bytes, .. } = self.answer;
        if left_bytes == place.left_bytes {
            self.replies.rewind(place.mark);
            return true;
        }
        // Everything that was here then has been sent, or was dropped because the client does not get it.
        self.replies.rewind(from);
        left_bytes == place.bytes || !self.answers()
    }

    /// A part of a reply that cannot be completed was sent: nothing more is written, and the connection closes.
    pub(in crate::resp) fn break_off(&mut self) {
        (self.is_broken_off, self.closing) = (true, true);
    }

    /// All replies are about to be sent.
    pub(super) fn leave(&mut self) {
        self.answer.has_left |= self.replies.mark() != self.answer.from;
        self.answer.left_bytes += self.answer_len() as u64;
    }

    /// Drops the part that is here of a reply that the client does not get.
    pub(super) fn drop_untold(&mut self) {
        self.answer.left_bytes += self.answer_len() as u64;
        self.take_back();
    }

    /// Everything was sent: the rest of the reply of the command under way begins here.
    pub(super) fn continue_answer(&mut self) {
        self.begins_with_rest = self.answer.is_under_way && self.answer.has_left;
        self.answer_from_here(self.replies.mark());
        let has_left = self.answer.has_left;
        self.commits.iter_mut().for_each(|pending| pending.has_left = has_left);
    }

    /// The reply of the command under way, or the rest of it, begins at `from`, which is the end of everything here.
    pub(super) fn answer_from_here(&mut self, from: Mark) {
        self.answer.from = from;
        self.commits.iter_mut().filter(|pending| pending.to.is_none()).for_each(|pending| pending.from = from);
    }

    /// Takes the reply of the command under way back.
    pub(in crate::resp) fn take_back(&mut self) {
        self.replies.rewind(self.answer.from);
    }

    /// Ends the reply of the command under way, which may belong to the writes in `gathered`.
    pub(in crate::resp) fn end_answer(&mut self, outcome: &Outcome, gathered: &mut Gathered) {
        let is_silent = self.reply_mode != ReplyMode::On;
        self.answer.is_under_way = false;
        if let Err(error) = outcome {
            self.count_errors(error, 1);
            self.replies.rewind(self.answer.from);
            if self.answer.has_left {
                self.break_off();
            } else if !is_silent {
                self.replies.error(error.text());
            }
        }
        if is_silent {
            self.replies.rewind(self.answer.from);
            if self.reply_mode == ReplyMode::SkipThis {
                self.reply_mode = ReplyMode::On;
            }
        }
        let to = self.replies.mark();
        if std::mem::take(&mut gathered.is_open) {
            gathered.to = to;
            gathered.replies += usize::from(!is_silent);
        }
        for pending in self.commits.iter_mut().rev().take_while(|pending| pending.to.is_none()) {
            pending.to = Some(to);
            pending.replies = usize::from(!is_silent);
        }
    }

    /// The reply of the command under way depends on `commit`.
    pub(in crate::resp) fn depend_on(&mut self, commit: S::Commit) {
        let Answer { from, has_left, .. } = self.answer;
        self.commits.push(Pending { stage: Stage::UnderWay(commit), from, to: None, replies: 1, has_left });
    }

    /// The reply of the command under way no longer depends on anything, because the client does not get it.
    pub(in crate::resp) fn depend_on_nothing(&mut self) {
        self.commits.retain(|pending| pending.to.is_some());
    }

    /// Commands that were run as one since [`Outbox::begin_answer`] have written `replies` replies, which depend on
    /// `commit`.
    pub(in crate::resp) fn end_group(&mut self, replies: usize, commit: Option<S::Commit>) {
        self.answer.is_under_way = false;
        let (from, to) = (self.answer.from, Some(self.replies.mark()));
        let pending = |commit| Pending { stage: Stage::UnderWay(commit), from, to, replies, has_left: false };
        self.commits.extend(commit.map(pending));
        self.let_go();
        self.unanswered += replies as u64;
    }

    /// The replies of the gathered writes depend on `written`, the outcome of handing the writes over.
    pub(in crate::resp) fn gathered_depend_on(&mut self, gathered: &mut Gathered, written: Outcome<S::Commit>) {
        let stage = written.map_or_else(Stage::Failed, Stage::UnderWay);
        let Gathered { from, to, replies, .. } = *gathered;
        self.commits.push(Pending { stage, from, to: Some(to), replies, has_left: false });
        gathered.batch.clear();
        gathered.replies = 0;
    }

    /// Awaits every commit. Replies stay as they are.
    pub(in crate::resp) async fn await_commits(&mut self) {
        if self.commits.is_empty() {
            return;
        }
        let mut commits = std::mem::take(&mut self.commits);
        self.while_pushing(async {
            for pending in &mut commits {
                if let Stage::UnderWay(commit) = &mut pending.stage {
                    pending.stage = match commit.await {
                        Ok(()) => Stage::Safe,
                        Err(error) => Stage::Failed(error.into()),
                    };
                }
            }
        })
        .await;
        self.commits = commits;
    }

    /// The error of a write of the command under way that is known to have failed.
    pub(super) fn own_failure(&self) -> Outcome {
        let mut own = self.commits.iter().rev().take_while(|pending| pending.to.is_none());
        let failed = own.find_map(|pending| match &pending.stage {
            Stage::Failed(error) => Some(error.clone()),
            Stage::UnderWay(_) | Stage::Safe => None,
        });
        failed.map_or(Ok(()), Err)
    }

    /// Puts the errors of failed writes in the place of their replies. Marks are wrong afterwards, so everything must
    /// be written next. Writes of the command under way are left until the command ends.
    pub(super) fn place_errors(&mut self) {
        let ended = self.commits.iter().take_while(|pending| pending.to.is_some()).count();
        let under_way = self.commits.split_off(ended);
        let ended = std::mem::replace(&mut self.commits, under_way);
        // From the last to the first, so that the marks in front stay right. A command with several writes has one
        // reply, which is replaced only once.
        let mut replaced = None;
        for Pending { stage, from, to, replies, has_left } in ended.into_iter().rev() {
            if let Stage::Failed(error) = stage
                && let Some(to) = to
                && replaced != Some((from, to))
            {
                if has_left {
                    self.break_off();
                } else {
                    self.replies.replace_with_error(from, to, replies, error.text());
                }
                self.count_errors(&error, replies as u64);
                replaced = Some((from, to));
            }
        }
    }
}
