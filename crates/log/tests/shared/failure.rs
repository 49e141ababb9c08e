//! A write or a sync fails: all members have to flush, and then go on.

use futures_util::future::join_all;
use weir_io::sim::{DiskImage, Fault, FaultPlan, OpKind};
use weir_io::{ErrorKind, Result};
use weir_log::{SyncMode, WriteAheadLog};

use super::{SharedGroup, flush, open, open_member, open_members, write_one};
use crate::common::world;

#[test]
fn a_failed_log_is_replaced_when_all_of_its_members_have_flushed() {
    for sync in [SyncMode::Always, SyncMode::Interval] {
        let (sim, fs) = world(1, &DiskImage::new(), FaultPlan::none());
        let group = SharedGroup::of(3);
        let mut rng = sim.rng();
        sim.block_on(async {
            let log = open(&fs, sync, &group, 1, 3).await.expect("a fresh disk");
            let members = open_members(&log, sync, &group).await.expect("a fresh disk");
            for member in &members[..2] {
                write_one(member, &group, &mut rng).await.expect("nothing fails yet");
            }
            fs.fail_next(Some(OpKind::Write), Fault::Error);
            write_one(&members[0], &group, &mut rng).await.expect_err("its write fails");
            assert!(members.iter().all(|member| member.failure().is_some()), "nobody may rely on it");
            assert!(members[2].append(b"refused").is_err());
            assert_eq!(log.cascade(), [(0, 2), (1, 1)], "both have something that is nowhere else for sure");
            let early = members[0].replace(1).await.expect_err("it holds only the first");
            assert_eq!(early.kind(), ErrorKind::Invalid);
            flush(&members[0], &group).await.expect("tables are not in the log");
            members[0].replace(2).await.expect_err("the other one has not flushed");
            assert!(members[0].failure().is_some());
            flush(&members[1], &group).await.expect("tables are not in the log");
            members[1].replace(1).await.expect("all have flushed");
            assert!(members.iter().all(|member| member.failure().is_none()));
            assert_eq!(log.stats().log.failures, 1);
            for member in &members {
                write_one(member, &group, &mut rng).await.expect("they go on");
                member.sync().await.expect("they go on");
                group.0.lock().members[member.member() as usize].synced = member.last();
            }
        });
        let (sim, fs) = world(2, &fs.crash(&mut rng), FaultPlan::none());
        sim.block_on(async {
            let log = open(&fs, sync, &group, 2, 3).await.expect("behind the hole it is whole");
            open_members(&log, sync, &group).await.expect("behind the hole they are whole");
        });
    }
}

#[test]
fn of_all_who_replace_a_failed_log_at_once_one_does_and_all_go_on() {
    for seed in 0..20 {
        let (sim, fs) = world(seed, &DiskImage::new(), FaultPlan::none());
        let group = SharedGroup::of(5);
        let mut rng = sim.rng();
        sim.block_on(async {
            let log = open(&fs, SyncMode::Interval, &group, 1, 5).await.expect("a fresh disk");
            let members = open_members(&log, SyncMode::Interval, &group).await.expect("a fresh disk");
            for member in &members {
                write_one(member, &group, &mut rng).await.expect("nothing fails yet");
            }
            fs.fail_next(Some(OpKind::Write), Fault::Error);
            write_one(&members[0], &group, &mut rng).await.expect_err("its write fails");
            for member in &members {
                flush(member, &group).await.expect("tables are not in the log");
            }
            let replaced = join_all(members.iter().map(|member| member.replace(member.last()))).await;
            replaced.into_iter().collect::<Result<Vec<()>>>().expect("each finds it replaced, by itself or by another");
            for member in &members {
                write_one(member, &group, &mut rng).await.expect("they go on");
                member.sync().await.expect("they go on");
                group.0.lock().members[member.member() as usize].synced = member.last();
            }
            // A member that comes late replaces nothing: the log serves again.
            members[0].replace(members[0].last()).await.expect("nothing is to do");
            assert_eq!(log.stats().log.failures, 1);
        });
        let (sim, fs) = world(seed + 100, &fs.crash(&mut rng), FaultPlan::none());
        sim.block_on(async {
            let log = open(&fs, SyncMode::Interval, &group, 2, 5).await.expect("behind the hole it is whole");
            open_members(&log, SyncMode::Interval, &group).await.expect("and has what was synced");
        });
    }
}

#[test]
fn a_member_whose_close_failed_can_be_opened_while_somebody_holds_on_to_it() {
    let (sim, fs) = world(1, &DiskImage::new(), FaultPlan::none());
    let group = SharedGroup::of(2);
    let mut rng = sim.rng();
    sim.block_on(async {
        let log = open(&fs, SyncMode::Interval, &group, 1, 2).await.expect("a fresh disk");
        let members = open_members(&log, SyncMode::Interval, &group).await.expect("a fresh disk");
        write_one(&members[0], &group, &mut rng).await.expect("nothing fails yet");
        fs.fail_next(Some(OpKind::Write), Fault::Error);
        write_one(&members[1], &group, &mut rng).await.expect_err("its write fails");
        write_one(&members[0], &group, &mut rng).await.expect_err("it is fenced");
        members[1].close().await.expect_err("what it appended is nowhere for sure");
        let anew = open_member(&log, SyncMode::Interval, &group, 1).await.expect("the old handle is no hindrance");
        assert!(anew.failure().is_some(), "the log has failed all the same");
        assert!(members[1].append(b"late").is_err());
    });
}

/// A partition that cannot be put to sleep goes on with the handle that it has.
#[test]
fn a_member_whose_close_failed_is_open_again_once_its_log_is_replaced() {
    let (sim, fs) = world(1, &DiskImage::new(), FaultPlan::none());
    let group = SharedGroup::of(1);
    let mut rng = sim.rng();
    sim.block_on(async {
        let log = open(&fs, SyncMode::Interval, &group, 1, 1).await.expect("a fresh disk");
        let member = open_member(&log, SyncMode::Interval, &group, 0).await.expect("a fresh disk");
        write_one(&member, &group, &mut rng).await.expect("nothing fails yet");
        fs.fail_next(Some(OpKind::Sync), Fault::Error);
        member.close().await.expect_err("what it appended is nowhere for sure");
        flush(&member, &group).await.expect("tables are not in the log");
        member.replace(member.last()).await.expect("it holds everything");
        let twice = open_member(&log, SyncMode::Interval, &group, 0).await.err().expect("it is open");
        assert_eq!(twice.kind(), ErrorKind::Invalid, "{twice}");
        write_one(&member, &group, &mut rng).await.expect("it goes on");
        member.close().await.expect("nothing fails any more");
    });
}

/// Works on a failing disk, flushing and replacing after each failure; then cuts the power and checks.
fn work_through(seed: u64, sync: SyncMode, faults: FaultPlan) -> u64 {
    let (sim, fs) = world(seed, &DiskImage::new(), FaultPlan::none());
    let group = SharedGroup::of(3);
    let mut rng = sim.rng();
    let failures = sim.block_on(async {
        let log = open(&fs, sync, &group, seed, 3).await.expect("nothing fails yet");
        let members = open_members(&log, sync, &group).await.expect("nothing fails yet");
        fs.set_faults(faults);
        for _ in 0..60 {
            let member = &members[rng.below(3) as usize];
            let (number, last) = (member.member() as usize, member.last());
            let written = write_one(member, &group, &mut rng).await.is_ok();
            if written && rng.chance(0.3) && member.sync().await.is_ok() {
                let synced = &mut group.0.lock().members[number].synced;
                *synced = (last + 1).max(*synced);
            }
            if rng.chance(0.1) {
                // If removing fails, the segments stay for the next time.
                let _tried_again = flush(member, &group).await;
            }
            for attempt in 0.. {
                if members.iter().all(|member| member.failure().is_none()) {
                    break;
                }
                assert!(attempt < 100, "the disk does not fail that often");
                for member in &members {
                    let _tried_again = flush(member, &group).await;
                    let _tried_again = member.replace(member.last()).await;
                }
            }
        }
        log.stats().log.failures
    });
    let (sim, fs) = world(seed + 1, &fs.crash(&mut rng), FaultPlan::none());
    sim.block_on(async {
        let log = open(&fs, sync, &group, seed + 7, 3).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        open_members(&log, sync, &group).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    });
    failures
}

#[test]
fn nothing_that_failed_is_believed_by_any_member() {
    let mut failures = 0;
    for seed in 0..60 {
        let syncs = FaultPlan::none().chance(OpKind::Sync, Fault::Error, 0.2);
        failures += work_through(seed, SyncMode::Interval, syncs);
        let writes = FaultPlan::none().chance(OpKind::Write, Fault::Error, 0.1);
        failures += work_through(seed, SyncMode::Always, writes.clone());
        failures += work_through(seed, SyncMode::Interval, writes);
    }
    println!("{failures} failures");
    assert!(failures > 100, "only {failures} failures");
}
