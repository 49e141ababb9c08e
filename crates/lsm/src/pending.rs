//! How many bytes of compactions are pending: a pure function.

use crate::options::TreeOptions;
use crate::pick::leveled;
use crate::version::{LEVELS, Version};

/// Bytes that compactions would read until no level is above its target, as RocksDB estimates its pending bytes
/// (FX-29): the bytes that go down from a level drag in as much of the next level as they overlap on average. Tables
/// that running jobs take away still count.
pub fn bytes(version: &Version, options: &TreeOptions) -> u64 {
    let sizes = std::array::from_fn(|level| version.level(level).iter().map(|file| file.meta.bytes).sum());
    of_levels(version.level(0).len(), sizes, options)
}

fn of_levels(runs: usize, sizes: [u64; LEVELS], options: &TreeOptions) -> u64 {
    let l0_is_due = leveled::score(0, runs, sizes[0], options) >= 1.0;
    // All of level 0 is merged with all of level 1.
    let (mut moving, mut pending) = if l0_is_due { (sizes[0], sizes[0] + sizes[1]) } else { (0, 0) };
    for level in 1..LEVELS - 1 {
        let size = sizes[level] + moving;
        moving = size.saturating_sub(options.level_bytes_target(level));
        if moving > 0 {
            let overlap = sizes[level + 1] as f64 / size as f64;
            pending += (moving as f64 * (1.0 + overlap)) as u64;
        }
    }
    pending
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn pending(runs: usize, mib: &[u64]) -> u64 {
        let options = TreeOptions { level1_bytes: 64 * MIB, write_buffer_bytes: 16 << 20, ..TreeOptions::default() };
        let sizes = std::array::from_fn(|level| mib.get(level).map_or(0, |mib| mib * MIB));
        of_levels(runs, sizes, &options) / MIB
    }

    #[test]
    fn a_tree_in_shape_has_nothing_pending() {
        assert_eq!(pending(0, &[]), 0);
        assert_eq!(pending(3, &[48, 64, 640, 6400]), 0);
    }

    #[test]
    fn level_0_takes_level_1_with_it() {
        // Level 0 goes into level 1, and 64 MiB of the result go on, with five times as much of level 2.
        assert_eq!(pending(4, &[64, 64, 0, 0]), 128 + 64);
        assert_eq!(pending(4, &[64, 64, 640, 0]), 128 + 64 * (1 + 5) + 64);
        // Below the trigger by number, at it by bytes.
        assert_eq!(pending(1, &[64, 64, 0, 0]), 128 + 64);
    }

    #[test]
    fn what_is_above_a_target_goes_down_level_by_level() {
        // 64 MiB three times: with five times as much of level 2, nine times of level 3, and nothing of level 4.
        assert_eq!(pending(0, &[0, 128, 640, 6400]), 64 * (1 + 5) + (64.0_f64 * (1.0 + 6400.0 / 704.0)) as u64 + 64);
        assert!(pending(0, &[0, 6400, 640, 6400]) > 10 * pending(0, &[0, 128, 640, 6400]));
        assert_eq!(pending(0, &[0, 0, 0, 0, 0, 0, 1 << 40]), 0, "there is nothing below the last level");
    }
}
