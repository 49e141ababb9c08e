//! What a session's user may do. For a user with full rights this costs a look at a flag. For other users, every
//! command is checked against their rules, word by word if it names keys or channels.

use std::sync::Arc;

use futures_util::FutureExt;
use weir_command::acl::{Denied, has_unknown_subcommand};
use weir_command::error::{Error, NO_AUTH, Outcome};
use weir_command::{Args, Command};

use super::outbox::YIELD;
use super::session::Session;
use crate::auth::users::log::Refused;
use crate::auth::users::{User, UserState};
use crate::auth::{LoginName, Refusal};
use crate::store::Store;

/// Where a command was refused, in the words of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Client,
    Transaction,
    Script,
}

impl Origin {
    fn word(self) -> &'static str {
        match self {
            Origin::Client => "toplevel",
            Origin::Transaction => "multi",
            Origin::Script => "lua",
        }
    }
}

/// Shown in the place of a name that does not exist, because that may be a secret (S4).
const NOBODY: &[u8] = b"(no such user)";

impl<S: Store> Session<S> {
    /// Whether nothing is refused to the session's user. Also true for strangers: the commands that they may send are
    /// refused to nobody.
    #[inline]
    pub(super) fn has_full_rights(&self) -> bool {
        self.user().map_or(true, |user| user.has_full_rights())
    }

    /// Whether the user's rules allow a command to be run, or to be queued.
    pub(super) async fn check_rights(&mut self, command: &'static Command, args: Args<'_>) -> Outcome {
        let state = self.user()?.state();
        if state.is_deleted {
            self.outbox.closing = true;
            return Err(NO_AUTH);
        }
        if has_unknown_subcommand(command, args) {
            return Err(Error::unknown_subcommand(command.name, args.at(1)));
        }
        let (checked, from) = if self.transaction.is_none() {
            (state.rules.check_to_run(command, args, YIELD).await, Origin::Client)
        } else {
            (state.rules.check(command, args, YIELD).await, Origin::Transaction)
        };
        checked.map_err(|denied| {
            self.log_denied(denied, denied.object(command, args), from);
            denied.as_error(command, args)
        })
    }

    /// Whether a command is certainly allowed, as far as that can be decided at once.
    #[inline]
    pub(super) fn surely_may(&self, command: &'static Command, args: Args<'_>) -> bool {
        if self.has_full_rights() {
            return true;
        }
        let Ok(user) = self.user() else { return false };
        let state = user.state();
        state.rules.check_to_run(command, args, YIELD).now_or_never().is_some_and(|checked| checked.is_ok())
    }

    /// Checks a command again that was queued, or that has waited. Returns what is no longer allowed.
    pub(super) async fn denied_now(
        &mut self,
        command: &'static Command,
        args: Args<'_>,
        from: Origin,
    ) -> Option<Denied> {
        if self.has_full_rights() {
            return None;
        }
        let state = self.user().ok()?.state();
        let denied = match state.is_deleted {
            true => Denied::Command,
            false => state.rules.check_to_run(command, args, YIELD).await.err()?,
        };
        self.log_denied(denied, denied.object(command, args), from);
        Some(denied)
    }

    /// Puts a refusal into the tenant's log.
    pub(super) fn log_denied(&self, denied: Denied, object: Vec<u8>, from: Origin) {
        let (Some(reason), Ok(user), Ok(account)) = (denied.reason(), self.user(), self.account()) else { return };
        let refused = Refused { reason, context: from.word(), object, user: user.name().to_vec() };
        account.users.log.add(refused, self.outbox.server.clock.now(), self.client_line());
    }

    /// Puts a failed login into the log of the tenant that it was for. It costs the same if there is no such tenant
    /// (S3).
    pub(super) fn log_refused_login(&self, refusal: &Refusal, name: &[u8]) {
        if *refusal != Refusal::WrongSecret {
            return;
        }
        let server = &self.outbox.server;
        let account = server.doorman.whose(name).and_then(|tenant| server.accounts.numbered(tenant));
        let tenant = account.as_ref().map_or("", |account| &*account.name);
        let user = LoginName::parse(name).user_of(tenant);
        let is_known = account.as_ref().is_some_and(|account| account.users.find(user).is_some());
        let user = if is_known { user } else { NOBODY };
        let context = Origin::Client.word();
        let refused = Refused { reason: "auth", context, object: b"AUTH".to_vec(), user: user.to_vec() };
        let log = account.as_ref().map_or(&server.acl_log, |account| &account.users.log);
        let (own, of_log) = (self.account().ok(), account.as_ref());
        let is_of_other = own.is_some_and(|own| of_log.is_none_or(|of_log| of_log.tenant != own.tenant));
        let client = if is_of_other { self.outbox.client.line_for_others() } else { self.client_line() };
        log.add(refused, server.clock.now(), client);
    }

    fn client_line(&self) -> String {
        self.outbox.client.line(self.outbox.server.second()).trim_end().to_owned()
    }
}

/// The rules under which a script runs: those of the user who runs it, as they are when each command is called.
pub(super) struct Rights {
    user: Arc<User>,
}

impl Rights {
    /// The rights of the user of `session`.
    pub(super) fn of<S: Store>(session: &Session<S>) -> Outcome<Self> {
        Ok(Self { user: Arc::clone(session.user()?) })
    }

    /// The user whose rights these are.
    pub(super) fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// What is not allowed of a command, if anything.
    pub(super) async fn denied(&self, command: &'static Command, args: Args<'_>) -> Option<Denied> {
        if self.user.has_full_rights() {
            return None;
        }
        let state: Arc<UserState> = self.user.state();
        if state.is_deleted {
            return Some(Denied::Command);
        }
        state.rules.check_to_run(command, args, YIELD).await.err()
    }
}
