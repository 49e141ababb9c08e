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

#[test]
fn where_the_file_cannot_be_written_or_read_it_goes_and_the_log_is_read() {
    let faults = [
        (OpKind::Write, Fault::NoSpace),
        (OpKind::Write, Fault::Error),
        (OpKind::Read, Fault::Error),
        (OpKind::Read, Fault::FlipBit),
    ];
    for (kind, fault) in faults {
        let (sim, fs) = world(1, &DiskImage::new(), FaultPlan::none());
        let (group, sync) = (SharedGroup::of(3), SyncMode::Interval);
        let mut rng = sim.rng();
        sim.block_on(async {
            let log = open(&fs, sync, &group, 1, 3).await.expect("a fresh disk");
            let members = open_members(&log, sync, &group).await.expect("a fresh disk");
            for nth in 0..120_u8 {
                write(&members[usize::from(nth % 3)], &group, |_| vec![nth; 1_000]).await.expect("nothing fails yet");
            }
            members[2].sync().await.expect("nothing fails yet");
            group.0.lock().members.iter_mut().for_each(|promises| promises.synced = 40);
        });
        let (sim, fs) = world(2, &fs.crash_keeping(Keep::None, &mut rng), FaultPlan::none());
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
