//! The works: what each does to a contestant, and what Weir promises for it.

mod delete_row;
mod fill;
mod read;
mod recovery;

use serde::{Deserialize, Serialize};

use crate::contestant::Contestant;
use crate::entry::Engine;
use crate::outcome::Outcome;
use crate::report::{Promise, Quantity, Subject};
use crate::settings::Settings;
use crate::{Failure, Result, data, meter};

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// All items in key order, one thread, then the drain.
    FillSeq,
    /// All items once in random order, one thread, then the drain.
    FillRandom,
    /// Random order, every commit on the device, eight writers, no drain.
    FillSync,
    /// Uniform reads from disk, two outstanding.
    ReadRandom,
    /// Uniform reads from disk, sixteen outstanding.
    ReadRandom16,
    /// Uniform reads of a hot range of half the cache, two threads.
    ReadCached,
    /// Seek to a uniform key and read fifty items, two threads.
    Scan,
    /// Two uniform readers beside one writer paced to 10,000 random overwrites per second.
    ReadWhileWriting,
    /// Open after a kill that left 1 GB in the log only.
    Recovery,
    /// Deletion of a row of a million parts.
    DeleteRow,
}

/// Where a work finds its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// An empty directory of its own.
    Nothing,
    /// The tree that `fillrandom` left.
    Loaded,
    /// The log that a killed process left.
    Log,
    /// An empty directory of its own, and the bytes that the same load writes without the work's deletion.
    Comparison,
}

impl Work {
    /// Every work, in the order in which they run (writers of the shared tree after its readers).
    pub const ALL: [Work; 10] = [
        Work::FillSeq,
        Work::FillRandom,
        Work::FillSync,
        Work::ReadRandom,
        Work::ReadRandom16,
        Work::ReadCached,
        Work::Scan,
        Work::ReadWhileWriting,
        Work::Recovery,
        Work::DeleteRow,
    ];

    /// The name in tables, JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Work::FillSeq => "fillseq",
            Work::FillRandom => "fillrandom",
            Work::FillSync => "fillsync",
            Work::ReadRandom => "readrandom",
            Work::ReadRandom16 => "readrandom16",
            Work::ReadCached => "readcached",
            Work::Scan => "scan",
            Work::ReadWhileWriting => "readwhilewriting",
            Work::Recovery => "recovery",
            Work::DeleteRow => "deleterow",
        }
    }

    /// The work called `name`.
    pub fn parse(name: &str) -> Result<Self> {
        Work::ALL.into_iter().find(|work| work.name() == name).ok_or_else(|| {
            let names = Work::ALL.map(Work::name).join(", ");
            Failure::from(format!("no work {name:?}; there are {names}"))
        })
    }

    /// The data that the work needs.
    pub const fn needs(self) -> Needs {
        match self {
            Work::FillSeq | Work::FillRandom | Work::FillSync => Needs::Nothing,
            Work::Recovery => Needs::Log,
            Work::DeleteRow => Needs::Comparison,
            _ => Needs::Loaded,
        }
    }

    /// Whether `engine` can do it.
    pub const fn is_for(self, engine: Engine) -> bool {
        engine.has_rows() || !matches!(self, Work::DeleteRow)
    }

    /// What Weir promises, for the table.
    pub fn subject(self, size: &Size) -> Subject {
        let against = |against: Engine, quantity, limit| Promise { quantity, against: against.name(), limit };
        let speed = match self {
            Work::ReadRandom => 1.0,
            Work::ReadCached => 1.5,
            _ => 1.2,
        };
        let mut promises = vec![against(Engine::WeirUngated, Quantity::Speed, 0.97)];
        // Bytes compare only if both sides end in the same shape.
        let settles = matches!(self, Work::FillSeq | Work::FillRandom);
        match self {
            Work::Recovery => promises.push(against(Engine::Weir, Quantity::Seconds, 2.0)),
            Work::DeleteRow => {
                promises.push(against(Engine::Weir, Quantity::Seconds, 0.001));
                promises.push(against(Engine::Weir, Quantity::WrittenToKeep, 1.0));
            }
            _ => promises.push(against(Engine::Rocksdb, Quantity::Speed, speed)),
        }
        if settles {
            promises.push(against(Engine::Rocksdb, Quantity::Written, 1.0));
            promises.push(against(Engine::Rocksdb, Quantity::Space, 1.05));
        }
        Subject { work: self.name(), promises, user_bytes: settles.then(|| size.user_bytes()) }
    }
}

/// How big the works are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Size {
    /// Items of the fills and of the tree that is read.
    pub items: u32,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Commits of `fillsync`.
    pub sync_items: u32,
    /// Bytes of log for `recovery`.
    pub recovery_bytes: u64,
    /// Parts of the row that `deleterow` deletes.
    pub parts: u32,
    /// When a read work ends.
    pub reads: Until,
}

/// When a read work ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Until {
    /// After this many seconds, following a warm-up of a quarter of that.
    Seconds(f64),
    /// After this many operations, without a warm-up.
    Ops(u64),
}

impl Default for Size {
    fn default() -> Self {
        Self {
            items: 2_000_000,
            value_bytes: 1000,
            sync_items: 100_000,
            recovery_bytes: 1_000_000_000,
            parts: 1_000_000,
            reads: Until::Seconds(4.0),
        }
    }
}

impl Size {
    /// Bytes that the user stores with all items.
    pub fn user_bytes(&self) -> u64 {
        u64::from(self.items) * (self.value_bytes + data::KEY_BYTES) as u64
    }
}

/// What a child process is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// Measure the work.
    Measure(Work),
    /// Load the tree that reads need, as `fillrandom` does, without counting.
    Load,
    /// Write a log, and end without closing.
    LeaveLog,
    /// Do what `deleterow` does, except for the deletion.
    KeepRow,
}

impl Task {
    /// The name for progress lines.
    pub fn name(self) -> &'static str {
        match self {
            Task::Measure(work) => work.name(),
            Task::Load => "load",
            Task::LeaveLog => "leave log",
            Task::KeepRow => "keep row",
        }
    }
}

/// Is called with the part of a run that is done, from 0 to 1.
pub type Progress<'a> = &'a (dyn Fn(f64) + Sync);

/// Opens (creates if missing) the contestant's store.
pub type Open<'a> = &'a dyn Fn(&Settings) -> Result<Box<dyn Contestant>>;

/// Does `task` on the store that `open` opens. `seed` is the same for every contestant of a round.
pub fn run(task: Task, open: Open<'_>, size: &Size, seed: u64, progress: Progress<'_>) -> Result<Outcome> {
    let settings = Settings::default();
    let mut outcome = Outcome { work: task.name().into(), ..Outcome::default() };
    match task {
        Task::Measure(Work::FillSeq) => fill::sequential(open(&settings)?, size, &mut outcome, progress)?,
        Task::Measure(Work::FillRandom) | Task::Load => {
            fill::random(open(&settings)?, size, seed, &mut outcome, progress)?
        }
        Task::Measure(Work::FillSync) => {
            let settings = Settings { sync: true, ..settings };
            fill::synced(open(&settings)?, size, seed, &mut outcome, progress)?;
        }
        Task::Measure(Work::Recovery) => recovery::measure(&|| open(&settings), size, &mut outcome)?,
        Task::LeaveLog => recovery::leave_log(open(&recovery::roomy(&settings, size))?, size, progress)?,
        Task::Measure(Work::DeleteRow) | Task::KeepRow => {
            let deletes = task != Task::KeepRow;
            delete_row::measure(open(&settings)?, size, seed, deletes, &mut outcome, progress)?;
        }
        Task::Measure(work) => {
            let cache_bytes = settings.cache_bytes;
            read::measure(work, open(&settings)?, size, cache_bytes, seed, &mut outcome, progress)?;
        }
    }
    outcome.remarks = format!("{settings}; {}", outcome.remarks);
    outcome.rss_bytes = meter::rss_peak_bytes();
    Ok(outcome)
}

#[cfg(test)]
mod tests;
