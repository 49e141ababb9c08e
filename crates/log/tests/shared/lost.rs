//! Segments that vanish while nobody has the log open: records that were known to be durable are missed, in every sync
//! mode.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::ErrorKind;
use weir_io::sim::{DiskImage, FaultPlan, Keep};
use weir_log::{SyncMode, WriteAheadLog};

use super::{Group, SharedGroup, flush, open, open_member, open_members, write_one};
use crate::common::world;

const MODES: [SyncMode; 3] = [SyncMode::Always, SyncMode::Interval, SyncMode::None];

/// How many records each of the two members writes. A log that is never synced writes 256 KiB at a time.
fn each(sync: SyncMode) -> u64 {
    if sync == SyncMode::None { 1_000 } else { 200 }
}

/// How a life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Killed, after rolls and maintenance.
    Maintained,
    /// Killed, after a sync and a claim.
    Synced,
    /// Killed, one member having flushed.
    Flushed,
    /// Closed properly.
    Closed,
}

/// Makes several segments of two members; also returns what was promised.
fn life(sync: SyncMode, end: End) -> (DiskImage, Group) {
    let (sim, fs) = world(1, &DiskImage::new(), FaultPlan::none());
    let group = SharedGroup::of(2);
    let mut rng = sim.rng();
    sim.block_on(async {
        let log = open(&fs, sync, &group, 1, 2).await.expect("a fresh disk");
        let members = open_members(&log, sync, &group).await.expect("a fresh disk");
        for written in 0..2 * each(sync) {
            write_one(&members[written as usize % 2], &group, &mut rng).await.expect("nothing fails");
            if written % 50 == 0 {
                if sync == SyncMode::Interval {
                    members[0].sync().await.expect("nothing fails");
                }
                members[1].maintain().await.expect("nothing fails");
            }
        }
        assert!(log.stats().log.segments > 3, "the test needs several segments: {:?}", log.stats());
        match end {
            End::Maintained => {
                if sync == SyncMode::Interval {
                    members[0].sync().await.expect("nothing fails");
                }
                members[1].maintain().await.expect("nothing fails");
                assert!(!members[0].wants_maintenance(), "{sync:?}");
            }
            End::Synced => {
                members[0].sync().await.expect("nothing fails");
                log.claim().await.expect("nothing fails");
            }
            End::Flushed => flush(&members[0], &group).await.expect("nothing fails"),
            End::Closed => {
                for member in &members {
                    member.close().await.expect("nothing fails");
                }
                log.close().await.expect("nothing fails");
                log.claim().await.expect("nothing fails");
            }
        }
    });
    let group = group.0.lock().clone();
    (fs.crash_keeping(Keep::All, &mut rng), group)
}

fn segments(image: &DiskImage) -> Vec<PathBuf> {
    image.files().into_iter().map(|(path, _)| path).collect()
}

/// The result of opening what is left on `image`.
fn reopened(image: &DiskImage, sync: SyncMode, group: &Group) -> Result<Vec<u64>, (ErrorKind, String)> {
    let (sim, fs) = world(2, image, FaultPlan::none());
    let group = SharedGroup(Arc::new(Mutex::new(group.clone())));
    sim.block_on(async {
        let log = open(&fs, sync, &group, 2, 2).await?;
        let mut lasts = Vec::new();
        for member in 0..2 {
            // The promises do not matter here: only the log itself is to miss anything.
            {
                let promises = &mut group.0.lock().members[member];
                (promises.acknowledged, promises.synced) = (0, 0);
            }
            lasts.push(open_member(&log, sync, &group, member).await?.last());
        }
        Ok(lasts)
    })
    .map_err(|error: weir_io::Error| (error.kind(), error.to_string()))
}

#[test]
fn a_lost_last_segment_is_missed_as_far_as_it_was_known_to_be_durable() {
    for (sync, end) in MODES.into_iter().flat_map(|sync| [End::Synced, End::Closed].map(|end| (sync, end))) {
        let (image, group) = life(sync, end);
        assert_eq!(reopened(&image, sync, &group), Ok(vec![each(sync); 2]), "{sync:?} {end:?}");
        assert_eq!(group.claim.durable, 2 * each(sync), "{sync:?} {end:?}");
        // Neither a spare segment, nor one that has only a mark.
        let has_records = |path: &PathBuf| {
            image.read(path).is_some_and(|bytes| bytes[4_096..].iter().filter(|byte| **byte > 0).count() > 200)
        };
        let last = segments(&image).into_iter().rfind(has_records).expect("there are segments");
        let mut without = image.clone();
        assert!(without.remove(&last));
        // Or the end of the segment is missing, in whole records.
        let mut cut = image.clone();
        assert!(cut.cut(&last, 4_096));
        for image in [without, cut] {
            let (kind, message) = reopened(&image, sync, &group).expect_err("records are gone that were durable");
            assert_eq!(kind, ErrorKind::Corruption, "{sync:?} {end:?}: {message}");
            // A mark in a segment behind it may say so first.
            let says_what_to_do = message.contains("were durable") && message.contains("weir repair");
            assert!(says_what_to_do || message.contains("although it was durable"), "{message}");
        }
    }
}

#[test]
fn full_segments_are_claimed_by_maintenance_and_only_what_was_synced_is() {
    for sync in MODES {
        let (image, group) = life(sync, End::Maintained);
        let names = segments(&image);
        let mut short = image.clone();
        // A spare segment, the active one, and a full one in front of it.
        names.iter().rev().take(3).for_each(|last| assert!(short.remove(last)));
        match sync {
            SyncMode::None => {
                assert_eq!(group.claim.durable, 0, "nobody has synced it");
                let lasts = reopened(&short, sync, &group).expect("nobody knows that there was more");
                assert!(lasts.iter().all(|last| *last < each(sync)), "{lasts:?}");
            }
            SyncMode::Always | SyncMode::Interval => {
                assert!(group.claim.durable > 200, "{sync:?}: {:?}", group.claim);
                let (kind, message) = reopened(&short, sync, &group).expect_err("a full segment is gone");
                assert_eq!(kind, ErrorKind::Corruption, "{sync:?}: {message}");
            }
        }
        assert!(reopened(&image, sync, &group).is_ok(), "{sync:?}");
    }
}

#[test]
fn a_floor_is_written_together_with_what_is_durable() {
    let (image, group) = life(SyncMode::Interval, End::Flushed);
    assert!(group.claim.durable >= group.claim.floor, "{:?}", group.claim);
    assert!(reopened(&image, SyncMode::Interval, &group).is_ok());
    let (image, mut group) = life(SyncMode::Always, End::Closed);
    // All have flushed: nobody needs any of the records.
    group.claim.floor = 400;
    group.members.iter_mut().for_each(|promises| promises.persisted = 200);
    let mut empty = image.clone();
    segments(&image).iter().for_each(|path| assert!(empty.remove(path)));
    assert_eq!(reopened(&empty, SyncMode::Always, &group), Ok(vec![200, 200]), "then nothing is missed");
}

#[test]
fn a_segment_that_is_missing_in_the_middle_is_missed_in_every_mode() {
    for sync in MODES {
        let (image, mut group) = life(sync, End::Maintained);
        // Nothing is known from outside the log.
        group.claim.durable = 0;
        let names = segments(&image);
        // Behind the missing segment there is more than a spare one.
        for missing in &names[1..names.len() - 2] {
            let mut image = image.clone();
            assert!(image.remove(missing));
            let (kind, message) = reopened(&image, sync, &group).expect_err("there are records on both sides of it");
            assert_eq!(kind, ErrorKind::Corruption, "{sync:?}: {message}");
            if sync == SyncMode::None {
                let name = missing.file_name().and_then(|name| name.to_str()).expect("a name");
                assert!(message.contains(name) && message.contains("weir repair"), "{message}");
            }
        }
    }
}
