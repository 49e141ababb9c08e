//! What deferral keeps in memory (U-20), and how trees catch up on it (U-3), in whole nodes that are short of
//! bandwidth and memory.
//!
//! The unit tests of these rules are beside the policy. Here the rules have to fire by themselves, and their purposes
//! have to hold: memory stays within its bound, no write stalls, and a read finds what was written last.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use indicatif::ProgressBar;
use parking_lot::Mutex;
use weir_admission::policy::{PartitionKnobs, PartitionSample, Reason, Stage, Tick};
use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Sim, SimFs};
use weir_io::{Clock, Nanos, Rng, sleep_until};
use weir_model::Batch;
use weir_node::{Machine, Node, NodeConfig, Partition, StallCause};
use weir_scenario::args::{Shape, Shortage};
use weir_scenario::data::{WARM_KEY, fill, key};
use weir_scenario::pattern::SECOND;
use weir_scenario::plan::Plan;
use weir_scenario::{preload, profile};

/// A write that took longer was not served.
const SERVED: Nanos = SECOND / 1000;

/// Eight partitions that all write what they bought, on a device that has `1 / bosr` of what that load needs.
fn plan(bosr: f64, seconds: u64) -> Plan {
    let args = Shortage {
        partitions: 8,
        wcu: 3000,
        rcu: 0,
        item_bytes: 1024,
        preload_items: 2_000_000,
        bosr,
        burst_share: 1.0,
        memory: None,
        shape: Shape::default(),
        seconds,
        after: 0,
        scale: 200,
        compactions: None,
        profiles: Vec::new(),
        seed: 1,
        json: None,
        report: None,
    };
    Plan::new(args).expect("a plan")
}

/// The disk from which all days start, made once: it depends on neither the ratio nor the length of the load.
fn disk() -> &'static DiskImage {
    static IMAGE: OnceLock<DiskImage> = OnceLock::new();
    IMAGE.get_or_init(|| weir_sim::scenario::image(&plan(7.0, 1), &ProgressBar::hidden()).expect("preloaded"))
}

/// Reads and times beyond what the plan says.
#[derive(Clone, Copy, Default)]
struct Clients {
    /// Reads a second of each partition, of items that were written of late.
    reads_per_sec: u64,
    /// Seconds after the load.
    after: u64,
    /// The share of the load that goes on after it, in percent.
    percent_after: u64,
}

/// What was seen of one day.
struct Day {
    ticks: Vec<Arc<Tick>>,
    /// All writes, how many of them were late, and the slowest, in nanoseconds.
    writes: (u64, u64, Nanos),
    /// Writes slowed or stopped, by cause.
    stalls: [u64; StallCause::ALL.len()],
    reads: u64,
    /// The most memory that memtables took.
    buffers_most: u64,
}

/// One partition's items, and the number of the last write of each.
#[derive(Default)]
struct Written {
    last: BTreeMap<u64, u64>,
    numbers: u64,
}

fn value(plan: &Plan, item: u64, number: u64) -> Vec<u8> {
    let mut value = vec![0; plan.sizes().value_bytes(item)];
    fill(&mut value, &mut Rng::new(item << 32 ^ number));
    value[..8].copy_from_slice(&number.to_le_bytes());
    value
}

/// Reads `item`, and checks that it is what was written last before the question, or something later.
async fn check(partition: &Arc<Partition>, plan: &Plan, written: &Mutex<Written>, item: u64) {
    let before = written.lock().last.get(&item).copied().expect("an item that was written");
    let found = partition.get(&key(item)).await.expect("read").expect("it was written");
    let found: &[u8] = found.value().expect("a string");
    let number = u64::from_le_bytes(found[..8].try_into().expect("eight bytes"));
    assert!(number >= before, "write {number} of item {item}, {before} was done");
    assert_eq!(found, value(plan, item, number), "write {number} of item {item}");
}

async fn writer(
    partition: Arc<Partition>,
    plan: Plan,
    written: Arc<Mutex<Written>>,
    clock: Arc<dyn Clock>,
    (from, until, every): (Nanos, Nanos, Nanos),
    tally: Arc<Mutex<(u64, u64, Nanos)>>,
    mut rng: Rng,
) {
    let mut at = from + rng.below(every);
    while at < until {
        sleep_until(&clock, at).await;
        let item = rng.below(plan.items());
        let number = {
            let mut written = written.lock();
            written.numbers += 1;
            written.numbers
        };
        let mut batch = Batch::new();
        batch.put(&key(item), &value(&plan, item, number));
        partition.write(&batch).await.expect("written").await.expect("committed");
        written.lock().last.insert(item, number);
        let took = clock.now() - at;
        let mut tally = tally.lock();
        *tally = (tally.0 + 1, tally.1 + u64::from(took > SERVED), tally.2.max(took));
        at += every;
    }
}

/// One day of a node under `weir`, whose settings `alter` changes.
fn day(plan: &Plan, clients: Clients, alter: impl FnOnce(&mut NodeConfig)) -> Day {
    let mut config = profile::config("weir", plan).expect("a profile");
    alter(&mut config);
    let sim = Sim::new(plan.args.seed);
    let device = DeviceSpec { latency: 80_000, sync_latency: 120_000, ..DeviceSpec::shared(plan.device()) };
    let fs = SimFs::from_image(disk(), sim.clock(), device, FaultPlan::none(), sim.rng());
    let machine = Machine { fs, clock: sim.clock(), spawn: sim.spawner(), salt: 1 };
    let clock = sim.clock();
    sim.block_on(async {
        let node = Arc::new(Node::open(&config, machine).await.expect("the node opens"));
        let partitions = preload::partitions(&node, plan).await.expect("they open");
        let (from, over) = (clock.now() + SECOND, Arc::new(AtomicBool::new(false)));
        let until = from + plan.args.seconds * SECOND;
        let (tally, reads, most) = (Arc::default(), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut books = Vec::new();
        for (index, partition) in partitions.iter().enumerate() {
            let written = Arc::new(Mutex::new(Written::default()));
            // The first write to a log opens it.
            let mut batch = Batch::new();
            batch.put(&WARM_KEY, &[]);
            partition.write(&batch).await.expect("written").await.expect("committed");
            let rng = Rng::new(plan.args.seed << 32 ^ index as u64);
            let every = (SECOND as f64 / plan.writes_per_sec(0)) as Nanos;
            let later = (every * 100).checked_div(clients.percent_after);
            let later = later.map(|every| (until, until + clients.after * SECOND, every));
            for times in [Some((from, until, every)), later].into_iter().flatten() {
                let (one, two, three) = (Arc::clone(partition), plan.clone(), Arc::clone(&written));
                sim.spawn(writer(one, two, three, sim.clock(), times, Arc::clone(&tally), rng.clone()));
            }
            books.push(written);
        }
        for (partition, written) in partitions.iter().zip(&books) {
            if clients.reads_per_sec == 0 {
                continue;
            }
            let (partition, written, plan) = (Arc::clone(partition), Arc::clone(written), plan.clone());
            let (clock, over, reads) = (sim.clock(), Arc::clone(&over), Arc::clone(&reads));
            let mut rng = Rng::new(7);
            sim.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    sleep_until(&clock, clock.now() + SECOND / clients.reads_per_sec).await;
                    let item = {
                        let written = written.lock();
                        let start = rng.below(plan.items());
                        written.last.range(start..).next().map(|(item, _)| *item)
                    };
                    if let Some(item) = item {
                        check(&partition, &plan, &written, item).await;
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        {
            let (node, clock, over, most) = (Arc::clone(&node), sim.clock(), Arc::clone(&over), Arc::clone(&most));
            sim.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    most.fetch_max(node.write_memory().stats().used, Ordering::Relaxed);
                    sleep_until(&clock, clock.now() + SECOND / 1000).await;
                }
            });
        }
        sleep_until(&clock, until + clients.after * SECOND).await;
        over.store(true, Ordering::Relaxed);
        let ticks = node.ticks();
        let mut stalls = [0; StallCause::ALL.len()];
        for (partition, written) in partitions.iter().zip(&books) {
            for (sum, times) in stalls.iter_mut().zip(partition.metrics().stalls) {
                *sum += times.slowed + times.stopped;
            }
            let items: Vec<u64> = written.lock().last.keys().copied().collect();
            for item in items {
                check(partition, plan, written, item).await;
            }
        }
        sleep_until(&clock, clock.now() + SECOND).await;
        let writes = *tally.lock();
        let (reads, buffers_most) = (reads.load(Ordering::Relaxed), most.load(Ordering::Relaxed));
        Day { ticks, writes, stalls, reads, buffers_most }
    })
}

fn upper_percent(tick: &Tick) -> u64 {
    let memory = tick.sample.memory;
    memory.upper_used * 100 / memory.upper_max.expect("it is counted")
}

/// Two successive ticks between which a partition changed its stage; the second one is given, with its sample.
struct Change<'a> {
    tick: &'a Tick,
    of: &'a PartitionSample,
    from: Stage,
    to: Stage,
    why: Reason,
}

fn changes(ticks: &[Arc<Tick>]) -> Vec<Change<'_>> {
    let mut last = BTreeMap::new();
    let mut changes = Vec::new();
    for tick in ticks {
        for (of, knobs) in tick.sample.partitions.iter().zip(&tick.decision.knobs.partitions) {
            let from = last.insert(of.owner, knobs.stage).unwrap_or_default();
            if from != knobs.stage {
                changes.push(Change { tick, of, from, to: knobs.stage, why: knobs.why });
            }
        }
    }
    changes
}

impl Day {
    /// Checks that nobody waited.
    fn assert_all_served(&self) {
        assert_eq!((self.stalls, self.writes.1), ([0; StallCause::ALL.len()], 0), "of {} writes", self.writes.0);
    }
}

#[test]
fn what_is_written_is_kept_until_the_cache_is_80_percent_full() {
    let day = day(&plan(7.0, 300), Clients::default(), |config| config.cache_bytes = 24 << 20);
    day.assert_all_served();
    for tick in &day.ticks {
        let (percent, knobs) = (upper_percent(tick), &tick.decision.knobs.partitions);
        assert!(knobs.iter().all(|knobs| knobs.warm == (percent < 80)), "{percent} %");
        // Bytes whose write had begun before may still come.
        assert!(percent <= 100, "{percent} %");
    }
    assert!(day.ticks.iter().any(|tick| upper_percent(tick) >= 80), "it was never full");
}

/// Compactions into level 1 cost more than a full cache does, so they stay put off.
#[test]
fn a_full_cache_does_not_end_stage_two() {
    let day = day(&plan(8.0, 620), Clients::default(), |config| config.cache_bytes = 28 << 20);
    day.assert_all_served();
    let full = day.ticks.iter().filter(|tick| upper_percent(tick) >= 80).count();
    assert!(full >= 60, "the cache was full for {full} s");
    for change in changes(&day.ticks) {
        assert_ne!(
            (change.from, change.to),
            (Stage::Two, Stage::One),
            "{} left stage two: {}",
            change.of.owner.partition,
            change.why
        );
    }
}

/// With reads, so that blocks that were not kept when they were written come into the cache again.
#[test]
fn reads_are_right_and_memory_is_bounded_while_it_is_short() {
    let reads_per_sec = 5;
    let plan = plan(7.0, 300);
    let plan = Plan { args: Shortage { rcu: reads_per_sec * plan.args.scale, ..plan.args }, ..plan };
    let clients = Clients { reads_per_sec, ..Clients::default() };
    let day = day(&plan, clients, |config| config.cache_bytes = 12 << 20);
    day.assert_all_served();
    assert!(day.reads > 10_000, "{} reads", day.reads);
    let most = day.ticks.iter().map(|tick| upper_percent(tick)).max();
    assert!(most.is_some_and(|most| (90..=100).contains(&most)), "{most:?} %");
}

/// Memory for `each` write buffers of each partition.
fn buffers(config: &mut NodeConfig, plan: &Plan, each: f64) -> u64 {
    let bytes = f64::from(plan.args.partitions) * each * config.tree.write_buffer_bytes as f64;
    config.write_memory_bytes = bytes as u64;
    config.write_memory_bytes
}

#[test]
fn flushes_gather_what_the_write_memory_holds_while_trees_fill_by_turns() {
    for each in [5.5, 7.0] {
        let (plan, mut most) = (plan(4.0, 200), 0);
        let day = day(&plan, Clients::default(), |config| most = buffers(config, &plan, each));
        // A flush that gathers few of few buffers must not pass as foreground either, before the writes that it would
        // help.
        day.assert_all_served();
        assert!(day.buffers_most * 10 <= most * 9, "{} of {most} bytes", day.buffers_most);
        let gathers = day.ticks.iter().flat_map(|tick| &tick.decision.knobs.partitions).map(|knobs| knobs.flush_gather);
        assert_eq!(gathers.max(), Some(if each < 6.0 { 5 } else { 8 }), "in {each} buffers");
    }
}

#[test]
fn level_0_is_emptied_even_where_few_large_runs_are_left_of_it() {
    let plan = plan(8.5, 300);
    let clients = Clients { after: 600, ..Clients::default() };
    let day = day(&plan, clients, |config| _ = buffers(config, &plan, 7.0));
    day.assert_all_served();
    let changes = changes(&day.ticks);
    let drained: Vec<&Change<'_>> = changes.iter().filter(|change| change.from == Stage::Drain).collect();
    for change in &drained {
        let tree = &change.of.tree;
        let is_emptied = tree.l0_runs < tree.l0_trigger && tree.l0_bytes < tree.l0_target;
        // While the node is short, drain stops where the next merge would move hardly anything but level 1.
        let is_not_worth_it = tree.l0_bytes * 6 < tree.l0_bytes + tree.l1_bytes;
        assert!(is_emptied || is_not_worth_it, "{tree:?}");
    }
    assert!(drained.len() >= 8, "{} drained", drained.len());
    let partitions =
        || day.ticks.iter().flat_map(|tick| tick.sample.partitions.iter().zip(&tick.decision.knobs.partitions));
    let few = |(partition, knobs): &(&PartitionSample, &PartitionKnobs)| {
        let tree = &partition.tree;
        knobs.stage == Stage::Drain && tree.l0_runs < tree.l0_trigger && tree.l0_bytes >= tree.l0_target
    };
    assert!(partitions().any(|both| few(&both)), "runs alone would do");
}

/// Seconds from the first tree that catches up to the last, if `slots` compactions may run at a time.
fn catching_up(slots: usize) -> u64 {
    let clients = Clients { after: 600, ..Clients::default() };
    let day = day(&plan(7.0, 120), clients, |config| config.compaction_slots = slots);
    day.assert_all_served();
    let changes = changes(&day.ticks);
    let begun = changes.iter().find(|change| matches!(change.to, Stage::Drain | Stage::Resume)).expect("it begins");
    let last = day.ticks.last().expect("a day of seconds");
    assert!(last.decision.knobs.partitions.iter().all(|knobs| knobs.stage == Stage::Normal), "{slots} slots");
    let ended = changes.last().expect("it ends");
    (ended.tick.sample.now - begun.tick.sample.now) / SECOND
}

/// Eight partitions are behind. They use all of the device, even if only two of them can compact at a time.
#[test]
fn few_slots_catch_up_as_fast_as_many() {
    let [few, many] = [2, 16].map(catching_up);
    assert!(few * 10 <= many * 12, "{few} s with few slots, {many} s with many");
}

/// The way back also comes to an end if users go on writing and level 0 would rather gather more runs than be emptied.
#[test]
fn trees_are_restored_while_users_write_on() {
    let clients = Clients { after: 2600, percent_after: 10, ..Clients::default() };
    let plan = plan(7.0, 300);
    let day = day(&plan, clients, |config| _ = buffers(config, &plan, 7.0));
    day.assert_all_served();
    let mut since = BTreeMap::new();
    let mut longest = 0;
    for change in changes(&day.ticks) {
        let now = change.tick.sample.now;
        if change.from == Stage::Drain {
            longest = longest.max((now - since.remove(&change.of.owner).unwrap_or(now)) / SECOND);
        }
        if change.to == Stage::Drain {
            since.insert(change.of.owner, now);
        }
    }
    let last = day.ticks.last().expect("a day of seconds");
    let stages: Vec<Stage> = last.decision.knobs.partitions.iter().map(|knobs| knobs.stage).collect();
    assert!(stages.iter().all(|&stage| stage == Stage::Normal), "{stages:?}");
    // 118 s, and 83 to 118 with other seeds and items. When level 0 gathered meanwhile it was 536. When trees went on
    // draining while the node was short, although each run was merged into all of level 1 alone, it was up to 317.
    assert!((1..150).contains(&longest), "{longest} s in drain");
}
