//! Operations on an open RocksDB, whether it is alone or one of a fleet.

use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::ptr::slice_from_raw_parts;
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
/// Invariant: the handles came from `api`, and are neither closed nor destroyed while this lives.
pub(super) struct Opened<'a> {
    api: &'a Api,
    db: Handle,
    read: Handle,
    write: Handle,
}

impl<'a> Opened<'a> {
    /// # Safety
    ///
    /// `db` and the options for reads and writes came from `api`, and stay open until the result is dropped.
    pub(super) unsafe fn of(api: &'a Api, db: Handle, [read, write]: [Handle; 2]) -> Self {
        Self { api, db, read, write }
    }

    /// Stores one pair.
    ///
    /// # Errors
    /// The errors of RocksDB.
    pub(super) fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: pointers and lengths are those of live slices; RocksDB copies them.
        unsafe { checked(self.api, |slot| (self.api.put)(self.db, self.write, k, key.len(), v, value.len(), slot)) }
    }

    /// Shows the value of `key` to `see`; false if there is none.
    ///
    /// # Errors
    /// The errors of RocksDB.
    pub(super) fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        // SAFETY: the key is a live slice. The slice that comes back is valid until it is destroyed, after `see`.
        unsafe {
            let k = key.as_ptr().cast();
            let pinned = checked(self.api, |slot| (self.api.get_pinned)(self.db, self.read, k, key.len(), slot))?;
            if pinned.is_null() {
                return Ok(false);
            }
            let mut len = 0;
            let value = (self.api.pinnableslice_value)(pinned, &mut len);
            see(bytes(value, len));
            (self.api.pinnableslice_destroy)(pinned);
        }
        Ok(true)
    }

    /// Shows up to `limit` pairs from `from` on, in order, to `see`.
    ///
    /// # Errors
    /// The errors of RocksDB.
    pub(super) fn scan(&self, from: &[u8], limit: usize, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        // SAFETY: the iterator is created and destroyed here; what it shows is valid until its next step, after `see`.
        unsafe {
            let iterator = (self.api.create_iterator)(self.db, self.read);
            (self.api.iter_seek)(iterator, from.as_ptr().cast(), from.len());
            let mut left = limit;
            while left > 0 && (self.api.iter_valid)(iterator) != 0 {
                let (mut key_len, mut value_len) = (0, 0);
                let key = (self.api.iter_key)(iterator, &mut key_len);
                let value = (self.api.iter_value)(iterator, &mut value_len);
                see(bytes(key, key_len), bytes(value, value_len));
                left -= 1;
                if left > 0 {
                    (self.api.iter_next)(iterator);
                }
            }
            let outcome = checked(self.api, |slot| (self.api.iter_get_error)(iterator, slot));
            (self.api.iter_destroy)(iterator);
            outcome
        }
    }

    /// The number of a property; 0 if RocksDB does not know it.
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
    /// The errors of the flush and of background jobs.
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

/// # Safety
/// `start` has `len` readable bytes for as long as the result is used, or `len` is 0.
pub(super) unsafe fn bytes<'a>(start: *const c_char, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: by contract.
    unsafe { &*slice_from_raw_parts(start.cast(), len) }
}
