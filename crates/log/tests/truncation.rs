//! Segments that nobody needs any more, on a disk that does not remove them at first.

use std::path::Path;
use std::sync::Arc;

use weir_io::sim::{Fault, FaultPlan, OpKind, Sim, SimFs};
use weir_io::{Class, Fs, Owner, Tag};
use weir_log::{SyncMode, WriteAheadLog};

use crate::common::{DIR, device, open, options};

/// How many segments there are on the disk.
async fn segments(fs: &Arc<SimFs>) -> usize {
    let tag = Tag::new(Owner::default(), Class::Maintenance);
    fs.list(Path::new(DIR), tag).await.expect("nothing fails").len()
}

#[test]
fn segments_that_could_not_be_removed_are_removed_by_the_next_truncation() {
    // A removal that fails may have been done or not.
    for seed in 0..8 {
        let sim = Sim::new(seed);
        let fs = SimFs::new(sim.clock(), device(), FaultPlan::none(), sim.rng());
        sim.block_on(async {
            let (log, ..) = open(&fs, options(SyncMode::Interval, 1), 0).await.expect("a fresh disk");
            let mut last = 0;
            for _ in 0..200 {
                last = log.append(&[7; 1000]).expect("nothing fails");
                log.commit(last).await.expect("nothing fails");
            }
            assert!(segments(&fs).await > 3, "seed {seed}: nothing was truncated yet");

            fs.fail_next(Some(OpKind::Remove), Fault::Error);
            log.truncate(last).await.expect_err("a removal fails");
            assert!(segments(&fs).await > 2, "seed {seed}: only one removal was tried");
            assert!(log.would_truncate(last), "seed {seed}");
            log.truncate(last).await.expect("nothing fails any more");
            assert_eq!(segments(&fs).await, 1, "seed {seed}: only the segment that is written to is left");
            assert!(!log.would_truncate(last), "seed {seed}");
        });
    }
}
