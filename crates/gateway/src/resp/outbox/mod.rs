//! What a connection tells its client: replies on their way out, and everything that they wait for. Nothing is told
//! before its commit.
//!
//! Messages that it did not ask for go in between, whole ([`mail`]).
//!
//! While replies wait for the client nothing more is read from it, so the memory of a connection is bounded by one
//! request, [`FLUSH_BYTES`] of replies and one value.

mod answer;
mod host;
mod mail;

use std::io;
use std::sync::Arc;

use weir_command::error::{Error, Outcome};
use weir_command::reply::{FLUSH_BYTES, Replies};
use weir_command::{Args, Command, LONG_VALUE_BYTES};
use weir_io::real::COPY_BYTES_MAX;
use weir_io::{Nanos, yield_now};
use weir_node::request_units::Prices;
use weir_node::{EngineKind, Quota, waits};

pub(super) use self::answer::Gathered;
use self::answer::{Answer, Pending};
pub(crate) use self::host::YIELD;
use self::mail::Mail;
use super::client::{Client, Phase};
use super::slow_replies::{SlowReplies, SlowReply};
use crate::server::Server;
use crate::stats::ThreadStats;
use crate::store::Store;
use crate::stream::Stream;
use crate::tenant::account::Account;
use crate::tenant::byte_budget::Hold;
use crate::tenant::byte_limit::Held;

/// What `CLIENT REPLY` chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyMode {
    On,
    Off,
    /// The next command is not answered.
    SkipNext,
    /// The command under way is not answered.
    SkipThis,
}

/// See the module.
pub(super) struct Outbox<S: Store> {
    pub(super) server: Arc<Server<S>>,
    pub(super) client: Arc<Client>,
    pub(super) replies: Replies,
    /// Whether the client wants to be answered.
    pub(super) reply_mode: ReplyMode,
    /// Close once the replies are written.
    pub(super) closing: bool,
    /// When the last command ended, or waiting for something else did: nanoseconds of the clock.
    pub(super) lap: Nanos,
    /// When the bytes that are being served were read, and what the wall clock said then.
    received: (Nanos, u64),
    /// Commands since then whose replies have not been written.
    pub(super) unanswered: u64,
    /// Which of them took longest, and how long, in nanoseconds.
    pub(super) longest: (Nanos, &'static str),
    /// The number of the thread that serves it.
    pub(super) thread: usize,
    pub(super) stream: Stream,
    tenant: Option<Arc<Account>>,
    /// What pays for its tenant's commands.
    quota: Option<Arc<Quota>>,
    /// What they cost.
    pub(super) prices: Arc<Prices>,
    /// The requests that are being served have come together, and none of them has paid for that yet.
    is_new_round: bool,
    /// Of those that have come together and are not answered, none that writes has paid for the wait for its commit.
    is_uncommitted: bool,
    commits: Vec<Pending<S::Commit>>,
    answer: Answer,
    /// A write to the client has failed in the middle of a reply: nothing more may be written.
    pub(super) is_cut: bool,
    /// A reply that cannot be made whole has left in part: nothing more is written, and the connection is closed.
    is_broken_off: bool,
    /// The replies begin with the rest of one of which a part has left: no message may stand in front of it.
    begins_with_rest: bool,
    /// Of its tenant's budget for long values, while there is a tenant: those in hand, and replies that the client does
    /// not take at once.
    long_values: Option<Hold>,
    /// Messages that it did not ask for, once it may get any.
    mail: Option<Box<Mail>>,
}

impl<S: Store> Outbox<S> {
    /// Nothing is to be told yet.
    pub(super) fn new(stream: Stream, server: Arc<Server<S>>, client: Arc<Client>, thread: usize) -> Self {
        let replies = Replies::default();
        let answer = Answer::new(replies.mark());
        let prices = Arc::clone(server.settings.prices.of(EngineKind::default()));
        Self {
            server,
            client,
            replies,
            reply_mode: ReplyMode::On,
            closing: false,
            lap: 0,
            received: (0, 0),
            unanswered: 0,
            longest: (0, ""),
            thread,
            stream,
            tenant: None,
            quota: None,
            prices,
            is_new_round: false,
            is_uncommitted: true,
            commits: Vec::new(),
            answer,
            is_cut: false,
            is_broken_off: false,
            begins_with_rest: false,
            long_values: None,
            mail: None,
        }
    }

    /// What follows is told to a client of `tenant`, whose data is in the store; or to somebody unknown.
    pub(super) fn belong_to(&mut self, tenant: Option<(&Arc<Account>, &S)>) {
        self.long_values = tenant.map(|(account, _)| account.long_values.hold());
        self.quota = tenant.and_then(|(_, store)| store.quota().cloned());
        let engine = tenant.map_or(EngineKind::default(), |(_, store)| store.engine());
        self.prices = Arc::clone(self.server.settings.prices.of(engine));
        self.tenant = tenant.map(|(account, _)| Arc::clone(account));
    }

    /// What pays for its tenant's commands.
    #[inline]
    pub(super) fn quota(&self) -> Option<&Arc<Quota>> {
        self.quota.as_ref()
    }

    /// Bytes have come, which are served from now on.
    pub(super) fn begin_round(&mut self) {
        self.lap = self.server.clock.now();
        self.received = (self.lap, self.server.clock.unix_ms());
        self.longest = (0, "");
        self.is_new_round = true;
    }

    /// Whether nobody has paid yet for the requests that have come together; from now on somebody has.
    #[inline]
    pub(super) fn take_new_round(&mut self) -> bool {
        std::mem::take(&mut self.is_new_round)
    }

    /// Whether nobody has paid yet for the wait for commits before the next answer; from now on somebody has.
    #[inline]
    pub(super) fn take_uncommitted(&mut self) -> bool {
        std::mem::take(&mut self.is_uncommitted)
    }

    /// What the wall clock says at [`Outbox::lap`], in milliseconds since 1970, without a look at it.
    #[inline]
    pub(super) fn unix_ms(&self) -> u64 {
        let (at, unix_ms) = self.received;
        unix_ms + self.lap.saturating_sub(at) / 1_000_000
    }

    /// Counts, for the node and for the tenant: in the counters of this connection's thread.
    #[inline]
    pub(super) fn count(&self, count: impl Fn(&ThreadStats)) {
        count(self.server.stats.thread(self.thread));
        if let Some(account) = &self.tenant {
            count(account.stats.thread(self.thread));
        }
    }

    /// Counts a call of `command`, for the tenant alone.
    pub(super) fn count_for_tenant(&self, command: Option<&Command>, args: Args<'_>) {
        if let (Some(account), Some(command)) = (&self.tenant, command) {
            account.stats.thread(self.thread).called(command, args);
        }
    }

    /// Counts so many answers with `error`.
    pub(super) fn count_errors(&self, error: &Error, count: u64) {
        self.count(|stats| stats.errors.add(count));
        if let Some(account) = &self.tenant {
            account.errors.count(error.text(), count);
        }
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.client.enter(phase, self.server.second());
    }

    /// Remembers which command took longest.
    pub(super) fn took(&mut self, nanos: Nanos, command: &'static str) {
        self.longest = self.longest.max((nanos, command));
    }

    /// Makes room in the middle of a long reply: what is complete so far goes to the client.
    pub(super) async fn flush_if_long(&mut self) -> Outcome {
        if self.replies.len() < FLUSH_BYTES {
            return Ok(());
        }
        if !self.answers() {
            self.drop_untold();
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
        self.await_commits().await;
        self.own_failure()?;
        let flushed = self.flush().await;
        flushed.map_err(|error| Error::bytes(error.to_string().into_bytes()))
    }

    /// Lets the thread's other connections that have requests go first, so that one write of the log serves them all.
    pub(super) async fn yield_to_others(&mut self) {
        self.book_turn(self.server.clock.now());
        yield_now().await;
    }

    /// Whether some reply waits for a commit.
    pub(super) fn has_commits(&self) -> bool {
        !self.commits.is_empty()
    }

    /// Awaits every commit and writes every reply.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        self.await_commits().await;
        self.is_uncommitted = true;
        self.leave();
        self.place_errors();
        let written = self.write_replies().await;
        // What could not be written is not written later either.
        self.replies.clear();
        self.end_messages_among();
        self.continue_answer();
        written
    }

    /// Writes what is in the replies, unless nothing may be written any more.
    async fn write_replies(&mut self) -> io::Result<()> {
        if self.is_cut {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if self.is_broken_off {
            return Ok(());
        }
        self.finish_push().await?;
        if self.replies.is_empty() {
            return Ok(());
        }
        self.enter(Phase::Replying);
        self.count(|stats| stats.bytes_out.add(self.replies.len() as u64));
        if let Err(error) = self.write_out().await {
            // Nobody knows how much of a reply has left: whatever would be written now, the client would take for the
            // rest of it.
            (self.is_cut, self.closing) = (true, true);
            return Err(error);
        }
        let now = self.server.clock.now();
        self.book_turn(now);
        let waited = now.saturating_sub(self.received.0);
        let answered = std::mem::take(&mut self.unanswered);
        self.count(|stats| stats.latency.add(waited, answered));
        self.remember_if_slow(waited / 1000, answered);
        self.enter(Phase::Serving);
        Ok(())
    }

    /// Writes every reply.
    async fn write_out(&mut self) -> io::Result<()> {
        let mut written = 0;
        let mut unread = None;
        loop {
            match self.try_write_out(written) {
                Ok(None) => return Ok(()),
                Ok(Some(len)) => {
                    written += len;
                    self.give_back_taken(self.replies.kept_bytes(written));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if unread.is_none() {
                        unread = Some(self.hold_unread(self.replies.unbooked_bytes(written) as u64)?);
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
    }

    /// Writes what is taken at once of the replies, of which so many bytes are written; `None` if all are with the
    /// kernel.
    fn try_write_out(&mut self, written: usize) -> io::Result<Option<usize>> {
        if written == self.replies.len() {
            self.stream.try_flush()?;
            return Ok(None);
        }
        let len = match self.replies.as_one_piece() {
            Some(bytes) => {
                let rest = &bytes[written..];
                self.stream.try_write(&rest[..rest.len().min(COPY_BYTES_MAX)])?
            }
            None => self.stream.try_write_vectored(&self.replies.pieces(written, COPY_BYTES_MAX))?,
        };
        Ok(Some(len))
    }

    fn remember_if_slow(&self, micros: u64, replies: u64) {
        if SlowReplies::wants(micros)
            && let Some(account) = &self.tenant
        {
            let unix_ms = self.server.clock.unix_ms();
            let at = self.server.clock.now();
            let reply = SlowReply { unix_ms, at, micros, replies, command: self.longest.1, waited: waits::so_far() };
            account.slow_replies.add(reply);
        }
    }

    /// Books what its thread has worked for it, on its tenant.
    fn book_turn(&self, now: Nanos) {
        let worked = self.client.worked(now);
        self.count(|stats| stats.busy.add(worked));
    }

    /// Books replies that the client does not take at once, on its tenant (S11): among its long values, where many are
    /// already and what is taken is given back at once, and where those leave no room among its unread replies.
    fn hold_unread(&mut self, bytes: u64) -> io::Result<Option<Held>> {
        let (Some(account), Some(hold)) = (&self.tenant, &mut self.long_values) else { return Ok(None) };
        if hold.try_grow_to(bytes) {
            return Ok(None);
        }
        // Nobody waits here: replies take their memory while they wait.
        let unread = account.unread.try_hold(bytes.saturating_sub(hold.bytes()));
        unread.map(Some).ok_or_else(|| io::Error::other("the tenant's clients leave too much unread"))
    }

    /// For what is still to be written `left` bytes stay in memory: what of long values is not among them is not in
    /// hand any more.
    fn give_back_taken(&mut self, left: usize) {
        if let Some(hold) = self.long_values.as_mut().filter(|hold| !hold.is_empty()) {
            hold.shrink_to(left as u64);
        }
    }

    /// No value is in hand any more but those in the replies.
    pub(super) fn let_go(&mut self) {
        let left = self.replies.kept_bytes(0);
        // There is none among short ones: a connection that holds nothing may wait for its next.
        self.give_back_taken(if left < LONG_VALUE_BYTES { 0 } else { left });
    }
}
