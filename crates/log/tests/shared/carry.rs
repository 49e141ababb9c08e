//! A member that cannot flush: its unflushed records are carried out of the log, and the others go on.

use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::join;
use parking_lot::Mutex;
use weir_io::sim::{DiskImage, Fault, FaultPlan, Keep, OpKind, SimFs};
use weir_io::{ErrorKind, Rng};
use weir_log::{MemberLog, SharedLog, SyncMode, WriteAheadLog};

use super::{CAP_BYTES, Group, SharedGroup, flush, named, open, open_member, open_members, write, write_one};
use crate::common::{DIR, world};

/// The number of files of carried logs.
fn carried(fs: &SimFs) -> usize {
    let dir = Path::new(DIR).with_file_name("carried");
    let image = fs.crash_keeping(Keep::All, &mut Rng::new(1));
    image.files().iter().filter(|(path, _)| path.starts_with(&dir)).count()
}

/// A log of two members on a fresh disk. The first member has twenty records, all synced.
async fn with_twenty(
    fs: &Arc<SimFs>,
    sync: SyncMode,
    group: &SharedGroup,
    rng: &mut Rng,
) -> (SharedLog, Vec<MemberLog>) {
    let log = open(fs, sync, group, 1, 2).await.expect("a fresh disk");
    let members = open_members(&log, sync, group).await.expect("a fresh disk");
    for _ in 0..20 {
        write_one(&members[0], group, rng).await.expect("nothing fails yet");
    }
    members[0].sync().await.expect("nothing fails yet");
    group.0.lock().members[0].synced = members[0].last();
    (log, members)
}

/// The healthy members write and flush until `bytes` more have passed through the log.
async fn pass(log: &SharedLog, healthy: &[MemberLog], group: &SharedGroup, rng: &mut Rng, bytes: u64) {
    let before = log.stats().log.bytes_written;
    for written in 0.. {
        if log.stats().log.bytes_written >= before + bytes {
            return;
        }
        write_one(&healthy[written % healthy.len()], group, rng).await.expect("they go on");
        if written % 20 == 0 {
            for member in healthy {
                flush(member, group).await.expect("they can flush");
            }
        }
    }
}

#[test]
fn a_member_that_never_flushes_keeps_the_log_no_longer_than_its_owner_lets_it() {
    for sync in [SyncMode::Always, SyncMode::Interval, SyncMode::None] {
        let (sim, fs) = world(1, &DiskImage::new(), FaultPlan::none());
        let group = SharedGroup::of(3);
        let mut rng = sim.rng();
        sim.block_on(async {
            let log = open(&fs, sync, &group, 1, 3).await.expect("a fresh disk");
            let members = open_members(&log, sync, &group).await.expect("a fresh disk");
            let (stuck, healthy) = members.split_first().expect("three");
            for _ in 0..12 {
                write_one(stuck, &group, &mut rng).await.expect("nothing fails");
                pass(&log, healthy, &group, &mut rng, CAP_BYTES).await;
                healthy[0].sync().await.expect("nothing fails");
                if named(&log).contains(&0) {
                    log.carry(0).await.expect("nothing fails");
                    assert!(!named(&log).contains(&0), "it keeps nothing: {:?}", log.cascade());
                }
                let live = log.stats().log.live_bytes;
                // Without syncs the log is written 256 KiB at a time.
                let at_once = if sync == SyncMode::None { 512 << 10 } else { 0 };
                assert!(live < 3 * CAP_BYTES + at_once, "{sync:?}: {live} bytes");
            }
            assert_eq!(log.stats().carried, 1);
            assert!(carried(&fs) > 0 && log.unflushed().contains(&0));
            stuck.sync().await.expect("what was carried is durable, the rest is synced");
            group.0.lock().members[0].synced = stuck.last();
        });
        // The member is given back the records that were carried, and those that were not.
        let (sim, fs) = world(2, &fs.crash_keeping(Keep::None, &mut rng), FaultPlan::none());
        sim.block_on(async {
            let log = open(&fs, sync, &group, 2, 3).await.expect("it is whole");
            assert!(log.unflushed().contains(&0));
            let members = open_members(&log, sync, &group).await.expect("it is whole");
            assert_eq!(members[0].last(), 12, "{sync:?}");
            write_one(&members[0], &group, &mut rng).await.expect("it goes on");
            // Now the member can flush.
            flush(&members[0], &group).await.expect("nothing fails");
            assert_eq!((carried(&fs), log.stats().carried), (0, 0), "{sync:?}");
        });
    }
}

#[test]
fn after_a_failure_those_who_have_flushed_go_on_without_the_one_who_cannot() {
    for (sync, fault) in
        [(SyncMode::Always, OpKind::Write), (SyncMode::Interval, OpKind::Write), (SyncMode::Interval, OpKind::Sync)]
    {
        let (sim, fs) = world(1, &DiskImage::new(), FaultPlan::none());
        let group = SharedGroup::of(3);
        let mut rng = sim.rng();
        sim.block_on(async {
            let log = open(&fs, sync, &group, 1, 3).await.expect("a fresh disk");
            let members = open_members(&log, sync, &group).await.expect("a fresh disk");
            let (stuck, healthy) = members.split_first().expect("three");
            for member in &members {
                write_one(member, &group, &mut rng).await.expect("nothing fails yet");
            }
            fs.fail_next(Some(fault), Fault::Error);
            let written = write_one(stuck, &group, &mut rng).await;
            let synced = stuck.sync().await;
            assert!(written.is_err() || synced.is_err(), "{sync:?} {fault:?}");
            let is_in_doubt = written.is_err();
            for member in healthy {
                flush(member, &group).await.expect("tables are not in the log");
                member.replace(member.last()).await.expect_err("one has not flushed");
            }
            assert_eq!(named(&log), [0]);
            log.carry(0).await.expect("the log can be read");
            healthy[0].replace(healthy[0].last()).await.expect("nobody is waited for");
            for member in healthy {
                write_one(member, &group, &mut rng).await.expect("they go on");
                member.sync().await.expect("they go on");
                group.0.lock().members[member.member() as usize].synced = member.last();
            }
            // Carried records are safe; records that were not written are in the member's memory alone.
            stuck.commit(1).await.expect("it was acknowledged, and is carried");
            group.0.lock().members[0].synced = 1;
            match is_in_doubt {
                true => {
                    stuck.commit(2).await.expect_err("nobody knows where it is");
                    assert!(stuck.append(b"late").is_err() && stuck.sync().await.is_err());
                    assert!(stuck.failure().is_some() && stuck.stats().durable == 1);
                    assert!(log.cascade().is_empty(), "it keeps nothing");
                    let early = stuck.replace(1).await.expect_err("it has not flushed");
                    assert_eq!(early.kind(), ErrorKind::Invalid);
                }
                false => assert!(stuck.failure().is_none(), "all of it could be read"),
            }
        });
        let image = fs.crash_keeping(Keep::None, &mut rng);
        let at_the_crash = group.0.lock().clone();
        let (sim, fs) = world(2, &image, FaultPlan::none());
        let group = SharedGroup(Arc::new(Mutex::new(at_the_crash)));
        sim.block_on(async {
            let log = open(&fs, sync, &group, 2, 3).await.expect("behind the hole it is whole");
            let members = open_members(&log, sync, &group).await.expect("and each has what was promised");
            for member in &members {
                write_one(member, &group, &mut rng).await.expect("they go on");
            }
        });
    }
}

#[test]
fn a_member_in_doubt_goes_on_when_it_has_flushed() {
    let (sim, fs) = world(1, &DiskImage::new(), FaultPlan::none());
    let group = SharedGroup::of(2);
    let mut rng = sim.rng();
    sim.block_on(async {
        let log = open(&fs, SyncMode::Always, &group, 1, 2).await.expect("a fresh disk");
        let members = open_members(&log, SyncMode::Always, &group).await.expect("a fresh disk");
        write_one(&members[0], &group, &mut rng).await.expect("nothing fails yet");
        fs.fail_next(Some(OpKind::Write), Fault::Error);
        write_one(&members[0], &group, &mut rng).await.expect_err("its write fails");
        log.carry(0).await.expect("the log can be read");
        members[1].replace(0).await.expect("nobody is waited for");
        write_one(&members[1], &group, &mut rng).await.expect("it goes on");
        assert!(carried(&fs) > 0);
        flush(&members[0], &group).await.expect("now it can");
        members[0].replace(2).await.expect("it holds everything");
        assert_eq!((members[0].failure().is_none(), carried(&fs)), (true, 0));
        write_one(&members[0], &group, &mut rng).await.expect("it goes on");
        assert_eq!(members[0].last(), 3);
        assert_eq!(log.stats().log.failures, 1);
    });
    let (sim, fs) = world(2, &fs.crash_keeping(Keep::None, &mut rng), FaultPlan::none());
    sim.block_on(async {
        let log = open(&fs, SyncMode::Always, &group, 2, 2).await.expect("it is whole");
        open_members(&log, SyncMode::Always, &group).await.expect("it is whole");
    });
}

#[test]
fn what_was_carried_goes_with_its_member() {
    let (sim, fs) = world(1, &DiskImage::new(), FaultPlan::none());
    let group = SharedGroup::of(2);
    let mut rng = sim.rng();
    sim.block_on(async {
        let log = open(&fs, SyncMode::Interval, &group, 1, 2).await.expect("a fresh disk");
        let members = open_members(&log, SyncMode::Interval, &group).await.expect("a fresh disk");
        for member in &members {
            write_one(member, &group, &mut rng).await.expect("nothing fails");
            log.carry(member.member()).await.expect("nothing fails");
        }
        assert_eq!((log.stats().carried, carried(&fs)), (2, 2));
        log.forget(0).await.expect("nothing fails");
        assert_eq!((log.stats().carried, carried(&fs)), (1, 1));
    });
    let (sim, fs) = world(2, &fs.crash_keeping(Keep::All, &mut rng), FaultPlan::none());
    sim.block_on(async {
        // The other member was dropped in between.
        let log = open(&fs, SyncMode::Interval, &group, 2, 1).await.expect("it is whole");
        assert_eq!((log.stats().carried, carried(&fs)), (0, 0));
    });
}

/// Carries at some moment of a life, cuts the power at every change, and checks what is left.
#[test]
fn a_power_cut_while_something_is_carried_loses_nothing_promised() {
    let mut cuts_in_all = 0;
    for (seed, sync) in
        (0..6).flat_map(|seed| [(seed, SyncMode::Always), (seed, SyncMode::Interval), (seed, SyncMode::None)])
    {
        let (sim, fs) = world(seed, &DiskImage::new(), FaultPlan::none());
        let group = SharedGroup::of(2);
        let cuts: Arc<Mutex<Vec<(DiskImage, Group)>>> = Arc::default();
        let mut rng = sim.rng();
        {
            let (cuts, group, mut rng) = (Arc::clone(&cuts), group.clone(), sim.rng().fork("cuts"));
            fs.on_cut_point(move |fs, _| {
                let keep = [Keep::Random, Keep::Prefix, Keep::None, Keep::All][rng.below(4) as usize];
                let image = fs.crash_keeping(keep, &mut rng);
                if let Some(group) = group.0.try_lock() {
                    cuts.lock().push((image, group.clone()));
                }
            });
        }
        sim.block_on(async {
            let log = open(&fs, sync, &group, seed, 2).await.expect("a fresh disk");
            let members = open_members(&log, sync, &group).await.expect("a fresh disk");
            for round in 0..4 {
                for _ in 0..6 {
                    write_one(&members[rng.below(2) as usize], &group, &mut rng).await.expect("nothing fails");
                }
                if rng.chance(0.5) {
                    members[0].sync().await.expect("nothing fails");
                    let synced = members[0].last();
                    group.0.lock().members[0].synced = synced;
                    log.claim().await.expect("nothing fails");
                }
                log.carry(0).await.expect("nothing fails");
                // The carried records are durable now.
                let last = members[0].last();
                if sync != SyncMode::None || log.stats().log.committed == log.stats().log.last {
                    group.0.lock().members[0].synced = last;
                }
                if round == 2 {
                    flush(&members[0], &group).await.expect("nothing fails");
                }
                flush(&members[1], &group).await.expect("nothing fails");
            }
        });
        fs.clear_hook();
        let cuts = std::mem::take(&mut *cuts.lock());
        cuts_in_all += cuts.len();
        for (number, (image, before)) in (0..).zip(cuts) {
            let (sim, fs) = world(seed ^ number, &image, FaultPlan::none());
            let group = SharedGroup(Arc::new(Mutex::new(before)));
            sim.block_on(async {
                let log = open(&fs, sync, &group, 100 + number, 2)
                    .await
                    .unwrap_or_else(|error| panic!("{sync:?}, seed {seed}, cut {number}: {error}"));
                let member = open_member(&log, sync, &group, 0)
                    .await
                    .unwrap_or_else(|error| panic!("{sync:?}, seed {seed}, cut {number}: {error}"));
                write_one(&member, &group, &mut rng).await.expect("it goes on");
                log.carry(0).await.expect("once more");
                drop(member);
                let again = open_member(&log, sync, &group, 0).await.expect("it is whole");
                write_one(&again, &group, &mut rng).await.expect("it goes on");
            });
        }
    }
    assert!(cuts_in_all > 500, "only {cuts_in_all} cuts");
}

/// Polls `life` up to `polls` times. A caller that drops it then has killed the process.
pub async fn polled<T>(life: impl Future<Output = T>, polls: usize) -> Option<T> {
    let (mut life, mut left) = (pin!(life), polls);
    poll_fn(|cx| match life.as_mut().poll(cx) {
        Poll::Ready(ended) => Poll::Ready(Some(ended)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

/// The process is killed at some moment while something is carried, with its writes in the page cache. The next process
/// gives segments away. Then the power is cut.
#[test]
fn a_kill_while_something_is_carried_and_then_a_power_cut_lose_nothing_promised() {
    for (seed, sync) in [(1, SyncMode::Always), (2, SyncMode::Interval)] {
        for polls in 0.. {
            let (sim, fs) = world(seed, &DiskImage::new(), FaultPlan::none());
            let group = SharedGroup::of(2);
            let mut rng = sim.rng();
            let has_ended = sim.block_on(async {
                let (log, _members) = with_twenty(&fs, sync, &group, &mut rng).await;
                polled(log.carry(0), polls).await.is_some()
            });
            sim.block_on(async {
                let log = open(&fs, sync, &group, 2, 2).await.expect("it is whole");
                // An incomplete carried log belongs to nobody, and is removed.
                assert!(carried(&fs) == 0 || log.stats().carried == 1, "seed {seed}, {polls} polls");
                let members = open_members(&log, sync, &group).await.expect("it is whole");
                assert_eq!(members[0].last(), 20);
                pass(&log, &members[1..], &group, &mut rng, CAP_BYTES).await;
                assert_eq!(named(&log).contains(&0), log.stats().carried == 0, "seed {seed}, {polls} polls");
            });
            let (sim, fs) = world(seed, &fs.crash_keeping(Keep::None, &mut rng), FaultPlan::none());
            sim.block_on(async {
                let lost = |error| panic!("{sync:?}, seed {seed}, {polls} polls: {error}");
                let log = open(&fs, sync, &group, 3, 2).await.unwrap_or_else(lost);
                open_members(&log, sync, &group)
                    .await
                    .unwrap_or_else(|error| panic!("{sync:?}, {seed}, {polls}: {error}"));
            });
            if has_ended {
                assert!(polls > 5, "it was killed before it ended");
                break;
            }
        }
    }
}

/// A failed sync has forgotten the bytes that it should have made durable: the next sync succeeds, and proves nothing.
#[test]
fn what_a_failed_copy_has_left_is_removed_and_never_trusted() {
    for (seed, kind) in
        (0..8).flat_map(|seed| [OpKind::Sync, OpKind::Write, OpKind::Rename, OpKind::SyncDir].map(|kind| (seed, kind)))
    {
        let (sim, fs) = world(seed, &DiskImage::new(), FaultPlan::none());
        let group = SharedGroup::of(2);
        let mut rng = sim.rng();
        sim.block_on(async {
            let (log, members) = with_twenty(&fs, SyncMode::Interval, &group, &mut rng).await;
            fs.fail_next(Some(kind), Fault::Error);
            log.carry(0).await.expect_err("the copy fails");
            assert_eq!((log.stats().carried, carried(&fs)), (0, 0), "{kind:?}: nothing is left of it");
            log.carry(0).await.expect("nothing fails any more");
            assert_eq!((log.stats().carried, log.cascade().len()), (1, 0));
            pass(&log, &members[1..], &group, &mut rng, CAP_BYTES).await;
        });
        let (sim, fs) = world(seed, &fs.crash_keeping(Keep::None, &mut rng), FaultPlan::none());
        sim.block_on(async {
            let log = open(&fs, SyncMode::Interval, &group, 2, 2).await.expect("it is whole");
            let members = open_members(&log, SyncMode::Interval, &group).await.expect("it is whole");
            assert_eq!(members[0].last(), 20, "seed {seed}, {kind:?}");
            flush(&members[0], &group).await.expect("now it can");
            assert_eq!((log.stats().carried, carried(&fs)), (0, 0));
        });
    }
}

#[test]
fn a_member_that_is_never_opened_is_carried_again_in_the_next_life_also_where_a_copy_is_damaged() {
    for is_damaged in [false, true] {
        let (sim, fs) = world(1, &DiskImage::new(), FaultPlan::none());
        let (group, sync) = (SharedGroup::of(2), SyncMode::Interval);
        let mut rng = sim.rng();
        sim.block_on(async {
            let log = open(&fs, sync, &group, 1, 2).await.expect("a fresh disk");
            let members = open_members(&log, sync, &group).await.expect("a fresh disk");
            for _ in 0..4 {
                write(&members[0], &group, |index| vec![index as u8; 20]).await.expect("nothing fails");
            }
            flush(&members[0], &group).await.expect("nothing fails");
            for _ in 0..16 {
                write(&members[0], &group, |index| vec![index as u8; 20]).await.expect("nothing fails");
            }
            log.carry(0).await.expect("nothing fails");
            for _ in 0..5 {
                write(&members[0], &group, |index| vec![index as u8; 20]).await.expect("nothing fails");
            }
            members[0].sync().await.expect("nothing fails");
        });
        assert_eq!(group.0.lock().claim.floor, 0, "no segment has gone: all of its records are read again");
        let mut image = fs.crash_keeping(Keep::None, &mut rng);
        if is_damaged {
            let dir = Path::new(DIR).with_file_name("carried");
            let files: Vec<_> = image.files().into_iter().map(|(path, _)| path).collect();
            let copy = files.iter().find(|path| path.starts_with(&dir)).expect("it was carried");
            assert!(image.remove(copy));
        }
        let (sim, fs) = world(2, &image, FaultPlan::none());
        sim.block_on(async {
            let log = open(&fs, sync, &group, 2, 2).await.expect("it is whole");
            let member = open_member(&log, sync, &group, 1).await.expect("it is whole");
            log.carry(0).await.expect("what was carried before is not read");
            assert!(log.cascade().is_empty() && carried(&fs) > 0);
            pass(&log, &[member], &group, &mut rng, CAP_BYTES).await;
            assert!(group.0.lock().claim.floor > 25, "it keeps nothing");
            match is_damaged {
                false => assert_eq!(open_member(&log, sync, &group, 0).await.expect("it is whole").last(), 25),
                true => {
                    let refused = open_member(&log, sync, &group, 0).await.err().expect("a file is missing");
                    assert!(
                        refused.kind() == ErrorKind::Corruption && refused.to_string().contains("carried"),
                        "{refused}"
                    );
                }
            }
        });
    }
}

#[test]
fn a_member_that_is_dropped_while_it_is_carried_leaves_nothing() {
    let (sim, fs) = world(1, &DiskImage::new(), FaultPlan::none());
    let group = SharedGroup::of(2);
    let mut rng = sim.rng();
    sim.block_on(async {
        let (log, _members) = with_twenty(&fs, SyncMode::Interval, &group, &mut rng).await;
        let (carrying, dropped) = join(log.carry(0), log.forget(0)).await;
        carrying.expect("nothing fails");
        dropped.expect("nothing fails");
        assert_eq!((log.stats().carried, carried(&fs)), (0, 0));
    });
}

/// Without syncs, records may be in tables although a power cut has taken their log: the records behind them are none
/// the worse.
#[test]
fn on_either_side_of_records_that_were_in_tables_what_there_is_can_be_carried() {
    let sync = SyncMode::None;
    let (sim, fs) = world(1, &DiskImage::new(), FaultPlan::none());
    let group = SharedGroup::of(1);
    let mut rng = sim.rng();
    sim.block_on(async {
        let log = open(&fs, sync, &group, 1, 1).await.expect("a fresh disk");
        let members = open_members(&log, sync, &group).await.expect("a fresh disk");
        for index in 1..=20_u8 {
            write(&members[0], &group, |_| vec![index; 20]).await.expect("nothing fails");
            if index == 14 {
                members[0].sync().await.expect("nothing fails");
                group.0.lock().members[0].synced = 14;
            }
        }
        flush(&members[0], &group).await.expect("nothing fails");
    });
    let (sim, fs) = world(2, &fs.crash_keeping(Keep::None, &mut rng), FaultPlan::none());
    sim.block_on(async {
        let log = open(&fs, sync, &group, 2, 1).await.expect("it is whole");
        let member = open_member(&log, sync, &group, 0).await.expect("it is whole");
        assert_eq!(member.last(), 20);
        for index in 21..=25_u8 {
            write(&member, &group, |_| vec![index; 20]).await.expect("nothing fails");
        }
        member.sync().await.expect("nothing fails");
        group.0.lock().members[0].synced = 25;
    });
    let (sim, fs) = world(3, &fs.crash_keeping(Keep::None, &mut rng), FaultPlan::none());
    sim.block_on(async {
        let log = open(&fs, sync, &group, 3, 1).await.expect("it is whole");
        log.carry(0).await.expect("either side is carried");
        assert_eq!((log.stats().carried, carried(&fs)), (1, 2));
        let member = open_member(&log, sync, &group, 0).await.expect("it is whole");
        assert_eq!((member.last(), carried(&fs)), (25, 1), "what is in tables has gone");
    });
}
