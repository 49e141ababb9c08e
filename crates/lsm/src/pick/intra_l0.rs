//! Merging within level 0 (FX-22): fewer runs for few bytes, and without touching level 1.
//!
//! 1. A batch is contiguous in time and holds no claimed run. Its output takes the batch's place (FX-23): if a batch
//!    left out a run in between, versions of its output would be on the wrong side of older or newer versions in that
//!    run. Several batches may be merged at once.
//! 2. Of all batches of at least `fan_in` runs, the one is merged that costs the fewest bytes for each run that it
//!    saves.
//! 3. The largest run is at most half of the batch, or a giant would be rewritten for every few small runs that follow
//!    it. Close to the number of runs at which writes are slowed, this rule no longer counts.

use super::{LevelsView, Means, Pick};
use crate::options::TreeOptions;
use crate::version::TableMeta;

/// Rule 3 is given up when this many more runs would slow writes.
const CLOSE_TO_SLOW: usize = 2;

/// Whether `runs` runs are so many that writes are about to be slowed.
fn is_close(runs: usize, options: &TreeOptions) -> bool {
    runs + CLOSE_TO_SLOW >= options.l0_slow
}

/// The next merge within level 0, of `fan_in` runs or more. A batch of more than `fan_in` runs may have at most
/// `bytes_max` bytes, and none more than [`TreeOptions::l0_merge_bytes_max`].
pub fn pick(levels_view: &LevelsView<'_>, fan_in: usize, bytes_max: u64, options: &TreeOptions) -> Option<Pick> {
    let is_close = is_close(levels_view.levels[0].len(), options);
    let mut best: Option<(u64, &[&TableMeta])> = None;
    for first in 0..levels_view.levels[0].len() {
        let free = free_from(levels_view, first);
        let (mut bytes, mut largest) = (0, 0);
        for (index, run) in free.iter().enumerate() {
            bytes += run.bytes;
            largest = largest.max(run.bytes);
            if bytes > options.l0_merge_bytes_max || (bytes > bytes_max && index >= fan_in.max(2)) {
                break;
            }
            let batch = &free[..=index];
            let fits = batch.len() >= fan_in.max(2) && (is_close || largest <= bytes - largest);
            // Of equals the older batch: its neighbours are larger, and newer runs still come.
            if fits && best.is_none_or(|(of_best, best)| !is_dearer(bytes, batch, of_best, best)) {
                best = Some((bytes, batch));
            }
        }
    }
    best.map(|(_, batch)| merge(batch))
}

/// Whether a run saved by merging `batch` costs more bytes than one saved by merging `other`.
fn is_dearer(bytes: u64, batch: &[&TableMeta], of_other: u64, other: &[&TableMeta]) -> bool {
    u128::from(bytes) * (other.len() as u128 - 1) > u128::from(of_other) * (batch.len() as u128 - 1)
}

/// The runs from `first` (newest first) up to the first claimed one.
fn free_from<'a, 'b>(levels_view: &'b LevelsView<'a>, first: usize) -> &'b [&'a TableMeta] {
    let runs = &levels_view.levels[0][first..];
    let claimed = runs.iter().position(|run| levels_view.claims.tables.contains(&run.id));
    &runs[..claimed.unwrap_or(runs.len())]
}

fn merge(batch: &[&TableMeta]) -> Pick {
    let smallest = batch.iter().map(|run| &run.smallest).min().cloned().unwrap_or_default();
    let largest = batch.iter().map(|run| &run.largest).max().cloned().unwrap_or_default();
    let inputs = batch.iter().map(|run| (0, run.id)).collect();
    Pick { level: 0, output_level: 0, inputs, means: Means::Merge, reclaims: false, smallest, largest }
}

#[cfg(test)]
mod tests;
