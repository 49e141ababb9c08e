//! Write stalls: a state that the engine reports, not a wait. The code that admits writes decides what to do about it.

/// Why writes should be slowed or stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StallCause {
    /// Too many runs in level 0 (FX-21).
    L0Runs,
    /// Every write buffer waits for its flush, or every one but the last, which is filling (FX-29).
    Memtables,
    /// Too many bytes are waiting for compaction (FX-29).
    PendingBytes,
}

/// Whether a write may go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stall {
    /// It may go on at once.
    #[default]
    None,
    /// It should be delayed.
    Slow(StallCause),
    /// It must wait until a job has made room.
    Stop(StallCause),
}
