//! The state that the tree's short lock guards.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_io::Nanos;
use weir_model::LogIndex;
use weir_model::engine::{JobControl, JobFacts, Seq};

use crate::pick::{ClaimedRange, Claims};
use crate::version::{LEVELS, Version};

/// For so long after a job has found the disk full, merges take little at a time, in nanoseconds: a merge that does not
/// fit fills the disk before it fails.
const FULL_NANOS: Nanos = 600_000_000_000;

/// Counters and claims. `Tree::state` guards them, and is never held across an await.
pub(crate) struct TreeState {
    /// Sequence number of the last change applied.
    pub last_seq: Seq,
    /// Log index of the last record applied.
    pub applied: LogIndex,
    /// Every log record up to this one is durable in tables.
    pub persisted: LogIndex,
    /// First file number not yet used.
    pub next_file: u64,
    /// First epoch not yet used.
    pub next_epoch: u64,
    /// When the last two memtables were sealed, the newer first; `None` as long as there was none.
    pub sealed_at: [Option<Nanos>; 2],
    /// Memtables of earlier epochs do not gather, because somebody waits for their flush.
    pub flush_before: u64,
    /// When a job last found the disk full; `None` as long as none did.
    pub found_full: Option<Nanos>,
    /// Jobs that were handed out and have not ended, in the order in which they were handed out. There is one flush at
    /// a time, so that memtables reach level 0 in order.
    pub jobs: BTreeMap<u64, Running>,
    /// Number of the next job.
    pub next_job: u64,
    /// The last result of [`TreeState::census`], and the number of the version that it is for.
    pub counted: Option<(u64, Census)>,
}

/// How many tables each level has.
pub(crate) type Census = [LevelCount; LEVELS];

/// The tables of a level, and those of them that running jobs have claimed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LevelCount {
    pub tables: usize,
    pub bytes: u64,
    pub claimed: usize,
    pub claimed_bytes: u64,
}

/// A job that was handed out and has not ended.
pub(crate) struct Running {
    pub facts: JobFacts,
    pub control: Arc<JobControl>,
    /// Input tables.
    pub tables: Vec<u64>,
    /// The range that it writes; `None` if others may write there too.
    pub range: Option<ClaimedRange>,
}

impl TreeState {
    /// The claims of those running jobs that `counts` accepts.
    pub fn claims(&self, counts: impl Fn(&Running) -> bool) -> Claims {
        let mut claims = Claims::default();
        for job in self.jobs.values().filter(|job| counts(job)) {
            claims.tables.extend(&job.tables);
            claims.ranges.extend(job.range.clone());
        }
        claims
    }

    /// Counts the tables of `version`, which must be the present one. The tables are visited once for each version and
    /// each change of the jobs, although callers ask many times a second.
    pub fn census(&mut self, version: &Version) -> Census {
        if let Some((_, census)) = self.counted.filter(|(number, _)| *number == version.number()) {
            return census;
        }
        let claims = self.claims(|_| true);
        let mut census = Census::default();
        for (level, table) in version.tables() {
            let (count, bytes) = (&mut census[level], table.meta.bytes);
            let is_claimed = claims.tables.contains(&table.meta.id);
            count.tables += 1;
            count.bytes += bytes;
            count.claimed += usize::from(is_claimed);
            count.claimed_bytes += if is_claimed { bytes } else { 0 };
        }
        self.counted = Some((version.number(), census));
        census
    }

    /// Registers a job that is handed out: its inputs and its range are claimed from now on.
    pub fn begin(&mut self, running: Running) -> u64 {
        let job = self.next_job;
        self.next_job += 1;
        self.jobs.insert(job, running);
        self.counted = None;
        job
    }

    /// Removes a job that has ended: its inputs and its range are free again.
    pub fn end(&mut self, job: u64) {
        self.jobs.remove(&job);
        self.counted = None;
    }

    /// Whether memtables keep filling up: the last one was sealed less than twice the time ago that it took to fill.
    pub fn is_filling(&self, now: Nanos) -> bool {
        let [Some(last), Some(before)] = self.sealed_at else { return false };
        now.saturating_sub(last) < 2 * last.saturating_sub(before)
    }

    /// Whether a job has found the disk full within the last [`FULL_NANOS`].
    pub fn is_disk_full(&self, now: Nanos) -> bool {
        self.found_full.is_some_and(|at| now.saturating_sub(at) < FULL_NANOS)
    }

    /// Takes the next file number.
    pub fn allocate_file(&mut self) -> u64 {
        self.next_file += 1;
        self.next_file - 1
    }
}
