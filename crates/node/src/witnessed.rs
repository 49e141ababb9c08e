//! What a tenant's partitions know of its listeners: the witness that is told what happens to the keys, the rows that
//! are watched, how expired rows are deleted, and who is told that a log was replaced.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::RwLock;
use weir_command::events::{Classes, Witness};

use crate::expirations::Expirations;
use crate::watched_rows::WatchedRows;

/// The listeners of one tenant. The witness is held weakly, because it holds the tenant, and so this.
#[derive(Default)]
pub struct Witnessed {
    /// There has been a witness. Before the first one, nothing else is looked at.
    is_set: AtomicBool,
    witness: RwLock<Option<Weak<dyn Witness>>>,
    /// When the tenant's rows expire, and how those that have expired are deleted.
    pub expirations: Expirations,
    /// The tenant's watched rows, in whichever partition they are.
    pub watched: Arc<WatchedRows>,
    /// Called when a log was replaced.
    on_log_replaced: RwLock<Option<Arc<dyn Fn() + Send + Sync>>>,
}

impl Witnessed {
    /// From now on `witness` is told, in the place of an earlier witness.
    pub fn set(&self, witness: Weak<dyn Witness>) {
        *self.witness.write() = Some(witness);
        self.is_set.store(true, Ordering::SeqCst);
    }

    /// From now on `call` is called whenever a log was replaced, in the place of an earlier one.
    pub fn set_on_log_replaced(&self, call: Arc<dyn Fn() + Send + Sync>) {
        *self.on_log_replaced.write() = Some(call);
    }

    /// The log of one of the tenant's partitions was replaced.
    pub fn log_was_replaced(&self) {
        // Called without the lock, because it wakes others.
        let call = self.on_log_replaced.read().clone();
        if let Some(call) = call {
            call();
        }
    }

    /// The witness, if it is to be told anything now.
    #[inline]
    pub fn witness(&self) -> Option<Arc<dyn Witness>> {
        if !self.is_set.load(Ordering::SeqCst) {
            return None;
        }
        let witness = self.witness.read().as_ref().and_then(Weak::upgrade);
        witness.filter(|witness| witness.wants() != Classes::NONE)
    }

    /// Whether somebody listens to what is told.
    pub fn is_heard(&self) -> bool {
        self.witness().is_some_and(|witness| witness.is_heard())
    }

    /// The events that are to be told now.
    pub fn wants(&self) -> Classes {
        self.witness().map_or(Classes::NONE, |witness| witness.wants())
    }
}
