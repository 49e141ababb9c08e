//! Two partitions under one number, one of which is gone: an older catalogue was restored.

use std::path::Path;
use std::sync::Arc;

use weir_io::sim::{DiskImage, FaultPlan, Keep, SimFs};
use weir_io::{Fs, Op, Owner};
use weir_log::{
    Log, LogOptions, MemberLog, MemberOpening, Recovery, SharedLog, SharedOptions, SyncMode, WriteAheadLog,
};

use super::{CAP_BYTES, Claimed};
use crate::common::{DIR, options, world};

const SYNC: SyncMode = SyncMode::Interval;

type Opened = (MemberLog, Recovery, Vec<Vec<u8>>);

async fn open(fs: &Arc<SimFs>, salt: u64) -> SharedLog {
    let fs = Arc::clone(fs) as Arc<dyn Fs>;
    let options = SharedOptions { log: LogOptions { ..options(SYNC, salt) }, cap_bytes: CAP_BYTES };
    let keeper = Arc::<Claimed>::default();
    SharedLog::open(fs, Path::new(DIR), options, 0, &|_| true, keeper).await.expect("it is whole")
}

async fn member(log: &SharedLog, identity: u64, persisted: u64) -> weir_io::Result<Opened> {
    let opening = MemberOpening { member: 7, identity, owner: Owner::default(), persisted, durable: 0 };
    let mut records = Vec::new();
    let mut replay = |_, payload: &[u8]| {
        records.push(payload.to_vec());
        Op::ready(Ok(()))
    };
    let (handle, recovery) = log.member(opening, &mut replay).await?;
    Ok((handle, recovery, records))
}

async fn write(log: &MemberLog, payloads: &[&[u8]]) {
    for payload in payloads {
        let index = log.append(payload).expect("nothing fails");
        log.commit(index).await.expect("nothing fails");
    }
}

#[test]
fn a_member_is_not_given_what_another_partition_of_its_number_has_written() {
    let (sim, fs) = world(1, &DiskImage::new(), FaultPlan::none());
    sim.block_on(async {
        let log = open(&fs, 1).await;
        let (old, ..) = member(&log, 11, 0).await.expect("a fresh disk");
        write(&old, &[b"old 1", b"old 2", b"old 3"]).await;
    });
    let (sim, fs) = world(2, &fs.crash_keeping(Keep::All, &mut sim.rng()), FaultPlan::none());
    sim.block_on(async {
        let log = open(&fs, 2).await;
        // A new partition was made under the same number.
        let (new, recovery, records) = member(&log, 22, 0).await.expect("others' records are no damage of its own");
        assert_eq!((recovery.foreign, recovery.last, records), (3, 0, Vec::<Vec<u8>>::new()));
        write(&new, &[b"new 1", b"new 2"]).await;
        assert_eq!(new.last(), 2);
    });
    let (sim, fs) = world(3, &fs.crash_keeping(Keep::All, &mut sim.rng()), FaultPlan::none());
    sim.block_on(async {
        let log = open(&fs, 3).await;
        let (new, recovery, records) = member(&log, 22, 0).await.expect("it is whole");
        assert_eq!((recovery.foreign, records), (3, vec![b"new 1".to_vec(), b"new 2".to_vec()]));
        // The other partition's records are no longer needed.
        new.truncate(2).await.expect("nothing fails");
        assert_eq!(log.cascade(), []);
        assert!(log.unflushed().is_empty());
    });
}

#[test]
fn what_was_written_with_tags_of_version_1_is_read() {
    let (sim, fs) = world(1, &DiskImage::new(), FaultPlan::none());
    let version_1 =
        |index: u8, payload: &[u8]| [&[1, 0, 0, 0, 7, 0, 0, 0, index, 0, 0, 0, 0, 0, 0, 0], payload].concat();
    sim.block_on(async {
        let disk = Arc::clone(&fs) as Arc<dyn Fs>;
        let mut replay = |_, _: &[u8]| Op::ready(Ok(()));
        let (log, _) = Log::open(disk, Path::new(DIR), options(SYNC, 1), 0, &mut replay).await.expect("a fresh disk");
        for (index, payload) in [(1, b"one"), (2, b"two")] {
            let place = log.append(&version_1(index, payload)).expect("nothing fails");
            log.commit(place).await.expect("nothing fails");
        }
    });
    let (sim, fs) = world(2, &fs.crash_keeping(Keep::All, &mut sim.rng()), FaultPlan::none());
    sim.block_on(async {
        let log = open(&fs, 2).await;
        let early = log.carry(7).await.expect_err("nobody knows whose they are");
        assert_eq!(early.kind(), weir_io::ErrorKind::Invalid);
        let (opened, _, records) = member(&log, 22, 0).await.expect("it is whole");
        assert_eq!(records, [b"one", b"two"]);
        write(&opened, &[b"three"]).await;
    });
    for carries in [false, true] {
        let (sim, fs) = world(3, &fs.crash_keeping(Keep::All, &mut sim.rng()), FaultPlan::none());
        sim.block_on(async {
            let log = open(&fs, 3).await;
            let (opened, recovery, records) = member(&log, 22, 1).await.expect("it is whole");
            assert_eq!((recovery.foreign, records), (0, vec![b"two".to_vec(), b"three".to_vec()]));
            drop(opened);
            if carries {
                log.carry(7).await.expect("they are known to be its own");
                let (_, _, records) = member(&log, 22, 1).await.expect("it is whole");
                assert_eq!(records, [b"two".to_vec(), b"three".to_vec()]);
            }
        });
    }
}
