//! Facts about a job.

use weir_io::Class;

/// Facts about a job: for schedulers and logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobFacts {
    /// The class of its I/O.
    pub class: Class,
    /// The level that the job takes its tables from; `None` for a flush.
    pub level: Option<usize>,
    /// The level that receives the output.
    pub output_level: usize,
    /// How many tables or memtables go in.
    pub inputs: usize,
    /// Their bytes.
    pub input_bytes: u64,
    /// Whether the inputs are dropped without being read.
    pub is_drop: bool,
    /// Whether the job gives space back to a tree that is short of it.
    pub is_urgent: bool,
}

/// Kinds of jobs, as policies and dashboards tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobKind {
    /// Memtables into level 0.
    Flush,
    /// Within level 0.
    IntraL0,
    /// Out of level 0.
    L0,
    /// From a deeper level into the next, or within one.
    Deep,
    /// Drops tables in which nothing lives.
    Drop,
}

impl JobKind {
    /// Every kind, the most urgent first.
    pub const ALL: [JobKind; 5] = [JobKind::Flush, JobKind::IntraL0, JobKind::L0, JobKind::Deep, JobKind::Drop];

    /// The label used in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            JobKind::Flush => "flush",
            JobKind::IntraL0 => "intra_l0",
            JobKind::L0 => "l0",
            JobKind::Deep => "deep",
            JobKind::Drop => "drop",
        }
    }
}

impl JobFacts {
    /// The kind of the job.
    pub fn kind(&self) -> JobKind {
        match (self.level, self.output_level) {
            _ if self.is_drop => JobKind::Drop,
            (None, _) => JobKind::Flush,
            (Some(0), 0) => JobKind::IntraL0,
            (Some(0), _) => JobKind::L0,
            _ => JobKind::Deep,
        }
    }
}

/// Running jobs of one kind, and those of them that are parked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCount {
    /// Jobs handed out and not yet finished, including parked ones.
    pub running: usize,
    /// Jobs that are not being polled.
    pub parked: usize,
    /// The number of the one that began last: no other job of this engine has had it since the engine was opened.
    /// 0 = there is none.
    pub newest: u64,
    /// Bytes that they have still to consume or to write: see
    /// [`JobControl::bytes_left`](super::JobControl::bytes_left).
    pub bytes_left: u64,
}
