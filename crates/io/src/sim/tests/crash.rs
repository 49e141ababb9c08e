//! What a power cut may leave, and what it must not.

use super::*;
use crate::sim::content::SECTOR;

#[test]
fn what_was_synced_survives_and_what_was_not_may_vanish_in_any_combination() {
    let sim = Sim::new(1);
    let fs = disk(&sim);
    sim.block_on(async {
        let file = durable_file(&fs, "f", OpenOptions::create_new()).await;
        file.write_at(0, page(1), TAG).await.unwrap();
        file.sync(TAG).await.unwrap();
        file.write_at(0, page(2), TAG).await.unwrap();
        file.write_at(PAGE as u64, page(3), TAG).await.unwrap();
    });
    let seen = outcomes(&fs, "f", 400);
    let has = |first: u8, rest: Option<u8>| {
        seen.iter().flatten().any(|bytes| {
            bytes[..PAGE].iter().all(|&byte| byte == first)
                && bytes.get(PAGE..).filter(|rest| !rest.is_empty()).map(|rest| rest[0]) == rest
        })
    };
    assert!(has(1, None) && has(2, None) && has(2, Some(3)));
    assert!(has(1, Some(3)), "the later write may survive without the earlier one");
    assert!(has(2, Some(0)), "the length may survive without the data");
    for bytes in seen.iter().flatten() {
        assert!(bytes[..PAGE].iter().all(|byte| [1, 2].contains(byte)), "a synced byte is there, or what replaced it");
        for sector in bytes.chunks(SECTOR as usize) {
            assert!(sector.iter().all(|&byte| byte == sector[0]), "sectors are whole");
        }
    }
    let torn = |bytes: &[u8]| bytes[..PAGE].contains(&1) && bytes[..PAGE].contains(&2);
    assert!(seen.iter().flatten().any(|bytes| torn(bytes)), "a write may be torn");
    assert!(!seen.contains(&None), "the synced name is there");
}

#[test]
fn keeping_all_none_or_a_prefix_does_what_it_says() {
    let sim = Sim::new(1);
    let fs = disk(&sim);
    sim.block_on(async {
        let file = durable_file(&fs, "f", OpenOptions::create_new_buffered()).await;
        for round in 0..8 {
            file.write_at(round * PAGE as u64, page(round as u8 + 1), TAG).await.unwrap();
        }
    });
    let mut rng = Rng::new(3);
    assert_eq!(fs.crash_keeping(Keep::None, &mut rng).read("f").unwrap(), []);
    let all = fs.crash_keeping(Keep::All, &mut rng).read("f").unwrap();
    assert_eq!(all.len(), 8 * PAGE);
    let mut lengths = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let prefix = fs.crash_keeping(Keep::Prefix, &mut rng).read("f").unwrap();
        assert_eq!(prefix, all[..prefix.len()]);
        lengths.insert(prefix.len());
    }
    assert_eq!(lengths.len(), 9);
}

#[test]
fn a_file_whose_directory_was_not_synced_may_vanish_with_its_synced_data() {
    let sim = Sim::new(1);
    let fs = disk(&sim);
    sim.block_on(async {
        let file = fs.open(path("f"), OpenOptions::create_new_buffered(), TAG).await.unwrap();
        file.write_at(0, bytes("data"), TAG).await.unwrap();
        file.sync(TAG).await.unwrap();
    });
    assert_eq!(outcomes(&fs, "f", 100), [None, Some(b"data".to_vec())].into());
    sim.block_on(fs.sync_dir(path(ROOT), TAG)).unwrap();
    assert_eq!(outcomes(&fs, "f", 100), [Some(b"data".to_vec())].into());
}

#[test]
fn a_rename_is_atomic_and_lost_until_the_directory_is_synced() {
    let sim = Sim::new(1);
    let fs = disk(&sim);
    sim.block_on(async {
        for (name, text) in [("current", "old"), ("next", "new")] {
            let file = durable_file(&fs, name, OpenOptions::create_new_buffered()).await;
            file.write_at(0, bytes(text), TAG).await.unwrap();
            file.sync(TAG).await.unwrap();
        }
        fs.rename(path("next"), path("current"), TAG).await.unwrap();
    });
    let mut rng = Rng::new(5);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let image = fs.crash(&mut rng);
        seen.insert((image.read("current").unwrap(), image.read("next")));
    }
    let (old, new) = (b"old".to_vec(), b"new".to_vec());
    assert_eq!(seen, [(old, Some(new.clone())), (new.clone(), None)].into());
    sim.block_on(fs.sync_dir(path(ROOT), TAG)).unwrap();
    assert_eq!(outcomes(&fs, "current", 50), [Some(new)].into());
}

#[test]
fn a_rename_between_directories_never_loses_the_file_and_either_sync_makes_it_durable() {
    for synced in ["a", "b"] {
        let sim = Sim::new(1);
        let fs = disk(&sim);
        sim.block_on(async {
            fs.create_dir_all(path("a"), TAG).await.unwrap();
            fs.create_dir_all(path("b"), TAG).await.unwrap();
            fs.sync_dir(path(ROOT), TAG).await.unwrap();
            fs.open(path("a/f"), OpenOptions::create_new(), TAG).await.unwrap();
            fs.sync_dir(path("a"), TAG).await.unwrap();
            fs.rename(path("a/f"), path("b/f"), TAG).await.unwrap();
        });
        let mut rng = Rng::new(5);
        for _ in 0..50 {
            assert_eq!(fs.crash(&mut rng).files().len(), 1);
        }
        sim.block_on(fs.sync_dir(path(synced), TAG)).unwrap();
        assert_eq!(outcomes(&fs, "b/f", 50), [Some(vec![])].into());
        assert_eq!(outcomes(&fs, "a/f", 50), [None].into());
    }
}

#[test]
fn an_older_name_does_not_come_back_over_a_durable_one() {
    let sim = Sim::new(1);
    let fs = disk(&sim);
    sim.block_on(async {
        for dir in ["a", "b"] {
            fs.create_dir_all(path(dir), TAG).await.unwrap();
        }
        fs.sync_dir(path(ROOT), TAG).await.unwrap();
        let file = fs.open(path("a/new"), OpenOptions::create_new_buffered(), TAG).await.unwrap();
        file.write_at(0, bytes("new"), TAG).await.unwrap();
        file.sync(TAG).await.unwrap();
        fs.open(path("b/f"), OpenOptions::create_new(), TAG).await.unwrap();
        fs.rename(path("a/new"), path("b/f"), TAG).await.unwrap();
        fs.sync_dir(path("a"), TAG).await.unwrap();
    });
    assert_eq!(outcomes(&fs, "b/f", 100), [Some(b"new".to_vec())].into());
}

#[test]
fn a_removed_file_may_be_back_and_a_directory_may_be_gone_with_all_it_holds() {
    let sim = Sim::new(1);
    let fs = disk(&sim);
    sim.block_on(async {
        durable_file(&fs, "f", OpenOptions::create_new()).await;
        fs.remove(path("f"), TAG).await.unwrap();
        fs.create_dir_all(path("dir/sub"), TAG).await.unwrap();
        fs.open(path("dir/sub/g"), OpenOptions::create_new(), TAG).await.unwrap();
        fs.sync_dir(path("dir/sub"), TAG).await.unwrap();
    });
    assert_eq!(outcomes(&fs, "f", 50), [None, Some(vec![])].into());
    assert_eq!(outcomes(&fs, "dir/sub/g", 50), [None, Some(vec![])].into());
    sim.block_on(async {
        fs.sync_dir(path("dir"), TAG).await.unwrap();
        fs.sync_dir(path(ROOT), TAG).await.unwrap();
    });
    assert_eq!(outcomes(&fs, "dir/sub/g", 50), [Some(vec![])].into());
    assert_eq!(outcomes(&fs, "f", 50), [None].into());
}

#[test]
fn a_dsync_write_is_durable_when_complete_and_torn_while_under_way() {
    let sim = Sim::new(1);
    let device = DeviceSpec { latency: 1000, ..DeviceSpec::instant() };
    let fs = SimFs::new(sim.clock(), device, FaultPlan::none(), sim.rng());
    let file = sim.block_on(durable_file(&fs, "f", DSYNC));
    let write = file.write_at(0, page(1), TAG);
    let under_way = outcomes(&fs, "f", 200);
    assert!(under_way.len() > 10 && under_way.contains(&Some(vec![])) && under_way.contains(&Some(vec![1; PAGE])));
    sim.block_on(write).unwrap();
    assert_eq!(outcomes(&fs, "f", 50), [Some(vec![1; PAGE])].into());
    // The next write replaces it sector by sector.
    let rewrite = file.write_at(0, page(2), TAG);
    for bytes in outcomes(&fs, "f", 50).iter().flatten() {
        assert!(bytes.iter().all(|byte| [1, 2].contains(byte)));
    }
    sim.block_on(rewrite).unwrap();
    assert_eq!(outcomes(&fs, "f", 50), [Some(vec![2; PAGE])].into());
}

#[test]
fn a_dsync_write_is_not_replaced_by_an_older_unsynced_one() {
    let sim = Sim::new(1);
    let fs = disk(&sim);
    sim.block_on(async {
        let buffered = durable_file(&fs, "f", OpenOptions::create_new_buffered()).await;
        buffered.write_at(0, page(1), TAG).await.unwrap();
        let dsync = OpenOptions { create_new: false, ..DSYNC };
        let direct = fs.open(path("f"), dsync, TAG).await.unwrap();
        direct.write_at(0, page(2), TAG).await.unwrap();
    });
    assert_eq!(outcomes(&fs, "f", 100), [Some(vec![2; PAGE])].into());
}

#[test]
fn a_sync_covers_only_what_was_complete_when_it_was_submitted() {
    let sim = Sim::new(1);
    let device = DeviceSpec { latency: 1000, ..DeviceSpec::instant() };
    let fs = SimFs::new(sim.clock(), device, FaultPlan::none(), sim.rng());
    let file = sim.block_on(durable_file(&fs, "f", OpenOptions::create_new()));
    let (write, sync) = (file.write_at(0, page(1), TAG), file.sync(TAG));
    sim.block_on(async { (write.await.unwrap(), sync.await.unwrap()) });
    assert!(outcomes(&fs, "f", 50).contains(&Some(vec![])), "the write was under way");
    let sync = file.sync(TAG);
    assert!(outcomes(&fs, "f", 50).contains(&Some(vec![])), "the sync is under way");
    sim.block_on(sync).unwrap();
    assert_eq!(outcomes(&fs, "f", 50), [Some(vec![1; PAGE])].into());
}

#[test]
fn cutting_short_may_be_lost_and_never_uncovers_old_bytes() {
    let sim = Sim::new(1);
    let fs = disk(&sim);
    let file = sim.block_on(async {
        let file = durable_file(&fs, "f", OpenOptions::create_new_buffered()).await;
        file.write_at(0, bytes("abcdef"), TAG).await.unwrap();
        file.sync(TAG).await.unwrap();
        file.set_len(2, TAG).await.unwrap();
        file
    });
    assert_eq!(outcomes(&fs, "f", 50), [Some(b"ab".to_vec()), Some(b"abcdef".to_vec())].into());
    sim.block_on(async {
        file.set_len(4, TAG).await.unwrap();
        file.sync(TAG).await.unwrap();
    });
    assert_eq!(outcomes(&fs, "f", 50), [Some(b"ab\0\0".to_vec())].into());
}

#[test]
fn the_power_goes_at_a_change_and_nothing_happens_afterwards() {
    for (phase, possible) in [(Phase::Before, vec![0_u8]), (Phase::During, vec![0, 1])] {
        let sim = Sim::new(1);
        let fs = disk(&sim);
        sim.block_on(async {
            let file = durable_file(&fs, "f", DSYNC).await;
            file.allocate(PAGE as u64, TAG).await.unwrap();
            file.sync(TAG).await.unwrap();
            fs.cut_power_at(fs.changes(), phase);
            assert!(file.write_at(0, page(1), TAG).await.is_err(), "nobody is told of success");
            assert!(file.write_at(0, page(2), TAG).await.is_err());
            assert!(file.read_at(0, page(0), TAG).await.is_err());
            assert!(fs.open(path("g"), DSYNC, TAG).await.is_err());
        });
        let mut bytes: Vec<u8> = outcomes(&fs, "f", 100).into_iter().flatten().flatten().collect();
        bytes.sort_unstable();
        bytes.dedup();
        assert_eq!(bytes, possible);
    }
}

#[test]
fn an_operation_under_way_when_the_power_goes_is_never_reported_done() {
    let sim = Sim::new(1);
    let device = DeviceSpec { latency: 1000, ..DeviceSpec::instant() };
    let fs = SimFs::new(sim.clock(), device, FaultPlan::none(), sim.rng());
    let file = sim.block_on(durable_file(&fs, "f", DSYNC));
    let write = file.write_at(0, page(1), TAG);
    fs.cut_power();
    assert!(sim.block_on(write).is_err());
    assert!(outcomes(&fs, "f", 100).contains(&Some(vec![])));
}

#[test]
fn a_hook_sees_every_change_before_and_during() {
    let sim = Sim::new(1);
    let fs = disk(&sim);
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    fs.on_cut_point(move |fs, point| {
        let durable = fs.crash_keeping(Keep::None, &mut Rng::new(0)).files();
        log.lock().push((point.index, point.phase, point.kind, durable.first().map(|(_, len)| *len)));
    });
    sim.block_on(async {
        let file = durable_file(&fs, "f", DSYNC).await;
        file.write_at(0, page(1), TAG).await.unwrap();
        file.read_at(0, page(0), TAG).await.unwrap();
    });
    fs.clear_hook();
    sim.block_on(fs.remove(path("f"), TAG)).unwrap();
    let (before, during) = (Phase::Before, Phase::During);
    assert_eq!(
        *seen.lock(),
        [
            (0, before, OpKind::Create, None),
            (0, during, OpKind::Create, None),
            (1, before, OpKind::SyncDir, None),
            (1, during, OpKind::SyncDir, None),
            (2, before, OpKind::Write, Some(0)),
            (2, during, OpKind::Write, Some(0)),
        ]
    );
}

#[test]
fn an_image_is_shared_until_written() {
    let mut image = DiskImage::new();
    image.insert("dir/big", &vec![7; 100 * PAGE]).unwrap();
    let copy = image.clone();
    let sim = Sim::new(1);
    let fs = SimFs::from_image(&image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    sim.block_on(async {
        let file = fs.open(path("dir/big"), REOPEN, TAG).await.unwrap();
        file.write_at(0, page(1), TAG).await.unwrap();
    });
    let after = fs.crash_keeping(Keep::All, &mut Rng::new(0));
    let content = |image: &DiskImage| image.content(path("dir/big")).unwrap();
    assert_eq!(content(&after).shared_chunks(&content(&image)), 99);
    assert!(
        image.flip_bit("dir/big", 5, 3) && !image.flip_bit("dir/big", 1 << 30, 0) && !image.flip_bit("nothing", 0, 0)
    );
    assert_eq!(image.read("dir/big").unwrap()[5], 7 ^ 8);
    assert_eq!(copy.read("dir/big").unwrap()[5], 7);
    assert_eq!(after.read("dir/big").unwrap()[4095..4097], [1, 7]);
    assert_eq!(copy.files(), [(path("dir/big").to_path_buf(), 100 * PAGE as u64)]);
}

#[test]
fn an_image_can_be_tampered_with() {
    let mut image = DiskImage::new();
    image.insert("dir/a", b"first").unwrap();
    image.insert("dir/b", b"second").unwrap();
    let before = image.clone();
    assert!(image.cut("dir/a", 2) && !image.cut("dir/a", 2) && !image.cut("dir", 0) && !image.cut("nothing", 0));
    assert_eq!(image.read("dir/a").unwrap(), b"fi");
    assert!(image.graft("dir/c", &before, "dir/b").unwrap() && !image.graft("dir/d", &before, "nothing").unwrap());
    assert_eq!(image.read("dir/c").unwrap(), b"second");
    assert!(image.graft("dir/a", &before, "dir/a").unwrap());
    assert_eq!(image.read("dir/a").unwrap(), b"first");
    assert!(image.remove("dir/b") && !image.remove("dir/b") && !image.remove("nowhere/b"));
    assert_eq!(image.files().len(), 2);
    assert!(image.remove("dir"));
    assert_eq!((image.files().len(), before.files().len()), (0, 2));
}

#[test]
fn a_file_with_two_names_stays_one_file_across_a_power_cut() {
    let sim = Sim::new(1);
    let fs = disk(&sim);
    sim.block_on(async {
        durable_file(&fs, "f", OpenOptions::create_new()).await;
        fs.hard_link(path("f"), path("g"), TAG).await.unwrap();
        fs.sync_dir(path(ROOT), TAG).await.unwrap();
    });
    let image = fs.crash(&mut Rng::new(0));
    let fs = SimFs::from_image(&image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    sim.block_on(async {
        let file = fs.open(path("f"), REOPEN, TAG).await.unwrap();
        file.write_at(0, bytes("both"), TAG).await.unwrap();
    });
    assert_eq!(fs.crash_keeping(Keep::All, &mut Rng::new(0)).read("g").unwrap(), b"both");
}
