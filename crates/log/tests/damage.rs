//! Flipped bits and failing operations: found, named, and survived.

use std::path::Path;
use std::sync::Arc;

use crate::common::{DIR, Promises, Shared, check, check_records, open, options, work, world};
use parking_lot::Mutex;
use weir_io::sim::{DiskImage, Fault, FaultPlan, Keep, OpKind};
use weir_io::{ErrorKind, Rng};
use weir_log::record::INDEX_MAX;
use weir_log::{LogAnchor, LogIndex, LogOptions, SyncMode, WriteAheadLog};

/// A closed log of a few segments, without truncation.
fn closed_log(sync: SyncMode) -> (DiskImage, Promises) {
    let (sim, fs) = world(5, &DiskImage::new(), FaultPlan::none());
    let promises: Shared = Shared::default();
    sim.block_on(async {
        let (log, ..) = open(&fs, options(sync, 5), 0).await.expect("a fresh disk");
        let mut rng = sim.rng();
        for round in 0..160 {
            super::common::write_one(&log, &promises, &mut rng).await.expect("nothing fails");
            if round % 10 == 0 {
                log.sync().await.expect("nothing fails");
            }
        }
        log.close().await.expect("nothing fails");
    });
    let promises = promises.lock().clone();
    (fs.crash(&mut sim.rng()), promises)
}

/// Flips bits all over a closed log, and opens it each time.
fn flip_bits(sync: SyncMode) {
    let (image, promises) = closed_log(sync);
    let (mut found, mut harmless, mut named) = (0, 0, 0);
    let mut rng = Rng::new(3);
    for (path, len) in image.files() {
        let stride = 40 + rng.below(40);
        for offset in (0..len).step_by(stride as usize) {
            let mut image = image.clone();
            assert!(image.flip_bit(&path, offset, rng.below(8) as u8));
            let (sim, fs) = world(9, &image, FaultPlan::none());
            match sim.block_on(open(&fs, options(sync, 9), 0)) {
                Ok((_, _, records)) => {
                    let last = check_records(&records, &promises);
                    assert_eq!(last, promises.appended.len() as u64, "bit at {offset} of {}", path.display());
                    harmless += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                    let place = (error.path(), error.offset().expect("an offset"));
                    assert!(place <= (path.as_path(), offset), "bit at {offset} of {}: {error}", path.display());
                    named += u64::from(place.0 == path);
                    found += 1;
                }
            }
        }
    }
    assert!(found > 200 && harmless > 50, "{sync:?}: {found} found, {harmless} harmless");
    // Damage to the header of a segment's first record can look like the end of the segment before.
    assert!(named * 100 >= found * 98, "{named} of {found} name the file");
}

#[test]
fn a_flipped_bit_anywhere_is_harmless_or_an_error_that_names_the_place() {
    flip_bits(SyncMode::Always);
}

#[test]
fn a_flipped_bit_is_harmless_or_named_where_records_are_synced_together() {
    flip_bits(SyncMode::Interval);
}

#[test]
fn a_missing_segment_is_an_error() {
    let (image, _) = closed_log(SyncMode::Interval);
    let files = image.files();
    assert!(files.len() > 2, "the test needs several segments");
    for (path, _) in &files[..files.len() - 1] {
        let (sim, fs) = world(9, &image, FaultPlan::none());
        let result = sim.block_on(async {
            use weir_io::{Class, Fs, Owner, Tag};
            fs.remove(path, Tag::new(Owner::default(), Class::Log)).await?;
            open(&fs, options(SyncMode::Interval, 9), 0).await
        });
        assert_eq!(result.err().map(|error| error.kind()), Some(ErrorKind::Corruption), "without {}", path.display());
    }
}

/// There is no number behind the largest one, and the log gives out numbers behind those of all its segments.
#[test]
fn a_file_with_a_number_that_no_segment_gets_is_left_alone() {
    let (mut image, promises) = closed_log(SyncMode::Interval);
    for stranger in ["ffffffffffffffff.log", "fffffffffffffffe.log"] {
        image.insert(Path::new(DIR).join(stranger), b"not a segment").expect("a good path");
    }
    let (sim, fs) = world(9, &image, FaultPlan::none());
    let (log, recovery, records) = sim.block_on(open(&fs, options(SyncMode::Interval, 9), 0)).expect("it is sound");
    assert!(recovery.clean);
    assert_eq!(check_records(&records, &promises), promises.appended.len() as u64);
    sim.block_on(log.close()).expect("nothing fails");
}

#[test]
fn arbitrary_segment_bytes_are_refused_or_read_without_a_panic() {
    let (image, _) = closed_log(SyncMode::Interval);
    let (path, len) = image.files().swap_remove(0);
    let original = image.read(&path).expect("the segment");
    let mut rng = Rng::new(1);
    for _ in 0..200 {
        let mut bytes = original.clone();
        let (at, many) = (rng.below(len) as usize, rng.below(300) as usize);
        bytes.iter_mut().skip(at).take(many).for_each(|byte| *byte = rng.next_u64() as u8);
        bytes.truncate(if rng.chance(0.3) { rng.below(len) as usize } else { len as usize });
        let mut image = DiskImage::new();
        image.insert(Path::new(DIR).join("0000000000000001.log"), &bytes).expect("a good path");
        let (sim, fs) = world(9, &image, FaultPlan::none());
        let _ = sim.block_on(open(&fs, options(SyncMode::Interval, 9), 0)).is_ok();
    }
}

/// Works on a failing disk, replacing the log after each failure as a partition does; then cuts the power and checks.
fn work_through(seed: u64, sync: SyncMode, faults: FaultPlan) -> u64 {
    let (sim, fs) = world(seed, &DiskImage::new(), FaultPlan::none());
    let promises: Shared = Shared::default();
    let failures = sim.block_on(async {
        let (log, ..) = open(&fs, options(sync, seed), 0).await.expect("nothing fails yet");
        fs.set_faults(faults);
        for _ in 0..6 {
            work(&log, &promises, 3, 12, &sim).await;
            let Some(_) = log.failure() else { continue };
            assert!(log.append(b"refused").is_err(), "a fenced log takes nothing");
            let persisted = promises.lock().persisted;
            if persisted < log.last() {
                assert!(log.replace(persisted).await.is_err(), "not everything is persisted");
            }
            // The engine flushes its memtable; now it holds everything appended.
            {
                let mut promises = promises.lock();
                promises.persisted = promises.appended.len() as u64;
            }
            for attempt in 0.. {
                assert!(attempt < 100, "the disk does not fail that often");
                if log.replace(log.last()).await.is_ok() {
                    break;
                }
            }
            assert!(log.failure().is_none());
        }
        log.stats().failures
    });
    let before = promises.lock().clone();
    let image = fs.crash(&mut sim.rng());
    let (sim, fs) = world(seed + 1, &image, FaultPlan::none());
    sim.block_on(check(&fs, sync, &before, seed + 7));
    failures
}

#[test]
fn a_failed_sync_never_becomes_an_acknowledgement() {
    let mut failures = 0;
    for seed in 0..150 {
        let faults = FaultPlan::none().chance(OpKind::Sync, Fault::Error, 0.3);
        failures += work_through(seed, SyncMode::Interval, faults);
        let faults = FaultPlan::none().chance(OpKind::Write, Fault::Error, 0.05);
        failures += work_through(seed, SyncMode::Always, faults);
    }
    assert!(failures > 700, "only {failures} failures");
}

#[test]
fn the_nth_operation_may_fail_in_every_way() {
    for fault in [Fault::Error, Fault::NoSpace, Fault::ShortWrite] {
        for nth in 0..150 {
            for sync in [SyncMode::Always, SyncMode::Interval, SyncMode::None] {
                work_through(nth, sync, FaultPlan::none().fail_nth(None, 6 + nth, fault));
            }
        }
    }
}

#[test]
fn opening_survives_a_failure_of_any_operation() {
    let (image, promises) = closed_log(SyncMode::Interval);
    for nth in 0..60 {
        let (sim, fs) = world(nth, &image, FaultPlan::none().fail_nth(None, nth, Fault::Error));
        let first = sim.block_on(open(&fs, options(SyncMode::Interval, 9), 0));
        if let Ok((_, _, records)) = first {
            assert_eq!(check_records(&records, &promises), promises.appended.len() as u64);
        }
        // And the next opening, after another power cut, finds everything.
        let image = fs.crash(&mut sim.rng());
        let (sim, fs) = world(nth, &image, FaultPlan::none());
        let mut promises = promises.clone();
        promises.synced = promises.appended.len() as u64;
        sim.block_on(check(&fs, SyncMode::Interval, &promises, 11));
    }
}

#[test]
fn a_full_disk_stops_writes_until_there_is_space_again() {
    for sync in [SyncMode::Always, SyncMode::Interval] {
        let (sim, fs) = world(4, &DiskImage::new(), FaultPlan::none());
        sim.block_on(async {
            let (log, ..) = open(&fs, options(sync, 4), 0).await.expect("space enough");
            fs.set_free_bytes(0);
            let promises: Shared = Arc::new(Mutex::new(Promises::default()));
            work(&log, &promises, 2, 200, &sim).await;
            let failure = log.failure().expect("the segment is full");
            assert_eq!(failure.kind(), ErrorKind::NoSpace);
            let error = log.replace(log.last()).await.expect_err("still no space");
            assert_eq!(error.kind(), ErrorKind::NoSpace);
            fs.set_free_bytes(1 << 20);
            log.replace(log.last()).await.expect("space again");
            log.commit(log.append(b"goes on").expect("not fenced")).await.expect("goes on");
        });
    }
}

/// The ways in which a durable segment may be tampered with.
#[derive(Clone, Copy, Debug)]
enum Tampering {
    Lost,
    Emptied,
    Cut,
    Flipped,
    Zeroed,
    Older,
    OfAnotherLog,
    OfItsNeighbour,
}

const TAMPERINGS: [Tampering; 8] = [
    Tampering::Lost,
    Tampering::Emptied,
    Tampering::Cut,
    Tampering::Flipped,
    Tampering::Zeroed,
    Tampering::Older,
    Tampering::OfAnotherLog,
    Tampering::OfItsNeighbour,
];

/// A log that was killed seconds after its last sync, without a mark behind that: the image, an image from an earlier
/// moment, and the log's promises.
fn killed_log(sync: SyncMode, identity: u64) -> (DiskImage, DiskImage, Promises) {
    let (sim, fs) = world(5, &DiskImage::new(), FaultPlan::none());
    let promises: Shared = Shared::default();
    let anchor = LogAnchor { identity, durable: 0 };
    let earlier = sim.block_on(async {
        let (log, ..) = open(&fs, LogOptions { anchor, ..options(sync, 5) }, 0).await.expect("a fresh disk");
        let mut rng = sim.rng();
        let mut earlier = None;
        for round in 0..120 {
            super::common::write_one(&log, &promises, &mut rng).await.expect("nothing fails");
            if round % 10 == 9 {
                log.sync().await.expect("nothing fails");
            }
            if round == 110 {
                earlier = Some(fs.crash_keeping(Keep::All, &mut rng));
            }
        }
        assert!(log.is_durable());
        earlier.expect("there were as many rounds")
    });
    let promises = promises.lock().clone();
    (fs.crash_keeping(Keep::All, &mut sim.rng()), earlier, promises)
}

#[test]
fn with_an_anchor_nothing_that_was_durable_goes_missing_unnoticed() {
    for sync in [SyncMode::Always, SyncMode::Interval] {
        let (image, earlier, promises) = killed_log(sync, 1);
        let (other, ..) = killed_log(sync, 2);
        let durable = promises.appended.len() as u64;
        let anchor = LogAnchor { identity: 1, durable };
        let files = image.files();
        assert!(files.len() > 2, "the test needs several segments");
        let mut rng = Rng::new(7);
        let mut refused = 0;
        for (number, (path, len)) in files.iter().enumerate() {
            for (tampering, _) in TAMPERINGS.iter().flat_map(|tampering| (0..30).map(move |round| (*tampering, round)))
            {
                let bytes = image.read(path).expect("it is there");
                let at = rng.below(*len) as usize;
                let mut image = image.clone();
                let replace = |image: &mut DiskImage, bytes: &[u8]| image.insert(path, bytes).expect("a good path");
                match tampering {
                    Tampering::Lost => {}
                    Tampering::Emptied => replace(&mut image, b""),
                    Tampering::Cut => replace(&mut image, &bytes[..at]),
                    Tampering::Flipped => assert!(image.flip_bit(path, at as u64, rng.below(8) as u8)),
                    Tampering::Zeroed => {
                        let mut bytes = bytes;
                        bytes[at / 4096 * 4096..].iter_mut().take(4096).for_each(|byte| *byte = 0);
                        replace(&mut image, &bytes);
                    }
                    Tampering::Older => match earlier.read(path) {
                        Some(bytes) => replace(&mut image, &bytes),
                        None => continue,
                    },
                    Tampering::OfAnotherLog => replace(&mut image, &other.read(path).expect("the logs are alike")),
                    Tampering::OfItsNeighbour => {
                        let neighbour = &files[if number == 0 { 1 } else { number - 1 }].0;
                        let bytes = image.read(neighbour).expect("it is there");
                        replace(&mut image, &bytes);
                    }
                }
                let (sim, fs) = world(9, &image, FaultPlan::none());
                let options = LogOptions { anchor, ..options(sync, 9) };
                let opened = sim.block_on(async {
                    if let Tampering::Lost = tampering {
                        use weir_io::{Class, Fs, Owner, Tag};
                        fs.remove(path, Tag::new(Owner::default(), Class::Log)).await?;
                    }
                    open(&fs, options, 0).await
                });
                match opened {
                    Ok((_, _, records)) => {
                        assert_eq!(check_records(&records, &promises), durable, "{tampering:?} of {}", path.display());
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                        assert!(error.path().starts_with(DIR), "{error}");
                        let names = fs.crash_keeping(Keep::All, &mut sim.rng()).files();
                        assert!(names.len() + 1 >= files.len(), "a refused log loses no file: {names:?}");
                        refused += 1;
                    }
                }
            }
        }
        assert!(refused > 150 * files.len(), "{sync:?}: {refused} refused of {} files", files.len());
    }
}

#[test]
fn what_can_be_kept_of_a_damaged_log_is_everything_in_front_of_the_damage() {
    use weir_io::{Class, Fs, Owner, Tag};
    let tag = Tag::new(Owner::default(), Class::Log);
    for sync in [SyncMode::Always, SyncMode::Interval] {
        let (image, _, promises) = killed_log(sync, 1);
        let mut rng = Rng::new(11);
        let mut cuts = 0;
        for (path, len) in image.files() {
            for _ in 0..30 {
                let mut image = image.clone();
                assert!(image.flip_bit(&path, rng.below(len), rng.below(8) as u8));
                let (sim, disk) = world(9, &image, FaultPlan::none());
                let fs: Arc<dyn Fs> = disk.clone();
                sim.block_on(async {
                    let found =
                        weir_log::salvage(&fs, Path::new(DIR), Owner::default(), Some(1), 0).await.expect("salvage");
                    assert_eq!(found.identity, Some(1));
                    // As `weir repair` does.
                    for lost in &found.lost {
                        fs.remove(lost, tag).await.expect("remove");
                    }
                    if let Some((path, end)) = &found.cut {
                        let beginning = Path::new(DIR).join("beginning");
                        weir_log::copy_beginning(&fs, path, &beginning, *end, Owner::default()).await.expect("copy");
                        fs.rename(&beginning, path, tag).await.expect("rename");
                    }
                    cuts += usize::from(found.last < promises.appended.len() as u64);
                    let anchor = LogAnchor { identity: 1, durable: found.last };
                    let opened = open(&disk, LogOptions { anchor, ..options(sync, 9) }, 0).await;
                    let (_, recovery, records) = opened.expect("what is kept is whole");
                    assert_eq!(check_records(&records, &promises), found.last);
                    assert_eq!(recovery.last, found.last);
                });
            }
        }
        assert!(cuts > 30, "{cuts}");
    }
}

#[test]
fn what_is_behind_a_gap_is_kept_if_the_engine_holds_what_is_missing() {
    use weir_io::{Fs, Owner};
    // A write that fails may have written some of its sectors, or all of them.
    for seed in 0..8 {
        let (sim, disk) = world(seed, &DiskImage::new(), FaultPlan::none());
        let fs: Arc<dyn Fs> = disk.clone();
        sim.block_on(async {
            let (log, ..) = open(&disk, options(SyncMode::Interval, 5), 0).await.expect("a fresh disk");
            for _ in 0..5 {
                log.commit(log.append(&[7; 1000]).expect("nothing fails yet")).await.expect("nothing fails yet");
            }
            disk.fail_next(Some(OpKind::Write), Fault::Error);
            let mut missing = 0;
            for _ in 0..3 {
                missing = log.append(&[7; 1500]).expect("nothing fails yet");
            }
            log.commit(missing).await.expect_err("its write fails");
            log.replace(missing).await.expect("the engine holds everything");
            for _ in 0..5 {
                log.commit(log.append(&[7; 1000]).expect("it goes on")).await.expect("it goes on");
            }
            let last = log.last();

            let salvage = || weir_log::salvage(&fs, Path::new(DIR), Owner::default(), Some(0), missing);
            let found = salvage().await.expect("nothing fails");
            assert_eq!((found.last, found.lost.len(), found.whole.len()), (last, 0, 1), "seed {seed}");
            // Nothing in the segment in front of the gap is needed.
            let front = found.whole[0].clone();
            assert!(disk.flip_bit(&front, 20, 0));
            let found = salvage().await.expect("nothing fails");
            assert_eq!((found.last, found.lost), (last, vec![front]), "seed {seed}: a damaged header");
        });
    }
}

#[test]
fn an_engine_that_says_that_it_holds_more_records_than_a_log_can_have_is_refused() {
    for persisted in [INDEX_MAX, LogIndex::MAX] {
        let (sim, fs) = world(1, &DiskImage::new(), FaultPlan::none());
        let opened = sim.block_on(open(&fs, options(SyncMode::Interval, 1), persisted)).map(drop);
        assert_eq!(opened.expect_err("its next record would have no index").kind(), ErrorKind::Corruption);
    }
}
