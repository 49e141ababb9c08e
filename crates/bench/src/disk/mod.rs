//! The scenarios of [`weir_scenario`] on the real disk under the real clock, next to RocksDB.
//!
//! ```text
//! compare (parent)                          one child process per contestant and round
//!   image: preload once, keep                 child -> Fleet: Weir | one RocksDB per partition
//!   for each round, for each contestant         open, settle        -> "ready"
//!     clone the image (hard links)              drive: the load     -> "second {…}" every second
//!     control group -> child -> caps            outcome             -> "run {…}"
//! ```
//!
//! Parameters, load and outcome are those of `weir sim`. What only a disk has (caps, the peer, shares done within 10 ms
//! as the peer's own papers count them) is under `disk` in the outcome. The caps are set after the trees have settled,
//! and removed before the trees are closed.

pub mod cases;
pub mod child;
mod clients;
pub mod compare;
pub mod density;
pub mod drive;
pub mod fleet;
mod image;
mod slowed;
mod weir;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Result;

/// The name of this world in an outcome.
pub const WORLD: &str = "disk";

/// A contestant, and what is needed to open it; the parent passes it to the child process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Entry {
    /// Weir under the profile of this name.
    Weir(String),
    /// One RocksDB for each partition.
    Rocksdb {
        /// How it is set up.
        setup: Setup,
        /// Its shared library.
        library: PathBuf,
    },
    /// One redb, a B-tree, for each partition; only in builds that include it.
    Redb,
}

/// Ways to set up a RocksDB; the profiles of the same names are copies of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setup {
    /// With its default settings.
    #[default]
    Plain,
    /// With its auto-tuned rate limiter.
    AutoTuned,
    /// For a shortage: memtables merged in fours, up to twelve of them; flushed blocks go into the block cache.
    Merging,
}

impl Setup {
    /// All setups.
    pub const ALL: [Setup; 3] = [Setup::Plain, Setup::AutoTuned, Setup::Merging];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Setup::Plain => "rocksdb",
            Setup::AutoTuned => "rocksdb-autotune",
            Setup::Merging => "rocksdb-merging",
        }
    }
}

impl Entry {
    /// The name in tables and JSON. The peer's is in capitals: `rocksdb` is also a profile of ours.
    pub fn name(&self) -> String {
        match self {
            Entry::Weir(profile) => profile.clone(),
            Entry::Rocksdb { setup, .. } => setup.name().replace("rocksdb", "RocksDB"),
            Entry::Redb => REDB.to_owned(),
        }
    }

    /// Whether it is a peer, and not Weir.
    pub fn is_peer(&self) -> bool {
        !matches!(self, Entry::Weir(_))
    }

    /// The kind of preloaded data; contestants of one kind may share it.
    fn kind(&self) -> &'static str {
        match self {
            Entry::Weir(_) => "weir",
            Entry::Rocksdb { .. } => "rocksdb",
            Entry::Redb => REDB,
        }
    }
}

/// The B-tree's name on the command line and in tables.
const REDB: &str = "redb";

/// The peers called `names`; RocksDB comes from `library`.
pub fn peers(names: &[String], library: impl Fn() -> Result<PathBuf>) -> Result<Vec<Entry>> {
    names
        .iter()
        .map(|name| {
            if name == REDB {
                return match cfg!(feature = "redb") {
                    true => Ok(Entry::Redb),
                    false => Err("this weir was built without redb: build it with `--features redb`".into()),
                };
            }
            let setup = Setup::ALL.into_iter().find(|setup| setup.name() == name);
            let names = Setup::ALL.map(Setup::name).join(", ");
            let setup = setup.ok_or_else(|| format!("no peer {name:?}; there are: {names}, {REDB}"))?;
            Ok(Entry::Rocksdb { setup, library: library()? })
        })
        .collect()
}
