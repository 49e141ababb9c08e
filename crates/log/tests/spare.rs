//! The next segment is made while the one before it has room.

use std::sync::Arc;

use weir_io::sim::{FaultPlan, OpKind, Sim, SimFs};
use weir_io::{Class, Owner};
use weir_log::{Log, LogOptions, SyncMode, WriteAheadLog};

use crate::common::{device, open};

const SEGMENT_BYTES: u64 = 256 << 10;

/// Writes until the segment is more than half full, and makes the next one.
async fn make_next(log: &Log) {
    while !log.wants_maintenance() {
        write(log).await;
    }
    log.maintain().await.expect("nothing fails");
}

async fn write(log: &Log) {
    let index = log.append(&[7; 1_000]).expect("nothing fails");
    log.commit(index).await.expect("nothing fails");
}

#[test]
fn a_log_does_not_wait_behind_flushes_for_its_next_segment_where_that_is_a_page() {
    for sync in [SyncMode::Interval, SyncMode::Always] {
        let sim = Sim::new(1);
        let fs = Arc::new(SimFs::new(sim.clock(), device(), FaultPlan::none(), sim.rng()));
        sim.block_on(async {
            let options = LogOptions { sync, segment_bytes: SEGMENT_BYTES, ..LogOptions::new(Owner::default(), 1) };
            let (log, ..) = open(&fs, options, 0).await.expect("a fresh disk");
            let ahead_of_time = || fs.count(Class::Flush, OpKind::Write).bytes;
            make_next(&log).await;
            let is_filled = sync == SyncMode::Always;
            assert_eq!(ahead_of_time() > 0, is_filled, "{sync:?}: with zeros");
            // Each segment is twice as long as the one before, up to this size.
            for _ in 0..4 * SEGMENT_BYTES / 1_000 {
                write(&log).await;
            }
            let before = ahead_of_time();
            make_next(&log).await;
            assert_eq!(ahead_of_time() > before, is_filled, "{sync:?}");
        });
    }
}

#[test]
fn a_segment_that_is_used_again_does_not_wait_behind_flushes() {
    let sim = Sim::new(1);
    let fs = SimFs::new(sim.clock(), device(), FaultPlan::none(), sim.rng());
    sim.block_on(async {
        let sync = SyncMode::Always;
        let options = LogOptions { sync, segment_bytes: SEGMENT_BYTES, ..LogOptions::new(Owner::default(), 1) };
        let (log, ..) = open(&fs, options, 0).await.expect("a fresh disk");
        for _ in 0..4 * SEGMENT_BYTES / 1_000 {
            write(&log).await;
        }
        log.truncate(log.last()).await.expect("nothing fails");
        assert_eq!(log.stats().segments_recycled, 1);
        assert_eq!(fs.count(Class::Flush, OpKind::Write).ops, 0);
    });
}
