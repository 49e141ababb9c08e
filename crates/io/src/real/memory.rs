//! How the process gets its memory.

use rustix::thread::disable_transparent_huge_pages;

use crate::{Error, Result};

/// From now on the process gets pages of the ordinary size only, as redis-server arranges for itself too. A huge page
/// is zeroed at its first touch. That takes milliseconds for the thread that first writes into a new memtable or
/// buffer, and all others wait for its processor. 16 memtables that were full at the same moment made writes wait 25 ms
/// on two processors; without huge pages, 1 ms.
///
/// # Errors
/// The kernel refuses; nothing has changed then.
pub fn forgo_huge_pages() -> Result<()> {
    disable_transparent_huge_pages(true).map_err(|error| Error::from_std("forgo", "huge pages", &error.into()))
}
