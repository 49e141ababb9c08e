//! Members next to one another: which records and which segments are whose.

use std::path::Path;
use std::sync::Arc;

use weir_io::sim::{DiskImage, FaultPlan, Keep, OpKind};
use weir_io::{Class, ErrorKind, Fs, Op, Owner, Tag};
use weir_log::{LogOptions, MemberOpening, RecordTag, SharedLog, SharedOptions, SyncMode, WriteAheadLog};

use super::{Claimed, SharedGroup, flush, identity, open, open_member, open_members, write_one};
use crate::common::{DIR, options, world};

const SYNC: SyncMode = SyncMode::Interval;

#[test]
fn each_member_is_given_its_own_records_whoever_opens_first() {
    let (sim, fs) = world(1, &DiskImage::new(), FaultPlan::none());
    let group = SharedGroup::of(4);
    let mut rng = sim.rng();
    sim.block_on(async {
        let log = open(&fs, SYNC, &group, 1, 4).await.expect("a fresh disk");
        let members = open_members(&log, SYNC, &group).await.expect("a fresh disk");
        // The last member writes nothing.
        for _ in 0..200 {
            write_one(&members[rng.below(3) as usize], &group, &mut rng).await.expect("nothing fails");
        }
        assert!(log.stats().log.segments > 3, "the test needs several segments: {:?}", log.stats());
        group.0.lock().members[1].persisted = 20;
        for member in members {
            member.close().await.expect("nothing fails");
            group.0.lock().members[member.member() as usize].synced = member.last();
        }
        log.close().await.expect("nothing fails");
    });
    let (sim, fs) = world(2, &fs.crash_keeping(Keep::All, &mut rng), FaultPlan::none());
    sim.block_on(async {
        let log = open(&fs, SYNC, &group, 2, 4).await.expect("it is whole");
        assert!(log.recovery().clean && log.recovery().records == 200);
        for member in [2, 0, 3, 1] {
            let opened = open_member(&log, SYNC, &group, member).await.expect("it is whole");
            assert_eq!(opened.last(), group.0.lock().members[member].appended.len() as u64);
            // Nobody else may have the member open at the same time.
            let again = open_member(&log, SYNC, &group, member).await.err().expect("it is open");
            assert_eq!(again.kind(), ErrorKind::Invalid);
            write_one(&opened, &group, &mut rng).await.expect("it goes on");
        }
    });
}

/// Opening one of a thousand members must not require reading what the others wrote.
#[test]
fn scattered_records_are_found_without_reading_all_that_lies_between() {
    const WRITTEN: u64 = 6 << 20;
    let (sim, fs) = world(11, &DiskImage::new(), FaultPlan::none());
    let disk = || Arc::clone(&fs) as Arc<dyn Fs>;
    let options = SharedOptions { log: LogOptions { segment_bytes: 8 << 20, ..options(SYNC, 1) }, cap_bytes: u64::MAX };
    let opening = |member| MemberOpening { member, identity: 1, owner: Owner::default(), persisted: 0, durable: 0 };
    let keeper = Arc::<Claimed>::default();
    sim.block_on(async {
        let open = SharedLog::open(disk(), Path::new(DIR), options, 0, &|_| true, keeper.clone());
        let log = open.await.expect("a fresh disk");
        let mut none = |_, _: &[u8]| Op::ready(Ok(()));
        let (few, _) = log.member(opening(1), &mut none).await.expect("a fresh disk");
        let (many, _) = log.member(opening(2), &mut none).await.expect("a fresh disk");
        for written in 0..WRITTEN / 1_000 {
            let writer = if written % 1_000 == 500 { &few } else { &many };
            let index = writer.append(&[written as u8; 1_000]).expect("nothing fails");
            writer.commit(index).await.expect("nothing fails");
        }
    });
    // Twice, because an opening begins a new segment.
    for _ in 0..2 {
        sim.block_on(async {
            let open = SharedLog::open(disk(), Path::new(DIR), options, 0, &|_| true, keeper.clone());
            let log = open.await.expect("it is whole");
            let before = fs.count(Class::Log, OpKind::Read).bytes;
            let mut found = Vec::new();
            let mut replay = |index, payload: &[u8]| {
                found.push((index, payload.to_vec()));
                Op::ready(Ok(()))
            };
            let (few, recovery) = log.member(opening(1), &mut replay).await.expect("it is whole");
            let wanted: Vec<_> = (0..6).map(|n| (n + 1, vec![(n * 1_000 + 500) as u8; 1_000])).collect();
            assert!(found == wanted && recovery.records == 6);
            let read = fs.count(Class::Log, OpKind::Read).bytes - before;
            assert_eq!(read, 0, "it was read when the log was opened");
            few.close().await.expect("nothing fails");
            drop(few);
            let mut again = 0;
            let mut replay = |_, _: &[u8]| {
                again += 1;
                Op::ready(Ok(()))
            };
            let before = fs.count(Class::Log, OpKind::Read).bytes;
            log.member(opening(1), &mut replay).await.expect("it is whole");
            assert_eq!(again, 6);
            let read = fs.count(Class::Log, OpKind::Read).bytes - before;
            assert!(0 < read && read < WRITTEN / 3, "{read} bytes were read for six records of {WRITTEN} bytes");
        });
    }
}

/// However many members there are, and in whatever order they are opened; also if the log is much longer than the part
/// of it that may be kept in memory.
#[test]
fn all_members_together_read_the_log_a_few_times_whatever_their_number() {
    const MEMBERS: u32 = 50;
    const WRITTEN: u64 = 1 << 20;
    for cap_bytes in [u64::MAX, 512 << 10] {
        let (sim, fs) = world(12, &DiskImage::new(), FaultPlan::none());
        let disk = || Arc::clone(&fs) as Arc<dyn Fs>;
        let log = LogOptions { segment_bytes: 8 << 20, ..options(SYNC, 1) };
        let options = SharedOptions { log, cap_bytes };
        let opening = |member| MemberOpening { member, identity: 1, owner: Owner::default(), persisted: 0, durable: 0 };
        let keeper = Arc::<Claimed>::default();
        let mut rng = sim.rng();
        let counts = sim.block_on(async {
            let open = SharedLog::open(disk(), Path::new(DIR), options, 0, &|_| true, keeper.clone());
            let log = open.await.expect("a fresh disk");
            let (mut members, mut counts) = (Vec::new(), vec![0; MEMBERS as usize]);
            for member in 0..MEMBERS {
                let mut none = |_, _: &[u8]| Op::ready(Ok(()));
                members.push(log.member(opening(member), &mut none).await.expect("a fresh disk").0);
            }
            for _ in 0..WRITTEN / 500 {
                let writer = rng.below(MEMBERS.into()) as usize;
                let index = members[writer].append(&[writer as u8; 460]).expect("nothing fails");
                members[writer].commit(index).await.expect("nothing fails");
                counts[writer] += 1;
            }
            counts
        });
        let moved = |fs: &weir_io::sim::SimFs| {
            let of = |class, kind| fs.count(class, kind).bytes;
            of(Class::Log, OpKind::Read) + of(Class::Maintenance, OpKind::Read) + of(Class::Maintenance, OpKind::Write)
        };
        let before = moved(&fs);
        sim.block_on(async {
            let open = SharedLog::open(disk(), Path::new(DIR), options, 0, &|_| true, keeper.clone());
            let log = open.await.expect("it is whole");
            // The members are not opened in the order of their numbers.
            for member in (0..MEMBERS).map(|number| number * 7 % MEMBERS) {
                let mut found = 0;
                let mut replay = |index, payload: &[u8]| {
                    found += 1;
                    assert!(index == found && payload == [member as u8; 460]);
                    Op::ready(Ok(()))
                };
                log.member(opening(member), &mut replay).await.expect("it is whole");
                assert_eq!(found, counts[member as usize], "member {member}");
            }
        });
        let moved = moved(&fs) - before;
        // Once because nothing was synced: it is read to be written again.
        assert!(moved < 5 * WRITTEN, "{moved} bytes for a log of {WRITTEN}");
        let left = sim.block_on(async { fs.list(Path::new("p"), Tag::new(Owner::default(), Class::Log)).await });
        assert_eq!(left.expect("it is there").len(), 1, "the sorted file goes with the last");
    }
}

/// A full disk must not prevent an opening.
#[test]
fn where_the_sorted_file_cannot_be_written_the_log_is_read_again() {
    let (sim, fs) = world(13, &DiskImage::new(), FaultPlan::none());
    let group = SharedGroup::of(3);
    let mut rng = sim.rng();
    sim.block_on(async {
        let log = open(&fs, SYNC, &group, 1, 3).await.expect("a fresh disk");
        let members = open_members(&log, SYNC, &group).await.expect("a fresh disk");
        for _ in 0..300 {
            write_one(&members[rng.below(3) as usize], &group, &mut rng).await.expect("nothing fails");
        }
        for member in &members {
            member.sync().await.expect("nothing fails");
            group.0.lock().members[member.member() as usize].synced = member.last();
        }
    });
    let (sim, fs) = world(14, &fs.crash_keeping(Keep::All, &mut rng), FaultPlan::none());
    fs.set_free_bytes(0);
    sim.block_on(async {
        let log = open(&fs, SYNC, &group, 2, 3).await.expect("it can be read");
        open_members(&log, SYNC, &group).await.expect("they are given all");
    });
}

#[test]
fn who_is_closed_and_opened_again_in_the_same_life_is_given_what_it_had_not_flushed() {
    for sync in [SyncMode::Always, SyncMode::Interval, SyncMode::None] {
        let (sim, fs) = world(3, &DiskImage::new(), FaultPlan::none());
        let group = SharedGroup::of(2);
        let mut rng = sim.rng();
        sim.block_on(async {
            let log = open(&fs, sync, &group, 1, 2).await.expect("a fresh disk");
            let mut members = open_members(&log, sync, &group).await.expect("a fresh disk");
            for round in 0..6_u64 {
                for _ in 0..25 {
                    write_one(&members[rng.below(2) as usize], &group, &mut rng).await.expect("nothing fails");
                }
                let sleeper = members.remove(0);
                let last = sleeper.last();
                group.0.lock().members[0].persisted = last.saturating_sub(7 * round);
                sleeper.close().await.expect("nothing fails");
                group.0.lock().members[0].synced = last;
                assert_eq!(sleeper.append(b"late").expect_err("it is closed").kind(), ErrorKind::Invalid);
                // The other member writes on meanwhile.
                write_one(&members[0], &group, &mut rng).await.expect("nothing fails");
                let woken = open_member(&log, sync, &group, 0).await.expect("it is whole");
                assert_eq!(woken.last(), last, "{sync:?}");
                let gone = sleeper.append(b"late").expect_err("somebody else has it");
                assert_eq!(gone.kind(), ErrorKind::Closed);
                drop(sleeper);
                members.insert(0, woken);
            }
        });
    }
}

/// DF-12, compared with a plain list of the records that were appended.
#[test]
fn a_segment_goes_when_every_member_in_it_and_in_all_older_ones_has_flushed_past_it() {
    for seed in 0..30 {
        let (sim, fs) = world(seed, &DiskImage::new(), FaultPlan::none());
        let group = SharedGroup::of(4);
        let mut rng = sim.rng();
        // Member and bytes of each record, in the order of their places.
        let mut places: Vec<(usize, u64, u64)> = Vec::new();
        sim.block_on(async {
            let log = open(&fs, SYNC, &group, 1, 4).await.expect("a fresh disk");
            let members = open_members(&log, SYNC, &group).await.expect("a fresh disk");
            for _ in 0..300 {
                let member = &members[rng.below(4).min(rng.below(4)) as usize];
                let number = member.member() as usize;
                write_one(member, &group, &mut rng).await.expect("nothing fails");
                let length = group.0.lock().members[number].appended.last().map_or(0, |bytes| bytes.len() as u64);
                places.push((number, member.last(), 40 + length));
                if !rng.chance(0.05) {
                    continue;
                }
                flush(member, &group).await.expect("nothing fails");
                let group = group.0.lock().clone();
                let is_flushed = |(member, index, _): &&(usize, u64, u64)| *index <= group.members[*member].persisted;
                let floor = places.iter().take_while(is_flushed).count();
                assert!(
                    group.claim.floor <= floor as u64,
                    "a segment went that somebody needs: {:?} of {floor}",
                    group.claim
                );
                let needed: u64 = places[floor..].iter().map(|(.., bytes)| bytes).sum();
                // Beyond the needed records there are only the active segment and the rest of the oldest one.
                let stats = log.stats().log;
                assert!(stats.live_bytes <= needed + 4 * (32 << 10), "{needed} needed: {stats:?}");
            }
            for member in &members {
                flush(member, &group).await.expect("nothing fails");
            }
            assert_eq!(log.stats().log.segments, 1, "all but the one that is written to");
        });
    }
}

#[test]
fn a_member_that_was_dropped_holds_nothing_in_this_life_or_the_next() {
    let (sim, fs) = world(4, &DiskImage::new(), FaultPlan::none());
    let group = SharedGroup::of(2);
    let mut rng = sim.rng();
    sim.block_on(async {
        let log = open(&fs, SYNC, &group, 1, 2).await.expect("a fresh disk");
        let members = open_members(&log, SYNC, &group).await.expect("a fresh disk");
        write_one(&members[1], &group, &mut rng).await.expect("nothing fails");
        for _ in 0..200 {
            write_one(&members[0], &group, &mut rng).await.expect("nothing fails");
        }
        flush(&members[0], &group).await.expect("nothing fails");
        let before = log.stats();
        assert!(before.log.segments > 3, "one record keeps them all: {before:?}");
        members[1].sync().await.expect("nothing fails");
        let image = fs.crash_keeping(Keep::None, &mut rng);
        let (next_sim, next_fs) = world(5, &image, FaultPlan::none());
        next_sim.block_on(async {
            // The member was dropped between this life and the next: it is not in the catalogue.
            let log = open(&next_fs, SYNC, &group, 2, 1).await.expect("it is whole");
            assert!(log.stats().log.segments > 3);
            let member = open_member(&log, SYNC, &group, 0).await.expect("it is whole");
            write_one(&member, &group, &mut rng).await.expect("nothing fails");
            flush(&member, &group).await.expect("nothing fails");
            assert_eq!((log.stats().log.segments, log.stats().members), (1, 1));
        });
        log.forget(1).await.expect("nothing fails");
        assert_eq!((log.stats().log.segments, log.stats().members), (1, 1));
        let error = members[1].append(b"late").expect_err("it was dropped");
        assert_eq!(error.kind(), ErrorKind::Closed);
        assert!(members[1].failure().is_some() && members[1].is_durable());
    });
}

#[test]
fn a_member_whose_records_are_gone_says_so_and_the_others_serve() {
    let (sim, fs) = world(6, &DiskImage::new(), FaultPlan::none());
    let group = SharedGroup::of(2);
    let mut rng = sim.rng();
    sim.block_on(async {
        let log = open(&fs, SYNC, &group, 1, 2).await.expect("a fresh disk");
        let members = open_members(&log, SYNC, &group).await.expect("a fresh disk");
        for _ in 0..100 {
            write_one(&members[0], &group, &mut rng).await.expect("nothing fails");
        }
        members[0].sync().await.expect("nothing fails");
        let before = fs.crash_keeping(Keep::None, &mut rng).files().len();
        while fs.crash_keeping(Keep::None, &mut rng).files().len() < before + 2 {
            write_one(&members[1], &group, &mut rng).await.expect("nothing fails");
            members[1].sync().await.expect("nothing fails");
        }
        for member in &members {
            group.0.lock().members[member.member() as usize].synced = member.last();
        }
    });
    // The last file with records is gone, with its marks: only the anchor of the second member knows of them.
    let mut image = fs.crash_keeping(Keep::None, &mut rng);
    let (last, _) = image.files().pop().expect("a segment");
    assert!(image.remove(&last));
    let (next_sim, next_fs) = world(7, &image, FaultPlan::none());
    next_sim.block_on(async {
        let log = open(&next_fs, SYNC, &group, 2, 2).await.expect("nothing tells from inside");
        let error = open_member(&log, SYNC, &group, 1).await.err().expect("its anchor knows better");
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        open_member(&log, SYNC, &group, 0).await.expect("it has lost nothing");
    });
    // A file in the middle is missed by the whole log, and so is the first file.
    let image = fs.crash_keeping(Keep::None, &mut rng);
    let files = image.files();
    for (path, _) in &files[..files.len() - 1] {
        let mut image = image.clone();
        assert!(image.remove(path));
        let (sim, fs) = world(8, &image, FaultPlan::none());
        let error = sim.block_on(open(&fs, SYNC, &group, 3, 2)).err().expect("a file is missing");
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    }
}

#[test]
fn an_engine_that_is_an_older_copy_of_itself_is_found_out() {
    let (sim, fs) = world(9, &DiskImage::new(), FaultPlan::none());
    let group = SharedGroup::of(1);
    let mut rng = sim.rng();
    sim.block_on(async {
        let log = open(&fs, SYNC, &group, 1, 1).await.expect("a fresh disk");
        let member = open_member(&log, SYNC, &group, 0).await.expect("a fresh disk");
        for _ in 0..120 {
            write_one(&member, &group, &mut rng).await.expect("nothing fails");
        }
        flush(&member, &group).await.expect("nothing fails");
        write_one(&member, &group, &mut rng).await.expect("nothing fails");
    });
    sim.block_on(async {
        let log = open(&fs, SYNC, &group, 2, 1).await.expect("it is whole");
        let opening =
            MemberOpening { member: 0, identity: identity(0), owner: Owner::default(), persisted: 3, durable: 0 };
        let mut replay = |_, _: &[u8]| Op::ready(Ok(()));
        let error = log.member(opening, &mut replay).await.err().expect("records 4 to 120 are in no log any more");
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    });
}

#[test]
fn a_record_that_no_shared_log_has_is_refused() {
    use weir_log::Log;
    let tagged = |member, index| RecordTag::encode(member, 1, index).to_vec();
    for payloads in [vec![b"a batch of a log of its own".to_vec()], vec![tagged(1, 2), tagged(1, 2)]] {
        let (sim, fs) = world(10, &DiskImage::new(), FaultPlan::none());
        sim.block_on(async {
            let mut replay = |_, _: &[u8]| Op::ready(Ok(()));
            let disk = Arc::clone(&fs) as Arc<dyn Fs>;
            let (log, _) = Log::open(disk, Path::new(DIR), options(SYNC, 1), 0, &mut replay).await.expect("fresh");
            for payload in &payloads {
                let index = log.append(payload).expect("nothing fails");
                log.commit(index).await.expect("nothing fails");
            }
        });
        let error = sim.block_on(open(&fs, SYNC, &SharedGroup::of(2), 2, 2)).err().expect("it is no shared log");
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        // And nothing was removed.
        let entries = sim.block_on(async { fs.list(Path::new(DIR), Tag::new(Owner::default(), Class::Log)).await });
        assert_eq!(entries.map(|entries| entries.len()).ok(), Some(1));
    }
}
