//! Settings of a tree. Few, and each with the reason to change it.

use crate::table::{Compression, TableOptions};
use crate::version::LEVELS;

/// How a tree is shaped. The defaults are those RocksDB ships, so that comparisons start equal.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeOptions {
    /// A memtable of this many bytes is sealed. Larger: fewer, larger level-0 runs; more memory and log.
    pub write_buffer_bytes: usize,
    /// Memtables of the tree, the active one included; when all are full, writes stop. At least 2.
    pub write_buffers_max: usize,
    /// Sealed memtables that one flush may write as one run. More: fewer runs where flushes lag, or when a policy stops
    /// gathering. RocksDB's flushes take all that wait.
    pub flush_memtables_max: usize,
    /// What is flushed and compacted next. May be changed when a tree is opened: what a tree with a level 0 has left
    /// there goes down with the next memtables of one without.
    pub picker: PickerKind,
    /// Level-0 runs that start a compaction into level 1.
    pub l0_trigger: usize,
    /// Level-0 runs that are compacted even while more keep coming: until then they gather, so that level 1 is
    /// rewritten less often for the same bytes. Equal to `l0_trigger`: never gather.
    pub l0_gather: usize,
    /// Level-0 runs from which writes are slowed (FX-21).
    pub l0_slow: usize,
    /// Level-0 runs at which writes stop (FX-21).
    pub l0_stop: usize,
    /// Bytes that compactions may have before them until writes are slowed, and until they stop (FX-29), where nobody
    /// puts compactions off on purpose (U-7). RocksDB's limits.
    pub pending_bytes_limits: [u64; 2],
    /// Writes are also slowed while the last write buffer fills and all others wait for their flush, if there are more
    /// than three (FX-29). As RocksDB does; whoever sizes flushes so that they come in time loses by it.
    pub slow_at_last_buffer: bool,
    /// Bytes per second that may be written at `l0_slow` runs, and at the last run before `l0_stop`; evenly less in
    /// between, so that there is no cliff before the stop. The same between the two limits of pending bytes.
    pub slow_bytes_per_sec: [u64; 2],
    /// Bytes of level 0 that one job merges at most, if it can choose: what has piled up goes down step by step, oldest
    /// runs first.
    pub l0_merge_bytes_max: u64,
    /// The level with the highest score gives first, level 0 or another, as in a RocksDB. Else level 0 goes first
    /// whenever it is due. Where it always is, as under one load that never ends, nothing deeper ever moves then: level
    /// 1 grows without bounds, and with it what each merge rewrites.
    pub picks_by_score: bool,
    /// Target size of level 1 in bytes.
    pub level1_bytes: u64,
    /// Each level's target is this many times the one above (FX-28: 10).
    pub level_factor: u64,
    /// Compactions start a new table at this size, in bytes.
    pub table_bytes: u64,
    /// Target size of a data block before compression, in bytes.
    pub block_bytes: usize,
    /// Bloom filter bits a key; 0 = no filter.
    pub filter_bits_per_key: u32,
    /// Compression of each level's tables.
    pub compression: [Compression; LEVELS],
    /// Tables written into the levels above this one go into the block cache as they are written, as far as it has room
    /// without throwing out more than what a merge has passed and nobody had asked for: reads and the merges that take
    /// them further find them there (FX-13, FX-26). 0 = none.
    pub warm_levels: usize,
    /// Bytes of one background read or write. The gate splits what is too long for the device (house rule 6).
    pub io_bytes: usize,
}

/// The [pickers](crate::pick::Picker) that there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PickerKind {
    /// Memtables become runs of level 0, and levels are merged into the next ([`crate::pick::leveled`]).
    #[default]
    Leveled,
    /// Memtables are merged straight into level 1, as in CruiseDB's SP-LSM-tree ([`crate::pick::sp_lsm`], CR-14):
    /// fewer bytes are written (CR-21), and level 0 never stalls a write; but memtables wait longer, so that such a
    /// tree needs more of them (CR-16: 12), and nothing can be put off but by letting them wait.
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
    /// Says what is wrong with settings under which writes would stop and no job could ever let them go on.
    pub fn check(&self) -> Result<(), &'static str> {
        let rules = [
            (
                self.write_buffers_max >= 2,
                "write_buffers_max must be at least 2: one takes writes while another is flushed",
            ),
            (self.flush_memtables_max >= 1, "flush_memtables_max must be at least 1"),
            (self.l0_trigger >= 1, "l0_trigger must be at least 1"),
            (self.l0_trigger <= self.l0_stop, "l0_stop must not be below l0_trigger: nothing would be compacted"),
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
