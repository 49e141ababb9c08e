//! What changes under the tree's short lock.

use std::path::PathBuf;

use weir_io::Nanos;
use weir_model::LogIndex;

use crate::entry::Seq;
use crate::pick::Claims;

/// Counters and claims. Guarded by `Tree::state`, never across an await.
pub(crate) struct State {
    /// Sequence number of the last change applied.
    pub last_seq: Seq,
    /// Log index of the last record applied.
    pub applied: LogIndex,
    /// Every log record up to here is in tables, durably.
    pub persisted: LogIndex,
    /// First file number not yet used.
    pub next_file: u64,
    /// First epoch not yet used.
    pub next_epoch: u64,
    /// When the last two memtables were sealed, the newer first; `None` before.
    pub sealed_at: [Option<Nanos>; 2],
    /// Whether a flush job is out: one at a time, so that memtables reach level 0 in order.
    pub flushing: bool,
    /// What running compactions hold.
    pub claims: Claims,
    /// Jobs handed out and not yet finished.
    pub jobs_running: usize,
    /// Outputs of jobs whose edit may or may not be in the manifest: they may go once it has been rolled.
    pub doubtful: Vec<PathBuf>,
}

impl State {
    /// Whether memtables keep filling up: the last one was sealed less than two fillings ago.
    pub fn is_filling(&self, now: Nanos) -> bool {
        let [Some(last), Some(before)] = self.sealed_at else { return false };
        now.saturating_sub(last) < 2 * last.saturating_sub(before)
    }

    /// The next file number.
    pub fn allocate_file(&mut self) -> u64 {
        self.next_file += 1;
        self.next_file - 1
    }
}
