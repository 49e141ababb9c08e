//! RocksDB behind its C API.

use std::ffi::CString;
use std::path::Path;
use std::ptr::null_mut;

use super::api::{Api, Handle, checked};
use super::opened::{Opened, version};
use super::settings;
use crate::Result;
use crate::contestant::Contestant;
use crate::settings::Settings;

/// An open RocksDB.
///
/// Invariant: every handle below came from this API and is destroyed exactly once, in [`RocksDb::drop`], after the last
/// call that uses it (the borrow checker sees to "after": calls borrow `self`).
pub struct RocksDb {
    api: Api,
    db: Handle,
    options: Handle,
    cache: Handle,
    read: Handle,
    write: Handle,
    version: String,
    remarks: String,
}

// SAFETY: rocksdb_t, and read and write options that nobody changes any more, may be used from any thread (c.h,
// options.h).
unsafe impl Send for RocksDb {}
// SAFETY: as above.
unsafe impl Sync for RocksDb {}

impl RocksDb {
    /// Loads the library and opens (creates if missing) the database in `dir`.
    pub fn open(library: &Path, dir: &Path, settings: &Settings) -> Result<Self> {
        let api = Api::load(library)?;
        let path = CString::new(dir.to_str().ok_or("the directory's name is not UTF-8")?)?;
        let words = option_string(settings);
        let cache = settings::cache(&api, settings.cache_bytes as usize);
        // SAFETY: the cache came from this API, and is destroyed after the options.
        let options =
            unsafe { settings::options(&api, settings.block_bytes as usize, settings.filter_bits, cache, &words) };
        let options = options.inspect_err(|_| {
            // SAFETY: nobody else has the cache.
            unsafe { (api.cache_destroy)(cache) }
        })?;
        // SAFETY: handles are used as c.h says; from here on `Drop` destroys what was created.
        let mut this = unsafe {
            let (read, write) = ((api.readoptions_create)(), (api.writeoptions_create)());
            (api.writeoptions_set_sync)(write, u8::from(settings.sync));
            let version = String::new();
            let cache_name = if api.cache_create_hyper_clock.is_some() { "HyperClock" } else { "LRU" };
            let remarks = format!("{cache_name} cache, {words}");
            Self { api, db: null_mut(), options, cache, read, write, version, remarks }
        };
        // SAFETY: `options` is complete and `path` outlives the call.
        this.db = unsafe { checked(&this.api, |slot| (this.api.open)(this.options, path.as_ptr(), slot)) }?;
        this.version = format!("rocksdb {}", version(dir).unwrap_or_else(|| "of unknown version".into()));
        Ok(this)
    }

    fn store(&self) -> Opened<'_> {
        // SAFETY: all three stay open until this is dropped.
        unsafe { Opened::of(&self.api, self.db, [self.read, self.write]) }
    }
}

impl Contestant for RocksDb {
    fn version(&self) -> String {
        self.version.clone()
    }

    fn remarks(&self) -> String {
        self.remarks.clone()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store().put(key, value)
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.store().get(key, see)
    }

    fn scan(&self, from: &[u8], limit: usize, see: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        self.store().scan(from, limit, see)
    }

    fn settle(&self) -> Result<()> {
        self.store().settle()
    }

    fn shape(&self) -> String {
        self.store().shape()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        // SAFETY: the invariant of the type; nobody borrows `self` any more. `db` is null when opening failed.
        unsafe {
            if !self.db.is_null() {
                (self.api.close)(self.db);
            }
            (self.api.readoptions_destroy)(self.read);
            (self.api.writeoptions_destroy)(self.write);
            (self.api.options_destroy)(self.options);
            (self.api.cache_destroy)(self.cache);
        }
    }
}

/// The settings in RocksDB's own words. Everything else has the default of this version.
fn option_string(settings: &Settings) -> String {
    let Settings { write_buffer_bytes, write_buffers, l0_trigger, l0_slowdown, l0_stop, .. } = settings;
    let Settings { base_level_bytes, level_ratio, table_bytes, compaction_threads, flush_threads, .. } = settings;
    format!(
        "create_if_missing=true;write_buffer_size={write_buffer_bytes};max_write_buffer_number={write_buffers};\
         level0_file_num_compaction_trigger={l0_trigger};level0_slowdown_writes_trigger={l0_slowdown};\
         level0_stop_writes_trigger={l0_stop};max_bytes_for_level_base={base_level_bytes};\
         max_bytes_for_level_multiplier={level_ratio};target_file_size_base={table_bytes};\
         level_compaction_dynamic_level_bytes=true;compression=kNoCompression;\
         use_direct_reads=true;use_direct_io_for_flush_and_compaction=true;\
         max_background_flushes={flush_threads};max_background_compactions={compaction_threads};\
         max_background_jobs={}",
        compaction_threads + flush_threads,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_name_every_setting() {
        let text = option_string(&Settings::default());
        for word in ["write_buffer_size=67108864;", "max_write_buffer_number=2;", "level0_stop_writes_trigger=36;"] {
            assert!(text.contains(word), "{word} is not in {text}");
        }
        assert!(text.ends_with("max_background_jobs=3"));
    }

    #[test]
    fn a_file_that_is_no_library_is_an_error_and_not_a_crash() {
        let error = RocksDb::open(Path::new("Cargo.toml"), Path::new("unused"), &Settings::default()).err();
        assert!(error.expect("Cargo.toml is no library").to_string().contains("Cargo.toml"));
    }
}
