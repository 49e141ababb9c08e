//! What a session's user may do. One with full rights costs a look at a flag; of others every command is compared with
//! their rules, word by word where it names keys or channels.

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

/// Where a command was refused, in Redis' words.
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

/// What is shown of a name that nobody has: it may be a secret (S4).
const NOBODY: &[u8] = b"(no such user)";

impl<S: Store> Session<S> {
    /// Whether nothing is refused to whoever speaks. Strangers may say who they are, which nobody is refused.
    #[inline]
    pub(super) fn has_full_rights(&self) -> bool {
        self.user().map_or(true, |user| user.has_full_rights())
    }

    /// Whether a command may be run, or queued, as far as its user's rules matter.
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

    /// Whether a command is certainly allowed, where that is known at once.
    #[inline]
    pub(super) fn surely_may(&self, command: &'static Command, args: Args<'_>) -> bool {
        if self.has_full_rights() {
            return true;
        }
        let Ok(user) = self.user() else { return false };
        let state = user.state();
        state.rules.check_to_run(command, args, YIELD).now_or_never().is_some_and(|checked| checked.is_ok())
    }

    /// What is not allowed any more of a command that was queued, or that has waited.
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

    /// Puts a login that failed into the log of the tenant that it was for. It costs the same where there is none (S3).
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
        log.add(refused, server.clock.now(), self.client_line());
    }

    fn client_line(&self) -> String {
        self.outbox.client.line(self.outbox.server.second()).trim_end().to_owned()
    }
}

/// The rules that a script is run under: those of whoever runs it, as they are at each of its commands.
pub(super) struct Rights {
    user: Arc<User>,
}

impl Rights {
    /// Those of whoever speaks in `session`.
    pub(super) fn of<S: Store>(session: &Session<S>) -> Outcome<Self> {
        Ok(Self { user: Arc::clone(session.user()?) })
    }

    /// Whose they are.
    pub(super) fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// What is not allowed of a command.
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
