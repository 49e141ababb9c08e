//! Why a write waits for a flush or a compaction.

/// The cause for which a write waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StallCause {
    /// Too many runs in level 0 of its tree (FX-21).
    L0Runs,
    /// Every write buffer of its tree waits for its flush, or every one except the last, which is filling (FX-29).
    Memtables,
    /// The compactions of its tree have too many bytes to rewrite, and nobody puts them off on purpose (FX-29, U-7).
    PendingBytes,
    /// The write memory that all tenants of the node share is used up, or nearly, and its tenant has its share of it
    /// (DF-7).
    NodeMemory,
}

impl StallCause {
    /// Every cause.
    pub const ALL: [StallCause; 4] =
        [StallCause::L0Runs, StallCause::Memtables, StallCause::PendingBytes, StallCause::NodeMemory];

    /// The label used in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            StallCause::L0Runs => "l0_runs",
            StallCause::Memtables => "memtables",
            StallCause::PendingBytes => "pending_bytes",
            StallCause::NodeMemory => "node_memory",
        }
    }
}

impl From<weir_model::engine::StallCause> for StallCause {
    fn from(cause: weir_model::engine::StallCause) -> Self {
        match cause {
            weir_model::engine::StallCause::L0Runs => Self::L0Runs,
            weir_model::engine::StallCause::Memtables => Self::Memtables,
            weir_model::engine::StallCause::PendingBytes => Self::PendingBytes,
        }
    }
}
