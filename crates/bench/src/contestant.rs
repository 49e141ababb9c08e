//! What a work asks of an engine, and which engines there are.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::settings::Settings;
use crate::{Result, peer};

/// An open store. Every method may be called from many threads.
pub trait Contestant: Send + Sync {
    /// Name and version, for the table.
    fn version(&self) -> String;

    /// What it was told beyond [`Settings`], or tells by itself: one line for the record.
    fn remarks(&self) -> String;

    /// Stores one pair and returns when [`Settings::sync`] is satisfied.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Shows the value of `key` to `see`; false if there is none.
    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Shows up to `limit` pairs from `from` on, in order, to `see`.
    fn scan(&self, from: &[u8], limit: usize, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()>;

    /// Flushes, and returns when no level wants compaction (every score at most 1).
    fn settle(&self) -> Result<()>;

    /// Files per level, such as `L0:1 L5:4 L6:28`.
    fn shape(&self) -> String;

    /// How to keep `outstanding` reads under way. The default gives every read its thread.
    fn lanes(&self, outstanding: usize) -> Lanes {
        Lanes { threads: outstanding, per_thread: 1 }
    }

    /// Reads on the calling thread with up to `outstanding` under way, until `next` has no more keys; each
    /// finished read is shown to `done` with the item that `next` gave (`None` = not found).
    fn read_lane(&self, outstanding: usize, lane: &mut dyn Lane) -> Result<()> {
        debug_assert_eq!(outstanding, 1, "a contestant with more reads per thread says how");
        while let Some(ticket) = lane.next() {
            let found = self.get(&ticket.key, &mut |value| lane.done(&ticket, Some(value)))?;
            if !found {
                lane.done(&ticket, None);
            }
        }
        Ok(())
    }

    /// Closes in good order.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Threads, and reads under way in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// Threads that read.
    pub threads: usize,
    /// Reads that one thread keeps under way.
    pub per_thread: usize,
}

/// One read to do.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    /// The item to read.
    pub item: u64,
    /// Its key.
    pub key: [u8; crate::data::KEY_BYTES],
    /// When it was handed out, in nanoseconds of the meter; 0 if it is not timed.
    pub started: u64,
}

/// Where a thread gets its reads from and reports them to.
pub trait Lane {
    /// The next read; `None` when the work is over.
    fn next(&mut self) -> Option<Ticket>;
    /// `ticket` is answered.
    fn done(&mut self, ticket: &Ticket, value: Option<&[u8]>);
}

/// The engines that can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Weir as `weir serve` runs it: behind partition gate, node gate and ledger, with limits far above the load.
    Weir,
    /// Weir on the bare disk: what gates and ledger cost is the difference.
    WeirUngated,
    /// RocksDB, loaded at run time.
    Rocksdb,
}

impl Engine {
    /// The name in tables, JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Engine::Weir => "weir",
            Engine::WeirUngated => "weir-ungated",
            Engine::Rocksdb => "rocksdb",
        }
    }

    /// The engine called `name`.
    pub fn parse(name: &str) -> Result<Self> {
        [Engine::Weir, Engine::WeirUngated, Engine::Rocksdb]
            .into_iter()
            .find(|engine| engine.name() == name)
            .ok_or_else(|| format!("no engine {name:?}; there are weir, weir-ungated and rocksdb").into())
    }
}

/// What is needed to open a contestant; crosses to the child process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Which one.
    pub engine: Engine,
    /// The peer's shared library, if it has one.
    pub library: Option<PathBuf>,
}

impl Entry {
    /// Opens (creates if missing) the store in `dir`.
    pub fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Contestant>> {
        match self.engine {
            Engine::Rocksdb => {
                let library = self.library.as_deref().ok_or("no library was given for rocksdb")?;
                Ok(Box::new(peer::rocksdb::RocksDb::open(library, dir, settings)?))
            }
            Engine::Weir | Engine::WeirUngated => Err("weir's own side of the bench is not built yet".into()),
        }
    }
}
