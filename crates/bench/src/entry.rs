//! Which engines can run the works, and what is needed to open one.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weir_model::engine::EngineKind;

use crate::contestant::Contestant;
use crate::settings::Settings;
use crate::weir::Weir;
use crate::{Result, peer};

/// The engines that can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Weir as `weir serve` runs it: behind partition gate, node gate and ledger, with limits far above the load.
    Weir,
    /// Weir on the bare disk: the difference is what gates and ledger cost.
    WeirUngated,
    /// Weir as `weir serve` runs it, with its rows in memory.
    WeirMemory,
    /// RocksDB, loaded at run time.
    Rocksdb,
}

impl Engine {
    /// Every engine.
    const ALL: [Engine; 4] = [Engine::Weir, Engine::WeirUngated, Engine::WeirMemory, Engine::Rocksdb];

    /// The name in tables, JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Engine::Weir => "weir",
            Engine::WeirUngated => "weir-ungated",
            Engine::WeirMemory => "weir-memory",
            Engine::Rocksdb => "rocksdb",
        }
    }

    /// The engine called `name`.
    pub fn parse(name: &str) -> Result<Self> {
        Engine::ALL.into_iter().find(|engine| engine.name() == name).ok_or_else(|| {
            let names = Engine::ALL.map(Engine::name).join(", ");
            format!("no engine {name:?}; there are {names}").into()
        })
    }

    /// Whether it has rows of many parts.
    pub const fn has_rows(self) -> bool {
        !matches!(self, Engine::Rocksdb)
    }
}

/// What is needed to open a contestant; the parent passes it to the child process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The engine.
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
            Engine::Weir => Ok(Box::new(Weir::open(dir, settings, EngineKind::Lsm, true)?)),
            Engine::WeirUngated => Ok(Box::new(Weir::open(dir, settings, EngineKind::Lsm, false)?)),
            Engine::WeirMemory => Ok(Box::new(Weir::open(dir, settings, EngineKind::Memory, true)?)),
        }
    }
}
