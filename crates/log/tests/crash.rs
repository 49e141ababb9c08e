//! Power cuts and kills at every change of the disk, in every sync mode.

use std::sync::Arc;

use crate::common::{Promises, Shared, check, open, options, work, world, write_one};
use parking_lot::Mutex;
use weir_io::sim::{DiskImage, Fault, FaultPlan, Keep, OpKind};
use weir_log::{LogOptions, SyncMode, WriteAheadLog};

/// Runs a workload, takes the images that several power cuts at each change would leave, and recovers each. Then it
/// writes on there, cuts the power again and recovers once more: nothing that the first recovery returned may be lost,
/// and no hole may appear.
fn cut_everywhere(seed: u64, sync: SyncMode, writers: usize, count: usize) -> usize {
    let (sim, fs) = world(seed, &DiskImage::new(), FaultPlan::none());
    let promises: Shared = Shared::default();
    let cuts: Arc<Mutex<Vec<(DiskImage, Promises)>>> = Arc::default();
    {
        let (cuts, promises, mut rng) = (Arc::clone(&cuts), Arc::clone(&promises), sim.rng());
        fs.on_cut_point(move |fs, _| {
            let keep = [Keep::Random, Keep::Prefix, Keep::None, Keep::All][rng.below(4) as usize];
            let image = fs.crash_keeping(keep, &mut rng);
            // The hook may run inside a call that the promises' owner makes.
            if let Some(promises) = promises.try_lock() {
                cuts.lock().push((image, promises.clone()));
            }
        });
    }
    sim.block_on(async {
        let (log, ..) = open(&fs, options(sync, seed), 0).await.expect("a fresh disk");
        assert!(work(&log, &promises, writers, count, &sim).await, "nothing fails here");
    });
    fs.clear_hook();
    let cuts = std::mem::take(&mut *cuts.lock());
    let count = cuts.len();
    for (number, (image, before)) in (0..).zip(cuts) {
        let (sim, fs) = world(seed ^ number, &image, FaultPlan::none());
        let mut after = before;
        sim.block_on(async {
            let (log, last) = check(&fs, sync, &after, 1000 + number).await;
            // From here on the recovered prefix counts as what was appended, and all of it is durable.
            after.appended.truncate(last as usize);
            (after.acknowledged, after.synced) = (last, last);
            let promises: Shared = Arc::new(Mutex::new(after));
            let mut rng = sim.rng();
            for _ in 0..3 {
                write_one(&log, &promises, &mut rng).await.expect("writing on after recovery");
            }
            if rng.chance(0.5) {
                // The records that are durable now stand behind those that the first cut left.
                log.sync().await.expect("syncing after recovery");
                promises.lock().synced = log.last();
            }
            let (sim, fs) = world(seed ^ number, &fs.crash(&mut rng), FaultPlan::none());
            let promises = promises.lock().clone();
            sim.block_on(check(&fs, sync, &promises, 2000 + number));
        });
    }
    count
}

#[test]
fn a_power_cut_at_any_change_leaves_a_prefix_with_everything_promised() {
    let mut cuts = 0;
    for seed in 0..12 {
        cuts += cut_everywhere(seed, SyncMode::Always, 1 + seed as usize % 5, 25);
        cuts += cut_everywhere(seed, SyncMode::Interval, 1 + seed as usize % 3, 60);
        cuts += cut_everywhere(seed, SyncMode::None, 2, 100);
    }
    assert!(cuts > 3000, "only {cuts} cuts");
}

#[test]
fn a_killed_process_loses_nothing_acknowledged() {
    for (seed, sync) in (0..20).flat_map(|seed| [(seed, SyncMode::Always), (seed, SyncMode::Interval)]) {
        let (sim, fs) = world(seed, &DiskImage::new(), FaultPlan::none());
        let promises: Shared = Shared::default();
        for life in 0..4 {
            sim.block_on(async {
                let mut relied_on = promises.lock().clone();
                relied_on.synced = relied_on.acknowledged;
                let (log, last) = check(&fs, sync, &relied_on, seed * 10 + life).await;
                promises.lock().appended.truncate(last as usize);
                work(&log, &promises, 3, 20, &sim).await;
            });
        }
    }
}

/// The first life leaves records in the page cache only. The second syncs its own records: then those of the first must
/// be durable too.
#[test]
fn a_power_cut_after_a_kill_leaves_no_hole() {
    for seed in 0..60 {
        let (sim, fs) = world(seed, &DiskImage::new(), FaultPlan::none());
        let promises: Shared = Shared::default();
        let mut rng = sim.rng();
        for life in 0..3 {
            sim.block_on(async {
                let mut relied_on = promises.lock().clone();
                relied_on.synced = relied_on.acknowledged;
                let (log, _) = check(&fs, SyncMode::Interval, &relied_on, seed * 10 + life).await;
                for _ in 0..5 {
                    write_one(&log, &promises, &mut rng).await.expect("writing");
                }
                if life == 2 {
                    log.sync().await.expect("syncing");
                    promises.lock().synced = log.last();
                }
            });
        }
        let promises = promises.lock().clone();
        let (sim, fs) = world(seed, &fs.crash_keeping(Keep::None, &mut rng), FaultPlan::none());
        sim.block_on(check(&fs, SyncMode::Interval, &promises, 77));
    }
}

/// The first life ends after a sync that has failed: the page cache may have records that the device has not, and take
/// them for clean. The second life reads them, and syncs records of its own.
#[test]
fn a_power_cut_after_a_failed_sync_and_a_kill_leaves_no_hole() {
    for seed in 0..60 {
        let (sim, fs) = world(seed, &DiskImage::new(), FaultPlan::none());
        let promises: Shared = Shared::default();
        let mut rng = sim.rng();
        sim.block_on(async {
            let (log, _) = check(&fs, SyncMode::Interval, &Promises::default(), seed).await;
            for number in 0..20 {
                write_one(&log, &promises, &mut rng).await.expect("writing");
                if number == seed % 19 {
                    log.sync().await.expect("syncing");
                    promises.lock().synced = log.last();
                }
            }
            fs.fail_next(Some(OpKind::Sync), Fault::Error);
            log.sync().await.expect_err("syncing");
        });
        sim.block_on(async {
            let relied_on = promises.lock().clone();
            let (log, last) = check(&fs, SyncMode::Interval, &relied_on, 1000 + seed).await;
            promises.lock().appended.truncate(last as usize);
            for _ in 0..5 {
                write_one(&log, &promises, &mut rng).await.expect("writing");
            }
            log.sync().await.expect("syncing");
            promises.lock().synced = log.last();
        });
        let promises = promises.lock().clone();
        let (sim, fs) = world(seed, &fs.crash_keeping(Keep::None, &mut rng), FaultPlan::none());
        sim.block_on(check(&fs, SyncMode::Interval, &promises, 2000));
    }
}

#[test]
fn closing_needs_no_more_space_than_what_is_left_to_write() {
    for sync in [SyncMode::Always, SyncMode::Interval, SyncMode::None] {
        let (sim, fs) = world(1, &DiskImage::new(), FaultPlan::none());
        let promises: Shared = Shared::default();
        sim.block_on(async {
            let options = LogOptions { segment_bytes: 8 << 20, ..options(sync, 1) };
            let (log, ..) = open(&fs, options, 0).await.expect("a fresh disk");
            log.append(b"the only one").expect("nothing fails");
            promises.lock().appended.push(b"the only one".to_vec());
            // Less than the smallest segment that is made while a log is in use.
            fs.set_free_bytes(options.first_segment_bytes() / 2);
            log.close().await.unwrap_or_else(|error| panic!("{sync:?}: {error}"));
            promises.lock().synced = 1;
        });
        let promises = promises.lock().clone();
        let (sim, fs) = world(2, &fs.crash_keeping(Keep::None, &mut sim.rng()), FaultPlan::none());
        sim.block_on(check(&fs, sync, &promises, 2));
    }
}

/// While a segment is made, nothing can be written: then acknowledging from memory must end at some point.
#[test]
fn a_log_that_is_never_synced_keeps_no_more_in_memory_than_it_writes_at_a_time() {
    let (sim, fs) = world(1, &DiskImage::new(), FaultPlan::none());
    sim.block_on(async {
        let (log, ..) = open(&fs, options(SyncMode::None, 1), 0).await.expect("a fresh disk");
        let mut waiting = 0;
        for _ in 0..3_000 {
            let index = log.append(&[7; 1_000]).expect("nothing fails");
            log.commit(index).await.expect("nothing fails");
            let stats = log.stats();
            waiting = (stats.last - stats.committed).max(waiting);
        }
        // One buffer that is being filled, and four that are being written.
        assert!(waiting <= 5 * 270, "{waiting} records of a kilobyte in memory");
    });
}

/// Records that were not durable may be lost in a segment that has others behind it. Those are removed. Even if the
/// power is cut meanwhile, the rest must not look as if a segment were missing.
#[test]
fn a_power_cut_while_what_was_cut_off_is_removed_looks_like_no_loss() {
    let mut removals = 0;
    for seed in 0..60 {
        let (sim, fs) = world(seed, &DiskImage::new(), FaultPlan::none());
        let promises: Shared = Shared::default();
        let mut rng = sim.rng();
        sim.block_on(async {
            let (log, ..) = open(&fs, options(SyncMode::Interval, seed), 0).await.expect("a fresh disk");
            for _ in 0..250 {
                write_one(&log, &promises, &mut rng).await.expect("nothing fails");
            }
            assert!(log.stats().segments > 4, "the test needs several segments: {:?}", log.stats());
        });
        let promises = promises.lock().clone();
        let image = fs.crash_keeping(Keep::Random, &mut rng);
        let (sim, fs) = world(seed, &image, FaultPlan::none());
        let cuts: Arc<Mutex<Vec<DiskImage>>> = Arc::default();
        {
            let (cuts, mut rng) = (Arc::clone(&cuts), rng.fork("cuts"));
            fs.on_cut_point(move |fs, point| {
                if point.kind == OpKind::Remove || point.kind == OpKind::SyncDir {
                    cuts.lock().push(fs.crash_keeping(Keep::Random, &mut rng));
                }
            });
        }
        sim.block_on(check(&fs, SyncMode::Interval, &promises, 2));
        fs.clear_hook();
        let cuts = std::mem::take(&mut *cuts.lock());
        removals += cuts.len();
        for image in cuts {
            let (sim, fs) = world(seed, &image, FaultPlan::none());
            sim.block_on(check(&fs, SyncMode::Interval, &promises, 3));
        }
    }
    assert!(removals > 300, "only {removals} cuts while segments are removed");
}

#[test]
fn a_closed_log_is_clean_and_refuses_appends() {
    for sync in [SyncMode::Always, SyncMode::Interval, SyncMode::None] {
        let (sim, fs) = world(1, &DiskImage::new(), FaultPlan::none());
        let promises: Shared = Shared::default();
        sim.block_on(async {
            let (log, ..) = open(&fs, options(sync, 1), 0).await.expect("a fresh disk");
            assert!(work(&log, &promises, 3, 40, &sim).await);
            log.close().await.expect("closing");
            assert!(log.append(b"late").is_err());
            let mut relied_on = promises.lock().clone();
            relied_on.synced = relied_on.appended.len() as u64;
            let image = fs.crash_keeping(Keep::None, &mut sim.rng());
            let (sim, fs) = world(2, &image, FaultPlan::none());
            sim.block_on(check(&fs, sync, &relied_on, 2));
            let (_, recovery, _) =
                sim.block_on(open(&fs, options(sync, 3), relied_on.persisted)).expect("opening again");
            assert_eq!(recovery.last, relied_on.synced);
        });
        let (_, recovery, _) = sim.block_on(open(&fs, options(sync, 3), promises.lock().persisted)).expect("opening");
        assert!(recovery.clean, "{sync:?}");
    }
}
