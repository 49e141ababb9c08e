//! The settings that every contestant gets; they are printed with every result.

use std::fmt;

use serde::{Deserialize, Serialize};

const MIB: u64 = 1 << 20;

/// The settings of an engine. The same value is handed to every contestant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Bytes of a memtable before it is sealed.
    pub write_buffer_bytes: u64,
    /// Memtables in memory, the active one included; one more stops writes.
    pub write_buffers: u32,
    /// L0 runs that start a compaction.
    pub l0_trigger: u32,
    /// L0 runs that slow writes down.
    pub l0_slowdown: u32,
    /// L0 runs that stop writes.
    pub l0_stop: u32,
    /// Target bytes of the base level.
    pub base_level_bytes: u64,
    /// Ratio between the targets of neighbouring levels.
    pub level_ratio: u32,
    /// Bytes of one table file.
    pub table_bytes: u64,
    /// Bytes of one data block.
    pub block_bytes: u64,
    /// Filter bits per key.
    pub filter_bits: u32,
    /// Bytes of the block cache.
    pub cache_bytes: u64,
    /// Compactions at a time.
    pub compaction_threads: u32,
    /// Flushes at a time.
    pub flush_threads: u32,
    /// Whether a commit is on the device before it is acknowledged; otherwise it is in the kernel.
    pub sync: bool,
}

impl Default for Settings {
    /// RocksDB's defaults, except for what the comparison fixes: no compression, 10 filter bits, 256 MiB cache, direct
    /// I/O, and two compaction threads on two cores.
    fn default() -> Self {
        Self {
            write_buffer_bytes: 64 * MIB,
            write_buffers: 2,
            l0_trigger: 4,
            l0_slowdown: 20,
            l0_stop: 36,
            base_level_bytes: 256 * MIB,
            level_ratio: 10,
            table_bytes: 64 * MIB,
            block_bytes: 4096,
            filter_bits: 10,
            cache_bytes: 256 * MIB,
            compaction_threads: 2,
            flush_threads: 1,
            sync: false,
        }
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "write buffer {} MiB x{}, L0 {}/{}/{}, base level {} MiB x{}, tables {} MiB, blocks {} B, filter {} bits, \
             cache {} MiB, {} flush + {} compaction threads, no compression, checksums, log on, direct I/O",
            self.write_buffer_bytes / MIB,
            self.write_buffers,
            self.l0_trigger,
            self.l0_slowdown,
            self.l0_stop,
            self.base_level_bytes / MIB,
            self.level_ratio,
            self.table_bytes / MIB,
            self.block_bytes,
            self.filter_bits,
            self.cache_bytes / MIB,
            self.flush_threads,
            self.compaction_threads,
        )
    }
}
