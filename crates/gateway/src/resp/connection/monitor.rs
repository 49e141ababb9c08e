//! Sends the connection's commands to those who watch its tenant (`MONITOR`).

use std::sync::Arc;

use weir_command::{Args, Command};

use super::Connection;
use super::script::is_script;
use crate::resp::commands::was_cut;
use crate::resp::monitored;
use crate::resp::outbox::YIELD;
use crate::store::Store;

impl<S: Store> Connection<S> {
    /// Whether anybody watches the commands of the tenant's connections.
    #[inline]
    pub(super) fn is_monitored(&self) -> bool {
        self.session.account().is_ok_and(|account| account.pubsub.has_monitors())
    }

    /// Reports that `command` was run.
    pub(super) async fn tell_monitors(&mut self, command: &Command, args: Args<'_>) {
        if !monitored::is_shown(command, args) || is_told_before(command) {
            return;
        }
        let line = self.monitored_line(command, args, self.session.database()).await;
        self.send_to_monitors(vec![line]).await;
    }

    /// The line for `command` on `database`.
    pub(super) async fn monitored_line(&mut self, command: &Command, args: Args<'_>, database: u8) -> Vec<u8> {
        let who = self.session.outbox.client.peer.to_string();
        monitored::line((self.server.clock.unix_ms(), database, &who), command, args, YIELD).await
    }

    /// Sends lines to those who watch.
    pub(super) async fn send_to_monitors(&mut self, lines: Vec<Vec<u8>>) {
        let Ok(account) = self.session.account().map(Arc::clone) else { return };
        let now = self.server.clock.now();
        let cut = account.pubsub.tell_monitors(lines, now, YIELD).await;
        was_cut(&self.session, cut);
    }
}

/// A script is reported when it begins, so that it stands in front of the commands that it calls.
fn is_told_before(command: &Command) -> bool {
    is_script(command)
}
