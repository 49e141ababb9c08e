//! A connection that runs commands while no other connection of its tenant does, in order to exchange databases.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::swaps::Held;
use crate::tenant::account::Account;

/// The right to run alone. Before the other connections go on, everybody concerned is told what has been exchanged.
pub(in crate::resp) struct Alone {
    account: Arc<Account>,
    /// Names of databases that may have been exchanged.
    exchanged: Mutex<Vec<u8>>,
    /// Declared last, so that it is dropped last.
    _held: Held,
}

impl Alone {
    /// `held` keeps the other connections of `account` out.
    pub(in crate::resp) fn new(account: &Arc<Account>, held: Held) -> Self {
        Self { account: Arc::clone(account), exchanged: Mutex::default(), _held: held }
    }

    /// The two databases are about to be exchanged. What anybody knows of their keys will no longer be true.
    pub(in crate::resp) fn exchanges(&self, one: u8, other: u8) {
        self.exchanged.lock().extend([one, other]);
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let Account { swaps, key_counts, waiting_rows, key_events, .. } = &*self.account;
        let exchanged = self.exchanged.get_mut();
        if exchanged.is_empty() {
            return;
        }
        exchanged.iter().for_each(|&name| swaps.count(name));
        key_counts.forget();
        waiting_rows.all_written();
        key_events.all_changed();
    }
}
