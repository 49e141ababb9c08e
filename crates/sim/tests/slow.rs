//! A bad disk under load, in virtual time.

use weir_log::SyncMode;
use weir_sim::slow::{Trouble, survive};

#[test]
fn a_slow_or_hung_disk_is_survived() {
    for trouble in [Trouble::Slow, Trouble::Hung] {
        for sync in [SyncMode::Always, SyncMode::Interval] {
            match survive(1, trouble, sync) {
                Ok(outcome) => println!("{trouble:?}, {sync:?}: {outcome}"),
                Err(story) => panic!("{trouble:?}, {sync:?}: {story}\nrepeat with: weir sim slow --seed 1"),
            }
        }
    }
}
