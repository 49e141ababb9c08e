//! Segments that nobody needs any more, on a disk that does not remove them at first.

use std::path::Path;
use std::sync::Arc;

use weir_io::sim::{Fault, FaultPlan, OpKind, Phase, Sim, SimFs};
use weir_io::{Class, Fs, Owner, Tag};
use weir_log::{Log, LogIndex, SyncMode, WriteAheadLog};

use crate::common::{DIR, device, open, options};

/// How many segments there are on the disk.
async fn segments(fs: &Arc<SimFs>) -> usize {
    let tag = Tag::new(Owner::default(), Class::Maintenance);
    fs.list(Path::new(DIR), tag).await.expect("nothing fails").len()
}

/// Writes several segments; returns the last index.
async fn fill(log: &Log) -> LogIndex {
    let mut last = 0;
    for _ in 0..200 {
        last = log.append(&[7; 1000]).expect("nothing fails");
        log.commit(last).await.expect("nothing fails");
    }
    last
}

#[test]
fn segments_that_could_not_be_removed_are_removed_by_the_next_truncation() {
    // A removal that fails may have been done or not.
    for seed in 0..8 {
        let sim = Sim::new(seed);
        let fs = SimFs::new(sim.clock(), device(), FaultPlan::none(), sim.rng());
        sim.block_on(async {
            let (log, ..) = open(&fs, options(SyncMode::Interval, 1), 0).await.expect("a fresh disk");
            let last = fill(&log).await;
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

#[test]
fn a_segment_that_an_opening_cannot_remove_keeps_nobody_from_the_log() {
    // A removal that fails may have been done or not.
    for seed in 0..8 {
        let sim = Sim::new(seed);
        let fs = SimFs::new(sim.clock(), device(), FaultPlan::none(), sim.rng());
        sim.block_on(async {
            let (log, ..) = open(&fs, options(SyncMode::Interval, 1), 0).await.expect("a fresh disk");
            let last = fill(&log).await;
            log.sync().await.expect("nothing fails");
            drop(log);

            fs.fail_next(Some(OpKind::Remove), Fault::Error);
            let (log, recovery, _) = open(&fs, options(SyncMode::Interval, 2), last).await.expect("nobody needs it");
            assert_eq!(recovery.last, last, "seed {seed}");
            assert!(log.would_truncate(last), "seed {seed}: it is not forgotten");
            log.truncate(last).await.expect("nothing fails any more");
            assert_eq!(segments(&fs).await, 0, "seed {seed}");
        });
    }
}

#[test]
fn a_segment_that_could_not_be_made_anew_is_removed_by_the_next_truncation() {
    let mut left = 0;
    // A rename that fails may have been done or not.
    for seed in 0..16 {
        let sim = Sim::new(seed);
        let fs = SimFs::new(sim.clock(), device(), FaultPlan::none(), sim.rng());
        left += sim.block_on(async {
            let (log, ..) = open(&fs, options(SyncMode::Always, 1), 0).await.expect("a fresh disk");
            let last = fill(&log).await;
            fs.fail_next(Some(OpKind::Rename), Fault::Error);
            log.truncate(last).await.expect("all others are removed");
            assert_eq!(log.stats().segments_recycled, 1, "seed {seed}: one was to be made anew");
            let left = segments(&fs).await - 1;
            log.truncate(last).await.expect("nothing fails any more");
            assert_eq!(segments(&fs).await, 1, "seed {seed}: only the segment that is written to is left");
            assert!(!log.would_truncate(last), "seed {seed}");
            left
        });
    }
    assert!(left > 0, "some of the renames were not done");
}

#[test]
fn a_segment_that_could_not_be_finished_takes_no_space() {
    for sync in [SyncMode::Interval, SyncMode::Always] {
        let sim = Sim::new(1);
        let fs = SimFs::new(sim.clock(), device(), FaultPlan::none(), sim.rng());
        sim.block_on(async {
            let (log, ..) = open(&fs, options(sync, 1), 0).await.expect("a fresh disk");
            fs.on_cut_point(|disk, point| {
                // The segment has its own name by then.
                if point.kind == OpKind::SyncDir && point.phase == Phase::Before && point.path == Path::new(DIR) {
                    disk.fail_next(Some(OpKind::SyncDir), Fault::Error);
                }
            });
            let index = log.append(&[7; 1000]).expect("it waits in memory");
            log.commit(index).await.expect_err("there is no segment");
            assert_eq!(segments(&fs).await, 0, "{sync:?}");
        });
    }
}
