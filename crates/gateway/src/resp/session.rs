//! A session: the client's identity, what it may do, and the state that its commands change. It knows of no socket but
//! its outbox.

mod login;
mod rows;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_command::bill::OwnBill;
use weir_command::error::{Error, NO_AUTH, NO_SUCH_TENANT, Outcome};
use weir_command::reply::Protocol;
use weir_command::table::Id;
use weir_command::{Args, Command, Wait};
use weir_model::{DATABASES, Databases};

use super::cost::{Last, Sum};
use super::frame::Limits;
use super::outbox::{Outbox, YIELD};
use super::pause::Pause;
use super::slowlog::Slowlog;
use super::ticket::Blocked;
use super::tracked::Tracked;
use super::transaction::{Queue, Watched};
use crate::auth::users::User;
use crate::auth::{Login, Refusal};
use crate::mailbox::Mailbox;
use crate::notices::{Notice, What};
use crate::pubsub::{Counts, Subscriptions};
use crate::store::Store;
use crate::tenant::account::Account;
use crate::tenant::byte_budget::Hold;
use crate::tenant::tenancy::Standing;

/// Most bytes that are sent to a stranger before the connection closes (S2).
const STRANGER_BYTES_MAX: usize = 1 << 10;

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
    pub(super) fn may_in_monitor(&self, command: &Command, args: Args<'_>) -> Outcome {
        if !self.is_monitor() || !(command.works_on_rows(args) || matches!(command.group, "scripting")) {
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
}
