//! What becomes of a compaction that its tree's scope no longer admits, or whose slot is needed to relieve level 0
//! (U-5, U-6).
//!
//! It is parked, so that the device and its slot are free for jobs that are admitted. But what it has read and written
//! is lost if it is cancelled, and takes space as long as it is parked. So a job that is nearly done goes on to its
//! end. A job that has been parked for long, or that bars the way of something more urgent, does not stay parked.

use weir_io::Nanos;

/// Once it has consumed this part of its input, a job goes on to its end whatever the scope: less is left than was
/// done.
const NEARLY_DONE: f64 = 0.9;
/// Once it has consumed this part, a parked job that is in the way is finished: that is less work than to begin again.
const HALF_DONE: f64 = 0.5;

/// A job that has been parked for this long, in nanoseconds, is released unless it is to be finished: its inputs are
/// still read and take disk space, and what it has written is of no use.
pub const PARKED_MAX: Nanos = 60_000_000_000;

/// What happens to a parked job that bars the way of something more urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InTheWay {
    /// It goes on to its end as soon as it has a slot, whatever the scope.
    Finish,
    /// It is cancelled, and what it has written is thrown away. Its inputs may be picked again.
    Release,
}

/// Whether a running job that has consumed `progress` (0 to 1) of its input must be parked.
pub fn must_park(is_admitted: bool, progress: f64) -> bool {
    !is_admitted && progress < NEARLY_DONE
}

/// What happens to a parked job that is in the way and has consumed `progress` (0 to 1) of its input (U-6). A job that
/// is admitted would go on anyway, and is only hurried.
pub fn in_the_way(is_admitted: bool, progress: f64) -> InTheWay {
    if is_admitted || progress >= HALF_DONE { InTheWay::Finish } else { InTheWay::Release }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_admitted_or_nearly_done_runs() {
        let parked = [(true, 0.0), (false, 0.0), (false, 0.89), (false, 0.9), (true, 1.0)];
        assert_eq!(parked.map(|(admitted, progress)| must_park(admitted, progress)), [false, true, true, false, false]);
    }

    #[test]
    fn what_is_in_the_way_is_finished_from_half_of_it_on() {
        use InTheWay::{Finish, Release};
        assert_eq!(
            [0.0, 0.49, 0.5, 1.0].map(|progress| in_the_way(false, progress)),
            [Release, Release, Finish, Finish]
        );
        assert_eq!(in_the_way(true, 0.0), Finish);
    }
}
