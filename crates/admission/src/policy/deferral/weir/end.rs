//! When deferral ends for a partition although the node is still short.
//!
//! A merge within level 0 takes four runs at least, and no more bytes than the tree's bound. While the node is short,
//! runs are made of many memtables, and merges make larger ones of them, until no four runs fit into a merge. From then
//! on stage two takes no run out of level 0. The forecast does not know the bound, and sees no stall coming. So level 0
//! grows until writes stop.
//!
//! Only merges further down make room then. The longer they wait, the more bytes each of them rewrites. So they run as
//! if the node were not short, and the tree slows writes to what they keep up with: the more, the longer level 0 is.
//! They run until the shortage is over, for a level 0 that is a little shorter still consists of large runs.
//!
//! This begins late on purpose, halfway from the runs at which writes are slowed to those at which that hurts. A
//! shortage that is over before needs none of these merges.

use crate::policy::INTRA_L0_FAN_IN;
use crate::policy::sample::TreeFacts;

/// Whether level 0 is long, and too large to be merged within itself.
pub fn has_come(tree: &TreeFacts) -> bool {
    let is_long = tree.l0_runs >= tree.l0_slow.midpoint(tree.l0_mild());
    let average_run = tree.l0_bytes / tree.l0_runs.max(1);
    let is_bound_known = tree.l0_merge_bytes_max > 0;
    is_long && is_bound_known && average_run > tree.l0_merge_bytes_max / INTRA_L0_FAN_IN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_where_level_0_is_long_and_four_of_its_runs_are_too_much_for_a_merge() {
        let at = |l0_runs: u64, run: u64, l0_merge_bytes_max: u64| {
            let l0_bytes = l0_runs * run;
            let of = TreeFacts { l0_runs, l0_bytes, l0_merge_bytes_max, ..TreeFacts::default() };
            has_come(&TreeFacts { l0_slow: 20, l0_stop: 36, ..of })
        };
        assert_eq!([20, 25, 26, 36].map(|runs| at(runs, 768, 2048)), [false, false, true, true]);
        assert_eq!([192, 512, 513, 2048].map(|run| at(36, run, 2048)), [false, false, true, true]);
        assert!(!at(36, 768, 0), "an older recording does not know the bound");
        assert!(!has_come(&TreeFacts::default()), "no tree");
    }
}
