//! What came out of a run: the JSON that both worlds print, and the time series behind it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One profile's run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// `shortage`, `surge`, …
    pub scenario: String,
    /// `virtual` or `disk`.
    pub world: String,
    /// Its name.
    pub profile: String,
    /// Every parameter, and what followed from them.
    pub params: Map<String, Value>,
    /// Of keys, payloads and send times.
    pub seed: u64,
    /// Share of a partition's writes that were done at most 1 ms after they were to be sent (0 to 1).
    pub normally_served: Spread,
    /// Of writes, from the intended send time, in microseconds.
    pub latency_us: Latency,
    /// Of reads.
    pub read_latency_us: Latency,
    /// Share of a partition's reads that were answered at most 100 ms after they were to be sent, where there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_in_time: Option<Spread>,
    /// Writes that the tree slowed or stopped.
    pub stalls: Stalls,
    /// Writes done a second, on average.
    pub mean_per_sec: f64,
    /// Writes done in the second that 99 of 100 seconds exceed (CR-1).
    pub tail_per_sec: u64,
    /// Writes done in each second.
    pub served_per_sec: Vec<u64>,
    /// Reads answered in each second.
    pub reads_per_sec: Vec<u64>,
    /// Device bytes by cause, and what users wrote.
    pub bytes: Bytes,
    /// Background bytes for each byte of a user.
    pub background_amplification: f64,
    /// Device bytes over what the device could have moved.
    pub device_utilisation: f64,
    /// Of the device, while work waited for it (U-12); `None` where none ever did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilisation_backlogged: Option<f64>,
    /// Every change of a partition's stage.
    pub stages: Vec<StageChange>,
    /// Most bytes in memtables and in levels 0 and 1 at any moment.
    pub memory_peak_bytes: u64,
    /// What came after the load, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<After>,
}

/// Over the partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The worst.
    pub min: f64,
    /// Their mean.
    pub avg: f64,
    /// The best.
    pub max: f64,
}

impl Spread {
    /// Of some shares.
    pub fn of(shares: &[f64]) -> Self {
        let min = shares.iter().copied().fold(f64::INFINITY, f64::min);
        let max = shares.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if shares.is_empty() {
            return Self::default();
        }
        Self { min, avg: shares.iter().sum::<f64>() / shares.len() as f64, max }
    }
}

/// In microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Mean.
    pub avg: f64,
    /// Half are faster.
    pub p50: f64,
    /// 99 of 100 are faster.
    pub p99: f64,
    /// 999 of 1000 are faster.
    pub p999: f64,
    /// The slowest.
    pub max: f64,
}

/// Writes that the tree slowed or stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stalls {
    /// How many.
    pub count: u64,
    /// What they waited, together.
    pub seconds: f64,
}

/// Device bytes by cause; `user` is what clients wrote, keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bytes {
    /// Written by clients.
    pub user: u64,
    /// The log's.
    pub log: u64,
    /// Memtables to level 0.
    pub flush: u64,
    /// Level 0 to level 0 or 1, read and written.
    pub l0: u64,
    /// Compactions below.
    pub deep: u64,
    /// Read for clients.
    pub read: u64,
    /// Everything else.
    pub other: u64,
}

impl Bytes {
    /// Flushes and compactions.
    pub fn background(&self) -> u64 {
        self.flush + self.l0 + self.deep
    }

    /// Everything that passed the device.
    pub fn device(&self) -> u64 {
        self.background() + self.log + self.read + self.other
    }

    /// What was added since `earlier`; nothing for a cause that has become less: a peer tells what its jobs read and wrote only when they have
    /// ended, and until then it counts as something else.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            log: self.log.saturating_sub(earlier.log),
            flush: self.flush.saturating_sub(earlier.flush),
            l0: self.l0.saturating_sub(earlier.l0),
            deep: self.deep.saturating_sub(earlier.deep),
            read: self.read.saturating_sub(earlier.read),
            other: self.other.saturating_sub(earlier.other),
        }
    }
}

/// A partition enters or leaves a stage of deferral.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageChange {
    /// Seconds since the load began.
    pub t: f64,
    /// From 0.
    pub partition: usize,
    /// Stage before.
    pub from: String,
    /// Stage after.
    pub to: String,
    /// The policy's reason.
    pub why: String,
}

/// What came after the load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct After {
    /// Seconds until every level of every tree was within its target, nothing sealed, nothing running; `None` = not yet when the run ended.
    pub restored_seconds: Option<u64>,
    /// Of the small load meanwhile.
    pub normally_served: Spread,
    /// Of its writes.
    pub latency_us: Latency,
    /// Of its reads.
    pub read_latency_us: Latency,
    /// Writes that the tree slowed or stopped.
    pub stalls: Stalls,
}

/// One second of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Second {
    /// Writes done.
    pub served: u64,
    /// Of those, at most 1 ms after they were to be sent.
    pub normally: u64,
    /// Reads answered.
    pub reads: u64,
    /// Percentiles of writes done in it, in microseconds: 50, 99, 99.9.
    pub write_us: [f64; 3],
    /// Of reads.
    pub read_us: [f64; 3],
    /// Device bytes in it.
    pub bytes: Bytes,
    /// Level-0 runs of each partition at its end.
    pub l0: Vec<u16>,
    /// Sealed memtables of each partition at its end.
    pub sealed: Vec<u16>,
    /// Stage of each partition at its end.
    pub stage: Vec<u8>,
    /// Bytes in memtables and in levels 0 and 1.
    pub memory: u64,
}

/// A run, with its time series.
#[derive(Clone, Debug)]
pub struct Run {
    /// The figures.
    pub outcome: Outcome,
    /// Second by second, the time after the load included.
    pub series: Vec<Second>,
}

/// `part` of `whole`; 0 of nothing.
pub fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Writes done in the second that 99 of 100 seconds exceed (CR-1).
pub fn tail(series: &[Second]) -> u64 {
    let mut served: Vec<u64> = series.iter().map(|second| second.served).collect();
    served.sort_unstable_by(|a, b| b.cmp(a));
    served.get(served.len() * 99 / 100).copied().unwrap_or(0)
}
