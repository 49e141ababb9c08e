//! What every store is opened with: a cache, and options, some of which RocksDB's option strings cannot express.

use std::ffi::CString;

use super::api::{Api, Handle, checked};
use crate::Result;

/// Further options for stores that are set up for a shortage, as an expert would set them up without us: a flush merges
/// four memtables into one run of level 0, there are up to twelve memtables, and what was flushed is in the block cache
/// when it is read or compacted. (There is no such setting for what compactions write.)
pub(super) const MERGING: &str =
    ";min_write_buffer_number_to_merge=4;block_based_table_factory={prepopulate_block_cache=kFlushOnly}";
/// Memtables of such a store.
pub(super) const MERGING_BUFFERS: usize = 12;

/// A block cache of `bytes`, to be destroyed by the caller.
pub(super) fn cache(api: &Api, bytes: usize) -> Handle {
    // SAFETY: both take plain numbers.
    unsafe {
        match api.cache_create_hyper_clock {
            // The choice of RocksDB's makers, and the faster one here.
            Some(create) => create(bytes, 0),
            None => (api.cache_create_lru)(bytes),
        }
    }
}

/// The options of `words`, with full Bloom filters and a block cache, to be destroyed by the caller.
///
/// # Errors
/// RocksDB does not accept the words.
///
/// # Safety
/// `cache` came from `api` and was not destroyed. The options keep a reference of their own.
pub(super) unsafe fn options(
    api: &Api,
    block_bytes: usize,
    filter_bits: u32,
    cache: Handle,
    words: &str,
) -> Result<Handle> {
    let text = CString::new(words)?;
    // SAFETY: handles are used as c.h says: created, passed on, destroyed once. `set_filter_policy` takes ownership of
    // the policy; table options and cache are shared with the factory, which keeps its own references.
    unsafe {
        let table = (api.block_based_options_create)();
        (api.block_based_options_set_block_size)(table, block_bytes);
        let filter = (api.filterpolicy_create_bloom_full)(f64::from(filter_bits));
        (api.block_based_options_set_filter_policy)(table, filter);
        (api.block_based_options_set_block_cache)(table, cache);
        let base = (api.options_create)();
        (api.options_set_block_based_table_factory)(base, table);
        (api.block_based_options_destroy)(table);
        let options = (api.options_create)();
        let outcome = checked(api, |slot| (api.get_options_from_string)(base, text.as_ptr(), options, slot));
        (api.options_destroy)(base);
        if let Err(error) = outcome {
            (api.options_destroy)(options);
            return Err(format!("RocksDB does not take the options {words}: {error}").into());
        }
        Ok(options)
    }
}
