//! What a tenant costs while it sleeps: no file of it is open, and nothing that its partitions held is kept in memory.

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use weir_io::sim::{DeviceSpec, DiskImage, Fault, FaultPlan, Keep, OpKind, Phase, Sim, SimFs};
use weir_io::{Fs, sleep_until};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_model::{Batch, Change};
use weir_node::{Machine, Node, NodeConfig, Partition, PartitionSlot, SlotState, Tenant, TenantName, TenantSpec};

const KEYS: u64 = 300;
const SECOND: u64 = 1_000_000_000;

fn world(seed: u64, sync: SyncMode) -> (Sim, Arc<SimFs>, Node) {
    world_where(seed, sync, 0, &DiskImage::new())
}

/// A node on the disk `image`. A partition that is asked nothing for `hibernate_after` nanoseconds goes to sleep; 0 =
/// never.
fn world_where(seed: u64, sync: SyncMode, hibernate_after: u64, image: &DiskImage) -> (Sim, Arc<SimFs>, Node) {
    world_under(seed, &config(sync, hibernate_after), image)
}

fn config(sync: SyncMode, hibernate_after: u64) -> NodeConfig {
    let tree = TreeOptions {
        write_buffer_bytes: 8 << 10,
        l0_trigger: 2,
        l0_gather: 2,
        level1_bytes: 32 << 10,
        table_bytes: 16 << 10,
        io_bytes: 8 << 10,
        ..TreeOptions::default()
    };
    NodeConfig {
        tree,
        cache_bytes: 1 << 20,
        sync,
        segment_bytes: 64 << 10,
        hibernate_after,
        ..NodeConfig::new("/weir")
    }
}

fn world_under(seed: u64, config: &NodeConfig, image: &DiskImage) -> (Sim, Arc<SimFs>, Node) {
    let sim = Sim::new(seed);
    let device = DeviceSpec { latency: 50_000, sync_latency: 20_000, parallelism: 4, ..DeviceSpec::shared(1 << 20) };
    let fs = SimFs::from_image(image, sim.clock(), device, FaultPlan::none(), sim.rng());
    let disk = Arc::clone(&fs) as Arc<dyn Fs>;
    let machine = Machine { fs: disk, clock: sim.clock(), spawn: sim.spawner(), salt: 7 };
    let node = sim.block_on(Node::open(config, machine)).expect("the node opens");
    (sim, fs, node)
}

async fn create(node: &Node, name: &str, partitions: u16) -> Arc<Tenant> {
    let spec = TenantSpec { partitions, ..TenantSpec::new(TenantName::new(name).expect("a name")) };
    node.create_tenant(spec).await.expect("created")
}

/// Tables at several levels, something in the memtable and in the log, and blocks in the cache; in odd rounds with jobs
/// under way.
async fn work(slot: &Arc<PartitionSlot>, round: u64) {
    let partition = slot.partition().await.expect("it wakes");
    for key in 0..KEYS {
        let record = partition.get(&key.to_le_bytes()).await.expect("a read");
        let value = record
            .map(|record| u64::from_le_bytes(record.value().expect("a string")[..8].try_into().expect("eight bytes")));
        assert_eq!(value, round.checked_sub(1).map(|before| before + key), "what was written before it slept");
    }
    let mut commits = Vec::new();
    for key in 0..KEYS {
        let mut batch = Batch::new();
        batch.put(&key.to_le_bytes(), &(round + key).to_le_bytes().repeat(20));
        commits.push(partition.write(&batch).await.expect("room"));
    }
    for commit in commits {
        commit.await.expect("written");
    }
    if round.is_multiple_of(2) {
        partition.settle().await;
    }
    let mut last = Batch::new();
    last.put(b"last", &round.to_le_bytes());
    partition.write(&last).await.expect("room").await.expect("written");
}

fn open_files(fs: &SimFs, slot: &PartitionSlot) -> usize {
    fs.open_files(PathBuf::from(format!("/weir/partitions/{:06}", slot.owner().partition)))
}

/// Shows whether anything of the partition is left.
fn watched(slot: &PartitionSlot) -> Weak<Partition> {
    slot.awake().as_ref().map_or(Weak::new(), Arc::downgrade)
}

#[test]
fn who_sleeps_has_no_file_open_and_holds_no_memory() {
    for (seed, sync) in (0..).zip([SyncMode::Always, SyncMode::Interval, SyncMode::None]) {
        let (sim, fs, node) = world(seed, sync);
        let clock = sim.clock();
        sim.block_on(async {
            let (sleeper, other) = (create(&node, "sleeper", 3).await, create(&node, "other", 1).await);
            let other = &other.partitions()[0];
            assert_eq!(fs.open_files("/weir/partitions"), 0, "nobody has been asked anything yet");
            work(other, 0).await;
            let (charged, used) = (node.cache().charged_bytes(), node.write_memory().stats().used);
            let mut busy = 0;
            for round in 0..4 {
                for slot in sleeper.partitions() {
                    work(slot, round).await;
                    let (partition, open) = (watched(slot), open_files(&fs, slot));
                    assert!(partition.upgrade().is_some() && open > 3, "{open} files are open");
                    assert!(node.cache().charged_bytes() > charged && node.write_memory().stats().used > used);
                    busy += node.compactions().0;
                    slot.sleep().await;
                    let what = format!("round {round}, {sync:?}");
                    assert_eq!((slot.state(), open_files(&fs, slot)), (SlotState::Asleep, 0), "{what}");
                    assert!(partition.upgrade().is_none(), "{what}: a job, a timer or the control loop holds it");
                    assert_eq!(node.cache().charged_bytes(), charged, "{what}: indexes and filters of the other alone");
                    assert_eq!(node.write_memory().stats().used, used, "{what}: memtables of the other alone");
                }
                sleep_until(&clock, clock.now() + 5_000_000_000).await;
                let still = sleeper.partitions().iter().map(|slot| open_files(&fs, slot)).sum::<usize>();
                assert_eq!(still, 0, "some work in the background opened files again");
                assert!(open_files(&fs, other) > 3, "the other is awake");
            }
            assert!(busy > 0, "nobody was put to sleep in the middle of a compaction");
            other.sleep().await;
            assert_eq!((fs.open_files("/weir/partitions"), node.cache().charged_bytes()), (0, 0));
            assert_eq!(node.write_memory().stats().used, 0);
        });
    }
}

/// Values of which one in ten stays, and the others expire after a minute.
async fn fill_for_a_minute(sim: &Sim, slot: &Arc<PartitionSlot>) {
    let partition = slot.partition().await.expect("it wakes");
    for key in 0..KEYS {
        let expire_at_ms = (key % 10 > 0).then(|| sim.clock().unix_ms() + 60_000);
        let mut batch = Batch::new();
        batch.push(Change::Put { key: &key.to_le_bytes(), value: &[b'v'; 160], expire_at_ms });
        partition.write(&batch).await.expect("room").await.expect("written");
    }
}

#[test]
fn who_sleeps_on_what_has_expired_is_woken_until_it_is_given_back() {
    let (sim, fs, node) = world_where(5, SyncMode::Interval, 4 * SECOND, &DiskImage::new());
    let tenant = sim.block_on(async {
        let tenant = create(&node, "cache", 1).await;
        fill_for_a_minute(&sim, &tenant.partitions()[0]).await;
        tenant
    });
    let slot = &tenant.partitions()[0];
    sim.run_until(sim.now() + 20 * SECOND);
    let before = tenant.disk_use();
    assert_eq!((slot.state(), before.living), (SlotState::Asleep, before.stored));
    sim.run_until(sim.now() + 39 * SECOND);
    assert_eq!((slot.state(), tenant.disk_use()), (SlotState::Asleep, before), "nothing has expired yet");
    sim.run_until(sim.now() + 20 * SECOND);
    let after = tenant.disk_use();
    assert!(after.stored * 3 < before.stored, "{before:?}, {after:?}");
    assert_eq!((slot.state(), open_files(&fs, slot)), (SlotState::Asleep, 0), "it sleeps again");
    sim.run_until(sim.now() + 60 * SECOND);
    assert_eq!(slot.state(), SlotState::Asleep, "once was enough");
    assert_eq!(tenant.disk_use(), after);
}

#[test]
fn the_idle_fall_asleep_while_others_give_back_what_has_expired() {
    // Nobody has a slot to compact in: each sleeper has the whole minute that giving back may take.
    let config = NodeConfig { compaction_slots: 0, ..config(SyncMode::Interval, 4 * SECOND) };
    let (sim, _fs, node) = world_under(7, &config, &DiskImage::new());
    let (cache, idle) = sim.block_on(async {
        let cache = create(&node, "cache", 3).await;
        for slot in cache.partitions() {
            fill_for_a_minute(&sim, slot).await;
        }
        (cache, create(&node, "idle", 1).await)
    });
    let awake = || cache.partitions().iter().filter(|slot| slot.state() == SlotState::Awake).count();
    sim.run_until(sim.now() + 30 * SECOND);
    assert_eq!(awake(), 0);
    while awake() == 0 {
        sim.run_until(sim.now() + SECOND);
    }
    let idle = &idle.partitions()[0];
    drop(sim.block_on(idle.partition()).expect("it wakes"));
    sim.run_until(sim.now() + 20 * SECOND);
    assert_eq!((idle.state(), awake()), (SlotState::Asleep, 1), "and the one that gives back is left alone");
}

#[test]
fn a_tenant_that_wakes_many_partitions_delays_nobody_elses() {
    let (sim, _, node) = world(6, SyncMode::None);
    sim.block_on(async {
        let (many, one) = (create(&node, "many", 64).await, create(&node, "one", 1).await);
        for slot in many.partitions() {
            let slot = Arc::clone(slot);
            sim.spawn(async move { drop(slot.partition().await.expect("it wakes")) });
        }
        // All of them have asked before.
        sleep_until(&sim.clock(), sim.now() + 1_000).await;
        let state = |state| many.partitions().iter().filter(|slot| slot.state() == state).count();
        assert_eq!((state(SlotState::Waking), state(SlotState::Awake)), (64, 0));
        drop(one.partitions()[0].partition().await.expect("it wakes"));
        let awake = state(SlotState::Awake);
        assert!(awake <= 12, "{awake} of another tenant went before it");
    });
}

/// The edit of a partition's last flush is in the page cache, but its sync has failed. The next opening reads the edit,
/// and the anchor and the log go by it.
#[test]
fn a_flush_whose_sync_failed_is_durable_once_an_opening_has_gone_by_it() {
    for seed in 0..20 {
        let (sim, fs, node) = world(seed, SyncMode::Always);
        sim.block_on(async {
            let tenant = create(&node, "sleeper", 1).await;
            let slot = &tenant.partitions()[0];
            let mut batch = Batch::new();
            batch.put(b"key", b"value");
            slot.partition().await.expect("it wakes").write(&batch).await.expect("room").await.expect("written");
            fs.on_cut_point(|disk, point| {
                let is_manifest = point.path.to_string_lossy().contains("MANIFEST-");
                if point.phase == Phase::Before && point.kind == OpKind::Write && is_manifest {
                    disk.fail_next(Some(OpKind::Sync), Fault::Error);
                }
            });
            slot.sleep().await;
            fs.clear_hook();
            assert_eq!(slot.state(), SlotState::Asleep);
            let partition = slot.partition().await.expect("it wakes");
            assert!(partition.get(b"key").await.expect("a read").is_some());
        });
        let (sim, _fs, node) = world_where(seed, SyncMode::Always, 0, &fs.crash_keeping(Keep::None, &mut sim.rng()));
        sim.block_on(async {
            let tenant = node.tenant(&TenantName::new("sleeper").expect("a name")).expect("it is there");
            let partition = tenant.partitions()[0].partition().await.unwrap_or_else(|error| panic!("{seed}: {error}"));
            assert!(partition.get(b"key").await.expect("a read").is_some(), "seed {seed}");
        });
    }
}
