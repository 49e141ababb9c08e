//! A connection that runs commands while nobody else of its tenant does: to exchange databases.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::swaps::Held;
use crate::tenant::account::Account;

/// See the module. Everybody concerned is told what has been exchanged before going on.
pub(in crate::resp) struct Alone {
    account: Arc<Account>,
    /// Names of databases that may have been exchanged.
    exchanged: Mutex<Vec<u8>>,
    /// Goes last.
    _held: Held,
}

impl Alone {
    /// With what keeps others of `account` out.
    pub(in crate::resp) fn new(account: &Arc<Account>, held: Held) -> Self {
        Self { account: Arc::clone(account), exchanged: Mutex::default(), _held: held }
    }

    /// These two databases are about to be exchanged: what anybody believes of their keys is so no more.
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
