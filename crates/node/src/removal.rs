//! Removing partitions: only those that the catalogue has condemned, and only when that is beyond doubt.

use std::path::Path;
use std::sync::Arc;

use futures_util::lock::Mutex as AsyncMutex;
use weir_io::{Fs, Result};

use crate::catalogue::Catalogue;
use crate::layout;

/// Removes those of the partitions `numbers` that are condemned, and has the catalogue forget them with its next edit.
/// Gives the partitions that could not be removed: they stay condemned.
///
/// # Errors
/// Nothing was removed because the catalogue cannot settle which edits hold, or what was removed is not known to be
/// gone for good.
pub async fn remove(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    catalogue: &AsyncMutex<Catalogue>,
    numbers: &[u32],
) -> Result<Vec<u32>> {
    let condemned = {
        let mut catalogue = catalogue.lock().await;
        // An edit that failed may be the one that gives them to a restored tenant: a crash must not find that edit.
        catalogue.settle().await?;
        catalogue.listings().condemned.clone()
    };
    let (mut gone, mut left) = (Vec::new(), Vec::new());
    for &number in numbers {
        if !condemned.contains(&number) {
            tracing::error!(
                partition = number,
                "a partition is to be removed, but the catalogue does not say so: it is left alone"
            );
            continue;
        }
        match layout::remove_partition(fs, dir, number).await {
            Ok(()) => gone.push(number),
            Err(error) => {
                tracing::warn!(partition = number, %error, "cannot remove a dropped partition yet");
                left.push(number);
            }
        }
    }
    layout::sync_partitions(fs, dir).await?;
    catalogue.lock().await.forget(gone);
    Ok(left)
}
