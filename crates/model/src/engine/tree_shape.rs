//! The shape of a tree: the facts that [`EngineFacts`](super::EngineFacts) add to the neutral ones if the engine is a
//! tree.

/// Levels of a tree, level 0 included. With 256 MiB in level 1 and a factor of 10 the last holds 25 TiB.
pub const LEVELS: usize = 7;

/// One level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LevelShape {
    /// Tables (runs, in level 0).
    pub tables: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that the level should hold at most.
    pub target_bytes: u64,
    /// Tables that running jobs have claimed.
    pub claimed: usize,
    /// Their bytes.
    pub claimed_bytes: u64,
    /// How far the level is above its target, running jobs discounted; above 1 (level 0: at 1) a compaction is due.
    pub score: f64,
}

/// The whole tree at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TreeShape {
    /// Bytes in the active memtable.
    pub memtable_bytes: usize,
    /// Sealed memtables.
    pub sealed: usize,
    /// Bytes in them.
    pub sealed_bytes: usize,
    /// The levels.
    pub levels: [LevelShape; LEVELS],
    /// Level-0 runs that start a compaction into level 1.
    pub l0_trigger: usize,
    /// Level-0 runs from which writes are slowed, and at which they stop.
    pub l0_limits: [usize; 2],
    /// The most bytes of level 0 that one merge takes, if it can choose.
    pub l0_merge_bytes_max: u64,
    /// Memtables allowed now, the active one included.
    pub write_buffers: usize,
    /// The number of memtables that the tree was configured with.
    pub write_buffers_max: usize,
    /// A memtable of this many bytes is sealed.
    pub write_buffer_bytes: usize,
}

impl TreeShape {
    /// Adds the shape of another tree. Limits and scores stay those of this one.
    pub fn add(&mut self, other: &Self) {
        self.memtable_bytes += other.memtable_bytes;
        self.sealed += other.sealed;
        self.sealed_bytes += other.sealed_bytes;
        for (sum, level) in self.levels.iter_mut().zip(&other.levels) {
            sum.tables += level.tables;
            sum.bytes += level.bytes;
            sum.target_bytes += level.target_bytes;
            sum.claimed += level.claimed;
            sum.claimed_bytes += level.claimed_bytes;
        }
    }
}
