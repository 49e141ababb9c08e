//! Which engines there are.

use std::fmt;
use std::str::FromStr;

/// What a tenant chooses when it is created (XS-12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// A log-structured merge tree: more data than memory.
    #[default]
    Lsm,
    /// All rows in memory.
    Memory,
}

/// A word that is no engine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownEngine;

impl fmt::Display for UnknownEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an engine is `lsm` or `memory`")
    }
}

impl std::error::Error for UnknownEngine {}

impl EngineKind {
    /// Every engine.
    pub const ALL: [EngineKind; 2] = [EngineKind::Lsm, EngineKind::Memory];

    /// Its name: in settings, metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            EngineKind::Lsm => "lsm",
            EngineKind::Memory => "memory",
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for EngineKind {
    type Err = UnknownEngine;

    fn from_str(word: &str) -> Result<Self, UnknownEngine> {
        Self::ALL.into_iter().find(|kind| kind.name() == word).ok_or(UnknownEngine)
    }
}
