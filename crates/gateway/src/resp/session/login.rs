//! To whom a session belongs: logging in, and becoming a stranger again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_command::error::{Error, Outcome, WRONG_PASS};

use super::{DumpChoice, Session};
use crate::auth::{DEFAULT_USER, Login, LoginName, Refusal};
use crate::notices::{Notice, What};
use crate::pubsub::Subscriptions;
use crate::resp::frame::STRANGER_BULK_BYTES_MAX;
use crate::resp::outbox::YIELD;
use crate::store::Store;
use crate::tenant::tenancy::Grant;

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

impl<S: Store> Session<S> {
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
}
