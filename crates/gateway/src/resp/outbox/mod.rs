//! What a connection sends to its client: replies, and the commits that they wait for. No reply is sent before its
//! commit.
//!
//! Messages that the client did not ask for go in between, each of them whole ([`mail`]).
//!
//! While replies wait for the client, nothing more is read from it. So the memory of a connection is bounded by one
//! request, [`FLUSH_BYTES`] of replies and one value.

mod answer;
mod host;
mod mail;

use std::io;
use std::sync::Arc;

use weir_command::error::{Error, Outcome, REPLY_TOO_LONG};
use weir_command::reply::{FLUSH_BYTES, OUTPUT_BYTES_MAX, Replies};
use weir_command::{Args, Command, LONG_VALUE_BYTES};
use weir_io::real::COPY_BYTES_MAX;
use weir_io::{Nanos, yield_now};
use weir_node::request_units::{Price, Prices};
use weir_node::{EngineKind, Quota, waits};

pub(super) use self::answer::Gathered;
use self::answer::{Answer, Pending};
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
pub(crate) use crate::yielding::YIELD;

/// The choice that `CLIENT REPLY` has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyMode {
    On,
    Off,
    /// The next command is not answered.
    SkipNext,
    /// The command under way is not answered.
    SkipThis,
}

/// The replies and messages of one connection.
pub(super) struct Outbox<S: Store> {
    pub(super) server: Arc<Server<S>>,
    pub(super) client: Arc<Client>,
    pub(super) replies: Replies,
    /// Whether the client wants to be answered.
    pub(super) reply_mode: ReplyMode,
    /// Whether to close the connection once the replies are written.
    pub(super) closing: bool,
    /// When the last command ended, or the last wait for something else: nanoseconds of the clock.
    pub(super) lap: Nanos,
    /// When the bytes that are being served were read, by the clock, and the wall-clock time of that moment.
    received: (Nanos, u64),
    /// Commands of that round whose replies have not been written.
    pub(super) unanswered: u64,
    /// The time that the slowest of these commands took, in nanoseconds, and its name.
    pub(super) longest: (Nanos, &'static str),
    /// The number of the thread that serves the connection.
    pub(super) thread: usize,
    pub(super) stream: Stream,
    tenant: Option<Arc<Account>>,
    /// The capacity units that pay for the tenant's commands.
    quota: Option<Arc<Quota>>,
    /// The prices of these commands.
    pub(super) prices: Arc<Prices>,
    /// What the command under way has cost by its last page, and how many thousandths of request units it was charged;
    /// `None` if it has no pages.
    pub(super) so_far: Option<(Price, u64)>,
    /// The requests that are being served have come together, and none of them has paid for the round yet.
    is_new_round: bool,
    /// Of the requests of this round that are not answered, no writing one has paid for the wait for its commit.
    is_uncommitted: bool,
    commits: Vec<Pending<S::Commit>>,
    answer: Answer,
    /// A write to the client has failed in the middle of a reply: nothing more may be written.
    pub(super) is_cut: bool,
    /// A part of a reply that cannot be completed was sent: nothing more is written, and the connection is closed.
    is_broken_off: bool,
    /// The replies begin with the rest of a reply of which a part was sent, so no message may stand in front of it.
    begins_with_rest: bool,
    /// What the connection holds of its tenant's budget for long values, while there is a tenant: long values in use,
    /// and replies that the client does not take at once.
    long_values: Option<Hold>,
    /// What transactions have booked for their answers, until their commits are there. What the client does not take
    /// then is booked like other replies.
    pub(super) held_answers: Vec<Hold>,
    /// Messages that the client did not ask for; `None` until it may get any.
    mail: Option<Box<Mail>>,
}

impl<S: Store> Outbox<S> {
    /// An empty outbox.
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
            so_far: None,
            is_new_round: false,
            is_uncommitted: true,
            commits: Vec::new(),
            answer,
            is_cut: false,
            is_broken_off: false,
            begins_with_rest: false,
            long_values: None,
            held_answers: Vec::new(),
            mail: None,
        }
    }

    /// What follows is sent to a client of `tenant`, whose data is in the store, or to a stranger.
    pub(super) fn belong_to(&mut self, tenant: Option<(&Arc<Account>, &S)>) {
        self.long_values = tenant.map(|(account, _)| account.long_values.hold());
        self.quota = tenant.and_then(|(_, store)| store.quota().cloned());
        let engine = tenant.map_or(EngineKind::default(), |(_, store)| store.engine());
        self.prices = Arc::clone(self.server.settings.prices.of(engine));
        self.tenant = tenant.map(|(account, _)| Arc::clone(account));
    }

    /// The capacity units that pay for the tenant's commands.
    #[inline]
    pub(super) fn quota(&self) -> Option<&Arc<Quota>> {
        self.quota.as_ref()
    }

    /// Bytes have come, and are served from now on.
    pub(super) fn begin_round(&mut self) {
        self.lap = self.server.clock.now();
        self.received = (self.lap, self.server.clock.unix_ms());
        self.longest = (0, "");
        self.is_new_round = true;
    }

    /// Whether nobody has paid yet for the round of requests. The caller pays for it.
    #[inline]
    pub(super) fn take_new_round(&mut self) -> bool {
        std::mem::take(&mut self.is_new_round)
    }

    /// Whether nobody has paid yet for the wait for commits before the next answer. The caller pays for it.
    #[inline]
    pub(super) fn take_uncommitted(&mut self) -> bool {
        std::mem::take(&mut self.is_uncommitted)
    }

    /// The wall-clock time at [`Outbox::lap`], in milliseconds since 1970, without reading the wall clock.
    #[inline]
    pub(super) fn unix_ms(&self) -> u64 {
        let (at, unix_ms) = self.received;
        unix_ms + self.lap.saturating_sub(at) / 1_000_000
    }

    /// Counts something for the node and for the tenant, in the counters of this connection's thread.
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

    /// Counts `count` answers with `error`.
    pub(super) fn count_errors(&self, error: &Error, count: u64) {
        self.count(|stats| stats.errors.add(count));
        if let Some(account) = &self.tenant {
            account.errors.count(error.text(), count);
        }
    }

    /// The connection is in `phase` from now on; or, if the client does not take its messages, as soon as it has taken
    /// them. Until then the connection counts as one that waits for its client, whatever else it does.
    pub(super) fn enter(&mut self, phase: Phase) {
        if phase == Phase::Replying || !self.enter_behind_messages(phase) {
            self.client.enter(phase, self.server.second());
        }
    }

    /// Notes how long a command took, to find the longest.
    pub(super) fn took(&mut self, nanos: Nanos, command: &'static str) {
        self.longest = self.longest.max((nanos, command));
    }

    /// Makes room in the middle of a long reply: what is complete so far goes to the client.
    ///
    /// # Errors
    /// As [`Outbox::flush_or_close`]; or the client does not get this reply, and it is so long that the command must
    /// end: it may have been told to write elements without end, and no client goes away to end it.
    pub(super) async fn flush_if_long(&mut self) -> Outcome {
        if self.replies.len() < FLUSH_BYTES {
            return Ok(());
        }
        if !self.answers() {
            self.drop_untold();
            self.let_go();
            if self.answer.left_bytes > OUTPUT_BYTES_MAX as u64 {
                return Err(REPLY_TOO_LONG);
            }
        }
        self.flush_or_close().await?;
        // A client that reads as fast as the replies are written would never make this connection wait.
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Flushes the replies in the middle of a command, or before it begins.
    ///
    /// # Errors
    /// A write of the command has failed, and the command must end with that; or the client is gone.
    pub(super) async fn flush_or_close(&mut self) -> Outcome {
        if !self.answers() {
            // Nobody waits for this reply. What is in front of it goes out later, however long that takes.
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
        self.held_answers = Vec::new();
        self.is_uncommitted = true;
        self.leave();
        self.place_errors();
        let written = self.write_replies().await;
        // What could not be written is not written later, either.
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
        // Without replies, messages go on being written while the connection reads: a client in the middle of a request
        // may not read before it has sent the rest.
        if !self.replies.is_empty() || self.closing || self.server.is_draining() {
            self.finish_push().await?;
        }
        if self.replies.is_empty() {
            return Ok(());
        }
        self.enter(Phase::Replying);
        self.count(|stats| stats.bytes_out.add(self.replies.len() as u64));
        if let Err(error) = self.write_out().await {
            // Nobody knows how much of a reply was sent: the client would take whatever is written now for the rest of
            // it.
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

    /// Writes as many bytes of the replies as are taken at once; `written` bytes are written already. `None` if the
    /// kernel has all of them.
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

    /// Books the time that the thread has worked for the connection on its tenant.
    fn book_turn(&self, now: Nanos) {
        let worked = self.client.worked(now);
        self.count(|stats| stats.busy.add(worked));
    }

    /// Books replies that the client does not take at once on the tenant (S11). They count as long values if there is
    /// room, because many of them are booked there already, and there what the client takes is given back at once.
    /// Otherwise they count as unread replies.
    fn hold_unread(&mut self, bytes: u64) -> io::Result<Option<Held>> {
        let (Some(account), Some(hold)) = (&self.tenant, &mut self.long_values) else { return Ok(None) };
        if hold.try_grow_to(bytes) {
            return Ok(None);
        }
        // Nobody waits for room here, because replies take their memory while they wait.
        let unread = account.unread.try_hold(bytes.saturating_sub(hold.bytes()));
        unread.map(Some).ok_or_else(|| io::Error::other("the tenant's clients leave too much unread"))
    }

    /// Only `left` bytes of what is still to be written are in memory. What long values hold beyond that is given back.
    fn give_back_taken(&mut self, left: usize) {
        if let Some(hold) = self.long_values.as_mut().filter(|hold| !hold.is_empty()) {
            hold.shrink_to(left as u64);
        }
    }

    /// Only the values in the replies are still in use.
    pub(super) fn let_go(&mut self) {
        let left = self.replies.kept_bytes(0);
        // Short replies contain no long value. A connection must hold nothing before it may wait for its next one.
        self.give_back_taken(if left < LONG_VALUE_BYTES { 0 } else { left });
    }
}
