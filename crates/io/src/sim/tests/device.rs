//! How long things take, exactly.

use super::*;
use crate::OpenOptions;

const SECOND: u64 = 1_000_000_000;

fn on(sim: &Sim, device: DeviceSpec, faults: FaultPlan) -> Arc<SimFs> {
    SimFs::new(sim.clock(), device, faults, sim.rng())
}

/// The virtual time of `count` operations of `pages` pages, `count` at a time. If `mixed`, even ones write and odd ones
/// read; else all write.
fn time(device: DeviceSpec, faults: FaultPlan, count: u64, pages: usize, mixed: bool) -> u64 {
    let mut image = DiskImage::new();
    image.insert("f", &vec![1; count as usize * pages * PAGE]).unwrap();
    let sim = Sim::new(1);
    let fs = SimFs::from_image(&image, sim.clock(), device, faults, sim.rng());
    sim.block_on(async {
        let options = OpenOptions { write: true, ..OpenOptions::read() };
        let file = fs.open(path("f"), options, TAG).await.unwrap();
        let begin = sim.now();
        let mut under_way = Vec::new();
        for index in 0..count {
            let (offset, buf) = (index * (pages * PAGE) as u64, AlignedBuf::with_len(pages * PAGE));
            let read = mixed && index % 2 == 1;
            under_way.push(if read { file.read_at(offset, buf, TAG) } else { file.write_at(offset, buf, TAG) });
        }
        for op in under_way {
            op.await.unwrap();
        }
        sim.now() - begin
    })
}

#[test]
fn bytes_take_bytes_over_bandwidth() {
    let rate = 3 * PAGE as u64;
    assert_eq!(time(DeviceSpec::shared(rate), FaultPlan::none(), 9, 1, false), 3 * SECOND);
    assert_eq!(time(DeviceSpec::shared(rate), FaultPlan::none(), 1, 1, false), SECOND.div_ceil(3));
    assert_eq!(time(DeviceSpec::shared(rate), FaultPlan::none(), 6, 1, true), 2 * SECOND);
    assert_eq!(time(DeviceSpec::split(rate, rate), FaultPlan::none(), 6, 1, true), SECOND);
    let skewed = DeviceSpec { read_bytes_per_sec: 2 * rate, ..DeviceSpec::shared(rate) };
    assert_eq!(time(skewed, FaultPlan::none(), 12, 1, true), 3 * SECOND);
}

#[test]
fn small_operations_take_operations_over_iops() {
    let device = DeviceSpec { iops: 100, ..DeviceSpec::shared(1000 * PAGE as u64) };
    assert_eq!(time(device, FaultPlan::none(), 50, 1, true), SECOND / 2);
    assert_eq!(time(device, FaultPlan::none(), 50, 20, true), SECOND);
}

#[test]
fn latency_overlaps_as_far_as_the_slots_go() {
    let device = |parallelism| DeviceSpec { latency: 1000, parallelism, ..DeviceSpec::instant() };
    assert_eq!(time(device(1), FaultPlan::none(), 12, 1, false), 12_000);
    assert_eq!(time(device(4), FaultPlan::none(), 12, 1, false), 3_000);
    assert_eq!(time(device(12), FaultPlan::none(), 12, 1, false), 1_000);
}

#[test]
fn jitter_changes_the_order_of_completion_and_the_seed_decides_it() {
    let order = |seed| {
        let sim = Sim::new(seed);
        let fs = on(&sim, DeviceSpec { latency: 100, jitter: 1000, ..DeviceSpec::instant() }, FaultPlan::none());
        let file = sim.block_on(durable_file(&fs, "f", OpenOptions::create_new()));
        let done = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let begin = sim.now();
        for index in 0..8 {
            let (write, done) = (file.write_at(index * PAGE as u64, page(1), TAG), Arc::clone(&done));
            sim.spawn(async move {
                write.await.unwrap();
                done.lock().push(index);
            });
        }
        sim.run_until(begin + 99);
        assert!(done.lock().is_empty());
        sim.run_until(begin + 1100);
        let done = done.lock();
        done.clone()
    };
    assert_eq!(order(1).len(), 8);
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
    assert!(!order(1).is_sorted());
}

#[test]
fn a_sync_pays_for_buffered_bytes_and_a_dsync_write_for_its_own() {
    let device = DeviceSpec { sync_latency: 500, ..DeviceSpec::shared(PAGE as u64 * SECOND / 1000) };
    let sim = Sim::new(1);
    let fs = on(&sim, device, FaultPlan::none());
    sim.block_on(async {
        let file = fs.open(path("buffered"), OpenOptions::create_new_buffered(), TAG).await.unwrap();
        file.write_at(0, page(1), TAG).await.unwrap();
        file.write_at(PAGE as u64, page(1), TAG).await.unwrap();
        assert_eq!(sim.now(), 0);
        file.sync(TAG).await.unwrap();
        assert_eq!(sim.now(), 2500);
        file.sync(TAG).await.unwrap();
        assert_eq!(sim.now(), 3000);
        let file = fs.open(path("dsync"), DSYNC, TAG).await.unwrap();
        file.write_at(0, page(1), TAG).await.unwrap();
        assert_eq!(sim.now(), 4500);
    });
}

#[test]
fn a_sync_with_nothing_to_write_does_not_wait_for_the_bandwidth_of_others() {
    let sim = Sim::new(1);
    let fs = on(&sim, DeviceSpec::shared(1_000_000), FaultPlan::none());
    sim.block_on(async {
        let busy = fs.open(path("busy"), OpenOptions::create_new(), TAG).await.unwrap();
        let idle = fs.open(path("idle"), OpenOptions::create_new_buffered(), TAG).await.unwrap();
        let write = busy.write_at(0, AlignedBuf::with_len(1 << 20), TAG);
        idle.sync(TAG).await.unwrap();
        assert_eq!(sim.now(), 0);
        write.await.unwrap();
        assert!(sim.now() > SECOND);
    });
}

#[test]
fn slow_and_hung_periods_come_at_their_time_and_go() {
    let device = DeviceSpec { latency: 10, parallelism: 1, ..DeviceSpec::instant() };
    // Five at the usual pace up to 50; one started at 50 takes 1000; the rest is as before.
    assert_eq!(time(device, FaultPlan::none().slow(50, 60, 100), 10, 1, false), 50 + 1000 + 40);
    assert_eq!(time(device, FaultPlan::none().hang(50, 30 * SECOND), 10, 1, false), 30 * SECOND + 50);
    // Instant devices hang too.
    assert_eq!(time(DeviceSpec::instant(), FaultPlan::none().hang(0, 70), 10, 1, false), 70 - 70);
    let sim = Sim::new(1);
    let fs = on(&sim, DeviceSpec::instant(), FaultPlan::none().hang(0, 70));
    sim.block_on(fs.open(path("f"), DSYNC, TAG)).unwrap();
    assert_eq!(sim.now(), 70);
}

#[test]
fn every_byte_is_counted_by_class_and_kind() {
    let sim = Sim::new(1);
    let fs = disk(&sim);
    let flush = Tag::new(TAG.owner, Class::Flush);
    sim.block_on(async {
        let file = durable_file(&fs, "f", OpenOptions::create_new_buffered()).await;
        file.write_at(0, bytes("hello"), TAG).await.unwrap();
        file.write_at(5, bytes("!"), flush).await.unwrap();
        file.read_at(2, AlignedBuf::with_len(100), flush).await.unwrap();
        file.sync(flush).await.unwrap();
    });
    let counters = fs.counters();
    assert_eq!(counters.get(Class::Log, OpKind::Write), Count { ops: 1, bytes: 5 });
    assert_eq!(counters.get(Class::Flush, OpKind::Write), Count { ops: 1, bytes: 1 });
    assert_eq!(fs.count(Class::Flush, OpKind::Read), Count { ops: 1, bytes: 4 });
    assert_eq!(counters.total(OpKind::Write), Count { ops: 2, bytes: 6 });
    assert_eq!((counters.total(OpKind::Sync).ops, counters.total(OpKind::SyncDir).ops), (1, 1));
}

#[test]
fn open_files_are_counted_until_the_last_handle_is_dropped() {
    let sim = Sim::new(1);
    let fs = disk(&sim);
    sim.block_on(async {
        fs.create_dir_all(path("dir/in"), TAG).await.unwrap();
        let first = fs.open(path("dir/in/a"), DSYNC, TAG).await.unwrap();
        let second = fs.open(path("dir/in/a"), OpenOptions::read(), TAG).await.unwrap();
        let other = fs.open(path("dir/b"), DSYNC, TAG).await.unwrap();
        fs.open(path("dir/none"), OpenOptions::read(), TAG).await.map(drop).unwrap_err();
        let open = || ["", "dir", "dir/in", "dir/in/a", "d"].map(|dir| fs.open_files(dir));
        assert_eq!(open(), [3, 3, 2, 2, 0]);
        drop(first);
        fs.remove(path("dir/in/a"), TAG).await.unwrap();
        assert_eq!(open(), [2, 2, 1, 1, 0], "without a name it is open all the same");
        drop((second, other));
        assert_eq!(open(), [0; 5]);
    });
}

/// A run with chance in it: tasks that write, sync and rename on a slow and failing disk.
fn run(seed: u64) -> (u64, u64, Vec<Event>) {
    let sim = Sim::new(seed);
    let device = DeviceSpec { latency: 700, iops: 100_000, ..DeviceSpec::shared(50 << 20) };
    let faults = FaultPlan::none().chance(OpKind::Write, Fault::Error, 0.1).chance(OpKind::Read, Fault::FlipBit, 0.1);
    let fs = on(&sim, device, faults);
    fs.record_events();
    for task in 0..4_u64 {
        let (fs, mut rng) = (Arc::clone(&fs), Rng::new(task));
        sim.spawn(async move {
            let (name, other) = (format!("{task}"), format!("{task}-renamed"));
            let file = fs.open(path(&name), OpenOptions::create_new(), TAG).await.unwrap();
            for _ in 0..20 {
                // Some of these fail; how many is part of the day.
                let _ = file.write_at(rng.below(8) * PAGE as u64, page(1), TAG).await;
                let _ = file.read_at(0, page(0), TAG).await;
                file.sync(TAG).await.unwrap();
            }
            fs.rename(path(&name), path(&other), TAG).await.unwrap();
        });
    }
    sim.run_until(SECOND);
    (sim.event_hash(), fs.event_hash(), fs.take_events())
}

#[test]
fn one_seed_gives_one_day() {
    let (first, again, other) = (run(1), run(1), run(2));
    assert_eq!(first, again);
    assert_eq!(first.2.len(), 4 * (2 + 3 * 20));
    assert_ne!((first.0, first.1), (other.0, other.1));
    assert_ne!(first.1, other.1);
}
