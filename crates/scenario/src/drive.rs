//! One run: opens the node on what was preloaded, sends the load, watches, and returns the outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use indicatif::ProgressBar;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use weir_io::{Error, Nanos, Result, Rng, sleep_until};
use weir_model::Batch;
use weir_node::{Behaviour, Machine, Node, NodeConfig, PartitionSlot, SlotState};

use crate::closed::Choices;
use crate::data::WARM_KEY;
use crate::load::Clients;
use crate::mix::{Kind, Mix, Pace};
use crate::outcome::{After, Bytes, Latency, Outcome, Run, Second, Spread, Stalls, Waking};
use crate::pattern::{SECOND, Schedule};
use crate::plan::{Plan, QUIET_SHARE};
use crate::preload::{partitions, slots};
use crate::progress::fit;
use crate::seen;
use crate::tally::Tally;
use crate::visits::Visits;
use crate::watch::Watch;
use crate::written::Written;

/// Runs `plan` under `profile`, whose settings are `config`, on `machine`, which has the preloaded data. `world` names
/// the machine.
///
/// # Errors
/// I/O, or a write that was refused.
pub async fn run(
    world: &str,
    machine: Machine,
    plan: &Plan,
    profile: &str,
    config: &NodeConfig,
    bar: &ProgressBar,
) -> Result<Run> {
    let clock = Arc::clone(&machine.clock);
    let node = Node::open(config, machine.clone()).await?;
    if plan.visits.is_none() {
        for partition in partitions(&node, plan).await? {
            let mut batch = Batch::new();
            batch.put(&WARM_KEY, &[]);
            partition.write(&batch).await?.await?;
        }
    }
    let slots = slots(&node, plan).await?;
    let checked = if plan.visits.is_some() { slots.len() } else { 0 };
    let written: Vec<Arc<Mutex<Written>>> = (0..checked).map(|_| Arc::default()).collect();
    let mut watch = Watch::new(slots.clone(), Arc::clone(node.ledger()));
    let (start, stalls_before, behaviour) = (watch.bytes(), watch.stalls(), node.behaviour());
    let of_each_before = (watch.bytes_of_each(), watch.stalls_of_each());
    let load = Load {
        plan,
        node: &node,
        machine: &machine,
        slots: &slots,
        written: &written,
        failure: Arc::default(),
        busy: Arc::default(),
    };

    // The load begins a second later: what opening left in the gates is not its concern.
    let from = clock.now() + SECOND;
    let until = from + plan.args.seconds * SECOND;
    let tally = load.send(from, until, false);
    for second in 1..=plan.args.seconds {
        sleep_until(&clock, from + second * SECOND).await;
        tell(bar, watch.tick(&node, &tally));
        load.check()?;
    }
    let bytes = watch.bytes().since(&start);
    let of_each = (watch.bytes_of_each(), watch.stalls_of_each());
    let utilisation_backlogged = backlogged(&behaviour, &node.behaviour());
    let mut stalls = watch.stalls();
    stalls.count -= stalls_before.count;
    stalls.seconds -= stalls_before.seconds;
    let after = match plan.args.after {
        0 => None,
        seconds => Some(rest(&load, &mut watch, until, seconds, bar).await?),
    };
    // Writes that wait in a stall and reads that wait for the device end after the last second. They count, as late.
    let grace = clock.now() + 600 * SECOND;
    while load.busy.load(Ordering::Relaxed) > 0 && clock.now() < grace {
        sleep_until(&clock, clock.now() + SECOND / 10).await;
        load.check()?;
    }
    let read_back = match plan.visits {
        None => None,
        Some(visits) => Some(read_back(&load, visits).await?),
    };
    let (series, woken) = (watch.series, watch.woken);
    let tally = tally.lock();
    let most = |of: fn(&Second) -> u64| series.iter().map(of).max().unwrap_or(0);
    let waking = read_back.map(|back| Waking {
        awake_max: most(|second| second.awake),
        woken,
        asleep: tally.by_state.asleep(),
        awake: tally.by_state.awake(),
        memory_peak_bytes: most(|second| second.held),
        memory_limit_bytes: config.write_memory_bytes + config.cache_bytes as u64,
        slept: back.slept,
        read_back: back.items,
        lost: tally.by_state.lost + back.lost,
    });
    let mut outcome = Outcome {
        params: params(plan, config),
        stalls,
        device_utilisation: utilisation(plan, &bytes),
        utilisation_backlogged,
        stages: watch.changes,
        after,
        waking,
        ..seen::outcome(plan, world, profile, &tally, &series, bytes)
    };
    for (index, row) in outcome.tenants.iter_mut().enumerate() {
        let (before, now) = (of_each_before.1[index], of_each.1[index]);
        row.stalls = Stalls { count: now.count - before.count, seconds: now.seconds - before.seconds };
        row.bytes = Some(of_each.0[index].since(&of_each_before.0[index]));
    }
    drop(tally);
    bar.finish();
    Ok(Run { outcome, series })
}

/// What the senders of the load need.
struct Load<'a> {
    plan: &'a Plan,
    node: &'a Node,
    machine: &'a Machine,
    slots: &'a [Arc<PartitionSlot>],
    /// What each partition's clients have written; nothing is noted where partitions do not sleep.
    written: &'a [Arc<Mutex<Written>>],
    /// Why the first write failed.
    failure: Arc<Mutex<Option<Error>>>,
    /// Queues of writes that are not empty, and partitions whose reads are not all answered.
    busy: Arc<AtomicUsize>,
}

impl Load<'_> {
    /// Sends what the plan says from `from` until `until`; when `quiet`, a small share of the writes that were bought,
    /// and all reads.
    fn send(&self, from: Nanos, until: Nanos, quiet: bool) -> Arc<Mutex<Tally>> {
        let tally = Arc::new(Mutex::new(Tally::new(self.slots.len(), self.plan.even_from().unwrap_or(0))));
        let mut seed = Rng::new(self.plan.args.seed ^ from);
        let shared = self.plan.mix().is_none().then(|| self.plan.choices().map(Arc::new));
        for (index, slot) in self.slots.iter().enumerate() {
            // Each partition of a mix has new items of its own.
            let [of_reads, of_writes] = shared.clone().unwrap_or_else(|| self.plan.choices().map(Arc::new));
            let clients = Clients {
                slot: Arc::clone(slot),
                index,
                sizes: self.plan.sizes(),
                clock: Arc::clone(&self.machine.clock),
                spawn: Arc::clone(&self.machine.spawn),
                tally: Arc::clone(&tally),
                written: self.written.get(index).cloned(),
            };
            let mut rng = seed.fork("clients");
            let (writes, reads) = match quiet {
                false => (self.plan.writes(index), self.plan.reads(index)),
                true => {
                    let writes = self.plan.sold_writes_per_sec() * QUIET_SHARE;
                    ([(0, writes)].into(), [(0, self.plan.reads_per_sec())].into())
                }
            };
            let writes = Schedule::of(from, until, writes, rng.fork("write times"));
            let reads = Schedule::of(from, until, reads, rng.fork("read times"));
            self.begin(clients.clone().read(reads, Arc::clone(&of_reads), (Kind::Get, 0), rng.fork("reads")));
            self.begin(clients.clone().write(writes, until, Arc::clone(&of_writes), rng.fork("writes")));
            if let Some(mix) = self.plan.mix().filter(|_| !quiet) {
                let (reads, inserts) = (Arc::clone(&of_reads), Arc::clone(&of_writes));
                let choices = Choices { reads, inserts, sent: Arc::default() };
                self.send_mix(&clients, mix, [from, until], &choices, &mut rng);
            }
        }
        tally
    }

    /// Sends the operations of `mix` that are neither plain writes nor plain reads with times of their own.
    fn send_mix(&self, clients: &Clients, mix: Mix, [from, until]: [Nanos; 2], choices: &Choices, rng: &mut Rng) {
        match mix.pace {
            Pace::Open(_) => {
                let times = |kind, rng| Schedule::of(from, until, [(0, mix.per_sec(kind))].into(), rng);
                let (choice, clients) = (|| Arc::clone(&choices.reads), || clients.clone());
                let scans = times(Kind::Scan, rng.fork("scan times"));
                self.begin(clients().read(scans, choice(), (Kind::Scan, mix.entries_max), rng.fork("scans")));
                let updates = times(Kind::Update, rng.fork("update times"));
                self.begin(clients().write(updates, until, choice(), rng.fork("updates")));
                let modifies = times(Kind::Modify, rng.fork("modify times"));
                self.begin(clients().read(modifies, choice(), (Kind::Modify, 0), rng.fork("modifies")));
            }
            Pace::Closed { clients: count, own_time } => {
                for _ in 0..count {
                    let (one, choices, rng) = (clients.clone(), choices.clone(), rng.fork("client"));
                    let clock = Arc::clone(&self.machine.clock);
                    self.begin(async move {
                        sleep_until(&clock, from).await;
                        one.loop_of_one(mix, own_time, until, choices, rng).await
                    });
                }
            }
        }
    }

    /// Begins to send; the run does not end before `sending` does. A failure is remembered.
    fn begin(&self, sending: impl Future<Output = Result<()>> + Send + 'static) {
        let (failure, busy) = (Arc::clone(&self.failure), Arc::clone(&self.busy));
        busy.fetch_add(1, Ordering::Relaxed);
        self.machine.spawn.spawn(Box::pin(async move {
            if let Err(error) = sending.await {
                failure.lock().get_or_insert(error);
            }
            busy.fetch_sub(1, Ordering::Relaxed);
        }));
    }

    fn check(&self) -> Result<()> {
        self.failure.lock().clone().map_or(Ok(()), Err)
    }
}

/// The time after the load, with a small load, until the trees are restored.
async fn rest(load: &Load<'_>, watch: &mut Watch, from: Nanos, seconds: u64, bar: &ProgressBar) -> Result<After> {
    let clock = &load.machine.clock;
    let before = watch.stalls();
    // What it sends is counted apart: nobody waits for that to end.
    let quiet = Load { failure: Arc::clone(&load.failure), busy: Arc::default(), ..*load };
    let tally = quiet.send(from, from + seconds * SECOND, true);
    let mut restored = None;
    bar.set_length(load.plan.args.seconds + seconds);
    for second in 1..=seconds {
        sleep_until(clock, from + second * SECOND).await;
        tell(bar, watch.tick(load.node, &tally));
        load.check()?;
        if watch.is_restored() {
            restored = Some(second);
            break;
        }
    }
    let mut stalls = watch.stalls();
    stalls.count -= before.count;
    stalls.seconds -= before.seconds;
    let tally = tally.lock();
    Ok(After {
        restored_seconds: restored,
        normally_served: Spread::of(&tally.shares()),
        latency_us: Latency::of(&tally.writes),
        read_latency_us: Latency::of(&tally.reads),
        stalls,
    })
}

/// What was found of all that had been written.
#[derive(Default)]
struct ReadBack {
    /// Partitions that slept before they were read.
    slept: u64,
    /// Items that were written.
    items: u64,
    /// Those of them that are not as they were acknowledged.
    lost: u64,
}

/// Waits until all partitions sleep, and then reads everything that was written.
async fn read_back(load: &Load<'_>, visits: Visits) -> Result<ReadBack> {
    let clock = &load.machine.clock;
    let asleep = || load.slots.iter().filter(|slot| slot.state() == SlotState::Asleep).count();
    // Half as long again as the visits say, and then each has to be flushed.
    let until = clock.now() + 3 * visits.asleep_after + 60 * SECOND;
    while asleep() < load.slots.len() && clock.now() < until {
        sleep_until(clock, clock.now() + SECOND).await;
    }
    let mut back = ReadBack { slept: asleep() as u64, ..ReadBack::default() };
    for (slot, written) in load.slots.iter().zip(load.written) {
        let items = written.lock().all();
        for (key, last) in items {
            let row = slot.partition().await?.get(&key).await?;
            let value = row.as_ref().and_then(|row| row.value());
            back.items += 1;
            back.lost += u64::from(!written.lock().is_kept(last, value.map(|value| &**value)));
        }
    }
    Ok(back)
}

fn tell(bar: &ProgressBar, second: &Second) {
    bar.inc(1);
    let longest = second.l0.iter().max().copied().unwrap_or(0);
    bar.set_message(fit(&[format!("{} writes/s", second.served), format!("level 0 up to {longest} runs")]));
}

fn utilisation(plan: &Plan, bytes: &Bytes) -> f64 {
    bytes.device() as f64 / (plan.device() as f64 * plan.args.seconds as f64)
}

/// The share of the device that was used between two moments while work waited.
fn backlogged(from: &Behaviour, to: &Behaviour) -> Option<f64> {
    let waited = to.backlogged - from.backlogged;
    (waited > 0).then(|| (to.used - from.used) as f64 / waited as f64)
}

fn params(plan: &Plan, config: &NodeConfig) -> Map<String, Value> {
    plan.params(json!({
        "device_bytes_per_sec": plan.device(),
        "background_bytes_per_user_byte": plan.mix().is_none().then(|| plan.background_bytes_per_user_byte()),
        "l0_stop": config.tree.l0_stop,
        "sync": config.sync.name(),
        "sync_interval_ms": config.sync_interval / 1_000_000,
        "flush_threads": "one per partition",
        "deferral_memory_bytes_at_scale_1": plan.deferral_memory().map(|bytes| bytes as u64),
    }))
}
