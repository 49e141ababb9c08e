//! A session: the client's identity, what it may do, and the state that its commands change. It knows of no socket but
//! its outbox.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_command::bill::OwnBill;
use weir_command::error::{Error, NO_AUTH, NO_SUCH_TENANT, Outcome, WRONG_PASS};
use weir_command::events::{Classes, Witness};
use weir_command::reply::Protocol;
use weir_command::table::Id;
use weir_command::{Args, Call, Command, Context, Page, Wait, letting_go};
use weir_model::{Batch, DATABASES, Databases, Row, VALUE_BYTES_MAX};
use weir_node::Unit;
use weir_node::request_units::Module;

use super::cost::{Last, Sum};
use super::frame::{Limits, STRANGER_BULK_BYTES_MAX};
use super::outbox::{Outbox, YIELD};
use super::pause::Pause;
use super::slowlog::Slowlog;
use super::ticket::Blocked;
use super::tracked::Tracked;
use super::transaction::{Queue, Watched};
use crate::auth::users::User;
use crate::auth::{DEFAULT_USER, Login, LoginName, Refusal};
use crate::mailbox::Mailbox;
use crate::notices::{Notice, What};
use crate::pubsub::{Counts, Subscriptions};
use crate::store::Store;
use crate::tenant::account::Account;
use crate::tenant::byte_budget::Hold;
use crate::tenant::tenancy::{Grant, Standing};
use crate::waiting_rows::WaitingRows;

/// Most bytes that are sent to a stranger before the connection closes (S2).
const STRANGER_BYTES_MAX: usize = 1 << 10;

/// The error for a client that was not let in.
impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::WrongSecret => WRONG_PASS,
            Refusal::TooManyConnections => Self::new("ERR max number of clients reached"),
            Refusal::TooManyFailures { retry_seconds } => {
                Self::bytes(format!("ERR too many wrong passwords, try again in {retry_seconds} s").into_bytes())
            }
            Refusal::Busy => Self::new("ERR too many logins at the same time, try again"),
            Refusal::Suspended(name) => Self::suspended(&name),
        }
    }
}

/// What `SYNC` must stream to the connection.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::resp) struct DumpChoice {
    /// The client understands a dump that ends with a mark.
    pub(in crate::resp) takes_mark: bool,
    /// The client wants the dump and nothing after it.
    pub(in crate::resp) is_dump_all: bool,
    pub(in crate::resp) without_rows: bool,
    pub(in crate::resp) without_functions: bool,
    /// The client is a server that wants to follow this one.
    pub(in crate::resp) is_server: bool,
}

/// The state of one connection.
pub(super) struct Session<S: Store> {
    pub(super) outbox: Outbox<S>,
    /// The names in the client's certificate.
    vouched: Box<[String]>,
    /// The tenant and the user; `None` until the client has logged in.
    login: Option<Login<S>>,
    /// The tenant to which the connection would belong without a login has no place for it. It may log in to another
    /// one.
    is_crowded_out: bool,
    /// What one request may ask for. It may ask for less before the login.
    pub(super) limits: Limits,
    /// Bytes sent to the client before its login (S2).
    told_strangers: usize,
    /// The commands queued since `MULTI`, until `EXEC` or `DISCARD`.
    pub(super) transaction: Option<Box<Queue>>,
    /// The rows that must not change before `EXEC`.
    pub(super) watched: Vec<Watched>,
    /// What incomplete requests hold of the tenant's budget, while there is a tenant.
    pub(super) unfinished: Option<Hold>,
    /// Set if the command under way is answered later.
    pub(super) blocked: Option<Blocked>,
    /// Set if the last command on rows has found nothing, and would wait.
    pub(super) waits: Option<Wait>,
    /// The command under way has waited, and runs again.
    pub(super) is_again: bool,
    /// The connection's subscriptions, once it has had any.
    subscriptions: Option<Box<Subscriptions>>,
    /// Set if the client keeps values of its own. When the session is dropped, its subscriptions go first.
    pub(in crate::resp) tracked: Option<Box<Tracked>>,
    /// The cost of the running command so far.
    pub(super) bill: OwnBill,
    /// The cost of the command before it.
    pub(super) last: Last,
    /// The cost of the commands of the transaction under way.
    pub(in crate::resp) in_transaction: Option<Box<Last>>,
    /// The cost of all commands since it was first asked for, or since `RU RESET`.
    pub(super) sum: Option<Box<Sum>>,
    /// Whether replies tell what they have cost.
    pub(super) tells_cost: bool,
    /// The client's transactions may span hash slots that are in one partition, because it has said that it knows which
    /// are.
    pub(in crate::resp) knows_partitions: bool,
    /// The same as in the client's record.
    uses_databases: bool,
    /// The choices that `REPLCONF` has made.
    pub(in crate::resp) dump_choice: DumpChoice,
}

impl<S: Store> Session<S> {
    /// A session without a login. `vouched` are the names in the client's certificate.
    pub(super) fn new(outbox: Outbox<S>, vouched: Vec<String>) -> Self {
        let limits = outbox.server.settings.limits;
        Self {
            outbox,
            vouched: vouched.into_boxed_slice(),
            login: None,
            is_crowded_out: false,
            limits,
            told_strangers: 0,
            transaction: None,
            watched: Vec::new(),
            unfinished: None,
            blocked: None,
            waits: None,
            is_again: false,
            subscriptions: None,
            tracked: None,
            bill: OwnBill::default(),
            last: Last::default(),
            in_transaction: None,
            sum: None,
            tells_cost: false,
            knows_partitions: false,
            uses_databases: false,
            dump_choice: DumpChoice::default(),
        }
    }

    /// Whether the command may be run. Before a login, and if the tenant is suspended, only commands that are meant for
    /// strangers may.
    pub(super) fn may(&mut self, command: &Command) -> Outcome {
        let standing = self.login.as_ref().map(|login| login.account().standing());
        match standing {
            Some(Standing::Active) => Ok(()),
            _ if command.is_for_strangers() => Ok(()),
            None => Err(self.refuse_stranger(NO_AUTH)),
            Some(Standing::Suspended) => Err(Error::suspended(&self.account()?.name)),
            Some(Standing::Dropped) => {
                self.outbox.closing = true;
                Err(NO_SUCH_TENANT)
            }
        }
    }

    /// The error for a stranger who may not run its command: `otherwise`, or that there is no place for the connection,
    /// which then ends.
    pub(in crate::resp) fn refuse_stranger(&mut self, otherwise: Error) -> Error {
        if !self.is_crowded_out {
            return otherwise;
        }
        self.outbox.closing = true;
        Refusal::TooManyConnections.into()
    }

    /// Whether subscriptions allow the command to be run. In RESP2 messages look like replies, so a connection with
    /// subscriptions may send few other commands.
    #[inline]
    pub(super) fn may_in_subscribed_state(&self, command: &Command, args: Args<'_>) -> Outcome {
        if command.in_subscribed || !self.is_in_subscribed_state() {
            return Ok(());
        }
        let text = format!(
            "Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this \
             context",
            command.full_name(args)
        );
        let begin = if command.id == Id::Exec { "EXECABORT Transaction discarded because of: " } else { "ERR " };
        Err(Error::bytes([begin, &text].concat().into_bytes()))
    }

    /// Whether the connection has subscriptions and uses RESP2.
    #[inline]
    pub(in crate::resp) fn is_in_subscribed_state(&self) -> bool {
        let is_subscribed = self.subscriptions.as_ref().is_some_and(|subscriptions| subscriptions.counts().sum() > 0);
        is_subscribed && self.outbox.replies.protocol == Protocol::Resp2
    }

    /// The subscriptions of the connection; made when first needed.
    pub(in crate::resp) fn subscriptions(&mut self) -> Outcome<&mut Subscriptions> {
        if self.subscriptions.is_none() {
            let (pubsub, client) = (Arc::clone(&self.account()?.pubsub), Arc::clone(&self.outbox.client));
            let (id, limits) = (client.id, self.outbox.server.settings.push_limits);
            let mailbox = self.outbox.mailbox(|| Mailbox::new(client, limits));
            self.subscriptions = Some(Box::new(Subscriptions::new(pubsub, id, mailbox)));
        }
        self.subscriptions.as_deref_mut().ok_or(NO_AUTH)
    }

    /// In RESP3, another connection may redirect its messages to this one (`CLIENT TRACKING ON REDIRECT`) without this
    /// one asking for anything. The other one names it by its number, sooner or later. So from now on all connections
    /// of the tenant can find it.
    pub(in crate::resp) fn be_found_in_resp3(&mut self) -> Outcome {
        if self.outbox.replies.protocol == Protocol::Resp3 {
            self.subscriptions()?;
        }
        Ok(())
    }

    /// To be called when the subscriptions have changed: updates the client's record, and returns how many there are.
    pub(in crate::resp) fn subscribed(&self) -> Counts {
        let counts = self.subscriptions.as_ref().map(|subscriptions| subscriptions.counts()).unwrap_or_default();
        self.outbox.client.subscribed(counts);
        counts
    }

    /// Ends all subscriptions, in turns.
    pub(in crate::resp) async fn end_subscriptions(&mut self) {
        if let Some(subscriptions) = &mut self.subscriptions {
            subscriptions.end(YIELD).await;
        }
        self.unsubscribe();
    }

    /// Forgets the subscriptions, of which there are few.
    fn unsubscribe(&mut self) {
        self.tracked = None;
        self.subscriptions = None;
        self.subscribed();
        self.outbox.client.is_monitor.store(false, Ordering::Relaxed);
    }

    /// Whether the connection receives every command of its tenant.
    #[inline]
    pub(in crate::resp) fn is_monitor(&self) -> bool {
        self.subscriptions.as_ref().is_some_and(|subscriptions| subscriptions.is_monitor())
    }

    /// Whether a connection that receives every command may run this one. As in Redis, it may not use keys.
    #[inline]
    pub(super) fn may_in_monitor(&self, command: &Command) -> Outcome {
        if !self.is_monitor() || !(command.is_of_rows || matches!(command.group, "scripting")) {
            return Ok(());
        }
        Err(Error::new("ERR Replica can't interact with the keyspace"))
    }

    /// Drops everything that is queued or watched.
    pub(in crate::resp) fn end_transaction(&mut self) {
        self.transaction = None;
        self.watched = Vec::new();
    }

    /// Closes the connection of a stranger after [`STRANGER_BYTES_MAX`] bytes of replies (S2).
    pub(super) fn limit_strangers(&mut self) {
        if self.login.is_some() {
            return;
        }
        self.told_strangers += self.outbox.answer_len();
        if self.told_strangers > STRANGER_BYTES_MAX {
            self.outbox.take_back();
            self.outbox.closing = true;
        }
    }

    /// Makes the connection as new. It then belongs to the tenant that the client's certificate names, or else to the
    /// tenant that needs no login, or else to nobody. If that tenant takes no more connections, it belongs to nobody
    /// either: only its first command tells whether it is there for another tenant.
    pub(in crate::resp) fn forget_who(&mut self) {
        self.unsubscribe();
        self.end_transaction();
        self.dump_choice = DumpChoice::default();
        self.leave_databases();
        self.login = None;
        self.unfinished = None;
        self.outbox.belong_to(None);
        self.last.forget_prices();
        self.limits.stranger = true;
        let (server, client) = (&self.outbox.server, &self.outbox.client);
        server.clients.become_stranger(client, server.second());
        let vouched = server.doorman.vouched_for(&self.vouched);
        let Some(grant) = vouched.or_else(|| server.doorman.open_door(client.peer)) else { return };
        let known = self.become_known(grant, DEFAULT_USER);
        self.is_crowded_out = known.is_err_and(|refusal| refusal == Refusal::TooManyConnections);
    }

    /// Logs in. A refusal leaves everything as it was.
    pub(in crate::resp) async fn log_in(&mut self, name: &[u8], secret: &[u8]) -> Outcome {
        // Longer than a stranger may send. No name and no secret is that long, and hashing many megabytes would hold
        // others up.
        if name.len().max(secret.len()) > STRANGER_BULK_BYTES_MAX {
            return Err(WRONG_PASS);
        }
        let (server, peer) = (Arc::clone(&self.outbox.server), self.outbox.client.peer);
        let grant = match server.doorman.login(name, secret, peer).await {
            Ok(grant) => grant,
            Err(refusal) => {
                // Only a name that exists is shown, because others may be secrets (S4).
                let tenant = LoginName::parse(name).tenant;
                let known = if server.doorman.knows(tenant) { std::str::from_utf8(tenant).ok() } else { None };
                self.was_refused(&refusal, known.map(Arc::from));
                self.log_refused_login(&refusal, name);
                return Err(refusal.into());
            }
        };
        let user = LoginName::parse(name).user_of(&grant.name);
        match self.become_known(grant, user) {
            Ok(left) => {
                if let Some(mut left) = left {
                    left.end(YIELD).await;
                }
                Ok(())
            }
            Err(refusal) => {
                self.outbox.closing |= refusal == Refusal::TooManyConnections;
                Err(refusal.into())
            }
        }
    }

    /// Counts a refusal, and logs it.
    fn was_refused(&self, refusal: &Refusal, tenant: Option<Arc<str>>) {
        let (server, reason) = (&self.outbox.server, refusal.reason());
        server.logins_refused[reason].fetch_add(1, Ordering::Relaxed);
        let notice = Notice { what: What::Login(reason), tenant, address: Some(self.outbox.client.peer.ip()) };
        server.notices.tell(notice, server.clock.now());
    }

    /// Logs that the session's tenant was refused something.
    pub(super) fn notice(&self, what: What) {
        let tenant = self.login.as_ref().map(|login| Arc::clone(&login.account().name));
        let server = &self.outbox.server;
        server.notices.tell(Notice { what, tenant, address: None }, server.clock.now());
    }

    /// Logs what the client has done, whoever it is.
    pub(super) fn notice_from(&self, what: What) {
        let server = &self.outbox.server;
        let notice = Notice { what, tenant: None, address: Some(self.outbox.client.peer.ip()) };
        server.notices.tell(notice, server.clock.now());
    }

    /// From now on the connection belongs to this user of the tenant that `grant` is for. Returns the subscriptions
    /// that it had as a connection of another tenant.
    fn become_known(&mut self, grant: Grant<S>, user: &[u8]) -> Result<Option<Box<Subscriptions>>, Refusal> {
        let account = self.outbox.server.accounts.of(&grant);
        // The user may have been deleted since the password was checked.
        let user = account.users.find(user).ok_or(Refusal::WrongSecret)?;
        if let Some(login) = self.login.as_mut().filter(|login| login.account().tenant == account.tenant) {
            self.outbox.server.clients.belong_to(&self.outbox.client, &account, &user, login.database);
            login.user = user;
            // The connection has its place already.
            return Ok(None);
        }
        // As in Redis, a login does not change the database.
        let database = self.database();
        let login = match Login::open(grant, &account, Arc::clone(&user), database) {
            Ok(login) => login,
            Err(refusal) => {
                self.was_refused(&refusal, Some(Arc::clone(&account.name)));
                return Err(refusal);
            }
        };
        // The subscriptions and the watched rows belong to the other tenant (S5).
        let left = self.subscriptions.take();
        self.unsubscribe();
        self.end_transaction();
        // Whoever waits for this connection in the old tenant need not wait any more.
        self.leave_databases();
        self.outbox.server.clients.belong_to(&self.outbox.client, &account, &user, database);
        self.outbox.belong_to(Some((&account, &login.store)));
        self.last.forget_prices();
        self.unfinished = Some(account.unfinished.hold());
        self.login = Some(login);
        self.limits.stranger = false;
        Ok(left)
    }

    /// Whether the client has logged in.
    pub(in crate::resp) fn is_known(&self) -> bool {
        self.login.is_some()
    }

    /// The tenant to which this connection belongs.
    pub(in crate::resp) fn account(&self) -> Outcome<&Arc<Account>> {
        self.login.as_ref().map(Login::account).ok_or(NO_AUTH)
    }

    /// The user to which this connection belongs.
    pub(in crate::resp) fn user(&self) -> Outcome<&Arc<User>> {
        self.login.as_ref().map(|login| &login.user).ok_or(NO_AUTH)
    }

    /// The data that this connection can reach.
    pub(in crate::resp) fn store(&self) -> Outcome<&S> {
        self.login.as_ref().map(|login| &login.store).ok_or(NO_AUTH)
    }

    /// The number of the chosen database.
    pub(in crate::resp) fn database(&self) -> u8 {
        self.login.as_ref().map_or(0, |login| login.database)
    }

    /// The number under which the chosen database is stored.
    #[inline]
    pub(in crate::resp) fn number(&self) -> u8 {
        self.databases().number(self.database())
    }

    /// The number under which each database is stored, valid while the session [uses](Session::use_databases) the
    /// databases.
    #[inline]
    pub(in crate::resp) fn databases(&self) -> Databases {
        self.login.as_ref().map_or(Databases::AS_NAMED, |login| login.store.databases())
    }

    /// The session is about to run commands.
    #[inline]
    pub(super) fn use_databases(&mut self) {
        if !self.uses_databases {
            self.uses_databases = true;
            self.outbox.client.usage.begin();
        }
    }

    /// Whether somebody waits for this session to run no commands, or is about to exchange databases.
    #[inline]
    pub(super) fn must_leave_databases(&self) -> bool {
        self.login.as_ref().is_some_and(|login| login.account().swaps.is_held())
    }

    /// The session runs no commands for a while. None of its gathered changes may be on their way to the store.
    pub(in crate::resp) fn leave_databases(&mut self) {
        if self.uses_databases {
            self.uses_databases = false;
            self.outbox.client.usage.end();
            if let Ok(account) = self.account() {
                account.swaps.left();
            }
        }
    }

    /// Chooses database `number`, which exists.
    pub(in crate::resp) fn select(&mut self, number: u8) -> Outcome {
        debug_assert!(number < DATABASES);
        self.login.as_mut().ok_or(NO_AUTH)?.database = number;
        self.outbox.client.database.store(number, Ordering::Relaxed);
        Ok(())
    }

    /// The slow commands that this connection may see.
    pub(in crate::resp) fn slowlog(&self) -> &Slowlog {
        self.login.as_ref().map_or(&self.outbox.server.slowlog, |login| &login.account().slowlog)
    }

    /// The pause that this connection must respect.
    pub(in crate::resp) fn pause(&self) -> &Pause {
        self.login.as_ref().map_or(&self.outbox.server.pause, |login| &login.account().pause)
    }

    /// Resets the counters that this connection may see to zero.
    pub(in crate::resp) fn reset_stats(&self) -> Outcome {
        if let Some(expirations) = self.store()?.expirations() {
            expirations.forget_deleted();
        }
        self.account()?.stats.reset();
        self.account()?.errors.reset();
        Ok(())
    }

    /// Facts about the store, for `INFO`.
    pub(in crate::resp) fn facts(&self) -> Outcome<Vec<(&'static str, &'static str, String)>> {
        Ok(self.store()?.facts())
    }

    /// The context of the command under way for its rows. The bill moves into it, and comes back with
    /// [`Session::called`].
    #[inline]
    pub(super) fn begin_call(&mut self) -> Call {
        let bill = std::mem::take(&mut self.bill);
        Call { bill, ..self.call() }
    }

    /// The context of a command on rows with a bill of its own.
    #[inline]
    pub(super) fn call(&self) -> Call {
        // The longest value that a client may build up is as long as it may send at once.
        let value_bytes_max = self.outbox.server.settings.limits.bulk_bytes_max.min(VALUE_BYTES_MAX);
        let mut call = Call::new(self.database(), self.outbox.unix_ms(), value_bytes_max);
        if let Ok(account) = self.account() {
            call.stream_node_entries = account.hints.stream_node_entries();
        }
        (call.is_again, call.databases) = (self.is_again, self.databases());
        if let Some(login) = &self.login {
            if let Some(expirations) = login.store.expirations() {
                call.now_ms = expirations.judged_ms(call.clock_ms, || self.outbox.server.clock.now());
            }
            call.wants = login.account().key_events.wants();
            call.by = self.outbox.client.id;
        }
        call
    }

    /// Records what a command on rows has done.
    #[inline]
    pub(super) fn called(&mut self, call: Call) {
        let Call { bill, wait, hits, misses, wrote, .. } = call;
        (self.bill, self.waits) = (bill, wait);
        if wrote {
            self.outbox.count(|stats| stats.changes.add(1));
        }
        if hits + misses > 0 {
            self.outbox.count(|stats| {
                stats.hits.add(hits);
                stats.misses.add(misses);
            });
        }
    }

    /// The data and the outbox, with which a command on rows works.
    #[inline]
    pub(super) fn parts(&mut self) -> Outcome<(&S, &mut Outbox<S>)> {
        let (store, outbox, _) = self.parts_to_write()?;
        Ok((store, outbox))
    }

    /// The same, and the connections that wait for rows, with which a command that writes works.
    #[inline]
    pub(super) fn parts_to_write(&mut self) -> Outcome<(&S, &mut Outbox<S>, &WaitingRows)> {
        let login = self.login.as_ref().ok_or(NO_AUTH)?;
        Ok((&login.store, &mut self.outbox, &login.account().waiting_rows))
    }

    /// The row of `key`.
    pub(in crate::resp) async fn get(&mut self, key: &[u8]) -> Outcome<Option<Row>> {
        let mut call = self.begin_call();
        // As in Redis, a command that only looks at a key causes no miss event.
        call.wants = Classes::NONE;
        let (store, outbox) = self.parts()?;
        let row = Context::reading(store.rows(), outbox, &mut call).get(key).await;
        self.called(call);
        row
    }

    /// Up to `limit` keys of the chosen database, from the place `from` on.
    pub(in crate::resp) async fn page(&mut self, from: &[u8], limit: usize) -> Outcome<Page> {
        let mut call = self.begin_call();
        let (store, outbox) = self.parts()?;
        let page = Context::reading(store.rows(), outbox, &mut call).page(from, limit).await;
        self.called(call);
        page
    }

    /// The same for the database with this number, for a caller that has time.
    pub(in crate::resp) async fn page_in_background(&mut self, number: u8, from: &[u8], limit: usize) -> Outcome<Page> {
        let (store, outbox) = self.parts()?;
        let page = letting_go(store.page_in_background(number, from, limit), || outbox.replies.own_values()).await?;
        self.bill.scanned(&page);
        Ok(page)
    }

    /// Ends a page: others run, the work so far is paid for, and the next page gets its unit.
    pub(in crate::resp) async fn end_page(&mut self) -> Outcome {
        let mut call = self.begin_call();
        let (store, outbox) = self.parts()?;
        let ended = Context::reading(store.rows(), outbox, &mut call).end_page().await;
        self.called(call);
        ended
    }

    /// Applies `batch`. The reply that the command writes waits for the commit.
    pub(in crate::resp) async fn write(&mut self, batch: &Batch) -> Outcome {
        self.bill.wrote(batch.as_ref());
        self.bill.work.count(Module::LogRecord, 1);
        let (store, outbox) = self.parts()?;
        let commit = letting_go(store.write(batch), || outbox.replies.own_values()).await?;
        outbox.depend_on(commit);
        Ok(())
    }

    /// Empties the tenant at once; `false` if its store cannot do that. `held` is dropped when this is done or has
    /// failed, even if the client has gone.
    pub(in crate::resp) async fn clear(&mut self, held: impl Send + 'static) -> Outcome<bool> {
        // The session's own writes must be acknowledged as written before, and not be lost on the way.
        self.outbox.await_commits().await;
        self.account()?.begin_flush();
        Ok(self.store()?.clear(held).await?)
    }

    /// Charges one read unit to the command under way, if a unit is available.
    pub(in crate::resp) fn try_pay_page(&mut self) -> bool {
        let quota = self.outbox.quota();
        if !quota.is_none_or(|quota| quota.try_admit(Unit::Read, 1)) {
            return false;
        }
        self.bill.paid(Unit::Read, 1);
        true
    }
}
