//! What changes under the tree's short lock.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use weir_io::Nanos;
use weir_model::LogIndex;

use crate::entry::Seq;
use crate::job::{JobControl, JobFacts};
use crate::pick::{ClaimedRange, Claims};

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
    /// Memtables of an earlier epoch do not gather: somebody waits for their flush.
    pub flush_before: u64,
    /// Jobs handed out and not yet finished, in the order they were handed out. One flush at a time, so that memtables reach level 0 in
    /// order.
    pub jobs: BTreeMap<u64, Running>,
    /// Number of the next job.
    pub next_job: u64,
    /// Outputs of jobs whose edit may or may not be in the manifest: they may go once it has been rolled.
    pub doubtful: Vec<PathBuf>,
}

/// A job that was handed out and has not ended.
pub(crate) struct Running {
    pub facts: JobFacts,
    pub control: Arc<JobControl>,
    /// Input tables.
    pub tables: Vec<u64>,
    /// Where it writes; `None` if others may write there too.
    pub range: Option<ClaimedRange>,
}

impl State {
    /// What those of the running jobs hold that `counts` accepts.
    pub fn claims(&self, counts: impl Fn(&Running) -> bool) -> Claims {
        let mut claims = Claims::default();
        for job in self.jobs.values().filter(|job| counts(job)) {
            claims.tables.extend(&job.tables);
            claims.ranges.extend(job.range.clone());
        }
        claims
    }

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
