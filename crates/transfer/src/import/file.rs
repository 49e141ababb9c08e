//! Imports a dump file into a tenant.

use std::io::Read;
use std::sync::atomic::Ordering;

use super::Import;
use super::snapshot::load;
use crate::failure::{Failure, Remedy, Result};
use crate::rdb::{Dump, FileBytes, Input};
use crate::tally::Phase;

/// Imports the dump of `bytes` bytes that `file` reads.
///
/// # Errors
/// The file is no dump, or damaged, or the tenant takes nothing more. Keys that were imported before stay there.
pub async fn import_file(import: &Import, file: impl Read + Send, bytes: u64) -> Result {
    import.check_empty().await?;
    import.tally.bytes_expected.store(bytes, Ordering::Relaxed);
    import.tally.set_phase(Phase::Snapshot);
    let value_bytes_max = import.target.value_bytes_max(&mut import.target.connect().await?).await?;
    let loaded = async {
        let mut dump =
            Dump::open(Input::new(FileBytes(file), Vec::new()), value_bytes_max, import.whole_bytes_max).await?;
        load(import, &mut dump).await
    };
    // To read again does not help: a file that ends too early does not get longer.
    loaded.await.map_err(|failure| match failure.remedy {
        Remedy::None => failure,
        _ => Failure::new(failure.message),
    })
}
