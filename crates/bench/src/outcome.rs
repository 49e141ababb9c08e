//! What one run measured; it becomes one object of the JSON array.

use serde::{Deserialize, Serialize};

/// One run of one work on one engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The work's name.
    pub work: String,
    /// The engine's name.
    pub engine: String,
    /// The engine's name and version.
    pub version: String,
    /// The round, from 1.
    pub round: u32,
    /// Operations counted.
    pub ops: u64,
    /// Wall time of these operations, including the drain if the work says so.
    pub seconds: f64,
    /// `ops / seconds`.
    pub ops_per_sec: f64,
    /// Operations per second before the drain, for works that end with one.
    pub load_ops_per_sec: Option<f64>,
    /// Bytes that the process asked to have written to the device during the work, log included: `write_bytes` of the
    /// kernel's accounting (direct writes, and pages dirtied).
    pub bytes_written: u64,
    /// The part of these that are bytes of files deleted before the kernel had written them back.
    pub bytes_cancelled: u64,
    /// Bytes that the process had read from the device during the work.
    pub bytes_read: u64,
    /// Bytes that the directory occupies on the device after the work, with the store closed.
    pub space_bytes: u64,
    /// Latency in nanoseconds: median.
    pub p50_ns: u64,
    /// 99 of 100 are faster.
    pub p99_ns: u64,
    /// 999 of 1000 are faster.
    pub p999_ns: u64,
    /// The slowest seen.
    pub max_ns: u64,
    /// Processor seconds, user and system, of all threads during the work.
    pub cpu_seconds: f64,
    /// Largest resident memory of the process.
    pub rss_bytes: u64,
    /// Files per level at the end.
    pub shape: String,
    /// What the work's deletion of a row cost, for the work that has one.
    pub deletion: Option<Deletion>,
    /// Settings and what the engine says about itself.
    pub remarks: String,
}

/// What the deletion of a row of many parts cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deletion {
    /// Time until the deletion was as durable as the sync mode promises.
    pub durable_ns: u64,
    /// Time until a reader on another thread, which asks all the time, found nothing.
    pub seen_ns: u64,
    /// Records that the log took.
    pub log_records: u64,
    /// Their bytes.
    pub log_bytes: u64,
    /// Bytes written because of the deletion alone: until nothing was left to flush or to merge, before anything else
    /// came.
    pub bytes_alone: u64,
    /// Bytes that the same load wrote in the run in which the row stayed, for comparison with
    /// [`Outcome::bytes_written`].
    pub bytes_kept: u64,
}
