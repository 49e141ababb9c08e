//! Imports everything of a source into a tenant.

#[cfg(test)]
mod fake_tenant;
mod file;
mod follow;
#[cfg(test)]
mod hasty_clock;
mod live;
mod partitions;
mod position;
mod repeatable;
mod snapshot;
mod step;
mod swap;

use std::sync::Arc;

use weir_io::Clock;

use crate::failure::{Failure, Result};
use crate::tally::Tally;
use crate::target::{DATABASES, Target};

pub use self::file::import_file;
pub use self::live::import_live;
pub use self::position::{EXCHANGED, MARK, Position};

/// What is imported, and how.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// The databases to import; empty = all.
    pub databases: Vec<u8>,
    /// The tenant may have keys: keys of the same name are replaced, the others stay.
    pub replace: bool,
    /// Leave out keys of modules, and count them.
    pub skip_modules: bool,
    /// Most bytes a second that are read of a file or a snapshot.
    pub rate: Option<u64>,
    /// End when the tenant has all that the source has.
    pub until_in_step: bool,
}

impl Choice {
    /// Whether this database is wanted.
    pub fn has(&self, database: u64) -> bool {
        self.databases.is_empty() || self.databases.iter().any(|&chosen| u64::from(chosen) == database)
    }

    /// The database that was named first: what belongs to none is written there.
    fn first(&self) -> u8 {
        self.databases.first().copied().unwrap_or(0)
    }

    /// All databases that are wanted, in their order.
    pub fn chosen(&self) -> Vec<u8> {
        (0..DATABASES).filter(|&at| self.has(u64::from(at))).collect()
    }

    /// The numbers of all databases that are wanted, in their order.
    fn numbers(&self) -> String {
        self.chosen().iter().map(u8::to_string).collect::<Vec<_>>().join(" ")
    }
}

/// Why a key of the source is refused that has the name of one that the import itself writes.
const OWN_NAME: &str = "the import keeps its own position in keys of such names";

/// Whether `key` is one that the import itself writes.
pub fn is_own(key: &[u8]) -> bool {
    let tagged = key.strip_prefix(b"{").and_then(|rest| rest.split(|&byte| byte == b'}').next());
    tagged.unwrap_or(key).strip_prefix(MARK).is_some_and(|rest| rest.is_empty() || rest.starts_with(b":"))
}

/// An import that is under way.
#[derive(Clone)]
pub struct Import {
    /// The tenant.
    pub target: Target,
    /// What to import, and how.
    pub choice: Choice,
    /// How far it has got.
    pub tally: Arc<Tally>,
    /// Values of more bytes are sent in parts.
    pub whole_bytes_max: usize,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

impl Import {
    /// Checks that the tenant has no keys in the chosen databases, unless it may have some.
    async fn check_empty(&self) -> Result {
        if self.choice.replace {
            return Ok(());
        }
        let mut connection = self.target.connect().await?;
        let used = self.target.used_databases(&mut connection).await?;
        match used.into_iter().find(|&database| self.choice.has(u64::from(database))) {
            None => Ok(()),
            Some(database) => Err(Failure::new(format!(
                "the tenant has keys (in database {database}): import into a new one, empty it with FLUSHALL, or say \
                 --replace, which replaces keys of the same name and leaves the others"
            ))),
        }
    }
}
