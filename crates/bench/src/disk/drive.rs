//! Sends the load, from one thread for each partition, and measures what happens.
//!
//! Open loop: every write has a time of its own, whatever happened to the one before, and is measured from that time. A
//! partition's writes stand in one [queue](weir_scenario::queue), as in the simulation; its reads follow one another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::thread;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use weir_io::{Nanos, Rng};
use weir_scenario::choice::Choice;
use weir_scenario::data::Sizes;
use weir_scenario::mix::Kind;
use weir_scenario::outcome::{Bytes, Outcome, Run, Second, Spread, StageChange, Stalls, ratio};
use weir_scenario::pattern::{SECOND, Schedule};
use weir_scenario::plan::Plan;
use weir_scenario::profile::STAGES;
use weir_scenario::queue::{Queue, Sent, Target};
use weir_scenario::seen;
use weir_scenario::tally::Tally;

use super::WORLD;
use super::fleet::{Fleet, Flow};
use crate::meter::{Account, MachineTime, Stopwatch, rss_peak_bytes};
use crate::throttle::Caps;
use crate::{Failure, Result};

/// How often the state of every partition is looked at.
const LOOK: Nanos = 20_000_000;

/// Figures that only the real world has.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Disk {
    /// The round, from 1.
    pub round: u32,
    /// Name and version of the contestant.
    pub version: String,
    /// The settings that the contestant got.
    pub remarks: String,
    /// Kernel caps.
    pub caps: Caps,
    /// Share of a partition's writes done at most 10 ms after they were to be sent.
    pub within_10ms: Spread,
    /// The same, less the time by which a writer that had nothing to do until then woke up late: the machine is to
    /// blame for that, or whoever took its processors.
    #[serde(default)]
    pub within_10ms_awake: Spread,
    /// Share of the time in which a partition's store neither delayed nor stopped writes.
    pub flowing: Spread,
    /// Seconds until a store first delayed or stopped writes; `None` = never.
    pub first_stall_seconds: Option<f64>,
    /// Bytes that this process had read from the disk during the load, by the kernel's count.
    pub kernel_read: u64,
    /// Bytes that it had written, likewise.
    pub kernel_written: u64,
    /// Those two together, less the log, for each byte that users wrote. Unlike the background amplification by cause,
    /// this figure includes what unfinished jobs have moved, in every contestant alike; it also includes users' reads.
    #[serde(default)]
    pub beside_log: f64,
    /// The most memory that the process had resident, from its start to the end of the load, in bytes.
    #[serde(default)]
    pub resident_peak: u64,
    /// Processor seconds of the process during the load.
    pub cpu_seconds: f64,
    /// Of the time in which the machine's processors had something to run during the load, the share in which the
    /// hypervisor ran somebody else: a write that is late then may be late for no fault of the contestant's.
    #[serde(default)]
    pub stolen: f64,
    /// The machine's load average (one minute) when the load began: 16 waiting threads count little, but compilers
    /// count.
    pub load_average: f64,
    /// Files per level of the first partition before the load and after it.
    pub shape: [String; 2],
}

/// Bytes of all partitions, bytes of each partition if the stores tell, and the process's account, at one moment.
type Moved = (Bytes, Option<Vec<Bytes>>, Account);

/// Sends the load of `plan` to `fleet`, and reports every second to `told`.
pub fn drive(
    fleet: &dyn Fleet,
    plan: &Plan,
    profile: &str,
    caps: Caps,
    round: u32,
    told: &mut dyn FnMut(&Second),
) -> Result<(Run, Disk)> {
    let partitions = usize::from(plan.args.partitions);
    let tally = Arc::new(Mutex::new(Tally::new(partitions, plan.even_from().unwrap_or(0))));
    let mut disk = Disk { round, version: fleet.version(), remarks: fleet.remarks(), caps, ..Disk::default() };
    disk.load_average = load_average();
    disk.shape[0] = fleet.shape();
    let (start, before, of_each_before) = (fleet.bytes()?, Account::now()?, fleet.bytes_of_each());
    let machine = MachineTime::now();
    let watch = Stopwatch::start();
    // The clients' threads need a moment to start.
    let from = watch.nanos() + SECOND / 10;
    let until = from + plan.args.seconds * SECOND;
    let [choice, written] = plan.choices();
    let load = Load {
        fleet,
        plan,
        tally: &tally,
        watch,
        from,
        until,
        sizes: plan.sizes(),
        choice,
        written,
        failed: StdMutex::new(None),
        over: AtomicBool::new(false),
    };
    let mut look = Look::new(partitions);
    let mut series = Vec::new();
    let (sent, moved, stolen) = thread::scope(|scope| -> Result<(Vec<Sent>, Moved, f64)> {
        let load = &load;
        let mut seed = Rng::new(plan.args.seed);
        let clients = plan.mix().map_or(Ok(Vec::new()), |mix| load.clients(scope, mix, &mut seed))?;
        let writers: Vec<_> = (0..if plan.mix().is_some() { 0 } else { partitions })
            .map(|partition| {
                let rng = seed.fork("writes");
                let named = thread::Builder::new().name(format!("writer-{partition}"));
                Ok(named.spawn_scoped(scope, move || load.write(partition, rng))?)
            })
            .collect::<Result<_>>()?;
        for partition in readers(plan) {
            let rng = seed.fork("reads");
            scope.spawn(move || load.read(partition, rng));
        }
        let watched = load.watch(&start, &mut look, &mut series, told);
        // Read now, because a writer that is stuck in a stall moves bytes long after the last second.
        let moved = fleet.bytes().and_then(|bytes| Ok((bytes, fleet.bytes_of_each(), Account::now()?)));
        let stolen = MachineTime::now().stolen_since(&machine);
        load.over.store(true, Ordering::Release);
        watched?;
        let moved = moved?;
        clients.into_iter().try_for_each(|client| client.join().map_err(|_| Failure::from("a client panicked")))?;
        let sent = writers.into_iter().map(|writer| writer.join().map_err(|_| Failure::from("a writer panicked")));
        Ok((sent.collect::<Result<_>>()?, moved, stolen))
    })?;
    let (bytes, of_each, spent) = moved;
    if let Some(error) = load.failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    (disk.kernel_read, disk.kernel_written) = (spent.read - before.read, spent.written - before.written);
    (disk.stolen, disk.resident_peak) = (stolen, rss_peak_bytes());
    disk.cpu_seconds = spent.cpu_seconds - before.cpu_seconds;
    let share =
        |done: fn(&Sent) -> u64| Spread::of(&sent.iter().map(|sent| ratio(done(sent), sent.all)).collect::<Vec<_>>());
    (disk.within_10ms, disk.within_10ms_awake) = (share(|sent| sent.done), share(|sent| sent.done_awake));
    disk.flowing = Spread::of(&look.flowing());
    disk.first_stall_seconds = look.first_stall.map(|at| at.saturating_sub(from) as f64 / 1e9);
    disk.shape[1] = fleet.shape();
    let tally = tally.lock();
    let user = series.iter().map(|second: &Second| second.bytes.user).sum();
    let bytes = Bytes { user, ..bytes.since(&start) };
    disk.beside_log = ratio((disk.kernel_read + disk.kernel_written).saturating_sub(bytes.log), user);
    let mut outcome = Outcome {
        params: params(plan, fleet),
        stalls: look.stalls(),
        device_utilisation: utilisation(plan, caps, &disk),
        ..seen::outcome(plan, WORLD, profile, &tally, &series, bytes)
    };
    for (partition, row) in outcome.tenants.iter_mut().enumerate() {
        row.stalls = look.stalls_of(partition);
        row.bytes = of_each_before.as_ref().zip(of_each.as_ref()).map(|(before, now)| {
            let user = row.done.writes * u64::from(plan.args.item_bytes);
            Bytes { user, ..now[partition].since(&before[partition]) }
        });
    }
    outcome.stages = look.stages;
    drop(tally);
    Ok((Run { outcome, series }, disk))
}

/// The partitions that are sent reads at times of their own.
fn readers(plan: &Plan) -> Vec<usize> {
    (0..usize::from(plan.args.partitions)).filter(|&partition| plan.sold_to(partition).1 > 0.0).collect()
}

pub(super) struct Load<'a> {
    pub(super) fleet: &'a dyn Fleet,
    pub(super) plan: &'a Plan,
    pub(super) tally: &'a Mutex<Tally>,
    pub(super) watch: Stopwatch,
    pub(super) from: Nanos,
    pub(super) until: Nanos,
    pub(super) sizes: Sizes,
    /// Chooses the items to read.
    choice: Choice,
    /// Chooses the items to write.
    written: Choice,
    failed: StdMutex<Option<Failure>>,
    /// Whether nobody needs another operation.
    over: AtomicBool,
}

impl Load<'_> {
    /// One partition's writer.
    fn write(&self, partition: usize, mut rng: Rng) -> Sent {
        let queue = Queue {
            partition,
            choice: &self.written,
            sizes: self.plan.sizes(),
            times: Schedule::of(self.from, self.until, self.plan.writes(partition), rng.fork("times")),
            until: self.until,
            tally: self.tally,
        };
        let sent = queue.send(&Writer { load: self, partition }, rng).now_or_never();
        sent.expect("a writer blocks and never waits").unwrap_or_else(|error| {
            self.fail(error);
            Sent::default()
        })
    }

    /// Ends the run, because nothing more can be measured.
    pub(super) fn fail(&self, error: Failure) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Whether nobody needs another operation.
    pub(super) fn is_over(&self) -> bool {
        self.watch.nanos() >= self.until || self.over.load(Ordering::Acquire)
    }

    /// One partition's reader: one read after the other, of what was preloaded.
    fn read(&self, partition: usize, mut rng: Rng) {
        for at in Schedule::of(self.from, self.until, self.plan.reads(partition), rng.fork("times")) {
            self.sleep_until(at);
            self.tally.lock().partition_reads[partition].0 += 1;
            // A read that stands behind a slow one until the end was not answered in time.
            if self.is_over() {
                self.tally.lock().reads_failed += 1;
                continue;
            }
            let found = self.fleet.get(partition, &self.sizes.key(self.choice.draw(&mut rng)));
            let mut tally = self.tally.lock();
            match found {
                Ok(true) => {
                    let waited = self.watch.nanos() - at;
                    tally.read(partition, waited);
                    tally.by_kind.note(Kind::Get, waited);
                }
                _ => tally.reads_failed += 1,
            }
        }
    }

    pub(super) fn sleep_until(&self, at: Nanos) {
        let now = self.watch.nanos();
        if now < at {
            thread::sleep(Duration::from_nanos(at - now));
        }
    }

    /// Looks at the stores until the load is over.
    fn watch(
        &self,
        start: &Bytes,
        look: &mut Look,
        series: &mut Vec<Second>,
        told: &mut dyn FnMut(&Second),
    ) -> Result<()> {
        let mut last = *start;
        for second in 1..=self.plan.args.seconds {
            let end = self.from + second * SECOND;
            let mut at = end - SECOND;
            while at < end {
                at += LOOK;
                self.sleep_until(at);
                look.at_all(self.fleet, self.watch.nanos(), self.from);
            }
            let now = self.fleet.bytes()?;
            let mut this = Second::default();
            self.tally.lock().end_second(&mut this);
            this.bytes = now.since(&last);
            this.bytes.user = this.served * u64::from(self.plan.args.item_bytes);
            last = now;
            look.describe(&mut this);
            told(&this);
            series.push(this);
            if self.failed.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
                break;
            }
        }
        Ok(())
    }
}

/// A thread that writes to one partition, and blocks.
struct Writer<'a> {
    load: &'a Load<'a>,
    partition: usize,
}

impl Target for Writer<'_> {
    type Failure = Failure;

    fn now(&self) -> Nanos {
        self.load.watch.nanos()
    }

    async fn wait_until(&self, at: Nanos) {
        self.load.sleep_until(at);
    }

    async fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.load.fleet.put(self.partition, key, value)
    }

    fn is_over(&self) -> bool {
        self.load.over.load(Ordering::Acquire)
    }
}

/// What was seen of the partitions' states.
struct Look {
    states: Vec<super::fleet::State>,
    /// For each partition: all looks, and how many of them saw writes flow.
    seen: Vec<(u64, u64)>,
    first_stall: Option<Nanos>,
    /// For each partition: how often writes stopped flowing, and for how long in all.
    stalls: Vec<(u64, Nanos)>,
    last: Nanos,
    stages: Vec<StageChange>,
}

impl Look {
    fn new(partitions: usize) -> Self {
        Self {
            states: vec![super::fleet::State::default(); partitions],
            seen: vec![(0, 0); partitions],
            first_stall: None,
            stalls: vec![(0, 0); partitions],
            last: 0,
            stages: Vec::new(),
        }
    }

    fn at_all(&mut self, fleet: &dyn Fleet, now: Nanos, from: Nanos) {
        let passed = if self.last == 0 { 0 } else { now - self.last };
        self.last = now;
        for partition in 0..self.states.len() {
            let (before, state) = (self.states[partition], fleet.state(partition));
            let flows = state.flow == Flow::Free;
            self.seen[partition].0 += 1;
            self.seen[partition].1 += u64::from(flows);
            if !flows {
                self.first_stall.get_or_insert(now);
                let (stalls, stalled) = &mut self.stalls[partition];
                *stalls += u64::from(before.flow == Flow::Free);
                *stalled += passed;
            }
            if before.stage != state.stage {
                self.stages.push(StageChange {
                    t: now.saturating_sub(from) as f64 / 1e9,
                    partition,
                    from: stage_name(before.stage),
                    to: stage_name(state.stage),
                    why: fleet.why(partition),
                });
            }
            self.states[partition] = state;
        }
    }

    fn describe(&self, second: &mut Second) {
        for state in &self.states {
            second.l0.push(state.l0);
            second.sealed.push(state.sealed);
            second.stage.push(state.stage);
            second.memory += state.memory;
        }
    }

    fn flowing(&self) -> Vec<f64> {
        self.seen.iter().map(|&(all, flowing)| ratio(flowing, all)).collect()
    }

    fn stalls_of(&self, partition: usize) -> Stalls {
        let (count, stalled) = self.stalls[partition];
        Stalls { count, seconds: stalled as f64 / 1e9 }
    }

    fn stalls(&self) -> Stalls {
        let of_each = || self.stalls.iter();
        let stalled: Nanos = of_each().map(|(_, stalled)| stalled).sum();
        Stalls { count: of_each().map(|(count, _)| count).sum(), seconds: stalled as f64 / 1e9 }
    }
}

fn stage_name(stage: u8) -> String {
    STAGES.get(usize::from(stage)).copied().unwrap_or("?").to_owned()
}

/// The share that was used of what the caps allow, in the directions that have one; without caps, of the plan's device.
fn utilisation(plan: &Plan, caps: Caps, disk: &Disk) -> f64 {
    let moved = |cap: u64, bytes: u64| if cap == 0 && !caps.is_none() { 0 } else { bytes };
    let moved = moved(caps.read, disk.kernel_read) + moved(caps.write, disk.kernel_written);
    let device = if caps.is_none() { plan.device() } else { caps.read + caps.write };
    moved as f64 / (device as f64 * plan.args.seconds as f64)
}

fn params(plan: &Plan, fleet: &dyn Fleet) -> Map<String, Value> {
    let mut params = plan.params(json!({
        "device_bytes_per_sec": plan.device(),
        "background_bytes_per_user_byte": plan.mix().is_none().then(|| plan.background_bytes_per_user_byte()),
        "flush_threads": "one per partition",
    }));
    params.extend(fleet.params());
    params
}

fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use weir_scenario::args::Shortage;
    use weir_scenario::mix::{Mix, Pace, Popularity, Shares};
    use weir_scenario::pattern::Pattern;
    use weir_scenario::trace::Trace;

    use super::*;
    use crate::disk::fleet::State;

    /// Stores that answer no read before the load is over.
    struct Stuck {
        watch: Stopwatch,
        until: Nanos,
    }

    impl Fleet for Stuck {
        fn version(&self) -> String {
            String::new()
        }

        fn remarks(&self) -> String {
            String::new()
        }

        fn params(&self) -> Map<String, Value> {
            Map::new()
        }

        fn put(&self, _: usize, _: &[u8], _: &[u8]) -> Result<()> {
            Ok(())
        }

        fn get(&self, _: usize, _: &[u8]) -> Result<bool> {
            while self.watch.nanos() < self.until {
                std::hint::spin_loop();
            }
            Ok(true)
        }

        fn scan(&self, _: usize, _: &[u8], _: u64) -> Result<u64> {
            Ok(1)
        }

        fn settle(&self, _: usize) -> Result<()> {
            Ok(())
        }

        fn state(&self, _: usize) -> State {
            State::default()
        }

        fn why(&self, _: usize) -> String {
            String::new()
        }

        fn bytes(&self) -> Result<Bytes> {
            Ok(Bytes::default())
        }

        fn shape(&self) -> String {
            String::new()
        }

        fn close(self: Box<Self>) -> Result<()> {
            Ok(())
        }
    }

    fn plan(rcu: u64, pattern: Pattern) -> Plan {
        let args: Shortage = serde_json::from_value(json!({
            "partitions": 2, "wcu": 3000, "rcu": rcu, "item_bytes": 1024, "preload_items": 1_000_000, "bosr": 3.0, "burst_share": 1.0,
            "seconds": 10, "after": 0, "scale": 100, "compactions": null, "seed": 1,
        }))
        .expect("arguments");
        Plan::of("trace", args, pattern).expect("it can be run")
    }

    #[test]
    fn whoever_was_sold_reads_sends_them() {
        assert_eq!(readers(&plan(0, Pattern::Steady)), [0; 0]);
        assert_eq!(readers(&plan(200, Pattern::Steady)), [0, 1]);
        // As a server records it: the trace says what was sold, and --rcu says nothing.
        let trace = "second,tenant,writes,reads\n# sold,0,3000,0\n# sold,1,3000,400\n0,0,0.5,0\n0,1,0.5,0.5\n";
        let trace = Pattern::Trace(Arc::new(Trace::parse(trace).expect("a trace")));
        assert_eq!(readers(&plan(0, trace)), [1]);
    }

    #[test]
    fn operations_that_no_client_was_free_to_send_were_not_served() {
        // A thousand for each of two partitions, within a millisecond.
        let (watch, until) = (Stopwatch::start(), 1_000_000);
        let shares = Shares { gets: 100, ..Shares::default() };
        let popularity = Popularity::Uniform;
        let mix = Mix { pace: Pace::Open(1e6), shares, entries_max: 1, popularity, workload: None, warm_up: 0 };
        let plan = plan(0, Pattern::Mix(mix));
        let (fleet, tally) = (Stuck { watch, until }, Mutex::new(Tally::new(2, 0)));
        let [choice, written] = plan.choices();
        let load = Load {
            fleet: &fleet,
            plan: &plan,
            tally: &tally,
            watch,
            from: 0,
            until,
            sizes: plan.sizes(),
            choice,
            written,
            failed: StdMutex::new(None),
            over: AtomicBool::new(false),
        };
        let started = thread::scope(|scope| {
            let load = &load;
            load.clients(scope, mix, &mut Rng::new(1)).map(drop)
        });
        started.expect("the clients start");
        let sent: Vec<u64> = tally.lock().partition_reads.iter().map(|&(all, _)| all).collect();
        assert_eq!(sent, [1000, 1000]);
    }
}
