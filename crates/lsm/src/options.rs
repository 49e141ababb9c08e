//! Settings of a tree. There are few, and each says why one would change it.

use crate::table::{Compression, TableOptions};
use crate::version::LEVELS;

/// How a tree is shaped. The defaults are those RocksDB ships, so that comparisons start equal.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeOptions {
    /// A memtable of this many bytes is sealed. Larger: fewer, larger level-0 runs; more memory and log.
    pub write_buffer_bytes: usize,
    /// How many memtables the tree may have, the active one included. When all are full, writes stop. At least 2.
    pub write_buffers_max: usize,
    /// How many sealed memtables one flush may write as one run. More: fewer runs where flushes lag, or when a policy
    /// stops gathering. RocksDB's flushes take all memtables that wait.
    pub flush_memtables_max: usize,
    /// Decides what is flushed and compacted next. It may be changed when a tree is opened: where the new picker has no
    /// level 0, the runs that are left there go down with the next memtables.
    pub picker: PickerKind,
    /// Number of level-0 runs that starts a compaction into level 1.
    pub l0_trigger: usize,
    /// Number of level-0 runs that are compacted even while more keep coming. Until then they gather, so that level 1
    /// is rewritten less often for the same bytes. If it equals `l0_trigger`, runs never gather.
    pub l0_gather: usize,
    /// Number of level-0 runs from which writes are slowed (FX-21).
    pub l0_slow: usize,
    /// Number of level-0 runs at which writes stop (FX-21).
    pub l0_stop: usize,
    /// Bytes of pending compactions at which writes are slowed, and at which they stop (FX-29), as long as no policy
    /// puts compactions off on purpose (U-7). RocksDB's limits.
    pub pending_bytes_limits: [u64; 2],
    /// Whether writes are also slowed while the last write buffer fills and all others wait for their flush, if there
    /// are more than three (FX-29). RocksDB does so. A policy that sizes flushes so that they come in time loses by it.
    pub slow_at_last_buffer: bool,
    /// Bytes per second that may be written at `l0_slow` runs, and at the last run before `l0_stop`. The rate falls
    /// evenly in between, so that there is no cliff before the stop. The same holds between the two limits of pending
    /// bytes.
    pub slow_bytes_per_sec: [u64; 2],
    /// The most bytes of level 0 that one job merges, if it can choose. Runs that have piled up go down step by step,
    /// the oldest first. If level 1 is larger, a merge into it takes as many bytes as it has, but not on a full disk.
    pub l0_merge_bytes_max: u64,
    /// Whether the level with the highest score is compacted first, be it level 0 or another, as in RocksDB. Otherwise
    /// level 0 goes first whenever it is due. Where it is always due, as under one load that never ends, nothing deeper
    /// ever moves then: level 1 grows without bounds, and with it the bytes that each merge rewrites.
    pub picks_by_score: bool,
    /// Target size of level 1 in bytes.
    pub level1_bytes: u64,
    /// Each level's target is this many times the one above (FX-28: 10).
    pub level_factor: u64,
    /// Compactions start a new table at this size, in bytes.
    pub table_bytes: u64,
    /// Target size of a data block before compression, in bytes.
    pub block_bytes: usize,
    /// Bloom filter bits per key; 0 = no filter.
    pub filter_bits_per_key: u32,
    /// Compression of each level's tables.
    pub compression: [Compression; LEVELS],
    /// Tables written into the levels above this one also go into the block cache as they are written, so that reads
    /// and the next merges find them there (FX-13, FX-26). They take only free room and the room of blocks that a merge
    /// has passed and nobody had asked for. 0 = none.
    pub warm_levels: usize,
    /// Bytes of one background read or write. The gate splits requests that are too long for the device (house rule 6).
    pub io_bytes: usize,
}

/// The available [pickers](crate::pick::Picker).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PickerKind {
    /// Memtables become runs of level 0, and levels are merged into the next ([`crate::pick::leveled`]).
    #[default]
    Leveled,
    /// Memtables are merged straight into level 1, as in CruiseDB's SP-LSM-tree ([`crate::pick::sp_lsm`], CR-14): fewer
    /// bytes are written (CR-21), and level 0 never stalls a write. But memtables wait longer, so that such a tree
    /// needs more of them (CR-16: 12), and the only work that can be put off is that of the memtables, by letting them
    /// wait.
    SpLsm,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self {
            write_buffer_bytes: 64 << 20,
            write_buffers_max: 4,
            flush_memtables_max: 12,
            picker: PickerKind::Leveled,
            l0_trigger: 4,
            l0_gather: 10,
            l0_slow: 20,
            l0_stop: 36,
            pending_bytes_limits: [64 << 30, 256 << 30],
            slow_at_last_buffer: false,
            slow_bytes_per_sec: [16 << 20, 1 << 20],
            l0_merge_bytes_max: 2 << 30,
            picks_by_score: false,
            level1_bytes: 256 << 20,
            level_factor: 10,
            table_bytes: 64 << 20,
            block_bytes: 4096,
            filter_bits_per_key: 10,
            compression: [Compression::None; LEVELS],
            warm_levels: 2,
            io_bytes: 256 << 10,
        }
    }
}

impl TreeOptions {
    /// Says what is wrong with settings under which writes would stop for ever, because no job could let them go on.
    pub fn check(&self) -> Result<(), &'static str> {
        let rules = [
            (
                self.write_buffers_max >= 2,
                "write_buffers_max must be at least 2: one takes writes while another is flushed",
            ),
            (self.flush_memtables_max >= 1, "flush_memtables_max must be at least 1"),
            (self.l0_trigger >= 1, "l0_trigger must be at least 1"),
            (
                self.l0_trigger <= self.l0_stop,
                "l0_stop must not be below l0_trigger: writes would stop before any compaction begins",
            ),
            (self.level1_bytes >= 1 && self.level_factor >= 1, "level1_bytes and level_factor must be at least 1"),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, broken)| Err(broken))
    }

    /// Target size of `level` (1 or deeper), in bytes.
    pub fn level_bytes_target(&self, level: usize) -> u64 {
        let exponent = u32::try_from(level.saturating_sub(1)).expect("a handful of levels");
        self.level1_bytes.saturating_mul(self.level_factor.saturating_pow(exponent))
    }

    /// How tables of `level` are written.
    pub fn table(&self, level: usize) -> TableOptions {
        TableOptions {
            block_bytes: self.block_bytes,
            compression: self.compression[level],
            filter_bits_per_key: self.filter_bits_per_key,
            write_bytes: self.io_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_would_stop_writes_for_ever_are_refused() {
        let good = TreeOptions::default();
        assert_eq!(good.check(), Ok(()));
        assert!(TreeOptions { write_buffers_max: 1, ..good.clone() }.check().is_err());
        assert!(TreeOptions { flush_memtables_max: 0, ..good.clone() }.check().is_err());
        assert!(TreeOptions { l0_trigger: 0, ..good.clone() }.check().is_err());
        assert!(TreeOptions { l0_trigger: 8, l0_stop: 7, ..good }.check().is_err());
    }
}
