//! What a session remembers if its client keeps values.

use std::sync::Arc;

use weir_command::{Args, Command, Draft};

use crate::tenant::account::Account;
use crate::tracking::Mode;

/// What a tracking connection has asked for. Dropping it ends the tracking.
pub(in crate::resp) struct Tracked {
    pub(in crate::resp) mode: Mode,
    /// What `CLIENT CACHING` has chosen for the next command.
    pub(in crate::resp) caching: Option<bool>,
    account: Arc<Account>,
    id: u64,
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.account.tracking.disable(self.id);
        self.account.key_events.track(&self.account.tracking);
    }
}

/// Remembers what a tracking connection reads, in the mode that it had when this was made.
#[derive(Clone)]
pub(in crate::resp) struct Reader {
    account: Arc<Account>,
    id: u64,
    is_wanted: bool,
}

impl Reader {
    /// Remembers the keys that `command` is about to read.
    pub(in crate::resp) fn remember(&self, command: &Command, args: Args<'_>) {
        if self.is_wanted && reads(command, args) {
            self.account.tracking.remember(self.id, command.keys_in(args));
        }
    }

    /// The same for a command that runs as one with others, which have written `draft`. A script has `declared` keys,
    /// and its answer may be about all of them.
    ///
    /// Changes in front of the read are told when all of it is applied, or are waiting to be told. They must not be
    /// taken for changes of the value that is read here. So the event that the client keeps the key is put behind them.
    pub(in crate::resp) fn remember_behind(
        &self,
        draft: &mut Draft,
        command: &Command,
        args: Args<'_>,
        declared: &[Vec<u8>],
    ) {
        if !self.is_wanted || !reads(command, args) {
            return;
        }
        let keys = declared.iter().map(Vec::as_slice).chain(command.keys_in(args));
        if draft.events_len() == 0 && !self.account.key_events.are_waiting() {
            self.account.tracking.remember(self.id, keys);
        } else {
            keys.for_each(|key| draft.keep(key, self.id));
        }
    }
}

/// Whether `command` with `args` reads keys by itself. The commands that a script calls tell what the script reads.
fn reads(command: &Command, args: Args<'_>) -> bool {
    command.only_reads(args) && command.group != "scripting"
}

impl Tracked {
    /// The connection `id` of the tenant of `account` tracks in `mode`.
    pub(in crate::resp) fn new(mode: Mode, account: Arc<Account>, id: u64) -> Self {
        Self { mode, caching: None, account, id }
    }

    /// A [`Reader`] in the current mode.
    pub(in crate::resp) fn reader(&self) -> Reader {
        let is_chosen = if self.caching.is_some() { !self.mode.opt_out } else { !self.mode.opt_in };
        Reader { account: Arc::clone(&self.account), id: self.id, is_wanted: is_chosen && !self.mode.broadcast }
    }

    /// Remembers the keys that `command` is about to read, as [`Reader::remember`].
    pub(in crate::resp) fn remember(&self, command: &Command, args: Args<'_>) {
        self.reader().remember(command, args);
    }
}
