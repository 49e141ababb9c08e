//! When a tree says stall: a pure function.

use weir_model::engine::{Stall, StallCause};

use crate::options::TreeOptions;

/// The stall state of a tree: a pure function of four counts.
pub fn stall(l0_runs: usize, sealed: usize, memtable_full: bool, write_buffers: usize, options: &TreeOptions) -> Stall {
    if l0_runs >= options.l0_stop {
        Stall::Stop(StallCause::L0Runs)
    } else if memtable_full && sealed + 1 >= write_buffers {
        Stall::Stop(StallCause::Memtables)
    } else if l0_runs >= options.l0_slow {
        Stall::Slow(StallCause::L0Runs)
    } else if options.slow_at_last_buffer && write_buffers > 3 && sealed + 1 >= write_buffers {
        Stall::Slow(StallCause::Memtables)
    } else {
        Stall::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_the_numbers_of_fx_21() {
        let options = TreeOptions::default();
        let at = |runs| stall(runs, 0, false, 4, &options);
        assert_eq!(at(19), Stall::None);
        assert_eq!(at(20), Stall::Slow(StallCause::L0Runs));
        assert_eq!(at(35), Stall::Slow(StallCause::L0Runs));
        assert_eq!(at(36), Stall::Stop(StallCause::L0Runs));
    }

    #[test]
    fn the_last_buffer_stops_writes_only_when_it_is_full_too() {
        let with_three = |sealed, full| stall(0, sealed, full, 3, &TreeOptions::default());
        assert_eq!(with_three(2, false), Stall::None);
        assert_eq!(with_three(2, true), Stall::Stop(StallCause::Memtables));
        assert_eq!(with_three(1, true), Stall::None, "it can be sealed");
    }

    #[test]
    fn the_last_of_more_than_three_buffers_slows_writes_where_that_is_asked_for() {
        let as_rocksdb = TreeOptions { slow_at_last_buffer: true, ..TreeOptions::default() };
        let at = |sealed, full, buffers| stall(0, sealed, full, buffers, &as_rocksdb);
        assert_eq!(at(2, true, 4), Stall::None);
        assert_eq!(at(3, false, 4), Stall::Slow(StallCause::Memtables));
        assert_eq!(at(3, true, 4), Stall::Stop(StallCause::Memtables));
        assert_eq!(at(2, false, 3), Stall::None, "three are too few to slow down at the last");
        assert_eq!(stall(20, 3, false, 4, &as_rocksdb), Stall::Slow(StallCause::L0Runs), "level 0 is the slower one");
        assert_eq!(stall(0, 3, false, 4, &TreeOptions::default()), Stall::None);
    }
}
