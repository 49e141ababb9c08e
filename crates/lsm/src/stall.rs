//! When a tree stalls writes: a pure function.

use weir_model::engine::{Stall, StallCause};

use crate::options::TreeOptions;

/// The numbers that decide about a stall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs in level 0.
    pub l0_runs: usize,
    /// Memtables that wait for their flush.
    pub sealed: usize,
    /// The active memtable is full.
    pub memtable_full: bool,
    /// How many memtables there may be, the active one included.
    pub write_buffers: usize,
    /// Bytes of pending compactions; 0 while compactions are put off on purpose, and until that debt is paid (U-7).
    pub pending_bytes: u64,
}

/// The stall state of a tree: a pure function.
pub fn stall(counts: Counts, options: &TreeOptions) -> Stall {
    let Counts { l0_runs, sealed, memtable_full, write_buffers, pending_bytes } = counts;
    let [pending_slow, pending_stop] = options.pending_bytes_limits;
    if l0_runs >= options.l0_stop {
        Stall::Stop(StallCause::L0Runs)
    } else if memtable_full && sealed + 1 >= write_buffers {
        Stall::Stop(StallCause::Memtables)
    } else if pending_bytes >= pending_stop {
        Stall::Stop(StallCause::PendingBytes)
    } else if l0_runs >= options.l0_slow {
        Stall::Slow(StallCause::L0Runs)
    } else if pending_bytes >= pending_slow {
        Stall::Slow(StallCause::PendingBytes)
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
        let at = |l0_runs| stall(Counts { l0_runs, write_buffers: 4, ..Counts::default() }, &options);
        assert_eq!(at(19), Stall::None);
        assert_eq!(at(20), Stall::Slow(StallCause::L0Runs));
        assert_eq!(at(35), Stall::Slow(StallCause::L0Runs));
        assert_eq!(at(36), Stall::Stop(StallCause::L0Runs));
    }

    #[test]
    fn the_last_buffer_stops_writes_only_when_it_is_full_too() {
        let with_three = |sealed, memtable_full| {
            let counts = Counts { sealed, memtable_full, write_buffers: 3, ..Counts::default() };
            stall(counts, &TreeOptions::default())
        };
        assert_eq!(with_three(2, false), Stall::None);
        assert_eq!(with_three(2, true), Stall::Stop(StallCause::Memtables));
        assert_eq!(with_three(1, true), Stall::None, "it can be sealed");
    }

    #[test]
    fn the_last_of_more_than_three_buffers_slows_writes_where_that_is_asked_for() {
        let as_rocksdb = TreeOptions { slow_at_last_buffer: true, ..TreeOptions::default() };
        let of =
            |sealed, memtable_full, write_buffers| Counts { sealed, memtable_full, write_buffers, ..Counts::default() };
        let at = |sealed, full, buffers| stall(of(sealed, full, buffers), &as_rocksdb);
        assert_eq!(at(2, true, 4), Stall::None);
        assert_eq!(at(3, false, 4), Stall::Slow(StallCause::Memtables));
        assert_eq!(at(3, true, 4), Stall::Stop(StallCause::Memtables));
        assert_eq!(at(2, false, 3), Stall::None, "three are too few to slow down at the last");
        let long = Counts { l0_runs: 20, ..of(3, false, 4) };
        assert_eq!(stall(long, &as_rocksdb), Stall::Slow(StallCause::L0Runs), "level 0 is the slower one");
        assert_eq!(stall(of(3, false, 4), &TreeOptions::default()), Stall::None);
    }

    #[test]
    fn bytes_that_compactions_have_before_them_slow_and_stop_writes_at_the_limits_of_fx_29() {
        let at = |gib: u64, l0_runs| {
            let counts = Counts { l0_runs, write_buffers: 4, pending_bytes: gib << 30, ..Counts::default() };
            stall(counts, &TreeOptions::default())
        };
        assert_eq!(at(63, 0), Stall::None);
        assert_eq!(at(64, 0), Stall::Slow(StallCause::PendingBytes));
        assert_eq!(at(255, 20), Stall::Slow(StallCause::L0Runs));
        assert_eq!(at(256, 20), Stall::Stop(StallCause::PendingBytes));
    }
}
