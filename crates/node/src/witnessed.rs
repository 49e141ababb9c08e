//! Whoever wants to be told what happens to the keys of a tenant, as its partitions know him; rows that are watched;
//! and what becomes of those that expire.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::RwLock;
use weir_command::events::{Classes, Witness};

use crate::expirations::Expirations;
use crate::watched_rows::WatchedRows;

/// See the module. The witness is held weakly: it holds the tenant, and so this.
#[derive(Default)]
pub struct Witnessed {
    /// There has been somebody: without, nothing else is looked at.
    is_set: AtomicBool,
    witness: RwLock<Option<Weak<dyn Witness>>>,
    /// The tenant's.
    pub expirations: Expirations,
    /// Of the tenant, in whichever partition they are.
    pub watched: Arc<WatchedRows>,
}

impl Witnessed {
    /// `witness` is told from now on, whoever was told before.
    pub fn set(&self, witness: Weak<dyn Witness>) {
        *self.witness.write() = Some(witness);
        self.is_set.store(true, Ordering::SeqCst);
    }

    /// Who is to be told something now.
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

    /// What is to be told now.
    pub fn wants(&self) -> Classes {
        self.witness().map_or(Classes::NONE, |witness| witness.wants())
    }
}
