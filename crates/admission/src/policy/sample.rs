//! What a policy sees: plain numbers of the whole node, taken once a second.

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use weir_io::{Nanos, Owner};

use super::owner::OwnerDef;
use crate::cost::Capacity;
use crate::limits::{Direction, Limits};
use crate::waits::{Cause, Waits};

/// One node at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When it was taken, on the node's monotonic clock, in nanoseconds.
    pub now: Nanos,
    /// What the device can do.
    pub device: Limits,
    /// Memory that policies may spend.
    pub memory: MemoryFacts,
    /// The partitions that are awake, by owner.
    pub partitions: Vec<PartitionSample>,
}

/// Memory of the node, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryFacts {
    /// In memtables, over all partitions.
    pub buffers_used: u64,
    /// Most that memtables may take together; `None` = nobody counts it.
    pub buffers_max: Option<u64>,
    /// In the block cache, of levels 0 and 1: pinned, or warm since they were written (FX-26).
    pub upper_used: u64,
    /// Most that the block cache can hold; `None` = nobody counts it.
    pub upper_max: Option<u64>,
}

/// One partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartitionSample {
    /// The partition.
    #[serde(with = "OwnerDef")]
    pub owner: Owner,
    /// What its tenant bought; zero = the tenant has no limits.
    pub capacity: Capacity,
    /// How many partitions the tenant bought that for; at least 1.
    pub partitions: u64,
    /// Bytes that it moved since it was opened.
    pub bytes: Bytes,
    /// In how many operations it did so.
    #[serde(default)]
    pub ops: Operations,
    /// Its tree.
    pub tree: TreeFacts,
    /// Its background jobs.
    pub jobs: JobFacts,
    /// How often its foreground bucket was found empty: refill periods in which somebody waited.
    #[serde(default)]
    pub drains: u64,
    /// What its requests met. No policy looks at this: it answers `weir why`.
    #[serde(default)]
    pub felt: Felt,
}

/// What requests of a partition met, as sums that only grow while it is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Felt {
    /// How long they waited, by cause; for [`Cause::Quota`] and [`Cause::NodeQueue`] how long all requests of the
    /// tenant did.
    #[serde(deserialize_with = "waits")]
    pub waited: Waits,
    /// Requests of its tenant that the tenant's units refused.
    pub refused: u64,
}

/// Waits by cause. Recordings from before the node's queue was a cause of its own have one figure less.
fn waits<'de, D: Deserializer<'de>>(from: D) -> Result<Waits, D::Error> {
    let mut waits = Vec::<Nanos>::deserialize(from)?;
    if waits.len() + 1 == Cause::NAMES.len() {
        waits.insert(Cause::NodeQueue as usize, 0);
    }
    waits.try_into().map_err(|waits: Vec<_>| D::Error::invalid_length(waits.len(), &"one wait for each cause"))
}

/// Bytes since the partition was opened. All but the first field count bytes of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// Written by users.
    pub user: u64,
    /// Written to the log.
    pub log: u64,
    /// Read for users.
    pub read: u64,
    /// Written by flushes.
    pub flush: u64,
    /// Read by merges out of level 0.
    pub l0_read: u64,
    /// Written by them.
    pub l0_written: u64,
    /// Read by merges of deeper levels.
    pub deep_read: u64,
    /// Written by them.
    pub deep_written: u64,
}

/// Operations of the device since the partition was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operations {
    /// Reads for users.
    pub read: u64,
    /// Of the log: writes and syncs.
    pub log: u64,
    /// Of flushes and merges, both directions.
    pub background: u64,
}

/// A tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeFacts {
    /// Runs in level 0.
    pub l0_runs: u64,
    /// Their bytes.
    pub l0_bytes: u64,
    /// Bytes in level 0 at which a merge into level 1 is due, however few runs they are in.
    pub l0_target: u64,
    /// Bytes in level 1.
    pub l1_bytes: u64,
    /// Bytes in all levels.
    pub bytes: u64,
    /// Deepest level that holds something.
    pub depth: u64,
    /// Bytes above target, summed over all levels below level 0: what deeper compactions have still to move.
    pub deep_debt: u64,
    /// Bytes of the fullest level below level 0, in percent of its target; 0 in recordings from before this field
    /// existed.
    #[serde(default)]
    pub worst_level: u64,
    /// Bytes in memtables, sealed and active.
    pub unflushed: u64,
    /// Memtables that wait for their flush or are being flushed.
    pub sealed: u64,
    /// Size of a memtable.
    pub memtable_bytes: u64,
    /// Memtables allowed by configuration, the active one included.
    pub write_buffers: u64,
    /// Memtables allowed just now, the active one included.
    pub write_buffers_now: u64,
    /// Runs at which a merge into level 1 is due.
    pub l0_trigger: u64,
    /// Runs from which writes are slowed.
    pub l0_slow: u64,
    /// Runs at which writes stop; 0 in recordings from before this field existed.
    #[serde(default)]
    pub l0_stop: u64,
    /// The most bytes of level 0 that one merge takes, if it can choose; 0 in recordings from before this field
    /// existed.
    #[serde(default)]
    pub l0_merge_bytes_max: u64,
}

/// Background jobs of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFacts {
    /// Jobs handed out and not yet finished, parked ones included.
    pub running: u64,
    /// Parked jobs: they keep their inputs, but use no thread and no tokens.
    pub parked: u64,
    /// Bytes that the flushes under way have still to write, roughly; 0 in recordings from before this field existed.
    #[serde(default)]
    pub flush_left: u64,
    /// The number of the flush under way that began last, which tells it from the partition's other flushes; 0 where
    /// there is none, and in recordings from before this field existed.
    #[serde(default)]
    pub flush: u64,
    /// The same for the merges out of level 0 and within it that are under way and not parked.
    #[serde(default)]
    pub l0_left: u64,
}

impl Bytes {
    /// Of flushes and merges, both directions.
    pub fn background(&self) -> u64 {
        self.flush + self.merged(Direction::Read) + self.merged(Direction::Write)
    }

    /// Of merges.
    pub fn merged(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Read => self.l0_read + self.deep_read,
            Direction::Write => self.l0_written + self.deep_written,
        }
    }

    /// What was added since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Bytes) -> Bytes {
        Bytes {
            user: self.user.saturating_sub(earlier.user),
            log: self.log.saturating_sub(earlier.log),
            read: self.read.saturating_sub(earlier.read),
            flush: self.flush.saturating_sub(earlier.flush),
            l0_read: self.l0_read.saturating_sub(earlier.l0_read),
            l0_written: self.l0_written.saturating_sub(earlier.l0_written),
            deep_read: self.deep_read.saturating_sub(earlier.deep_read),
            deep_written: self.deep_written.saturating_sub(earlier.deep_written),
        }
    }
}

impl TreeFacts {
    /// Bytes that the merges that were put off still have to move at least once: what deferral owes.
    pub fn debt(&self) -> u64 {
        let due = if self.l0_is_due() { self.l0_bytes } else { 0 };
        due + self.deep_debt
    }

    /// Whether a merge of level 0 into level 1 is due: by its number of runs, or by its bytes where merges within level
    /// 0 have left few large runs.
    pub fn l0_is_due(&self) -> bool {
        self.l0_runs >= self.l0_trigger || self.l0_runs > 0 && self.l0_bytes >= self.l0_target
    }

    /// Runs up to which the tree's own slowing is milder than a policy's. The tree lets 16 MiB a second through at
    /// `l0_slow` runs, evenly less up to `l0_stop`, and still 4.75 at this number. A tree that writes less than that
    /// does not wait.
    pub fn l0_mild(&self) -> u64 {
        self.l0_slow + self.l0_stop.saturating_sub(self.l0_slow) * 3 / 4
    }

    /// How full the tree is of what would stall writes, 1 = full: the fuller of `buffers` memtables, and of a level 0
    /// that may have `runs` runs of a memtable each. CruiseDB's watermark (CR-2) is that of its memtables: its tree has
    /// no level 0. Where flushes lag, a run is several memtables long, and costs as much to merge.
    pub fn watermark(&self, buffers: u64, runs: u64) -> f64 {
        let part = |used: u64, all: u64| used as f64 / all.max(1) as f64;
        part(self.unflushed, buffers * self.memtable_bytes)
            .max(part(self.l0_runs, runs))
            .max(part(self.l0_bytes, runs * self.memtable_bytes))
    }

    /// Bytes that may still be written before every one of `buffers` memtables is full.
    pub fn room(&self, buffers: u64) -> u64 {
        (buffers * self.memtable_bytes).saturating_sub(self.unflushed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_of_older_recordings_are_read() {
        let read = |waited: &str| serde_json::from_str::<Felt>(&format!(r#"{{"waited":{waited},"refused":0}}"#));
        assert_eq!(read("[1,2,3,4]").map(|felt| felt.waited).ok(), Some([1, 0, 2, 3, 4]));
        assert_eq!(read("[1,2,3,4,5]").map(|felt| felt.waited).ok(), Some([1, 2, 3, 4, 5]));
        assert!(read("[1,2,3]").is_err() && read("[1,2,3,4,5,6]").is_err());
    }
}
