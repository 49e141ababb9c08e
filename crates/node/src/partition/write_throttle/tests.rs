//! Writers that wait for their turn, and how a change of the rate affects them.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Waker};

use weir_admission::waits::{self, Cause, Followed};
use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{ErrorKind, Fs};
use weir_model::Batch;
use weir_model::engine::{Scope, TreeKnobs};

use super::*;
use crate::config::{Machine, NodeConfig};
use crate::node::Node;

const MS: Nanos = 1_000_000;
const SEC: Nanos = 1_000 * MS;

fn open(sim: &Sim, config: &NodeConfig, device: DeviceSpec) -> (Node, Arc<Partition>) {
    let fs = SimFs::new(sim.clock(), device, FaultPlan::none(), sim.rng());
    let machine = Machine { fs: fs as Arc<dyn Fs>, clock: sim.clock(), spawn: sim.spawner(), salt: 7 };
    let node = sim.block_on(Node::open(config, machine)).expect("the node opens");
    let partition = sim.block_on(node.default_partition()).expect("opens");
    (node, partition)
}

fn config() -> NodeConfig {
    NodeConfig { segment_bytes: 1 << 20, ..NodeConfig::new("/weir") }
}

fn batch(key: u32) -> Batch {
    let mut batch = Batch::new();
    batch.put(&key.to_be_bytes(), &[7; 1000]);
    batch
}

/// `count` writers of 1 KB each; how many are through, and how many were refused because the partition was closed.
fn writers(sim: &Sim, partition: &Arc<Partition>, count: u32) -> Arc<[AtomicU64; 2]> {
    let ended = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    for key in 0..count {
        let (partition, ended) = (Arc::clone(partition), Arc::clone(&ended));
        sim.spawn(async move {
            let outcome = partition.write(&batch(key)).await.map(drop).map_err(|error| error.kind());
            let at = match outcome {
                Ok(()) => 0,
                Err(ErrorKind::Closed) => 1,
                Err(other) => panic!("{other:?}"),
            };
            ended[at].fetch_add(1, Relaxed);
        });
    }
    ended
}

fn of(ended: &[AtomicU64; 2]) -> [u64; 2] {
    [0, 1].map(|at| ended[at].load(Relaxed))
}

#[test]
fn another_rate_is_at_once_that_of_those_who_wait() {
    let sim = Sim::new(1);
    let (_node, partition) = open(&sim, &config(), DeviceSpec::instant());
    let begin = sim.now();
    partition.set_write_rate(Some(1024));
    let ended = writers(&sim, &partition, 500);
    sim.run_until(begin + 100 * MS);
    assert!(of(&ended)[0] <= 2, "{ended:?} at 1 KB a second");
    partition.set_write_rate(Some(1 << 20));
    sim.run_until(begin + 300 * MS);
    let through = of(&ended)[0];
    assert!((150..250).contains(&through), "{through} KB in 200 ms at 1 MiB a second");
    partition.set_write_rate(None);
    sim.run_until(sim.now() + 1);
    assert_eq!(of(&ended), [500, 0]);
    assert_eq!(partition.metrics().stalls[StallCause::L0Runs as usize].slowed, 500);
}

#[test]
fn the_policy_that_slowed_them_lets_them_go() {
    // At its next tick, a second later, and not after as many seconds as there are writers.
    let sim = Sim::new(2);
    let (_node, partition) = open(&sim, &config(), DeviceSpec::instant());
    partition.set_write_rate(Some(1024));
    let ended = writers(&sim, &partition, 500);
    sim.run_until(sim.now() + SEC + MS);
    assert_eq!(of(&ended), [500, 0]);
}

#[test]
fn what_a_request_waited_for_goes_with_it() {
    let sim = Sim::new(4);
    let (_node, partition) = open(&sim, &config(), DeviceSpec::instant());
    partition.set_write_rate(Some(8 * 1024));
    let told = Arc::new(Mutex::new([[0; 5]; 3]));
    for key in 0..3 {
        let (partition, told) = (Arc::clone(&partition), Arc::clone(&told));
        sim.spawn(Followed::new(async move {
            drop(partition.write(&batch(key)).await.expect("no faults"));
            told.lock()[key as usize] = waits::so_far();
        }));
    }
    sim.run_until(sim.now() + SEC / 2);
    // Each write takes an eighth of a second, and waits for those in front of it, whichever they are.
    let mut stalled = told.lock().map(|waits| waits[Cause::Stall as usize] / (SEC / 10));
    stalled.sort_unstable();
    assert_eq!(stalled, [0, 1, 2], "{told:?}");
    assert!(told.lock().iter().all(|waits| waits.iter().sum::<u64>() == waits[Cause::Stall as usize]), "{told:?}");
}

#[test]
fn the_end_of_a_stall_lets_them_go() {
    // From two runs in level 0 on writes are slowed, and the merge that ends this takes a while.
    let sim = Sim::new(3);
    let mut config = config();
    config.profile = crate::Profile::RocksDb;
    (config.tree.l0_trigger, config.tree.l0_gather, config.tree.l0_slow) = (2, 2, 2);
    config.tree.slow_bytes_per_sec = [1024, 1024];
    let (_node, partition) = open(&sim, &config, DeviceSpec::shared(1 << 20));
    for _ in 0..2 {
        for key in 0..100 {
            let _commit = sim.block_on(partition.write(&batch(key))).expect("no faults");
        }
        drop(sim.block_on(partition.flush_and_hold()).expect("no faults"));
    }
    assert_eq!(partition.engine.stall(), Stall::Slow(weir_model::engine::StallCause::L0Runs));
    let begin = sim.now();
    let ended = writers(&sim, &partition, 100);
    sim.block_on(partition.settle());
    assert_eq!(partition.engine.stall(), Stall::None);
    sim.run_until(sim.now() + MS);
    assert_eq!(of(&ended), [100, 0], "{} ns after they began", sim.now() - begin);
    assert!(sim.now() - begin < 5 * SEC);
}

#[test]
fn closing_ends_the_wait() {
    let sim = Sim::new(4);
    let (node, partition) = open(&sim, &config(), DeviceSpec::instant());
    partition.set_write_rate(Some(1024));
    let ended = writers(&sim, &partition, 100);
    sim.run_until(sim.now() + 10 * MS);
    let begin = sim.now();
    sim.block_on(node.close()).expect("no faults");
    sim.run_until(begin + MS);
    let [through, refused] = of(&ended);
    assert!(through <= 2 && through + refused == 100, "{through} through, {refused} refused");
    // A policy that comes too late slows nobody either.
    partition.set_write_rate(Some(1024));
    let late = writers(&sim, &partition, 10);
    sim.run_until(sim.now() + MS);
    assert_eq!(of(&late), [0, 10]);
}

#[test]
fn who_goes_away_leaves_his_turn_to_the_others() {
    let sim = Sim::new(5);
    let (_node, partition) = open(&sim, &config(), DeviceSpec::instant());
    partition.set_write_rate(Some(10_000));
    let begin = sim.now();
    let first = writers(&sim, &partition, 1);
    sim.run_until(begin + 1);
    for key in 0..100 {
        let batch = batch(key);
        let mut write = std::pin::pin!(partition.write(&batch));
        assert!(Pin::new(&mut write).as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    let last = writers(&sim, &partition, 1);
    sim.run_until(begin + 300 * MS);
    assert_eq!((of(&first), of(&last)), ([1, 0], [1, 0]), "a hundred turns of 100 ms were given back");
}

#[test]
fn an_update_pays_for_what_it_writes_and_not_for_its_key_alone() {
    let sim = Sim::new(4);
    let (_node, partition) = open(&sim, &config(), DeviceSpec::instant());
    partition.set_write_rate(Some(1 << 20));
    let begin = sim.now();
    for _ in 0..10 {
        let change = |_: &[Option<weir_model::Row>], batch: &mut Batch| batch.put(b"key", &[7; 50 << 10]);
        sim.block_on(partition.update(&[b"key"], change)).expect("an update");
    }
    let took = sim.now() - begin;
    assert!((400 * MS..600 * MS).contains(&took), "500 KiB at 1 MiB a second took {took} ns");
}

/// Two runs of 100 KB in level 0, whose merge is due and takes a while, in a tree with these limits of pending bytes.
fn in_debt(sim: &Sim, limits: [u64; 2]) -> (Node, Arc<Partition>) {
    let mut config = config();
    config.profile = crate::Profile::RocksDb;
    (config.tree.l0_trigger, config.tree.l0_gather, config.tree.pending_bytes_limits) = (2, 2, limits);
    config.tree.slow_bytes_per_sec = [1024, 1024];
    let (node, partition) = open(sim, &config, DeviceSpec::shared(1 << 20));
    for _ in 0..2 {
        for key in 0..100 {
            let _commit = sim.block_on(partition.write(&batch(key))).expect("no faults");
        }
        drop(sim.block_on(partition.flush_and_hold()).expect("no faults"));
    }
    (node, partition)
}

#[test]
fn pending_bytes_slow_writes_until_compactions_are_put_off_on_purpose() {
    let sim = Sim::new(5);
    let (_node, partition) = in_debt(&sim, [100 << 10, u64::MAX]);
    assert_eq!(partition.engine.stall(), Stall::Slow(weir_model::engine::StallCause::PendingBytes));
    let ended = writers(&sim, &partition, 100);
    sim.run_until(sim.now() + 50 * MS);
    assert!(of(&ended)[0] <= 2, "{ended:?} at 1 KB a second");
    let open = partition.engine.knobs();
    partition.set_tree_knobs(TreeKnobs { pending_stalls: false, ..open });
    assert_eq!(partition.engine.stall(), Stall::None, "the debt of a deferral is being paid");
    partition.set_tree_knobs(TreeKnobs { scope: Scope::IntraL0, ..open });
    assert_eq!(partition.engine.stall(), Stall::None);
    sim.run_until(sim.now() + MS);
    assert_eq!(of(&ended), [100, 0]);
    let stalls = partition.metrics().stalls;
    assert_eq!(StallCause::ALL.map(|cause| stalls[cause as usize].slowed), [0, 0, 100, 0]);
}

#[test]
fn of_the_rates_of_tree_and_policy_the_lower_one_holds() {
    let sim = Sim::new(5);
    let (_node, partition) = in_debt(&sim, [100 << 10, u64::MAX]);
    assert_eq!(partition.engine.stall(), Stall::Slow(weir_model::engine::StallCause::PendingBytes));
    let with = |policy: Option<u64>| {
        partition.set_write_rate(policy);
        *partition.write_throttle.rate.lock()
    };
    assert_eq!(with(None), Some(1024));
    assert_eq!(with(Some(1 << 20)), Some(1024), "a policy makes no write faster");
    assert_eq!(with(Some(512)), Some(512));
}

#[test]
fn pending_bytes_stop_writes_until_they_are_compacted() {
    let sim = Sim::new(6);
    let (_node, partition) = in_debt(&sim, [1, 100 << 10]);
    assert_eq!(partition.engine.stall(), Stall::Stop(weir_model::engine::StallCause::PendingBytes));
    let ended = writers(&sim, &partition, 1);
    sim.run_until(sim.now() + 50 * MS);
    assert_eq!(of(&ended), [0, 0]);
    sim.block_on(partition.settle());
    sim.run_until(sim.now() + MS);
    assert_eq!(of(&ended), [1, 0]);
    assert_eq!(partition.metrics().stalls[StallCause::PendingBytes as usize].stopped, 1);
}

#[test]
fn deletions_and_batches_pay_for_their_bytes() {
    // CR-10: CruiseDB's published code counts 1 KB for each put, and nothing for deletions and batches.
    let took = |batches: &[Batch]| {
        let sim = Sim::new(4);
        let (_node, partition) = open(&sim, &config(), DeviceSpec::instant());
        partition.set_write_rate(Some(1 << 20));
        let begin = sim.now();
        for batch in batches {
            let _commit = sim.block_on(partition.write(batch)).expect("no faults");
        }
        // The next write waits for what they took.
        let _commit = sim.block_on(partition.write(&self::batch(0))).expect("no faults");
        (sim.now() - begin) / MS
    };
    let deletions: Vec<Batch> = (0..100_u8)
        .map(|number| {
            let mut batch = Batch::new();
            batch.delete(&[number; 5 << 10]);
            batch
        })
        .collect();
    let mut large = Batch::new();
    for number in 0..500_u32 {
        large.put(&number.to_be_bytes(), &[7; 1000]);
    }
    for took in [took(&deletions), took(&[large])] {
        assert!((450..550).contains(&took), "500 KB at 1 MiB a second took {took} ms");
    }
    assert_eq!(took(&[]), 0);
}
