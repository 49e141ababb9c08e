//! How much a tenant holds on disk, compared with what it may hold.
//!
//! 1. The limit counts living bytes. What has expired or was deleted still takes space until a compaction has met it;
//!    that is Weir's business, and no reason to refuse a write.
//! 2. Dead bytes are bounded all the same: a tenant whose stored bytes, living or not, are one and a half times its
//!    limit is full as well ([`stored_max`]).
//! 3. A tenant that is near either bound is made to give back its dead bytes ([`urgency`]). A write to a full tenant
//!    waits for that before it is refused, as long as there is something to wait for ([`Tenant::room_on_disk`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_io::{Clock, Nanos, sleep_until};
use weir_model::engine::Urgency;

use super::Tenant;
use crate::partition::Partition;

/// How long a measurement counts: writes within this time may exceed the limit.
const MEASURED_NANOS: Nanos = 100_000_000;
/// How often a full tenant's memtables are flushed: deleted data takes room until compactions meet the deletions.
const SEALED_NANOS: Nanos = 1_000_000_000;
/// A write waits at most this long for dead bytes to be given back.
const WAIT_NANOS_MAX: Nanos = 2_000_000_000;
/// How often it looks whether they were given back.
const LOOK_NANOS: Nanos = 20_000_000;
/// A tenant may always store this much in addition to its living bytes: with less, no merge could ever be worth it.
const STORED_MIN: u64 = 1 << 20;

/// Disk space of a tenant, or of one of its partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUse {
    /// Bytes of tables and of what waits to become tables.
    pub stored: u64,
    /// The part of these bytes that is not known to be deleted, expired or overwritten.
    pub living: u64,
}

/// Bytes that may be stored if `max` bytes may live: dead bytes must not take the disk without bound.
pub fn stored_max(max: u64) -> u64 {
    max.saturating_add(max / 2).saturating_add(STORED_MIN)
}

/// How urgently a tenant that may hold `max` living bytes must free space.
pub fn urgency(used: DiskUse, max: u64) -> Urgency {
    if used.living >= max || used.stored >= stored_max(max) {
        Urgency::Full
    } else if used.stored >= max - max / 8 {
        Urgency::Near
    } else {
        Urgency::Idle
    }
}

/// The last measurement.
pub(super) struct DiskGauge {
    clock: Arc<dyn Clock>,
    /// Living bytes at most; 0 = unlimited.
    pub(super) max: AtomicU64,
    stored: AtomicU64,
    living: AtomicU64,
    /// When it was measured; 0 = not yet.
    measured: AtomicU64,
    sealed: AtomicU64,
}

impl DiskGauge {
    pub(super) fn new(clock: Arc<dyn Clock>, max: u64) -> Self {
        let (stored, living, measured, sealed) = Default::default();
        Self { clock, max: AtomicU64::new(max), stored, living, measured, sealed }
    }

    /// The last measurement counts no more.
    pub(super) fn forget(&self) {
        self.measured.store(0, Ordering::Relaxed);
    }
}

impl Tenant {
    /// Bytes of its tables and of what waits to become tables. A partition that has not been awake since the node was
    /// opened counts from when it wakes.
    pub fn disk_use(&self) -> DiskUse {
        self.slots.iter().map(|slot| slot.disk_use()).fold(DiskUse::default(), |sum, used| DiskUse {
            stored: sum.stored + used.stored,
            living: sum.living + used.living,
        })
    }

    /// The limit, if it is reached: then only requests that free space are to be let through. Costs a load where there
    /// is no limit.
    #[inline]
    pub fn disk_limit_reached(&self) -> Option<u64> {
        match self.disk.max.load(Ordering::Relaxed) {
            0 => None,
            max => self.is_full(max).then_some(max),
        }
    }

    /// Waits while the limit is reached and dead bytes are being given back, two seconds at most. Gives the limit, if
    /// there is still no room.
    pub async fn room_on_disk(&self) -> Result<(), u64> {
        let clock = &self.disk.clock;
        let until = clock.now() + WAIT_NANOS_MAX;
        while self.disk_limit_reached().is_some() {
            if clock.now() >= until || !self.awake().any(|partition| partition.is_giving_back()) {
                // The last measurement may be older than what has just been given back.
                self.disk.forget();
                return self.disk_limit_reached().map_or(Ok(()), Err);
            }
            sleep_until(clock, clock.now() + LOOK_NANOS).await;
        }
        Ok(())
    }

    fn awake(&self) -> impl Iterator<Item = Arc<Partition>> {
        self.slots.iter().filter_map(|slot| slot.awake().clone())
    }

    fn is_full(&self, max: u64) -> bool {
        let (gauge, now) = (&self.disk, self.disk.clock.now().max(1));
        let measured = gauge.measured.load(Ordering::Relaxed);
        let is_old = measured == 0 || now.saturating_sub(measured) > MEASURED_NANOS;
        if is_old {
            gauge.measured.store(now, Ordering::Relaxed);
            let used = self.disk_use();
            gauge.stored.store(used.stored, Ordering::Relaxed);
            gauge.living.store(used.living, Ordering::Relaxed);
        }
        let used =
            DiskUse { stored: gauge.stored.load(Ordering::Relaxed), living: gauge.living.load(Ordering::Relaxed) };
        let urgency = urgency(used, max);
        let seals = urgency == Urgency::Full && now.saturating_sub(gauge.sealed.load(Ordering::Relaxed)) > SEALED_NANOS;
        if seals {
            gauge.sealed.store(now, Ordering::Relaxed);
        }
        if is_old || seals {
            self.awake().for_each(|partition| partition.mind_space(urgency, seals));
        }
        urgency == Urgency::Full
    }

    /// Its limit is `max` from now on.
    pub(super) fn limit_disk(&self, max: u64) {
        self.disk.max.store(max, Ordering::Relaxed);
        self.disk.forget();
        if max == 0 {
            self.awake().for_each(|partition| partition.mind_space(Urgency::Idle, false));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_speaks_of_what_lives_and_dead_bytes_are_bounded_all_the_same() {
        const MIB: u64 = 1 << 20;
        let of = |stored: u64, living: u64| urgency(DiskUse { stored: stored * MIB, living: living * MIB }, 80 * MIB);
        assert_eq!(of(69, 69), Urgency::Idle);
        assert_eq!(of(70, 1), Urgency::Near);
        assert_eq!(of(120, 79), Urgency::Near);
        assert_eq!(of(80, 80), Urgency::Full);
        assert_eq!(of(121, 1), Urgency::Full);
        assert_eq!(urgency(DiskUse::default(), u64::MAX), Urgency::Idle);
    }
}
