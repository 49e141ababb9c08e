//! What is asked of an open RocksDB, whether there is one or a fleet of them.

use std::ffi::{CStr, CString};
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::api::{Api, Handle, checked};
use crate::Result;

/// How often a settling tree is asked whether it is done.
const SETTLE_POLL: Duration = Duration::from_millis(2);
/// Levels that a store has by default.
const LEVELS: usize = 7;

/// An open store.
///
/// Invariant: `db` came from `api`, and is not closed while this lives.
pub(super) struct Opened<'a> {
    api: &'a Api,
    db: Handle,
}

impl<'a> Opened<'a> {
    /// # Safety
    ///
    /// `db` came from `api`, and stays open until the result is dropped.
    pub(super) unsafe fn of(api: &'a Api, db: Handle) -> Self {
        Self { api, db }
    }

    /// The number behind a property; 0 if it is not known.
    pub(super) fn number(&self, name: &CStr) -> u64 {
        let mut value = 0;
        // SAFETY: `db` is open, `name` is a C string, `value` outlives the call.
        unsafe { (self.api.property_int)(self.db, name.as_ptr(), &mut value) };
        value
    }

    /// Tables at a level.
    pub(super) fn files_at(&self, level: usize) -> u64 {
        let name = CString::new(format!("rocksdb.num-files-at-level{level}")).expect("no NUL in the name");
        // SAFETY: `db` is open; the result is null or a C string that we free.
        unsafe {
            let text = (self.api.property_value)(self.db, name.as_ptr());
            if text.is_null() {
                return 0;
            }
            let files = CStr::from_ptr(text).to_str().ok().and_then(|text| text.parse().ok()).unwrap_or(0);
            (self.api.free)(text.cast());
            files
        }
    }

    /// Tables at every level that has some: `L0:4 L1:9`.
    pub(super) fn shape(&self) -> String {
        let levels = (0..LEVELS).map(|level| (level, self.files_at(level))).filter(|(_, files)| *files > 0);
        levels.map(|(level, files)| format!("L{level}:{files}")).collect::<Vec<_>>().join(" ")
    }

    /// Waits until what was written is in tables, and nothing is left to be compacted.
    ///
    /// # Errors
    /// Those of the flush and of the background's jobs.
    pub(super) fn settle(&self) -> Result<()> {
        // SAFETY: `db` is open, and the options live for the call.
        unsafe {
            let options = (self.api.flushoptions_create)();
            (self.api.flushoptions_set_wait)(options, 1);
            let outcome = checked(self.api, |slot| (self.api.flush)(self.db, options, slot));
            (self.api.flushoptions_destroy)(options);
            outcome?;
        }
        let busy = [
            c"rocksdb.mem-table-flush-pending",
            c"rocksdb.num-running-flushes",
            c"rocksdb.compaction-pending",
            c"rocksdb.num-running-compactions",
        ];
        while busy.iter().any(|name| self.number(name) != 0) {
            let errors = self.number(c"rocksdb.background-errors");
            if errors != 0 {
                return Err(format!("RocksDB had {errors} errors in the background; see its LOG").into());
            }
            thread::sleep(SETTLE_POLL);
        }
        Ok(())
    }
}

/// The version that the database's own log names in its first lines (the C API does not tell).
pub(super) fn version(dir: &Path) -> Option<String> {
    let log = std::fs::read_to_string(dir.join("LOG")).ok()?;
    let (_, rest) = log.split_once("RocksDB version: ")?;
    rest.split_whitespace().next().map(str::to_owned)
}
