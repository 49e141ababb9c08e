//! Trees as fluids: what a policy's knobs do to them in the long run, without a node, a device or a byte.

use std::collections::BTreeMap;

use weir_admission::policy::{
    Bytes, MemoryFacts, PartitionKnobs, PartitionSample, Policy, Profile, Sample, Scope, Stage,
};
use weir_admission::{Limits, Rates};
use weir_io::Owner;

use super::script::{settings, tree};

const SECOND: u64 = 1_000_000_000;
/// 3 MB/s and memtables of 16 MB: the paper's partition.
const INGEST: f64 = 3e6;
const MEMTABLE: f64 = 16e6;
/// How many memtables one flush takes.
const FLUSHED_MAX: f64 = 12.0;
/// Background bytes for a byte ingested, where nothing is put off (FX-13).
const AMPLIFICATION: f64 = 20.0;

#[derive(Clone, Default)]
struct Fluid {
    bytes: Bytes,
    unflushed: f64,
    /// Runs of level 0, the oldest first, in bytes.
    runs: Vec<f64>,
    /// Bytes that are to be merged out of level 0 before the merge under way is done.
    merging: f64,
    l1: f64,
    owed: f64,
    /// How many memtables it may have; 0 before a policy said so.
    buffers: u64,
}

impl Fluid {
    fn sealed(&self) -> f64 {
        (self.unflushed / MEMTABLE).floor()
    }

    /// Advances by a second: `ingest` bytes come, and `flush` and `merge` bytes may be moved. Gives the bytes that
    /// merges used.
    fn step(&mut self, knobs: &PartitionKnobs, ingest: f64, flush: f64, merge: f64) -> f64 {
        self.buffers = knobs.write_buffers;
        self.unflushed += ingest;
        self.bytes.user += ingest as u64;
        self.bytes.log += ingest as u64;
        let gather = knobs.flush_gather as f64;
        let is_last = self.sealed() + 1.0 >= knobs.write_buffers as f64;
        if self.sealed() >= gather || is_last && self.sealed() >= 1.0 {
            let run = gather.max(FLUSHED_MAX).min(self.sealed()) * MEMTABLE;
            // As a fluid a run takes its time; as a run it is there at once.
            if flush >= ingest.min(run) {
                self.unflushed -= run;
                self.runs.push(run);
                self.bytes.flush += run as u64;
            }
        }
        self.merge(knobs.scope, merge)
    }

    fn merge(&mut self, scope: Scope, mut budget: f64) -> f64 {
        let before = budget;
        let l0: f64 = self.runs.iter().sum();
        if scope == Scope::IntraL0 && self.runs.len() >= 4 {
            self.merging += budget;
            let batch: f64 = self.runs.iter().rev().take(4).sum();
            if self.merging >= 2.0 * batch {
                let at = self.runs.len() - 4;
                self.runs.truncate(at);
                self.runs.push(batch);
                self.merging = 0.0;
            }
            budget = 0.0;
        } else if scope != Scope::IntraL0 && self.runs.len() >= 4 {
            self.merging += budget;
            if self.merging >= 2.0 * (l0 + self.l1) {
                self.l1 += l0;
                self.owed += l0 * (AMPLIFICATION - 5.0);
                (self.runs, self.merging) = (Vec::new(), 0.0);
            }
            budget = 0.0;
        } else if scope == Scope::All {
            let done = budget.min(self.owed);
            self.owed -= done;
            self.l1 = (self.l1 - done / 20.0).max(64e6);
            budget -= done;
        }
        self.bytes.deep_written += (before - budget) as u64;
        before - budget
    }

    fn sample(&self, index: usize) -> PartitionSample {
        let mut facts = tree();
        (facts.l0_runs, facts.l0_bytes) = (self.runs.len() as u64, self.runs.iter().sum::<f64>() as u64);
        (facts.l1_bytes, facts.deep_debt) = (self.l1 as u64, self.owed as u64);
        (facts.unflushed, facts.sealed) = (self.unflushed as u64, self.sealed() as u64);
        facts.write_buffers_now = self.buffers.max(facts.write_buffers);
        let owner = Owner { tenant: index as u32 + 1, partition: 1 };
        PartitionSample { owner, partitions: 1, bytes: self.bytes, tree: facts, ..PartitionSample::default() }
    }
}

/// The outcome of one simulation.
#[derive(Default)]
struct Outcome {
    /// Seconds in which some tree would have stalled.
    stalled: u64,
    /// Most runs of any level 0.
    longest: usize,
    /// When each partition changed its stage, and to which.
    changes: BTreeMap<usize, Vec<(u64, Stage)>>,
    /// Bytes owed at the end.
    owed: f64,
    /// How many partitions caught up, second by second.
    catching_up: Vec<usize>,
}

/// Runs `partitions` trees for `seconds` seconds on a device that has `background` bytes per second beside their logs.
/// `load` is the share of what was sold that each of them writes in a second.
fn run(profile: Profile, partitions: usize, background: f64, seconds: u64, load: impl Fn(u64) -> f64) -> Outcome {
    let device = Limits::bytes((background + partitions as f64 * INGEST) as u64);
    run_on(device, profile, partitions, background, seconds, load)
}

/// The same, where the policies believe that the device is `device`.
fn run_on(
    device: Limits,
    profile: Profile,
    partitions: usize,
    background: f64,
    seconds: u64,
    load: impl Fn(u64) -> f64,
) -> Outcome {
    let mut policy = Policy::new(profile, settings());
    let mut fluids = vec![Fluid { l1: 64e6, ..Fluid::default() }; partitions];
    let (mut outcome, mut stages) = (Outcome::default(), vec![Stage::Normal; partitions]);
    for second in 1..=seconds {
        let samples = fluids.iter().enumerate().map(|(index, fluid)| fluid.sample(index)).collect();
        let memory = MemoryFacts::default();
        let decision = policy.decide(&Sample { now: second * SECOND, device, memory, partitions: samples });
        let ingest = INGEST * load(second);
        let left = (background - ingest * partitions as f64).max(0.0);
        let mut spare = left;
        let catching_up = |knobs: &&PartitionKnobs| matches!(knobs.stage, Stage::Drain | Stage::Resume);
        outcome.catching_up.push(decision.knobs.partitions.iter().filter(catching_up).count());
        for (index, knobs) in decision.knobs.partitions.iter().enumerate() {
            let fluid = &mut fluids[index];
            spare -= fluid.step(knobs, ingest, background / partitions as f64, (left / partitions as f64).min(spare));
            outcome.longest = outcome.longest.max(fluid.runs.len());
            let is_full = fluid.sealed() >= knobs.write_buffers as f64;
            outcome.stalled += u64::from(is_full || fluid.runs.len() >= 20);
            if stages[index] != knobs.stage {
                stages[index] = knobs.stage;
                outcome.changes.entry(index).or_default().push((second, knobs.stage));
            }
        }
    }
    outcome.owed = fluids.iter().map(|fluid| fluid.owed).sum();
    outcome
}

#[test]
fn the_hardest_shortages_are_bridged() {
    // BOSR 7 for 300 s, BOSR 10 for 200 s: 2.86 and 2.0 background bytes for each byte of a user.
    let all = |per_byte: f64| 8.0 * INGEST * per_byte;
    for (per_byte, seconds) in [(2.86, 300), (2.0, 200)] {
        let weir = run(Profile::Weir, 8, all(per_byte), seconds, |_| 1.0);
        assert_eq!(weir.stalled, 0, "{per_byte}: up to {} runs", weir.longest);
        assert!(weir.longest <= 16, "{per_byte}: {} runs", weir.longest);
        let node = run(Profile::Node, 8, all(per_byte), seconds, |_| 1.0);
        assert!(node.stalled > 0, "{per_byte}");
    }
}

#[test]
fn where_reads_and_writes_have_budgets_of_their_own_the_fuller_one_counts() {
    // Calibrated disks often read twice as fast as they write. The load needs 1.1 of the write budget, and 0.6 of both
    // budgets together.
    let need = 4.0 * INGEST * AMPLIFICATION;
    let write = (need * 25.0 / 46.0 + 4.0 * INGEST) / 1.1;
    let rates = |bytes: f64| Rates::bytes(bytes as u64);
    for read in [2.0 * write, 5.0 * write] {
        let device = Limits::Split { read: rates(read), write: rates(write) };
        let outcome = run_on(device, Profile::Weir, 4, need / 1.1, 120, |_| 1.0);
        assert!(!outcome.changes.is_empty(), "nothing is put off at {read}");
        assert_eq!(outcome.stalled, 0);
    }
}

#[test]
fn what_fits_puts_nothing_off() {
    let background = 4.0 * INGEST * AMPLIFICATION;
    let at = |share: f64| run(Profile::Weir, 4, background, 120, move |_| share);
    assert!(at(0.75).changes.is_empty());
    assert!(!at(1.5).changes.is_empty());
}

#[test]
fn stages_do_not_flap() {
    // U-3: a minute of too much load, two minutes of next to nothing, and so on for an hour.
    let background = 8.0 * INGEST * AMPLIFICATION / 3.0;
    let outcome = run(Profile::Weir, 8, background, 3600, |second| if second % 180 < 60 { 1.0 } else { 0.02 });
    assert_eq!(outcome.stalled, 0);
    for (partition, changes) in &outcome.changes {
        for pair in changes.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            // A partition that has caught up may leave its stage at once.
            assert!(to.0 - from.0 >= 10 || from.1 == Stage::Resume, "partition {partition}: {from:?} {to:?}");
        }
        assert!(changes.len() <= 20 * 6, "partition {partition} changed {} times", changes.len());
    }
    assert!(outcome.catching_up.iter().any(|&count| count > 0));
}

#[test]
fn all_catch_up_at_once_when_the_shortage_is_over() {
    // Far too much load, then calm.
    let background = 8.0 * INGEST * AMPLIFICATION / 3.0;
    let outcome = run(Profile::Weir, 8, background, 160, |second| if second <= 120 { 1.0 } else { 0.02 });
    assert_eq!(outcome.catching_up.into_iter().find(|&count| count > 0), Some(8));
}

#[test]
fn what_was_put_off_is_done_in_the_end() {
    // FX-25: in bounded time.
    let background = 8.0 * INGEST * AMPLIFICATION / 7.0;
    let outcome = run(Profile::Weir, 8, background, 4000, |second| if second <= 200 { 1.0 } else { 0.02 });
    assert_eq!((outcome.stalled, outcome.owed), (0, 0.0));
    let last = outcome.changes.values().filter_map(|changes| changes.last()).map(|(_, stage)| *stage);
    assert!(last.into_iter().all(|stage| stage == Stage::Normal));
}
