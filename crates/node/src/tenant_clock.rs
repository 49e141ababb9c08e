//! The clock of a tenant's partitions and their engines: its wall clock shows the moment by which the tenant's rows
//! expire.
//!
//! While a tenant's expiry is [paused](crate::Expirations::pause_at), that moment stands still. Reads, scans, sweeps
//! and merges all ask this clock, and commands are given the same moment, so that they agree on what has expired.

use std::sync::Arc;
use std::task::Waker;

use weir_io::{Clock, Nanos};

use crate::witnessed::Witnessed;

/// The clock of one tenant.
pub(crate) struct TenantClock {
    node: Arc<dyn Clock>,
    witnessed: Arc<Witnessed>,
}

impl TenantClock {
    /// The clock of the tenant that has `witnessed`, on a node with the clock `node`.
    pub fn new(node: &Arc<dyn Clock>, witnessed: &Arc<Witnessed>) -> Arc<Self> {
        Arc::new(Self { node: Arc::clone(node), witnessed: Arc::clone(witnessed) })
    }
}

impl Clock for TenantClock {
    fn now(&self) -> Nanos {
        self.node.now()
    }

    fn wake_at(&self, at: Nanos, waker: Waker) {
        self.node.wake_at(at, waker);
    }

    fn forget(&self, at: Nanos, waker: &Waker) {
        self.node.forget(at, waker);
    }

    fn unix_ms(&self) -> u64 {
        self.witnessed.expirations.judged_ms(self.node.unix_ms(), || self.node.now())
    }

    fn processor_time(&self) -> Nanos {
        self.node.processor_time()
    }
}
