//! Compactions outside the scope: parked, resumed, finished or cancelled.

use std::sync::Arc;

use crate::opened::Opened;
use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
use weir_io::{Clock, Fs, Nanos, sleep_until};
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_model::Batch;
use weir_model::engine::{EngineFacts, JobCount};
use weir_node::{JobKind, Machine, NodeConfig, Partition, Scope, TreeKnobs};

const MS: Nanos = 1_000_000;
/// Keys that are written over and over.
const KEYS: u64 = 1_500;

struct World {
    sim: Sim,
    clock: Arc<dyn Clock>,
    node: Opened,
    written: u64,
}

impl World {
    /// A node with one compaction slot, on a disk so slow that jobs last.
    fn new() -> Self {
        let sim = Sim::new(1);
        let fs = SimFs::new(sim.clock(), DeviceSpec::shared(1 << 20), FaultPlan::none(), sim.rng());
        let tree = TreeOptions {
            write_buffer_bytes: 16 << 10,
            level1_bytes: 64 << 10,
            table_bytes: 32 << 10,
            io_bytes: 4 << 10,
            l0_slow: 30,
            l0_stop: 40,
            ..TreeOptions::default()
        };
        let config = NodeConfig {
            tree,
            cache_bytes: 64 << 10,
            compaction_slots: 1,
            sync: SyncMode::None,
            ..NodeConfig::new("/weir")
        };
        let fs = Arc::clone(&fs) as Arc<dyn Fs>;
        let machine = Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: 1 };
        let node = sim.block_on(Opened::open(&config, machine)).expect("the node opens");
        let clock = sim.clock();
        Self { sim, clock, node, written: 0 }
    }

    fn partition(&self) -> &Arc<Partition> {
        self.node.partition()
    }

    /// Sets the scope; merges within level 0 take at least `fan_in` runs.
    fn turn(&self, scope: Scope, fan_in: usize) {
        let knobs = self.partition().engine().knobs();
        self.partition().set_tree_knobs(TreeKnobs { scope, intra_l0_fan_in: fan_in, ..knobs });
    }

    /// Writes until `runs` more runs are in level 0.
    fn add_runs(&mut self, runs: usize) {
        let partition = Arc::clone(self.partition());
        for _ in 0..runs {
            self.sim.block_on(async {
                for _ in 0..60 {
                    let mut batch = Batch::new();
                    let key = self.written * 7 % KEYS;
                    batch.put(format!("key{key:05}").as_bytes(), &self.written.to_le_bytes().repeat(20));
                    partition.write(&batch).await.expect("write").await.expect("commit");
                    self.written += 1;
                }
            });
            partition.seal();
            self.until("flushed", |facts| facts.shape().sealed == 0);
        }
    }

    fn facts(&self) -> EngineFacts {
        self.partition().metrics().engine
    }

    fn sleep(&self, nanos: Nanos) {
        self.sim.block_on(sleep_until(&self.clock, self.clock.now() + nanos));
    }

    fn until(&self, what: &str, holds: impl Fn(&EngineFacts) -> bool) {
        for _ in 0..20_000 {
            if holds(&self.facts()) {
                return;
            }
            self.sleep(MS);
        }
        panic!("never {what}: {:?}", self.facts());
    }

    /// Begins a compaction of eight runs, lets it consume the part `progress` of its input, and puts it out of scope.
    fn park_at(&mut self, progress: f64) {
        self.turn(Scope::IntraL0, 100);
        self.add_runs(8);
        self.turn(Scope::All, 100);
        let all = count(&self.facts(), JobKind::L0).bytes_left as f64;
        self.until("as far as that", |shape| {
            let job = count(shape, JobKind::L0);
            job.running == 1 && (job.bytes_left as f64) < all * (1.0 - progress)
        });
        self.turn(Scope::IntraL0, 100);
        self.sleep(20 * MS);
    }

    /// Lets everything come to rest, and reads it.
    fn finish(&self) {
        self.turn(Scope::All, 4);
        self.sim.block_on(self.partition().settle());
        for key in 0..KEYS {
            let newest = (0..self.written).rev().find(|number| number * 7 % KEYS == key);
            let record = self.sim.block_on(self.partition().get(format!("key{key:05}").as_bytes())).expect("get");
            let found = record.map(|record| {
                u64::from_le_bytes(record.value().expect("a string")[..8].try_into().expect("eight bytes"))
            });
            assert_eq!(found, newest, "key {key}");
        }
    }
}

fn count(facts: &EngineFacts, kind: JobKind) -> JobCount {
    let at = JobKind::ALL.iter().position(|&other| other == kind).expect("a kind");
    facts.jobs[at]
}

#[test]
fn what_is_out_of_scope_is_parked_without_a_slot_and_goes_on_later() {
    let mut world = World::new();
    world.park_at(0.3);
    let parked = count(&world.facts(), JobKind::L0);
    assert_eq!((parked.running, parked.parked), (1, 1));

    // Its slot, the only one, serves a merge of runs that came later. With the runs of the parked job there are nine
    // then, too few for another merge: the parked job is in nobody's way.
    world.add_runs(10);
    world.turn(Scope::IntraL0, 10);
    world.until("merged", |facts| facts.shape().levels[0].tables == 8 + 1);
    world.sleep(1_000 * MS);
    assert_eq!(count(&world.facts(), JobKind::L0), parked, "not a byte further");

    world.turn(Scope::L0ToL1, 4);
    world.until("done", |facts| count(facts, JobKind::L0).running == 0 && facts.shape().levels[0].tables < 8);
    let metrics = world.partition().metrics();
    assert_eq!((metrics.jobs_parked, metrics.jobs_released, metrics.bytes_thrown_away), (1, 0, 0));
    world.finish();
}

#[test]
fn what_is_nearly_done_goes_on() {
    let mut world = World::new();
    world.park_at(0.92);
    assert_eq!(world.partition().metrics().jobs_parked, 0);
    world.until("done", |shape| count(shape, JobKind::L0).running == 0);
    assert_eq!(world.facts().shape().levels[0].tables, 0);
    world.finish();
}

/// While a merge into level 1 is put off, level 0 is kept short by merges within it alone.
#[test]
fn a_parked_merge_gives_up_level_0_to_a_merge_within_it() {
    for (progress, runs, released) in [(0.3, 1, 1), (0.6, 0, 0)] {
        let mut world = World::new();
        world.park_at(progress);
        assert_eq!(count(&world.facts(), JobKind::L0).parked, 1);
        world.turn(Scope::IntraL0, 4);
        // From half of its input on it is finished instead.
        world.until("merged", |facts| facts.shape().levels[0].tables == runs && facts.jobs_running == 0);
        let metrics = world.partition().metrics();
        assert_eq!((metrics.jobs_released, metrics.bytes_thrown_away > 0), (released, released > 0));
        world.finish();
    }
}

#[test]
fn after_a_minute_a_parked_job_is_cancelled_and_its_inputs_are_free() {
    let mut world = World::new();
    world.park_at(0.5);
    world.sleep(59_000 * MS);
    assert_eq!(world.partition().metrics().jobs_released, 0);
    world.sleep(2_000 * MS);
    let metrics = world.partition().metrics();
    assert_eq!(
        (metrics.jobs_released, metrics.engine.jobs_running, metrics.engine.shape().levels[0].claimed),
        (1, 0, 0)
    );
    assert!(metrics.bytes_thrown_away > 0);
    world.turn(Scope::IntraL0, 4);
    world.until("merged", |facts| facts.shape().levels[0].tables == 1);
    world.finish();
}

#[test]
fn a_deep_job_does_not_keep_level_0_from_going_down() {
    for fan_in in [4, 100] {
        let mut world = World::new();
        // Level 1 over its target: then one of its tables is on its way down.
        for _ in 0..20 {
            world.add_runs(4);
            // A round of the control loop passes, and tries in vain to merge what waited for more runs.
            world.sleep(1_100 * MS);
            if count(&world.facts(), JobKind::Deep).running > 0 {
                break;
            }
        }
        world.until("deep", |shape| count(shape, JobKind::Deep).running > 0);
        world.turn(Scope::L0ToL1, fan_in);
        world.add_runs(6);
        // And not by waiting until the parked job is released for its age.
        let begin = world.clock.now();
        world.until("down", |facts| facts.shape().levels[0].score < 1.0 && count(facts, JobKind::L0).running == 0);
        assert!(world.clock.now() - begin < 30_000 * MS);
        world.finish();
    }
}

#[test]
fn closing_does_not_wait_for_what_is_parked() {
    let mut world = World::new();
    world.park_at(0.3);
    let begin = world.clock.now();
    world.sim.block_on(world.node.close()).expect("close");
    assert!(world.clock.now() - begin < 5_000 * MS);
}
