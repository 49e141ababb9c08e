//! The functions of RocksDB's C API (`rocksdb/c.h`) that the bench uses, looked up by name.

use std::ffi::{CStr, c_char, c_int, c_uchar, c_void};
use std::path::Path;
use std::ptr::null_mut;

use libloading::Library;

use crate::Result;

/// Any of the API's opaque objects.
pub(super) type Handle = *mut c_void;
/// Where a function leaves an error message that it allocated.
pub(super) type ErrorSlot = *mut *mut c_char;

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The loaded functions, without their `rocksdb_` prefix. They stay valid for ever: the library is never
        /// unloaded, because its static destructors and background threads would outlive the code they run.
        #[allow(non_snake_case, reason = "they are RocksDB's names")]
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// `rocksdb_cache_create_hyper_clock(capacity, estimated_entry_charge)`, which came after 7.8.
            pub(super) cache_create_hyper_clock: Option<unsafe extern "C" fn(usize, usize) -> Handle>,
            /// `rocksdb_ratelimiter_create_auto_tuned(rate, period, fairness)`, which Debian's 7.8 lacks.
            pub(super) ratelimiter_create_auto_tuned: Option<unsafe extern "C" fn(i64, i64, i32) -> Handle>,
        }

        impl Api {
            /// Loads the library and finds every function.
            pub(super) fn load(path: &Path) -> Result<Self> {
                // SAFETY: loading runs the library's initialisers. It is the RocksDB that the user named or fetched;
                // running it is the purpose.
                let library = unsafe { Library::new(path) }.map_err(|error| format!("{}: {error}", path.display()))?;
                let library: &'static Library = Box::leak(Box::new(library));
                Ok(Self {
                    $($name: {
                        let name = concat!("rocksdb_", stringify!($name));
                        // SAFETY: the type is the function's declaration in c.h, which has not changed for any of
                        // these from 7.8 to 10.10.
                        *unsafe { library.get(name) }.map_err(|error| format!("{}: {error}", path.display()))?
                    },)*
                    // SAFETY: as above.
                    cache_create_hyper_clock: unsafe { library.get("rocksdb_cache_create_hyper_clock") }.ok().map(|found| *found),
                    // SAFETY: as above.
                    ratelimiter_create_auto_tuned: unsafe { library.get("rocksdb_ratelimiter_create_auto_tuned") }
                        .ok()
                        .map(|found| *found),
                })
            }
        }
    };
}

functions! {
    free: fn(Handle);

    options_create: fn() -> Handle;
    options_destroy: fn(Handle);
    get_options_from_string: fn(Handle, *const c_char, Handle, ErrorSlot);
    options_set_block_based_table_factory: fn(Handle, Handle);
    block_based_options_create: fn() -> Handle;
    block_based_options_destroy: fn(Handle);
    block_based_options_set_block_size: fn(Handle, usize);
    block_based_options_set_filter_policy: fn(Handle, Handle);
    block_based_options_set_block_cache: fn(Handle, Handle);
    filterpolicy_create_bloom_full: fn(f64) -> Handle;
    cache_create_lru: fn(usize) -> Handle;
    cache_destroy: fn(Handle);

    create_default_env: fn() -> Handle;
    env_set_background_threads: fn(Handle, c_int);
    env_set_high_priority_background_threads: fn(Handle, c_int);
    env_destroy: fn(Handle);
    options_set_env: fn(Handle, Handle);
    ratelimiter_destroy: fn(Handle);
    options_set_ratelimiter: fn(Handle, Handle);

    readoptions_create: fn() -> Handle;
    readoptions_destroy: fn(Handle);
    writeoptions_create: fn() -> Handle;
    writeoptions_set_sync: fn(Handle, c_uchar);
    writeoptions_disable_WAL: fn(Handle, c_int);
    writeoptions_destroy: fn(Handle);
    flushoptions_create: fn() -> Handle;
    flushoptions_set_wait: fn(Handle, c_uchar);
    flushoptions_destroy: fn(Handle);

    open: fn(Handle, *const c_char, ErrorSlot) -> Handle;
    close: fn(Handle);
    put: fn(Handle, Handle, *const c_char, usize, *const c_char, usize, ErrorSlot);
    get_pinned: fn(Handle, Handle, *const c_char, usize, ErrorSlot) -> Handle;
    pinnableslice_value: fn(Handle, *mut usize) -> *const c_char;
    pinnableslice_destroy: fn(Handle);
    flush: fn(Handle, Handle, ErrorSlot);
    flush_wal: fn(Handle, c_uchar, ErrorSlot);
    property_int: fn(Handle, *const c_char, *mut u64) -> c_int;
    property_value: fn(Handle, *const c_char) -> *mut c_char;

    create_iterator: fn(Handle, Handle) -> Handle;
    iter_seek: fn(Handle, *const c_char, usize);
    iter_valid: fn(Handle) -> c_uchar;
    iter_next: fn(Handle);
    iter_key: fn(Handle, *mut usize) -> *const c_char;
    iter_value: fn(Handle, *mut usize) -> *const c_char;
    iter_get_error: fn(Handle, ErrorSlot);
    iter_destroy: fn(Handle);
}

/// Calls `call` with an empty error slot, and turns what it leaves there into an error.
///
/// # Safety
/// `call` leaves null or a C string that this API allocated.
pub(super) unsafe fn checked<T>(api: &Api, call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T> {
    let mut message: *mut c_char = null_mut();
    let result = call(&mut message);
    if message.is_null() {
        return Ok(result);
    }
    // SAFETY: by contract a C string of this API.
    unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        (api.free)(message.cast());
        Err(text.into())
    }
}
