//! Counters of a partition.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_admission::waits::{self, Cause};
use weir_admission::{Booked, Direction};
use weir_io::{Class, Nanos};
use weir_log::LogStats;
use weir_model::engine::{CacheUsage, Engine, EngineFacts, JobFacts, JobReport};

use crate::stall::StallCause;

/// The counters. They are raised on the request path, so they are plain atomics.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub reads_from_device: AtomicU64,
    pub write_errors: AtomicU64,
    pub jobs: AtomicU64,
    pub job_errors: AtomicU64,
    pub log_replacements: AtomicU64,
    pub jobs_parked: AtomicU64,
    pub jobs_released: AtomicU64,
    pub bytes_thrown_away: AtomicU64,
    pub bytes_reclaimed: AtomicU64,
    pub tables_dropped: AtomicU64,
    pub parts_dropped: AtomicU64,
    pub parts_dropped_bytes: AtomicU64,
    /// Per cause, in the order of [`StallCause::ALL`].
    slowed: [AtomicU64; StallCause::ALL.len()],
    slowed_nanos: [AtomicU64; StallCause::ALL.len()],
    stopped: [AtomicU64; StallCause::ALL.len()],
    stopped_nanos: [AtomicU64; StallCause::ALL.len()],
}

impl Counters {
    pub fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }

    /// A write was delayed. To be called where it waited, because the wait is also booked on its request.
    pub fn slowed(&self, cause: StallCause, nanos: Nanos) {
        Self::add(&self.slowed[cause as usize], 1);
        Self::add(&self.slowed_nanos[cause as usize], nanos);
        waits::book(Cause::Stall, nanos);
    }

    /// A job has ended. Counts what it gave back, if that was its purpose, and what it dropped of deleted rows.
    pub fn reclaimed(&self, facts: &JobFacts, report: &JobReport) {
        Self::add(&self.tables_dropped, report.tables_dropped as u64);
        Self::add(&self.parts_dropped, report.covered_entries);
        Self::add(&self.parts_dropped_bytes, report.covered_bytes);
        if facts.class == Class::Reclaim && report.tables_moved == 0 {
            Self::add(&self.bytes_reclaimed, facts.input_bytes.saturating_sub(report.bytes_written));
        }
    }

    /// Stalls by cause, in the order of [`StallCause::ALL`].
    pub fn stalls(&self) -> [StallTimes; StallCause::ALL.len()] {
        let get = |counters: &[AtomicU64], cause: usize| counters[cause].load(Ordering::Relaxed);
        std::array::from_fn(|cause| StallTimes {
            slowed: get(&self.slowed, cause),
            slowed_nanos: get(&self.slowed_nanos, cause),
            stopped: get(&self.stopped, cause),
            stopped_nanos: get(&self.stopped_nanos, cause),
        })
    }

    /// A write was stopped: otherwise as [`Counters::slowed`].
    pub fn stopped(&self, cause: StallCause, nanos: Nanos) {
        Self::add(&self.stopped[cause as usize], 1);
        Self::add(&self.stopped_nanos[cause as usize], nanos);
        waits::book(Cause::Stall, nanos);
    }
}

/// Stalls of one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallTimes {
    /// Writes that were delayed.
    pub slowed: u64,
    /// Nanoseconds of delay over all of them.
    pub slowed_nanos: Nanos,
    /// Writes that were stopped.
    pub stopped: u64,
    /// Nanoseconds they waited, over all of them.
    pub stopped_nanos: Nanos,
}

impl StallTimes {
    /// Adds the stalls of another one.
    pub fn add(&mut self, other: &Self) {
        self.slowed += other.slowed;
        self.slowed_nanos += other.slowed_nanos;
        self.stopped += other.stopped;
        self.stopped_nanos += other.stopped_nanos;
    }
}

/// Everything a dashboard shows of a partition.
#[derive(Clone, Debug)]
pub struct PartitionMetrics {
    /// Keys read.
    pub reads: u64,
    /// Of those reads, the ones that waited for the device.
    pub reads_from_device: u64,
    /// Batches written.
    pub writes: u64,
    /// Their encoded bytes.
    pub written_bytes: u64,
    /// Batches refused or not acknowledged because the log failed.
    pub write_errors: u64,
    /// Background jobs done.
    pub jobs: u64,
    /// Background jobs that failed (and were or will be tried again).
    pub job_errors: u64,
    /// Times the log failed and was replaced.
    pub log_replacements: u64,
    /// Times a compaction was parked because the scope no longer admitted it.
    pub jobs_parked: u64,
    /// Parked compactions that were cancelled.
    pub jobs_released: u64,
    /// Bytes that cancelled compactions had written for nothing.
    pub bytes_thrown_away: u64,
    /// Bytes of tables given back by jobs whose purpose that was.
    pub bytes_reclaimed: u64,
    /// Tables dropped without being read, because nothing in them lived.
    pub tables_dropped: u64,
    /// Parts of deleted rows that merges dropped on their way, and their bytes.
    pub parts_dropped: u64,
    /// See [`PartitionMetrics::parts_dropped`].
    pub parts_dropped_bytes: u64,
    /// Blocks in the cache: the pinned ones are those of levels 0 and 1.
    pub cache: CacheUsage,
    /// Stalls by cause, in the order of [`StallCause::ALL`].
    pub stalls: [StallTimes; StallCause::ALL.len()],
    /// The engine.
    pub engine: EngineFacts,
    /// The log.
    pub log: LogStats,
}

impl PartitionMetrics {
    /// `booked` is the partition's page in the ledger since it was opened.
    pub(crate) fn new(counters: &Counters, booked: &Booked, engine: &dyn Engine, log: LogStats) -> Self {
        let mut metrics = Self { cache: engine.cache_usage(), engine: engine.facts(), log, ..Self::asleep(counters) };
        metrics.set_users(booked);
        metrics
    }

    /// Of a partition that sleeps: it has no engine and no log, and its users' books are in the ledger alone.
    pub(crate) fn asleep(counters: &Counters) -> Self {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            reads: 0,
            reads_from_device: get(&counters.reads_from_device),
            writes: 0,
            written_bytes: 0,
            write_errors: get(&counters.write_errors),
            jobs: get(&counters.jobs),
            job_errors: get(&counters.job_errors),
            log_replacements: get(&counters.log_replacements),
            jobs_parked: get(&counters.jobs_parked),
            jobs_released: get(&counters.jobs_released),
            bytes_thrown_away: get(&counters.bytes_thrown_away),
            bytes_reclaimed: get(&counters.bytes_reclaimed),
            tables_dropped: get(&counters.tables_dropped),
            parts_dropped: get(&counters.parts_dropped),
            parts_dropped_bytes: get(&counters.parts_dropped_bytes),
            cache: CacheUsage::default(),
            stalls: counters.stalls(),
            engine: EngineFacts::default(),
            log: LogStats::default(),
        }
    }

    /// Users' requests as `booked` has them.
    pub(crate) fn set_users(&mut self, booked: &Booked) {
        let (reads, writes) = (booked.user(Direction::Read), booked.user(Direction::Write));
        (self.reads, self.writes, self.written_bytes) = (reads.ops, writes.ops, writes.bytes);
    }

    /// Adds another partition's metrics. Values that are not a sum (positions in the log, scores, the stall) stay this
    /// one's.
    pub fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.reads_from_device += other.reads_from_device;
        self.writes += other.writes;
        self.written_bytes += other.written_bytes;
        self.write_errors += other.write_errors;
        self.jobs += other.jobs;
        self.job_errors += other.job_errors;
        self.log_replacements += other.log_replacements;
        self.jobs_parked += other.jobs_parked;
        self.jobs_released += other.jobs_released;
        self.bytes_thrown_away += other.bytes_thrown_away;
        self.bytes_reclaimed += other.bytes_reclaimed;
        self.tables_dropped += other.tables_dropped;
        self.parts_dropped += other.parts_dropped;
        self.parts_dropped_bytes += other.parts_dropped_bytes;
        self.cache.add(&other.cache);
        self.stalls.iter_mut().zip(&other.stalls).for_each(|(sum, stall)| sum.add(stall));
        self.engine.add(&other.engine);
        self.log.records += other.log.records;
        self.log.payload_bytes += other.log.payload_bytes;
        self.log.bytes_written += other.log.bytes_written;
        self.log.padding_bytes += other.log.padding_bytes;
        self.log.groups += other.log.groups;
        self.log.syncs += other.log.syncs;
        self.log.segments_created += other.log.segments_created;
        self.log.segments_recycled += other.log.segments_recycled;
        self.log.failures += other.log.failures;
        self.log.segments += other.log.segments;
        self.log.live_bytes += other.log.live_bytes;
    }
}
