//! Settings of a store. There are few, and each says why one would change it.

/// The defaults are for servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// A snapshot is due when this many bytes of log have been written since the last one began, or as many as the rows
    /// take in memory, if that is more. So snapshots cost no more than the log, and recovery reads at most about twice
    /// what there is. More: fewer snapshots of small stores; a longer log to replay.
    pub snapshot_log_bytes: u64,
    /// Bytes of one write of a snapshot, and of one read when the store is opened.
    pub io_bytes: usize,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { snapshot_log_bytes: 64 << 20, io_bytes: 1 << 20 }
    }
}
