//! How much a tenant holds on disk, against what it may hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_io::{Clock, Nanos};

use super::Tenant;
use crate::home::Home;

/// How long a measurement counts: the limit may be passed by what is written in so long.
const MEASURED_NANOS: Nanos = 100_000_000;
/// How often a full tenant's memtables go to tables: what was deleted takes room until compactions meet the deletions.
const SEALED_NANOS: Nanos = 1_000_000_000;

/// The last measurement.
pub(super) struct DiskGauge {
    clock: Arc<dyn Clock>,
    /// Bytes at most; 0 = unlimited.
    pub(super) max: AtomicU64,
    bytes: AtomicU64,
    /// When it was measured; 0 = not yet.
    measured: AtomicU64,
    sealed: AtomicU64,
}

impl DiskGauge {
    pub(super) fn new(clock: Arc<dyn Clock>, max: u64) -> Self {
        let (bytes, measured, sealed) = Default::default();
        Self { clock, max: AtomicU64::new(max), bytes, measured, sealed }
    }

    /// What was measured counts no more.
    pub(super) fn forget(&self) {
        self.measured.store(0, Ordering::Relaxed);
    }
}

impl Tenant {
    /// Bytes of its tables and of what waits to become tables. A partition that has not been awake since the node was opened
    /// counts from when it wakes.
    pub fn disk_bytes(&self) -> u64 {
        self.homes.iter().map(|home| home.disk_bytes()).sum()
    }

    /// The limit, if it is reached: only what frees space is to be let through then. Costs a load where there is no limit.
    #[inline]
    pub fn disk_limit_reached(&self) -> Option<u64> {
        match self.disk.max.load(Ordering::Relaxed) {
            0 => None,
            max => self.is_full(max).then_some(max),
        }
    }

    fn is_full(&self, max: u64) -> bool {
        let (gauge, now) = (&self.disk, self.disk.clock.now().max(1));
        let measured = gauge.measured.load(Ordering::Relaxed);
        if measured == 0 || now.saturating_sub(measured) > MEASURED_NANOS {
            gauge.measured.store(now, Ordering::Relaxed);
            gauge.bytes.store(self.disk_bytes(), Ordering::Relaxed);
        }
        let is_full = gauge.bytes.load(Ordering::Relaxed) >= max;
        if is_full && now.saturating_sub(gauge.sealed.load(Ordering::Relaxed)) > SEALED_NANOS {
            gauge.sealed.store(now, Ordering::Relaxed);
            let awake = self.homes.iter().filter_map(|home: &Arc<Home>| home.awake().clone());
            awake
                .filter(|partition| partition.tree().shape().memtable_bytes > 0)
                .for_each(|partition| partition.seal());
        }
        is_full
    }
}
