//! The kinds of engines.

use std::fmt;
use std::str::FromStr;

/// The engine that a tenant chooses when it is created (XS-12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// A log-structured merge tree: more data than memory.
    #[default]
    Lsm,
    /// All rows in memory.
    Memory,
    /// A log-structured merge tree without level 0 (CR-14): fewer bytes are written, for more memory.
    SpLsm,
}

/// A word that names no engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownEngine;

impl fmt::Display for UnknownEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an engine must be `lsm`, `memory` or `sp-lsm`")
    }
}

impl std::error::Error for UnknownEngine {}

impl EngineKind {
    /// Every engine.
    pub const ALL: [EngineKind; 3] = [EngineKind::Lsm, EngineKind::Memory, EngineKind::SpLsm];

    /// Its name in settings, metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            EngineKind::Lsm => "lsm",
            EngineKind::Memory => "memory",
            EngineKind::SpLsm => "sp-lsm",
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
