//! One connection: its socket, its replies, and its writes that are not committed yet.
//!
//! All complete requests in the read buffer are served before anything is written back:
//!
//! 1. Reads are answered on the spot, unless they must wait for the disk.
//! 2. Plain writes (`SET`, `MSET`) gather in one batch, which goes to the store when something else is asked for, or
//!    at the end of the buffer: one log record, one turn at the store's lock.
//! 3. At the end the thread's other connections get a turn, so that one log write serves them all. Then all commits are
//!    awaited, and only then are the replies written, in one piece. Nothing is acknowledged
//!    before its commit. A reply whose commit failed is replaced by the error.
//!
//! A command above its tenant's limits waits here for its capacity units, behind the replies of those before it: the
//! socket is not read meanwhile, and nobody else waits.
//!
//! While replies wait for the client nothing more is read from it, so the memory of a connection is bounded by one
//! request, [`FLUSH_BYTES`] of replies and one value.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::FutureExt;
use tokio::net::TcpStream;
use weir_io::{sleep_until, yield_now};
use weir_model::{Batch, Change, KEY_BYTES_MAX};
use weir_node::{Admission, Quota, Unit};

use super::bill::{Bill, Charge};
use super::client::{Client, Phase};
use super::error::{CROSS_SLOT, Error, KEY_TOO_LONG, NO_AUTH, NO_SUCH_TENANT, Outcome};
use super::frame::{Args, Limits, Progress};
use super::input::Input;
use super::parse::parse;
use super::pause::Pause;
use super::reply::{Mark, Replies};
use super::slowlog::{self, Slowlog};
use super::table::{self, Command};
use crate::auth::account::{Account, Unread};
use crate::auth::{Grant, Refusal, Session, Standing};
use crate::pool;
use crate::server::Server;
use crate::stats::ThreadStats;
use crate::store::{Entry, Page, Store, Transfer};

/// Replies are written out when they reach this many bytes, even in the middle of a pipeline or of one long reply.
const FLUSH_BYTES: usize = 256 << 10;

/// A gathered batch goes to the store when it reaches this many bytes.
const BATCH_BYTES: usize = 256 << 10;

/// How often a paused connection looks whether the pause was ended before its time.
const PAUSE_STEP_NANOS: u64 = 10_000_000;
/// Most bytes that a stranger is told before the connection closes (S2).
const STRANGER_BYTES_MAX: usize = 1 << 10;

/// See the module.
pub(super) struct Connection<S: Store> {
    pub(super) server: Arc<Server<S>>,
    pub(super) client: Arc<Client>,
    pub(super) replies: Replies,
    /// Whether the client wants to be answered.
    pub(super) reply_mode: ReplyMode,
    /// When the last command ended, or waiting for something else did: nanoseconds of the clock.
    lap: u64,
    /// Whose connection it is; `None` = nobody knows yet.
    session: Option<Session<S>>,
    /// What one request may ask for: less, as long as nobody knows who asks.
    limits: Limits,
    /// Bytes replied to a stranger (S2).
    told_strangers: usize,
    /// Close once the replies are written.
    pub(super) closing: bool,
    thread: usize,
    stream: TcpStream,
    gathered: Gathered,
    commits: Vec<Pending<S::Commit>>,
    /// Replies have been written since the command began: its reply can no longer be taken back.
    flushed: bool,
    /// What the command that runs has cost so far; `None` while nothing is limited.
    bill: Option<Bill>,
}

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

/// Plain writes that wait to become one batch. Their replies lie together between the marks.
struct Gathered {
    batch: Batch,
    from: Mark,
    to: Mark,
    replies: usize,
}

/// A write in the store whose replies depend on its commit.
struct Pending<C> {
    commit: C,
    from: Mark,
    /// `None` while the command is still writing its reply.
    to: Option<Mark>,
    replies: usize,
}

/// Serves `stream` until one side closes.
pub(crate) async fn serve<S: Store>(stream: TcpStream, server: Arc<Server<S>>, client: Arc<Client>, thread: usize) {
    let replies = Replies::default();
    let mark = replies.mark();
    let limits = server.settings.limits;
    let mut connection = Connection {
        server,
        client,
        replies,
        reply_mode: ReplyMode::On,
        lap: 0,
        session: None,
        limits,
        told_strangers: 0,
        closing: false,
        thread,
        stream,
        gathered: Gathered { batch: Batch::new(), from: mark, to: mark, replies: 0 },
        commits: Vec::new(),
        flushed: false,
        bill: None,
    };
    let id = connection.client.id;
    match AssertUnwindSafe(connection.run()).catch_unwind().await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(client = id, %error, "connection ended"),
        // A mistake of ours: this connection ends, and nobody else's does (S16).
        Err(_) => tracing::error!(client = id, "a request ended in a panic, its connection is closed"),
    }
}

impl<S: Store> Connection<S> {
    async fn run(&mut self) -> io::Result<()> {
        if let Err(refusal) = self.forget_who() {
            self.replies.error(Error::from(refusal).text());
            return self.flush().await;
        }
        let mut input = Input::new();
        while !self.closing && !self.server.is_draining() {
            self.enter(if input.is_empty() { Phase::Idle } else { Phase::Receiving });
            let received = input.fill(&mut self.stream).await?;
            if received == 0 {
                break;
            }
            self.count(|stats| stats.bytes_in.add(received as u64));
            self.enter(Phase::Serving);
            self.replies.lend(pool::take());
            self.serve_received(&mut input).await?;
            self.flush().await?;
            pool::give(self.replies.reclaim());
        }
        Ok(())
    }

    /// Serves every complete request in `input`.
    async fn serve_received(&mut self, input: &mut Input) -> io::Result<()> {
        self.lap = self.server.clock.now();
        while !self.closing {
            match parse(&input.bytes[input.start..], &self.limits, &mut input.state) {
                Ok(Progress::Incomplete) => break,
                Ok(Progress::Nothing(len)) => input.start += len,
                Ok(Progress::Request(len)) => {
                    let secret = self.execute(input.state.args(&input.bytes[input.start..])).await;
                    if secret {
                        input.wipe(len);
                    }
                    input.start += len;
                    if self.replies.len() >= FLUSH_BYTES {
                        self.flush().await?;
                        self.lap = self.server.clock.now();
                    }
                }
                Err(error) => {
                    self.submit().await;
                    if let Some(reply) = error.reply() {
                        self.replies.raw(&reply);
                    }
                    self.closing = true;
                }
            }
        }
        input.consume();
        Ok(())
    }

    /// Runs one command and writes its reply, an error included; gives whether its arguments may hold a secret.
    async fn execute(&mut self, args: Args<'_>) -> bool {
        let command = table::find(args.at(0));
        if let Some(command) = command
            && self.pause().is_set()
        {
            self.wait_out_pause(command).await;
        }
        let paid = self.prepare(command, args).await;
        self.flushed = false;
        if self.reply_mode == ReplyMode::SkipNext {
            self.reply_mode = ReplyMode::SkipThis;
        }
        let from = self.replies.mark();
        let outcome = match paid {
            Err(error) => {
                if let Some(command) = command {
                    self.count(|stats| stats.rejected(command.index));
                }
                Err(error)
            }
            Ok((command, charge)) => {
                self.count(|stats| stats.called(command.index));
                self.bill = charge.map(|_| Bill::default());
                let outcome = table::dispatch(command.id, self, args).await;
                if let (Some(charge), Some(bill)) = (charge, self.bill.take()) {
                    self.settle(charge, bill, key_of(command, args));
                }
                self.took(command, args, outcome.is_err());
                outcome
            }
        };
        if let Err(error) = outcome {
            self.fail(from, &error);
        }
        if self.reply_mode != ReplyMode::On {
            self.keep_silent(from);
        }
        let to = self.replies.mark();
        for pending in self.commits.iter_mut().rev().take_while(|pending| pending.to.is_none()) {
            pending.to = Some(to);
        }
        if self.session.is_none() {
            self.limit_strangers(from);
        }
        command.is_some_and(|command| command.is_secret())
    }

    /// Whether there is such a command, it may be run, and it is paid for.
    async fn prepare(
        &mut self,
        command: Option<&'static Command>,
        args: Args<'_>,
    ) -> Outcome<(&'static Command, Option<Charge>)> {
        let command = command.ok_or_else(|| Error::unknown_command(args.at(0), args.iter_from(1)))?;
        if !command.takes(args.len()) {
            return Err(Error::arity(command.name));
        }
        self.may(command)?;
        if self.crosses_slots(command, args) {
            return Err(CROSS_SLOT);
        }
        let charge = if self.is_limited() { Some(self.charge(command, args).await?) } else { None };
        Ok((command, charge))
    }

    /// Whether the command may be run: strangers may say who they are, and the suspended nothing else either.
    fn may(&mut self, command: &Command) -> Outcome {
        let standing = self.session.as_ref().map(|session| session.account().standing());
        match standing {
            Some(Standing::Active) => Ok(()),
            _ if command.is_for_strangers() => Ok(()),
            None => Err(NO_AUTH),
            Some(Standing::Suspended) => Err(Error::suspended(&self.account()?.name)),
            Some(Standing::Dropped) => {
                self.closing = true;
                Err(NO_SUCH_TENANT)
            }
        }
    }

    /// A stranger is told [`STRANGER_BYTES_MAX`] bytes, and then no more (S2).
    fn limit_strangers(&mut self, from: Mark) {
        self.told_strangers += self.replies.len_since(from);
        if self.told_strangers > STRANGER_BYTES_MAX {
            self.replies.rewind(from);
            self.closing = true;
        }
    }

    /// Makes the connection as new: the tenant's whose door is open to it, or nobody's.
    pub(super) fn forget_who(&mut self) -> Result<(), Refusal> {
        self.session = None;
        self.limits.stranger = true;
        self.client.belong_to(None, 0);
        let Some(grant) = self.server.doorman.open_door(self.client.peer) else { return Ok(()) };
        match self.become_known(grant) {
            Err(refusal @ Refusal::TooManyConnections) => Err(refusal),
            // A stranger, who may log in elsewhere.
            Err(_) | Ok(()) => Ok(()),
        }
    }

    /// Says who it is. A refusal leaves everything as it was.
    pub(super) async fn log_in(&mut self, name: &[u8], secret: &[u8]) -> Outcome {
        self.submit().await;
        let grant = self.server.doorman.login(name, secret, self.client.peer).await?;
        if let Err(refusal) = self.become_known(grant) {
            self.closing |= refusal == Refusal::TooManyConnections;
            return Err(refusal.into());
        }
        Ok(())
    }

    fn become_known(&mut self, grant: Grant<S>) -> Result<(), Refusal> {
        let account = self.server.accounts.of(&grant);
        if self.session.as_ref().is_some_and(|session| session.account().tenant == account.tenant) {
            // It has its place already.
            return Ok(());
        }
        let mut session = Session::open(grant, &account)?;
        // As in Redis, logging in chooses no other database.
        session.select(self.database());
        self.client.belong_to(Some(&account), session.database);
        self.session = Some(session);
        self.limits.stranger = false;
        Ok(())
    }

    /// Whether it is known whose connection this is.
    pub(super) fn is_known(&self) -> bool {
        self.session.is_some()
    }

    /// The tenant whose connection this is.
    pub(super) fn account(&self) -> Outcome<&Arc<Account>> {
        self.session.as_ref().map(Session::account).ok_or(NO_AUTH)
    }

    /// The data that this connection can reach.
    pub(super) fn store(&self) -> Outcome<&S> {
        self.session.as_ref().map(|session| &session.store).ok_or(NO_AUTH)
    }

    /// The number of the database chosen.
    pub(super) fn database(&self) -> u8 {
        self.session.as_ref().map_or(0, |session| session.database)
    }

    /// Chooses a database; `false` where there is no such number.
    pub(super) async fn select(&mut self, number: u8) -> Outcome<bool> {
        self.submit().await;
        let chosen = self.session.as_mut().ok_or(NO_AUTH)?.select(number);
        self.client.database.store(self.database(), Ordering::Relaxed);
        Ok(chosen)
    }

    /// What pays for the session's commands.
    #[inline]
    fn quota(&self) -> Option<&Arc<Quota>> {
        self.session.as_ref().and_then(|session| session.store.quota())
    }

    /// The partition that has `key`, as the quota counts them.
    fn partition_of(&self, key: &[u8]) -> u32 {
        self.session.as_ref().map_or(0, |session| session.store.partition_of(key))
    }

    /// Whether commands are charged.
    #[inline]
    fn is_limited(&self) -> bool {
        self.quota().is_some_and(|quota| !quota.is_free())
    }

    /// Pays what `command` costs as far as can be told. When it must wait, everything before it is answered first.
    async fn charge(&mut self, command: &Command, args: Args<'_>) -> Outcome<Charge> {
        let charge = Charge::of(command, args);
        for unit in Unit::ALL.into_iter().filter(|&unit| charge.units(unit) > 0) {
            let Some(quota) = self.quota() else { break };
            if quota.try_admit(unit, charge.units(unit)) {
                continue;
            }
            let partition = self.partition_of(key_of(command, args));
            let admission = quota.admit(unit, partition, charge.units(unit));
            if let Admission::Waiting(_) = admission {
                self.flush_or_close().await?;
            }
            let admitted = admission.await;
            // Its wait is not the command's own time.
            self.lap = self.server.clock.now();
            admitted?;
        }
        Ok(charge)
    }

    /// Pays the rest of what a command has cost.
    fn settle(&self, charge: Charge, bill: Bill, key: &[u8]) {
        let Some(quota) = self.quota() else { return };
        for unit in Unit::ALL {
            let (charged, owed) = (charge.units(unit), charge.owed(unit, bill));
            if charged > 0 || owed > 0 {
                quota.settle(unit, self.partition_of(key), charged, owed);
            }
        }
    }

    /// Books the time that a command took, and remembers it if that was long.
    fn took(&mut self, command: &Command, args: Args<'_>, failed: bool) {
        let now = self.server.clock.now();
        let nanos = now.saturating_sub(self.lap);
        self.lap = now;
        self.count(|stats| stats.took(command.index, nanos, failed));
        let micros = nanos / 1000;
        if self.slowlog().wants(micros) {
            let entry = slowlog::Entry {
                id: 0,
                second: self.server.clock.unix_ms() / 1000,
                micros,
                args: Vec::new(),
                peer: self.client.peer.to_string(),
                client_name: self.client.names.lock().name.clone(),
            };
            self.slowlog().add(entry, args, command.is_secret());
        }
    }

    /// Takes the reply back that the client does not want. Commits are awaited all the same.
    fn keep_silent(&mut self, from: Mark) {
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
    fn answers(&self) -> bool {
        matches!(self.reply_mode, ReplyMode::On | ReplyMode::SkipNext)
    }

    /// Waits while `CLIENT PAUSE` holds `command`; what is answered already goes out first.
    async fn wait_out_pause(&mut self, command: &Command) {
        let writes = command.flags.contains(&"write");
        let clock = Arc::clone(&self.server.clock);
        loop {
            let now = clock.now();
            // The connection group goes on: else nobody could end the pause.
            let Some(until) = self.pause().holds(now, writes).filter(|_| command.group != "connection") else { break };
            if self.flush_or_close().await.is_err() {
                break;
            }
            sleep_until(&clock, until.min(now + PAUSE_STEP_NANOS)).await;
        }
        self.lap = clock.now();
    }

    /// The slow commands that this connection may see.
    pub(super) fn slowlog(&self) -> &Slowlog {
        self.session.as_ref().map_or(&self.server.slowlog, |session| &session.account().slowlog)
    }

    /// The pause that this connection keeps.
    pub(super) fn pause(&self) -> &Pause {
        self.session.as_ref().map_or(&self.server.pause, |session| &session.account().pause)
    }

    /// The counters that this connection may see begin at zero.
    pub(super) fn reset_stats(&self) -> Outcome {
        self.account()?.stats.reset();
        Ok(())
    }

    /// Facts about the store, for `INFO`.
    pub(super) fn facts(&self) -> Outcome<Vec<(&'static str, &'static str, String)>> {
        Ok(self.store()?.facts())
    }

    /// Whether the keys may be in different partitions.
    fn crosses_slots(&self, command: &Command, args: Args<'_>) -> bool {
        self.store().is_ok_and(Store::is_spread) && !command.stays_in_one_slot(args)
    }

    /// Puts an error in the place of the command's reply.
    fn fail(&mut self, from: Mark, error: &Error) {
        self.count(|stats| stats.errors.add(1));
        if self.flushed {
            // Half a reply is at the client already: only closing tells him.
            self.closing = true;
            return;
        }
        self.replies.rewind(from);
        self.replies.error(error.text());
    }

    /// Counts, for the node and for the tenant: in the counters of this connection's thread.
    #[inline]
    fn count(&self, count: impl Fn(&ThreadStats)) {
        count(self.server.stats.thread(self.thread));
        if let Some(session) = &self.session {
            count(session.account().stats.thread(self.thread));
        }
    }

    /// The entry of `key`.
    pub(super) async fn get(&mut self, key: &[u8]) -> Outcome<Option<Entry<S::Value>>> {
        self.submit().await;
        let entry = self.store()?.get(key).await?;
        if let Some(bill) = &mut self.bill {
            bill.got(entry.as_ref());
        }
        match &entry {
            Some(_) => self.count(|stats| stats.hits.add(1)),
            None => self.count(|stats| stats.misses.add(1)),
        }
        Ok(entry)
    }

    /// Reads `keys` and changes them as `change` decides, with no other write in between. The reply that the command
    /// writes waits for the commit.
    pub(super) async fn update<R: Send>(
        &mut self,
        keys: &[&[u8]],
        change: impl FnOnce(&[Option<Entry<S::Value>>], &mut Batch) -> R + Send,
    ) -> Outcome<R> {
        check_keys(keys)?;
        self.submit().await;
        let from = self.replies.mark();
        let mut bill = self.bill;
        let billed = |entries: &[Option<Entry<S::Value>>], batch: &mut Batch| {
            let result = change(entries, batch);
            if let Some(bill) = &mut bill {
                bill.updated(entries, batch);
            }
            result
        };
        let (result, commit) = self.store()?.update(keys, billed).await?;
        self.bill = bill;
        if let Some(commit) = commit {
            self.commits.push(Pending { commit, from, to: None, replies: 1 });
        }
        Ok(result)
    }

    /// Carries an entry to another database; whether it was done. The reply that the command writes waits for the commit.
    pub(super) async fn transfer(&mut self, transfer: Transfer<'_>) -> Outcome<bool> {
        check_keys(&[transfer.key, transfer.to])?;
        self.submit().await;
        let from = self.replies.mark();
        let (done, commit) = self.store()?.transfer(transfer).await?;
        if let (Some(bill), Some(len)) = (&mut self.bill, done) {
            bill.carried(transfer.to.len() + len);
        }
        if let Some(commit) = commit {
            self.commits.push(Pending { commit, from, to: None, replies: 1 });
        }
        Ok(done.is_some())
    }

    /// Like [`Connection::update`], with a `change` that may refuse. It has left the batch empty then.
    pub(super) async fn try_update<R: Send>(
        &mut self,
        keys: &[&[u8]],
        change: impl FnOnce(&[Option<Entry<S::Value>>], &mut Batch) -> Outcome<R> + Send,
    ) -> Outcome<R> {
        self.update(keys, change).await?
    }

    /// Applies `batch`; the reply that the command writes waits for the commit.
    pub(super) async fn write(&mut self, batch: &Batch) -> Outcome {
        self.submit().await;
        let from = self.replies.mark();
        if let Some(bill) = &mut self.bill {
            bill.wrote_batch(batch);
        }
        let commit = self.store()?.write(batch).await?;
        self.commits.push(Pending { commit, from, to: None, replies: 1 });
        Ok(())
    }

    /// Writes `changes`, whatever was there before, and replies `+OK`: together with its neighbours in the pipeline.
    pub(super) async fn put_blindly<'c>(&mut self, changes: impl Iterator<Item = Change<'c>> + Clone) -> Outcome {
        for change in changes.clone() {
            check_keys(&[change.key()])?;
        }
        let full = self.gathered.batch.as_bytes().len() >= BATCH_BYTES;
        if full || self.gathered.to != self.replies.mark() {
            self.submit().await;
        }
        if self.gathered.batch.is_empty() {
            let prefix = self.store()?.key_prefix();
            self.gathered.batch.restart(prefix);
            self.gathered.from = self.replies.mark();
        }
        if let Some(bill) = &mut self.bill {
            bill.wrote(changes.clone());
        }
        for change in changes {
            self.gathered.batch.push(change);
        }
        if self.answers() {
            self.replies.ok();
            self.gathered.replies += 1;
        }
        self.gathered.to = self.replies.mark();
        Ok(())
    }

    /// Hands the gathered writes to the store, so that what follows sees them.
    pub(super) async fn submit(&mut self) {
        if self.gathered.batch.is_empty() {
            return;
        }
        let Gathered { from, to, replies, .. } = self.gathered;
        let written = match self.store() {
            Ok(store) => store.write(&self.gathered.batch).await.map_err(Error::from),
            Err(error) => Err(error),
        };
        match written {
            Ok(commit) => self.commits.push(Pending { commit, from, to: Some(to), replies }),
            // Nothing has been replied behind the gathered writes: they are submitted before any other command.
            Err(error) => self.replies.replace_with_error(from, to, replies, error.text()),
        }
        self.gathered.batch.clear();
        self.gathered.replies = 0;
    }

    /// Up to `limit` keys from `from` on.
    pub(super) async fn scan(&mut self, from: &[u8], limit: usize) -> Outcome<Page> {
        let page = self.store()?.scan(from, limit).await?;
        if let Some(bill) = &mut self.bill {
            bill.scanned(&page);
        }
        Ok(page)
    }

    /// Makes room in the middle of a long reply: what is complete so far goes to the client.
    pub(super) async fn flush_if_long(&mut self) -> Outcome {
        if self.replies.len() < FLUSH_BYTES {
            return Ok(());
        }
        self.flush_or_close().await
    }

    /// Flushes in the middle of a command.
    async fn flush_or_close(&mut self) -> Outcome {
        if !self.answers() {
            // It would be taken back at the end; what is in front of it waits for nothing.
            return Ok(());
        }
        let flushed = self.flush().await;
        flushed.map_err(|error| {
            self.closing = true;
            Error::bytes(error.to_string().into_bytes())
        })
    }

    /// Awaits every commit and writes every reply.
    async fn flush(&mut self) -> io::Result<()> {
        self.submit().await;
        if !self.commits.is_empty() {
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
                Some(bytes) => self.stream.try_write(&bytes[written..]),
                None => self.stream.try_write_vectored(&self.replies.pieces(written)),
            };
            match result {
                Ok(len) => written += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if unread.is_none() {
                        unread = Some(self.hold_unread((self.replies.len() - written) as u64)?);
                    }
                    if self.replies.as_one_piece().is_none() {
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
        self.replies.clear();
        let mark = self.replies.mark();
        (self.gathered.from, self.gathered.to) = (mark, mark);
        self.enter(Phase::Serving);
        Ok(())
    }

    /// Books replies that the client does not take at once, on its tenant (S11).
    fn hold_unread(&self, bytes: u64) -> io::Result<Option<Unread>> {
        let Some(session) = &self.session else { return Ok(None) };
        let unread = session.account().hold_unread(bytes);
        unread.map(Some).ok_or_else(|| io::Error::other("the tenant's clients leave too much unread"))
    }

    /// Awaits every commit; replies whose commit failed become errors.
    async fn commit(&mut self) {
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

    fn enter(&self, phase: Phase) {
        self.client.enter(phase, self.server.second());
    }
}

/// The longest key is a limit of the store, not of the protocol.
fn check_keys(keys: &[&[u8]]) -> Outcome {
    if keys.iter().any(|key| key.len() > KEY_BYTES_MAX) { Err(KEY_TOO_LONG) } else { Ok(()) }
}

/// The first key of a command, for those that have one: it says which partition pays.
fn key_of<'a>(command: &Command, args: Args<'a>) -> &'a [u8] {
    let key = if command.keys.2 == 0 { None } else { args.get(command.keys.0 as usize) };
    key.unwrap_or_default()
}

impl<S: Store> Drop for Connection<S> {
    fn drop(&mut self) {
        self.server.clients.leave(self.client.id);
    }
}
