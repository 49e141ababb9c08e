//! The sorted file in which an opening keeps records by member, and what happens if that file is of no use.

use std::sync::Arc;

use weir_io::Rng;
use weir_io::sim::{DiskImage, Fault, FaultPlan, Keep, OpKind, SimFs};
use weir_log::{SyncMode, WriteAheadLog};

use super::{SharedGroup, open, open_member, open_members, write};
use crate::common::world;

fn has_file(fs: &Arc<SimFs>) -> bool {
    let image = fs.crash_keeping(Keep::All, &mut Rng::new(1));
    image.files().iter().any(|(path, _)| path.ends_with("sorted.tmp"))
}

/// A disk after a power cut, on which three members have 40 synced records each, and what they were promised.
fn filled() -> (DiskImage, SharedGroup) {
    let (sim, fs) = world(1, &DiskImage::new(), FaultPlan::none());
    let (group, sync) = (SharedGroup::of(3), SyncMode::Interval);
    sim.block_on(async {
        let log = open(&fs, sync, &group, 1, 3).await.expect("a fresh disk");
        let members = open_members(&log, sync, &group).await.expect("a fresh disk");
        for nth in 0..120_u8 {
            write(&members[usize::from(nth % 3)], &group, |_| vec![nth; 1_000]).await.expect("nothing fails yet");
        }
        members[2].sync().await.expect("nothing fails yet");
        group.0.lock().members.iter_mut().for_each(|promises| promises.synced = 40);
    });
    (fs.crash_keeping(Keep::None, &mut sim.rng()), group)
}

#[test]
fn where_the_file_cannot_be_written_or_read_it_goes_and_the_log_is_read() {
    let faults = [
        (OpKind::Write, Fault::NoSpace),
        (OpKind::Write, Fault::Error),
        (OpKind::Read, Fault::Error),
        (OpKind::Read, Fault::FlipBit),
    ];
    for (kind, fault) in faults {
        let (image, group) = filled();
        let (sim, fs) = world(2, &image, FaultPlan::none());
        let sync = SyncMode::Interval;
        sim.block_on(async {
            if kind == OpKind::Write {
                fs.fail_next(Some(kind), fault);
            }
            let log = open(&fs, sync, &group, 2, 3).await.expect("it is whole");
            assert_eq!(has_file(&fs), kind == OpKind::Read, "{kind:?} {fault:?}");
            for member in 0..3 {
                if kind == OpKind::Read {
                    fs.fail_next(Some(kind), fault);
                }
                let opened = open_member(&log, sync, &group, member).await;
                assert_eq!(opened.unwrap_or_else(|error| panic!("{kind:?} {fault:?}: {error}")).last(), 40);
            }
            assert!(!has_file(&fs), "{kind:?} {fault:?}");
        });
    }
}

#[test]
fn the_file_goes_also_where_the_last_member_needs_nothing_of_it() {
    let (image, group) = filled();
    // Its engine holds everything, and the log was not truncated any more.
    group.0.lock().members[2].persisted = 40;
    let (sim, fs) = world(2, &image, FaultPlan::none());
    sim.block_on(async {
        let log = open(&fs, SyncMode::Interval, &group, 2, 3).await.expect("it is whole");
        for member in 0..3 {
            assert!(has_file(&fs), "member {member} was not opened yet");
            open_member(&log, SyncMode::Interval, &group, member).await.expect("it is whole");
        }
        assert!(!has_file(&fs));
    });
}
