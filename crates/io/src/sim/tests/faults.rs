//! Every kind of fault, and the state it leaves behind.

use super::*;
use crate::ErrorKind;

#[test]
fn a_read_fails_once_and_a_flipped_bit_is_one_bit_and_not_on_the_medium() {
    let sim = Sim::new(1);
    let fs = disk(&sim);
    sim.block_on(async {
        let file = durable_file(&fs, "f", DSYNC).await;
        file.write_at(0, page(0), TAG).await.unwrap();
        fs.fail_next(Some(OpKind::Read), Fault::Error);
        let error = file.read_at(0, page(9), TAG).await.unwrap_err();
        assert_eq!((error.kind(), error.offset()), (ErrorKind::Device, Some(0)));
        fs.fail_next(Some(OpKind::Read), Fault::FlipBit);
        let wrong = file.read_at(0, page(9), TAG).await.unwrap();
        assert_eq!(wrong.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
        assert_eq!(*file.read_at(0, page(9), TAG).await.unwrap(), [0; PAGE]);
        assert!(fs.flip_bit("f", 100, 0));
        assert_eq!(file.read_at(0, page(9), TAG).await.unwrap()[100], 1);
    });
    assert_eq!(fs.crash(&mut Rng::new(0)).read("f").unwrap()[100], 1);
}

#[test]
fn a_failed_write_leaves_any_of_its_sectors_and_a_short_one_the_first() {
    let (mut torn, mut short) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    for seed in 0..50 {
        let sim = Sim::new(seed);
        let faults = FaultPlan::none().fail_nth(Some(OpKind::Write), 0, Fault::Error);
        let faults = faults.fail_nth(Some(OpKind::Write), 1, Fault::ShortWrite);
        let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), faults, sim.rng());
        sim.block_on(async {
            let file = durable_file(&fs, "f", DSYNC).await;
            file.allocate(2 * PAGE as u64, TAG).await.unwrap();
            assert!(file.write_at(0, page(1), TAG).await.is_err());
            assert!(file.write_at(PAGE as u64, page(1), TAG).await.is_err());
            let bytes = file.read_at(0, AlignedBuf::with_len(2 * PAGE), TAG).await.unwrap();
            torn.insert(bytes[..PAGE].to_vec());
            short.insert(bytes[PAGE..].to_vec());
            file.write_at(0, page(2), TAG).await.unwrap();
        });
        assert_eq!(fs.crash_keeping(Keep::None, &mut Rng::new(0)).read("f").unwrap()[..PAGE], [2; PAGE]);
    }
    let is_head = |bytes: &Vec<u8>| bytes.iter().skip_while(|&&byte| byte == 1).all(|&byte| byte == 0);
    assert!(short.len() > 4 && short.iter().all(is_head) && !short.contains(&vec![1; PAGE]));
    assert!(torn.len() > 10 && !torn.iter().all(is_head));
}

#[test]
fn a_failed_sync_forgets_data_and_the_next_sync_succeeds_without_it() {
    let mut views = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let fs = disk(&sim);
        sim.block_on(async {
            let file = durable_file(&fs, "f", OpenOptions::create_new()).await;
            file.write_at(0, AlignedBuf::copy_of(&[1; 16 * PAGE]), TAG).await.unwrap();
            fs.fail_next(Some(OpKind::Sync), Fault::Error);
            assert_eq!(file.sync(TAG).await.unwrap_err().kind(), ErrorKind::Device);
            file.sync(TAG).await.unwrap();
            let seen = file.read_at(0, AlignedBuf::with_len(16 * PAGE), TAG).await.unwrap();
            views.insert(seen.iter().all(|&byte| byte == 1));
            let after = outcomes(&fs, "f", 20);
            assert_eq!(after.len(), 1, "what is durable is decided");
            let bytes = after.iter().flatten().next().unwrap();
            assert_eq!(bytes.len(), 16 * PAGE);
            if bytes.contains(&0) {
                // The way out: write the bytes again, and sync them.
                file.write_at(0, AlignedBuf::copy_of(&[2; 16 * PAGE]), TAG).await.unwrap();
                file.sync(TAG).await.unwrap();
                assert_eq!(outcomes(&fs, "f", 20), [Some(vec![2; 16 * PAGE])].into());
            }
        });
    }
    assert_eq!(views.len(), 2, "readers see the new bytes, or already what the medium has");
}

#[test]
fn operations_on_names_fail_having_happened_or_not() {
    let mut happened = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let sim = Sim::new(seed);
        let fs = disk(&sim);
        sim.block_on(async {
            durable_file(&fs, "f", OpenOptions::create_new()).await;
            fs.fail_next(Some(OpKind::Rename), Fault::Error);
            assert!(fs.rename(path("f"), path("g"), TAG).await.is_err());
            happened.insert(fs.list(path(ROOT), TAG).await.unwrap()[0].name.clone());
            fs.fail_next(None, Fault::Error);
            assert!(fs.sync_dir(path(ROOT), TAG).await.is_err());
            fs.sync_dir(path(ROOT), TAG).await.unwrap();
        });
    }
    assert_eq!(happened, ["f".to_string(), "g".to_string()].into());
}

#[test]
fn a_full_disk_refuses_and_goes_on_when_there_is_room() {
    let sim = Sim::new(1);
    let fs = disk(&sim);
    sim.block_on(async {
        let old = durable_file(&fs, "old", OpenOptions::create_new()).await;
        old.write_at(0, AlignedBuf::with_len(8 * PAGE), TAG).await.unwrap();
        fs.set_free_bytes(3 * PAGE as u64);
        let file = fs.open(path("f"), OpenOptions::create_new(), TAG).await.unwrap();
        assert_eq!(file.allocate(4 * PAGE as u64, TAG).await.unwrap_err().kind(), ErrorKind::NoSpace);
        assert_eq!(file.len().await.unwrap(), 0);
        file.allocate(2 * PAGE as u64, TAG).await.unwrap();
        file.write_at(0, AlignedBuf::with_len(2 * PAGE), TAG).await.unwrap();
        let error = file.write_at(PAGE as u64, AlignedBuf::copy_of(&[5; 4 * PAGE]), TAG).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        assert_eq!(file.len().await.unwrap(), 3 * PAGE as u64, "what fits is there");
        let error = fs.open(path("g"), OpenOptions::create_new(), TAG).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NoSpace);
        file.write_at(0, page(1), TAG).await.unwrap();
        // A file that is removed but open still holds its space; closing it frees the space.
        fs.remove(path("old"), TAG).await.unwrap();
        assert!(file.write_at(3 * PAGE as u64, page(1), TAG).await.is_err());
        drop(old);
        file.write_at(3 * PAGE as u64, AlignedBuf::with_len(8 * PAGE), TAG).await.unwrap();
        assert!(file.write_at(11 * PAGE as u64, page(1), TAG).await.is_err());
        file.set_len(10 * PAGE as u64, TAG).await.unwrap();
        file.write_at(10 * PAGE as u64, page(1), TAG).await.unwrap();
        fs.set_free_bytes(u64::MAX);
        file.write_at(11 * PAGE as u64, page(1), TAG).await.unwrap();
        fs.fail_next(Some(OpKind::Write), Fault::NoSpace);
        assert_eq!(file.write_at(0, page(1), TAG).await.unwrap_err().kind(), ErrorKind::NoSpace);
    });
}

#[test]
fn the_nth_of_all_operations_fails_and_chances_come_as_often_as_they_say() {
    let sim = Sim::new(1);
    let faults = FaultPlan::none().fail_nth(None, 2, Fault::ShortWrite).chance(OpKind::Write, Fault::Error, 0.25);
    let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), faults, sim.rng());
    sim.block_on(async {
        let file = durable_file(&fs, "f", DSYNC).await;
        assert!(file.sync(TAG).await.is_err(), "a short write makes no sense for a sync: it fails");
        let mut failed = 0;
        for _ in 0..1000 {
            failed += u32::from(file.write_at(0, page(1), TAG).await.is_err());
        }
        assert!((200..300).contains(&failed), "{failed} of 1000 failed");
        fs.set_faults(FaultPlan::none());
        for _ in 0..100 {
            file.write_at(0, page(1), TAG).await.unwrap();
        }
    });
}

#[test]
fn a_hook_fails_the_operation_it_was_called_for() {
    let sim = Sim::new(1);
    let fs = disk(&sim);
    fs.on_cut_point(|fs, point| {
        if (point.phase, point.kind, point.path) == (Phase::Before, OpKind::Sync, path("table")) {
            fs.fail_next(Some(OpKind::Sync), Fault::Error);
        }
    });
    sim.block_on(async {
        let log = durable_file(&fs, "log", OpenOptions::create_new()).await;
        let table = durable_file(&fs, "table", OpenOptions::create_new()).await;
        log.sync(TAG).await.unwrap();
        assert!(table.sync(TAG).await.is_err());
        log.sync(TAG).await.unwrap();
    });
}

#[test]
fn misuse_is_an_error_with_a_name() {
    let sim = Sim::new(1);
    let fs = disk(&sim);
    sim.block_on(async {
        let file = durable_file(&fs, "f", OpenOptions::create_new()).await;
        let kind = |result: crate::Result<AlignedBuf>| result.unwrap_err().kind();
        assert_eq!(kind(file.write_at(1, page(1), TAG).await), ErrorKind::Invalid);
        assert_eq!(kind(file.write_at(0, bytes("x"), TAG).await), ErrorKind::Invalid);
        assert_eq!(kind(file.read_at(0, bytes("x"), TAG).await), ErrorKind::Invalid);
        assert_eq!(kind(file.write_at(u64::MAX - 4095, page(1), TAG).await), ErrorKind::Invalid);
        let read_only = fs.open(path("f"), OpenOptions::read(), TAG).await.unwrap();
        assert_eq!(kind(read_only.write_at(0, page(1), TAG).await), ErrorKind::Invalid);
        let open = |name: &'static str, options| {
            let fs = &fs;
            async move { fs.open(path(name), options, TAG).await.err().unwrap().kind() }
        };
        assert_eq!(open("f", OpenOptions::create_new()).await, ErrorKind::AlreadyExists);
        assert_eq!(open("g", OpenOptions::read()).await, ErrorKind::NotFound);
        assert_eq!(open("dir/g", OpenOptions::create_new()).await, ErrorKind::NotFound);
        assert_eq!(open("../g", OpenOptions::create_new()).await, ErrorKind::Invalid);
        fs.create_dir_all(path("dir/sub"), TAG).await.unwrap();
        assert!(fs.remove_dir(path("dir"), TAG).await.is_err());
        assert!(fs.remove(path("dir"), TAG).await.is_err());
        fs.remove_dir(path("dir/sub"), TAG).await.unwrap();
        fs.remove_dir(path("dir"), TAG).await.unwrap();
    });
}

#[test]
fn a_lock_is_held_until_dropped_and_not_across_a_power_cut() {
    let sim = Sim::new(1);
    let fs = disk(&sim);
    sim.block_on(async {
        let held = fs.lock(path("LOCK")).await.unwrap();
        assert_eq!(fs.lock(path("LOCK")).await.err().unwrap().kind(), ErrorKind::Locked);
        let image = fs.crash_keeping(Keep::All, &mut Rng::new(0));
        let reborn = SimFs::from_image(&image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
        reborn.lock(path("LOCK")).await.unwrap();
        drop(held);
        fs.lock(path("LOCK")).await.unwrap();
    });
}
