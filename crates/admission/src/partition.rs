//! The two gates of a partition (FX-9).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_io::{Class, Clock, Event, Nanos, Owner, PAGE};

use crate::gate::{Gate, GateOptions};
use crate::limits::{Direction, Limits, Rates};
use crate::order::Rank;

/// A foreground burst holds at least this many bytes, as far as that is no more than [`FOREGROUND_BURST_MAX`] of the
/// rate.
const FOREGROUND_BURST_BYTES_MIN: u64 = 16 * PAGE as u64;
const FOREGROUND_BURST_MAX: Nanos = 1_000_000_000;

/// Foreground (reads and log, one queue) and background (flush before compaction, 10:1), each with a budget of its own:
/// saturated background never delays foreground here. They can also be set to be one bucket, as RocksDB's limiter is:
/// see [`PartitionGate::set_foreground`].
pub struct PartitionGate {
    owner: Owner,
    foreground: Arc<Gate>,
    background: Arc<Gate>,
    flush_is_urgent: AtomicBool,
    flush_may_rush: AtomicBool,
    is_awaited: AtomicBool,
    /// Fires when a client begins to await the partition.
    awaited: Event,
    l0_first: AtomicBool,
    borrows: AtomicBool,
    one_bucket: AtomicBool,
}

impl PartitionGate {
    /// Unlimited gates for `owner`; see [`PartitionGate::set_foreground`] and [`PartitionGate::background`].
    pub fn new(owner: Owner, clock: &Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            owner,
            foreground: Gate::new(Arc::clone(clock), GateOptions::FOREGROUND),
            background: Gate::new(Arc::clone(clock), GateOptions::BACKGROUND),
            flush_is_urgent: AtomicBool::new(false),
            flush_may_rush: AtomicBool::new(true),
            is_awaited: AtomicBool::new(false),
            awaited: Event::default(),
            l0_first: AtomicBool::new(true),
            borrows: AtomicBool::new(false),
            one_bucket: AtomicBool::new(false),
        })
    }

    /// The partition that these gates belong to.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The gate of reads and log.
    pub fn foreground(&self) -> &Arc<Gate> {
        &self.foreground
    }

    /// The gate of flush and compaction.
    pub fn background(&self) -> &Arc<Gate> {
        &self.background
    }

    /// Lets flushes pass as foreground, here and at the node: with one more full memtable, writes stall (U-11). The
    /// ledger still books them as flush. I/O that waits already keeps its place.
    pub fn set_flush_is_urgent(&self, urgent: bool) {
        self.flush_is_urgent.store(urgent, Ordering::Relaxed);
    }

    /// Sets whether an urgent flush passes as foreground at all: a policy's choice.
    pub fn set_flush_may_rush(&self, may_rush: bool) {
        self.flush_may_rush.store(may_rush, Ordering::Relaxed);
    }

    /// Lets everything pass as foreground, here and at the node: a client waits until the partition is open, is gone,
    /// or has gone to sleep so that it can be opened. Behind the strict foreground of others the client would wait
    /// until they are silent.
    pub fn set_is_awaited(&self, awaited: bool) {
        self.is_awaited.store(awaited, Ordering::Relaxed);
        if awaited {
            self.awaited.notify();
        }
    }

    /// Waits until a client awaits the partition. I/O that waits as background then gives up its place for one among
    /// foreground. This is not done where a flush becomes urgent: when the flushes of all trees left their queues at
    /// the same moment, 0.3 % of the writes for whose sake they were urgent came too late on a disk sold ten times.
    pub(crate) async fn awaited(&self) {
        self.awaited.wait(|| self.is_awaited.load(Ordering::Relaxed).then_some(())).await;
    }

    /// Turns the foreground rates. A slow partition's burst holds a handful of its operations, which are no smaller
    /// because the partition is slow: otherwise a read would wait for the log record before it.
    ///
    /// `one_bucket` = background passes here, too, behind foreground. The value is the time between two refills, in
    /// nanoseconds, and no more is kept than what arrives in that time, or the handful. I/O that waits at the other
    /// gate stays there.
    pub fn set_foreground(&self, limits: Limits, one_bucket: Option<Nanos>) {
        let slowest = limits.rates(Direction::Read).bytes.min(limits.rates(Direction::Write).bytes);
        let handful = Rates::bytes(slowest).device_time(FOREGROUND_BURST_BYTES_MIN, 0);
        let least = one_bucket.unwrap_or(GateOptions::FOREGROUND.burst);
        self.foreground.set_burst(least.max(handful.min(FOREGROUND_BURST_MAX)));
        self.foreground.set_limits(limits);
        if let Some(refill) = one_bucket {
            self.foreground.set_drain_period(refill);
        }
        self.one_bucket.store(one_bucket.is_some(), Ordering::Relaxed);
    }

    /// Whether background I/O waits here.
    pub fn background_waits(&self) -> bool {
        self.background.anybody_waits()
            || Rank::ALL.into_iter().any(|rank| rank.is_background() && self.gate(rank).waiting(rank) > 0)
    }

    /// Lets compactions that relieve level 0 go before deeper ones, 10:1 (SI-6). Otherwise all compactions stand in one
    /// queue (FX-9, FX-14).
    pub fn set_l0_first(&self, first: bool) {
        self.l0_first.store(first, Ordering::Relaxed);
    }

    /// Lets foreground pass beyond its own limit while the node is idle (C-9). Tenants buy capacity units; device bytes
    /// beyond their reservation come from reads that cost more than was thought.
    pub fn set_borrows(&self, borrows: bool) {
        self.borrows.store(borrows, Ordering::Relaxed);
    }

    /// Whether foreground may pass beyond its limit while the node is idle.
    pub fn borrows(&self) -> bool {
        self.borrows.load(Ordering::Relaxed)
    }

    /// Whether background passes at the gate of foreground.
    pub(crate) fn is_one_bucket(&self) -> bool {
        self.one_bucket.load(Ordering::Relaxed)
    }

    /// Whether flushes pass as foreground now.
    pub fn flush_rushes(&self) -> bool {
        self.flush_is_urgent.load(Ordering::Relaxed) && self.flush_may_rush.load(Ordering::Relaxed)
    }

    /// The rank at which `class` passes now.
    pub fn rank(&self, class: Class) -> Rank {
        match class {
            _ if self.is_awaited.load(Ordering::Relaxed) => Rank::Foreground,
            Class::Flush if self.flush_rushes() => Rank::Foreground,
            Class::CompactL0 if !self.l0_first.load(Ordering::Relaxed) => Rank::of(Class::CompactDeep),
            class => Rank::of(class),
        }
    }

    /// The gate that I/O of `rank` passes.
    pub fn gate(&self, rank: Rank) -> &Arc<Gate> {
        let own = rank.is_background() && !self.is_one_bucket();
        if own { &self.background } else { &self.foreground }
    }
}
