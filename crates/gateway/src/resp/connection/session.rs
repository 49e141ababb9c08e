//! Whose connection it is, and what that lets it do.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_io::sleep_until;

use super::Connection;
use crate::auth::account::Account;
use crate::auth::{Grant, Refusal, Session, Standing};
use crate::notices::{Notice, What};
use crate::resp::error::{Error, NO_AUTH, NO_SUCH_TENANT, Outcome, WRONG_PASS};
use crate::resp::frame::STRANGER_BULK_BYTES_MAX;
use crate::resp::pause::Pause;
use crate::resp::slowlog::Slowlog;
use crate::resp::table::Command;
use crate::store::Store;

/// How often a paused connection looks whether the pause was ended before its time.
const PAUSE_STEP_NANOS: u64 = 10_000_000;
/// Most bytes that a stranger is told before the connection closes (S2).
const STRANGER_BYTES_MAX: usize = 1 << 10;

impl<S: Store> Connection<S> {
    /// Whether the command may be run: strangers may say who they are, and the suspended nothing else either.
    pub(super) fn may(&mut self, command: &Command) -> Outcome {
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
    pub(super) fn limit_strangers(&mut self) {
        let from = self.answer.from;
        self.told_strangers += self.replies.len_since(from);
        if self.told_strangers > STRANGER_BYTES_MAX {
            self.replies.rewind(from);
            self.closing = true;
        }
    }

    /// Makes the connection as new: the tenant's whose door is open to it, or nobody's.
    pub(in crate::resp) fn forget_who(&mut self) -> Result<(), Refusal> {
        self.session = None;
        (self.long_values, self.unfinished) = (None, None);
        self.limits.stranger = true;
        self.client.become_stranger(self.server.second());
        let Some(grant) = self.server.doorman.open_door(self.client.peer) else { return Ok(()) };
        match self.become_known(grant) {
            Err(refusal @ Refusal::TooManyConnections) => Err(refusal),
            // A stranger, who may log in elsewhere.
            Err(_) | Ok(()) => Ok(()),
        }
    }

    /// Says who it is. A refusal leaves everything as it was.
    pub(in crate::resp) async fn log_in(&mut self, name: &[u8], secret: &[u8]) -> Outcome {
        self.submit().await;
        // Longer than a stranger may say: no name and no secret is so long, and to hash many megabytes would hold others up.
        if name.len().max(secret.len()) > STRANGER_BULK_BYTES_MAX {
            return Err(WRONG_PASS);
        }
        let grant = match self.server.doorman.login(name, secret, self.client.peer).await {
            Ok(grant) => grant,
            Err(refusal) => {
                // Only a name that somebody has is shown: others may be secrets (S4).
                let name = if self.server.doorman.knows(name) { std::str::from_utf8(name).ok() } else { None };
                self.was_refused(&refusal, name.map(Arc::from));
                return Err(refusal.into());
            }
        };
        if let Err(refusal) = self.become_known(grant) {
            self.closing |= refusal == Refusal::TooManyConnections;
            return Err(refusal.into());
        }
        Ok(())
    }

    /// Counts a refusal, and says it in the log.
    fn was_refused(&self, refusal: &Refusal, tenant: Option<Arc<str>>) {
        let (server, reason) = (&self.server, refusal.reason());
        server.logins_refused[reason].fetch_add(1, Ordering::Relaxed);
        let notice = Notice { what: What::Login(reason), tenant, address: Some(self.client.peer.ip()) };
        server.notices.tell(notice, server.clock.now());
    }

    /// Says in the log that the session's tenant may not do what it wants.
    pub(super) fn notice(&self, what: What) {
        let tenant = self.session.as_ref().map(|session| Arc::clone(&session.account().name));
        self.server.notices.tell(Notice { what, tenant, address: None }, self.server.clock.now());
    }

    pub(super) fn become_known(&mut self, grant: Grant<S>) -> Result<(), Refusal> {
        let account = self.server.accounts.of(&grant);
        if self.session.as_ref().is_some_and(|session| session.account().tenant == account.tenant) {
            // It has its place already.
            return Ok(());
        }
        let mut session = match Session::open(grant, &account) {
            Ok(session) => session,
            Err(refusal) => {
                self.was_refused(&refusal, Some(Arc::clone(&account.name)));
                return Err(refusal);
            }
        };
        // As in Redis, logging in chooses no other database.
        session.select(self.database());
        self.client.belong_to(&account, session.database);
        (self.long_values, self.unfinished) = (Some(account.long_values.hold()), Some(account.unfinished.hold()));
        self.session = Some(session);
        self.limits.stranger = false;
        Ok(())
    }

    /// Whether it is known whose connection this is.
    pub(in crate::resp) fn is_known(&self) -> bool {
        self.session.is_some()
    }

    /// The tenant whose connection this is.
    pub(in crate::resp) fn account(&self) -> Outcome<&Arc<Account>> {
        self.session.as_ref().map(Session::account).ok_or(NO_AUTH)
    }

    /// The data that this connection can reach.
    pub(in crate::resp) fn store(&self) -> Outcome<&S> {
        self.session.as_ref().map(|session| &session.store).ok_or(NO_AUTH)
    }

    /// The number of the database chosen.
    pub(in crate::resp) fn database(&self) -> u8 {
        self.session.as_ref().map_or(0, |session| session.database)
    }

    /// Chooses a database; `false` where there is no such number.
    pub(in crate::resp) async fn select(&mut self, number: u8) -> Outcome<bool> {
        self.submit().await;
        let chosen = self.session.as_mut().ok_or(NO_AUTH)?.select(number);
        self.client.database.store(self.database(), Ordering::Relaxed);
        Ok(chosen)
    }

    /// The slow commands that this connection may see.
    pub(in crate::resp) fn slowlog(&self) -> &Slowlog {
        self.session.as_ref().map_or(&self.server.slowlog, |session| &session.account().slowlog)
    }

    /// The pause that this connection keeps.
    pub(in crate::resp) fn pause(&self) -> &Pause {
        self.session.as_ref().map_or(&self.server.pause, |session| &session.account().pause)
    }

    /// The counters that this connection may see begin at zero.
    pub(in crate::resp) fn reset_stats(&self) -> Outcome {
        self.account()?.stats.reset();
        Ok(())
    }

    /// Facts about the store, for `INFO`.
    pub(in crate::resp) fn facts(&self) -> Outcome<Vec<(&'static str, &'static str, String)>> {
        Ok(self.store()?.facts())
    }

    /// Waits while `CLIENT PAUSE` holds `command`; what is answered already goes out first.
    pub(super) async fn wait_out_pause(&mut self, command: &Command) {
        let writes = command.flags.contains(&"write");
        let clock = Arc::clone(&self.server.clock);
        loop {
            let now = clock.now();
            // What ends the pause goes on, and what ends a transaction, in which nobody can end the pause.
            let goes_on = matches!(command.group, "connection" | "transactions");
            let Some(until) = self.pause().holds(now, writes).filter(|_| !goes_on) else { break };
            // Who ends answers what was asked, and waits for nobody.
            if self.server.is_draining() {
                break;
            }
            if self.flush_or_close().await.is_err() {
                break;
            }
            sleep_until(&clock, until.min(now + PAUSE_STEP_NANOS)).await;
        }
        self.lap = clock.now();
    }
}
