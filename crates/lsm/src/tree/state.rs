//! What changes under the tree's short lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_io::Nanos;
use weir_model::LogIndex;
use weir_model::engine::{JobControl, JobFacts, Seq};

use crate::pick::{ClaimedRange, Claims};
use crate::version::{LEVELS, Version};

/// Counters and claims. Guarded by `Tree::state`, never across an await.
pub(crate) struct TreeState {
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
    /// Jobs handed out and not yet finished, in the order they were handed out. One flush at a time, so that memtables
    /// reach level 0 in order.
    pub jobs: BTreeMap<u64, Running>,
    /// Number of the next job.
    pub next_job: u64,
    /// What [`TreeState::census`] found last, and the number of the version.
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
    /// Where it writes; `None` if others may write there too.
    pub range: Option<ClaimedRange>,
}

impl TreeState {
    /// What those of the running jobs hold that `counts` accepts.
    pub fn claims(&self, counts: impl Fn(&Running) -> bool) -> Claims {
        let mut claims = Claims::default();
        for job in self.jobs.values().filter(|job| counts(job)) {
            claims.tables.extend(&job.tables);
            claims.ranges.extend(job.range.clone());
        }
        claims
    }

    /// Counts the tables of `version`, which is the present one. They are gone through once for each version and each
    /// change of the jobs, not each of the many times a second that somebody asks.
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

    /// Hands out a job: what it holds is claimed.
    pub fn begin(&mut self, running: Running) -> u64 {
        let job = self.next_job;
        self.next_job += 1;
        self.jobs.insert(job, running);
        self.counted = None;
        job
    }

    /// A job has ended: what it held is free.
    pub fn end(&mut self, job: u64) {
        self.jobs.remove(&job);
        self.counted = None;
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
