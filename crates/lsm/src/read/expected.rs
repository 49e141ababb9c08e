//! How much a scan is going to read, as far as that is known when it begins.

use std::sync::Arc;

use weir_model::engine::Range;

use crate::table::Extent;
use crate::version::Version;

/// How much the caller of a scan is going to take: see [`weir_model::engine::Scan::expect`].
pub struct Expected {
    range: Arc<Range>,
    /// The most entries that are taken.
    entries: u64,
    /// Entries of all tables that they may come from.
    of_entries: u64,
}

impl Expected {
    /// About `entries` entries of `range` are taken from `version`, or all of them.
    pub fn new(range: &Range, entries: usize, version: &Version) -> Self {
        Self { range: Arc::new(range.clone()), entries: entries as u64, of_entries: version.entries() }
    }

    /// The share that tables of `bytes` bytes have in it, as if the entries of the range came evenly from all tables.
    pub fn of(&self, bytes: u64) -> Extent {
        let share = u128::from(self.entries) * u128::from(bytes) / u128::from(self.of_entries.max(1));
        Extent { range: Arc::clone(&self.range), bytes: u64::try_from(share).unwrap_or(u64::MAX) }
    }
}
