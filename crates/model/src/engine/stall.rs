//! Write stalls: a state that the engine tells, not a wait. Whoever admits writes decides what to do about it.

/// Why writes should be slowed or stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StallCause {
    /// Too many runs in level 0 (FX-21).
    L0Runs,
    /// Every write buffer waits for its flush, or every one but the last, which fills (FX-29).
    Memtables,
    /// Compactions have too many bytes before them (FX-29).
    PendingBytes,
}

/// Whether a write may go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stall {
    /// At once.
    #[default]
    None,
    /// Delayed.
    Slow(StallCause),
    /// Not before a job has made room.
    Stop(StallCause),
}
