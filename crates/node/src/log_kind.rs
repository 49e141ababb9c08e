//! The kinds of logs.

use std::fmt;
use std::str::FromStr;

/// Where a tenant's partitions write their logs. Chosen when the tenant is created (C-5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogKind {
    /// Each partition has a log of its own.
    #[default]
    Own,
    /// All partitions of all such tenants share one log: for many tenants that write little.
    Shared,
}

/// A word that names no kind of log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownLog;

impl fmt::Display for UnknownLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a log must be `own` or `shared`")
    }
}

impl std::error::Error for UnknownLog {}

impl LogKind {
    /// Every kind.
    pub const ALL: [LogKind; 2] = [LogKind::Own, LogKind::Shared];

    /// Its name: in settings and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            LogKind::Own => "own",
            LogKind::Shared => "shared",
        }
    }
}

impl fmt::Display for LogKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LogKind {
    type Err = UnknownLog;

    fn from_str(word: &str) -> Result<Self, UnknownLog> {
        Self::ALL.into_iter().find(|kind| kind.name() == word).ok_or(UnknownLog)
    }
}
