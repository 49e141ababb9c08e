//! Weir's deferral: FlexEngine's two stages, with decisions where its paper leaves questions open (U-1 to U-3,
//! U-5, U-20, U-22), and with more levers.
//!
//! 1. While the node is short ([`hysteresis`]), every partition that writes **gathers**: up to twelve memtables become
//!    one run, in up to 25 buffers, as many as memory, the speed of flushes and the size of a merge within level 0
//!    allow. That alone makes a run of level 0 last up to twelve times as long. That costs no bandwidth; it costs
//!    memory, log, and time to recover.
//! 2. Stage one for the partitions that save most by it, until the rest fits (U-2), and for no more than needed.
//! 3. Stage two for a partition at 12 of 20 runs, or as soon as its **time to stall** is under a minute, if merging
//!    inside level 0 makes it longer, or where level 1 has become so large that merging into it costs more bandwidth
//!    than there is. Level 0 is merged early while the device is not full, and late when it is ([`patience`]).
//! 4. Back by way of drain, stage one and resume, all partitions at once.
//! 5. The guard is the last valve. After twice the time that moving a partition takes it opens earlier (U-22).

mod flush_order;
mod gather;
mod hysteresis;
mod in_time;
mod memory;
mod partition;
mod patience;
mod ramp;
mod rest;

use std::collections::BTreeMap;

use weir_io::{Nanos, Owner};

use self::flush_order::FlushOrder;
use self::gather::Gathering;
use self::hysteresis::Hysteresis;
use self::memory::merges_are_kept;
use self::partition::PartitionState;
use self::patience::Patience;
use self::rest::{PutOff, Rest};
use super::{Cruise, DeferralPolicy, Law, Pauses, Pressure, STAGE_TWO_PERCENT, demand, nanos};
use crate::limits::{Direction, Limits, Rates};
use crate::policy::device::Front;
use crate::policy::forecast::{Course, Tokens, bytes_per_run, left, seconds_to_stall, tokens};
use crate::policy::ingredient::Ingredient;
use crate::policy::knobs::{Knobs, Reason, Scope, Stage};
use crate::policy::meter::Load;
use crate::policy::sample::{PartitionSample, Sample, TreeFacts};

/// Compactions of partitions are put off until the rest needs no more than this share of the device (U-2).
const PROJECTED: f64 = 0.70;
/// How long a stage lasts at least, in nanoseconds (U-3).
const DWELL: Nanos = 10_000_000_000;
/// Runs in level 0 that make a shortage urgent (U-1).
const PRESSED_RUNS: u64 = 8;
/// A stall nearer than this starts stage two, in seconds.
const STALL_AHEAD: f64 = 60.0;
/// A stall nearer than this opens the guard, in seconds …
const STALL_NEAR: f64 = 5.0;
/// … and this one, once deferral has lasted twice as long as moving a partition takes (U-22).
const STALL_NEAR_LATE: f64 = 30.0;
/// How many runs before a bound of level 0 the guard opens, and a merge within level 0 should have ended.
const CLOSE_TO_SLOW: u64 = 2;
/// A partition goes into stage two if it saves this part of what stage one costs, while what all need does not fit.
const WORTH: f64 = 1.0 / 3.0;
/// While the node is short, level 0 drains until it is a smaller part than this of what the next merge would move.
const NO_LONGER_WORTH: f64 = WORTH / 2.0;

/// The deferral policy of the profile `weir`.
pub struct Weir {
    migration: Nanos,
    varied: Option<Ingredient>,
    /// The pauses in peaks of clients, if it has them.
    pauses: Option<Pauses>,
    /// CruiseDB's admission of tenants without a limit of writes, if it has it.
    admission: Option<Cruise>,
    hysteresis: Hysteresis,
    rest: Rest,
    patience: Patience,
    flush_order: FlushOrder,
    /// When a partition last began to drain while the node was short.
    drained_at: Nanos,
    partitions: BTreeMap<Owner, PartitionState>,
}

/// The facts of one tick about one partition.
struct Look<'a> {
    sample: &'a PartitionSample,
    load: &'a Load,
    tokens: Tokens,
    gathering: Gathering,
    /// Whether levels 0 and 1 are kept in memory, so that merges read nothing from the device.
    kept: bool,
}

/// Bytes that a merge of levels 0 and 1 moves for each byte that it writes: it also reads what is not in memory.
const fn merge_moves(kept: bool) -> f64 {
    if kept { 1.0 } else { 2.0 }
}

impl Look<'_> {
    fn stall_in(&self, stage: Stage) -> Option<f64> {
        self.full_in(&self.sample.tree, stage)
    }

    /// Seconds until writes would be slowed so much that it hurts.
    fn hurt_in(&self, stage: Stage) -> Option<f64> {
        let tree = &self.sample.tree;
        self.full_in(&TreeFacts { l0_slow: tree.l0_mild(), ..*tree }, stage)
    }

    fn full_in(&self, tree: &TreeFacts, stage: Stage) -> Option<f64> {
        seconds_to_stall(tree, self.load.ingest, self.tokens, self.course(stage))
    }

    fn course(&self, stage: Stage) -> Course {
        let Gathering { memtables: gather, buffers } = self.gathering;
        Course { scope: stage.scope(), gather, buffers, fan_in: crate::policy::INTRA_L0_FAN_IN }
    }

    /// Background bytes per second that the partition needs in `stage`.
    fn need(&self, stage: Stage) -> f64 {
        self.load.ingest * self.amplification(stage)
    }

    /// Background bytes that a byte ingested costs in `stage`.
    fn amplification(&self, stage: Stage) -> f64 {
        let tree = &self.sample.tree;
        let merged = merge_moves(self.kept);
        let amplification = match stage.scope() {
            Scope::All => self.load.amplification,
            Scope::IntraL0 => 1.0 + merged,
            Scope::L0ToL1 => {
                let batch = tree.l0_bytes.max(tree.l0_trigger * tree.memtable_bytes).max(1);
                1.0 + merged * (1.0 + tree.l1_bytes as f64 / batch as f64)
            }
        };
        match stage {
            Stage::One | Stage::Two => amplification,
            _ => amplification.min(self.load.amplification),
        }
    }

    /// Runs at which writes are slowed. Where that bound is lost already, runs at which they are slowed so much that it
    /// hurts.
    fn runs_bound(&self) -> u64 {
        let tree = &self.sample.tree;
        if tree.l0_runs + CLOSE_TO_SLOW < tree.l0_slow { tree.l0_slow } else { tree.l0_mild() }
    }

    /// Bytes of the largest merge within level 0 that ends before level 0 has so many runs that the guard opens. A
    /// larger merge costs less for each run that it saves, but saves none before it ends.
    fn merge_bytes(&self) -> u64 {
        let tree = &self.sample.tree;
        let room = self.runs_bound().saturating_sub(tree.l0_runs + CLOSE_TO_SLOW) as f64;
        let run = (self.gathering.memtables * tree.memtable_bytes).max(1) as f64;
        let arriving = self.load.ingest.min(self.tokens.flush) / run;
        // Saturates.
        (room / arriving.max(f64::MIN_POSITIVE) * self.tokens.merge) as u64
    }

    /// Whether the tree slows writes because its level 0 is long. The ingest is then what the tree lets through: the
    /// tree seems to keep up with it in any stage, however much clients ask for.
    fn is_slowed(&self) -> bool {
        self.sample.tree.l0_runs >= self.sample.tree.l0_slow
    }

    /// Whether a stall is further off in stage two than in stage one. Where writes are slowed already: whether stage
    /// two takes a run out of level 0 for fewer bytes.
    fn stage_two_helps(&self, stall_in_one: Option<f64>) -> bool {
        if self.is_slowed() {
            let cost = |stage: Stage| bytes_per_run(&self.sample.tree, self.course(stage));
            return cost(Stage::Two) < cost(Stage::One);
        }
        match (stall_in_one, self.stall_in(Stage::Two)) {
            (Some(first), Some(second)) => second > first,
            (first, second) => first.is_some() && second.is_none(),
        }
    }

    fn has_backlog(&self) -> bool {
        let tree = &self.sample.tree;
        tree.l0_is_due() || tree.deep_debt > 0 || self.sample.jobs.running > 0
    }
}

impl Weir {
    /// The policy of a node from which a partition can be moved within `migration` nanoseconds. `varied` names an
    /// ingredient that the policy is to go without, or to have where `weir` does not.
    pub fn new(migration: Nanos, varied: Option<Ingredient>) -> Self {
        let pauses = (varied == Some(Ingredient::Pauses)).then(Pauses::default);
        // Before the device is a gate, which hands out the same under all mixes.
        let admission = (varied == Some(Ingredient::Admission)).then(|| Cruise::new(Law::Adaptive, None));
        let (hysteresis, rest, patience) = (Hysteresis::default(), Rest::default(), Patience::default());
        Self {
            migration,
            varied,
            pauses,
            admission,
            hysteresis,
            rest,
            patience,
            flush_order: FlushOrder::default(),
            drained_at: 0,
            partitions: BTreeMap::new(),
        }
    }

    /// Whether the policy has `ingredient`, one that `weir` has.
    fn has(&self, ingredient: Ingredient) -> bool {
        self.varied != Some(ingredient)
    }

    fn stage(&self, look: &Look<'_>) -> Stage {
        self.partitions.get(&look.sample.owner).map_or(Stage::Normal, |state| state.stage)
    }

    fn enter(&mut self, now: Nanos, look: &Look<'_>, stage: Stage, why: Reason) {
        if let Some(state) = self.partitions.get_mut(&look.sample.owner) {
            state.enter(now, stage, why);
        }
    }

    fn may_leave(&self, now: Nanos, look: &Look<'_>) -> bool {
        self.partitions.get(&look.sample.owner).is_some_and(|state| state.dwelt(now, DWELL))
    }

    /// Stage one for the partitions that save most by it, until what all need fits (U-2). Then stage two for those
    /// whose level 1 has become so large that merging into it costs most.
    fn put_off(&mut self, now: Nanos, looks: &[Look<'_>], share_of: impl Fn(f64) -> f64, demand: f64) {
        let mut needed: f64 = looks.iter().map(|look| look.need(self.stage(look))).sum();
        let mut put_off = |this: &mut Self, stage: Stage, may: &dyn Fn(&Self, &Look<'_>) -> bool, instead: Stage| {
            let saved = |look: &Look<'_>| look.need(instead) - look.need(stage);
            let may = |look: &&Look<'_>| saved(look) > 0.0 && this.may_leave(now, look) && may(this, look);
            let mut candidates: Vec<&Look<'_>> = looks.iter().filter(may).collect();
            // Equal candidates stay in the order of their owners: sorting is stable.
            candidates.sort_by(|a, b| saved(b).total_cmp(&saved(a)));
            for look in candidates {
                if share_of(needed) <= PROJECTED {
                    break;
                }
                needed -= saved(look);
                this.enter(now, look, stage, Reason::Demand((demand * 100.0) as u64));
            }
        };
        let has_backlog = |this: &Self, look: &Look<'_>| {
            matches!(this.stage(look), Stage::Normal | Stage::Resume) && look.has_backlog()
        };
        put_off(self, Stage::One, &has_backlog, Stage::Normal);
        let is_worth_it = |this: &Self, look: &Look<'_>| {
            let saved = look.need(Stage::One) - look.need(Stage::Two);
            this.stage(look) == Stage::One && saved > WORTH * look.need(Stage::One)
        };
        if self.has(Ingredient::StageTwo) {
            put_off(self, Stage::Two, &is_worth_it, Stage::One);
        }
    }

    /// Stage two for the partitions whose level 0 is long, or will be. Those in drain turn back.
    fn deepen(&mut self, now: Nanos, looks: &[Look<'_>]) {
        for look in looks {
            let tree = &look.sample.tree;
            let is_long = tree.l0_runs * 100 >= tree.l0_slow * STAGE_TWO_PERCENT;
            let stall_in = look.stall_in(Stage::One);
            let ahead = stall_in.filter(|&seconds| seconds < STALL_AHEAD);
            let helps = self.has(Ingredient::StageTwo) && look.stage_two_helps(stall_in);
            let stage = self.stage(look);
            // A partition that drains was allowed to, although its level 0 is long.
            let is_slowed = look.is_slowed() && stage != Stage::Drain;
            let urgent = is_slowed || stall_in.is_some_and(|seconds| seconds < DWELL as f64 / 1e9);
            match stage {
                Stage::One | Stage::Drain if !self.may_leave(now, look) && !urgent => {}
                Stage::One | Stage::Drain if is_long && helps => {
                    self.enter(now, look, Stage::Two, Reason::Runs(tree.l0_runs));
                }
                Stage::One | Stage::Drain if helps && ahead.is_some() => {
                    self.enter(now, look, Stage::Two, Reason::StallAhead(ahead.unwrap_or(0.0) as u64));
                }
                _ => {}
            }
        }
    }

    /// The way back, for all partitions at once.
    fn resume(&mut self, now: Nanos, looks: &[Look<'_>]) {
        for look in looks {
            let tree = &look.sample.tree;
            match self.stage(look) {
                Stage::Drain if !tree.l0_is_due() && self.may_leave(now, look) => {
                    self.enter(now, look, Stage::One, Reason::Drained);
                }
                Stage::Resume if tree.deep_debt == 0 && !tree.l0_is_due() => {
                    self.enter(now, look, Stage::Normal, Reason::Enough);
                }
                Stage::One if self.may_leave(now, look) => self.enter(now, look, Stage::Resume, Reason::CatchingUp),
                Stage::Two if self.may_leave(now, look) => self.enter(now, look, Stage::Drain, Reason::CatchingUp),
                _ => {}
            }
        }
    }

    /// While the node is short but the device has bandwidth to spare, level 0 of one more partition in stage two is
    /// drained every ten seconds. First comes the partition whose level 0 is the largest part of what its merge moves.
    fn drain(&mut self, now: Nanos, looks: &[Look<'_>]) {
        let gain = |look: &Look<'_>| {
            let tree = &look.sample.tree;
            tree.l0_bytes as f64 / (tree.l0_bytes + tree.l1_bytes).max(1) as f64
        };
        for look in looks {
            // One run may be so large that level 0 is always due. Then each run would be merged into all of level 1
            // alone.
            let is_done = !look.sample.tree.l0_is_due() || gain(look) < NO_LONGER_WORTH;
            if self.stage(look) == Stage::Drain && is_done && self.may_leave(now, look) {
                self.enter(now, look, Stage::One, Reason::Drained);
            }
        }
        let may_drain = self.has(Ingredient::Drain) && self.patience.has_spare();
        if !may_drain || now.saturating_sub(self.drained_at) < DWELL {
            return;
        }
        let may = |look: &&Look<'_>| {
            self.stage(look) == Stage::Two
                && self.may_leave(now, look)
                && look.sample.tree.l0_is_due()
                && gain(look) > WORTH
        };
        if let Some(look) = looks.iter().filter(may).max_by(|a, b| gain(a).total_cmp(&gain(b))) {
            self.drained_at = now;
            self.enter(now, look, Stage::Drain, Reason::CatchingUp);
        }
    }

    /// The rate of a partition's writes if they are slowed: by the last valve (C-1, U-22), or until a flush ends.
    fn guard(&mut self, look: &Look<'_>, late: bool, each: f64) -> Option<u64> {
        if !self.has(Ingredient::Guard) {
            return None;
        }
        let state = self.partitions.get_mut(&look.sample.owner)?;
        let tree = &look.sample.tree;
        let full = (look.gathering.buffers * tree.memtable_bytes).max(1);
        let close = tree.l0_mild().saturating_sub(CLOSE_TO_SLOW).max(1);
        let stall_in = look.hurt_in(state.stage);
        let near = if late { STALL_NEAR_LATE } else { STALL_NEAR };
        let is_near = stall_in.is_some_and(|seconds| seconds < near);
        let (memtables, level_0) = (tree.unflushed as f64 / full as f64, 0.8 * tree.l0_runs as f64 / close as f64);
        let room = tree.room(look.gathering.buffers);
        let until_flushed = state.paces.until_flushed(room, memtables, look.load.ingest);
        // Where writes are slowed for the flush already, the guard looks at level 0 alone.
        let guarded = state.guard.step(&Pressure {
            watermark: if until_flushed.is_some() { level_0 } else { memtables.max(level_0) },
            is_near,
            ingest: look.load.ingest,
            sustainable: each * state.guard.wanted(look.load.ingest) / look.amplification(state.stage).max(1.0),
        });
        until_flushed.into_iter().chain(guarded).min()
    }
}

impl DeferralPolicy for Weir {
    fn decide(&mut self, sample: &Sample, loads: &[Load], knobs: &mut Knobs) {
        let now = sample.now;
        let limited = !sample.device.is_unlimited();
        let demand = demand(sample, loads);
        let is_pressed = sample.partitions.iter().any(|partition| {
            partition.tree.l0_runs >= PRESSED_RUNS
                && self.partitions.get(&partition.owner).is_none_or(|state| state.stage == Stage::Normal)
        });
        self.hysteresis.step(now, demand, is_pressed);
        let short = self.hysteresis.short_since();
        let tokens = tokens(sample, loads);
        let kept = !self.has(Ingredient::GivingWay) || merges_are_kept(&sample.memory);
        let gathers = short.is_some() && self.has(Ingredient::Gathering);
        let gathering = gather::choose(sample, loads, &tokens, gathers);
        let looks: Vec<Look<'_>> = (sample.partitions.iter().zip(loads).zip(tokens).zip(gathering))
            .map(|(((sample, load), tokens), gathering)| {
                let tokens = Tokens { merge: tokens.merge / merge_moves(kept), ..tokens };
                Look { sample, load, tokens, gathering, kept }
            })
            .collect();
        let mut known = std::mem::take(&mut self.partitions);
        for look in &looks {
            let state =
                known.remove(&look.sample.owner).unwrap_or_else(|| PartitionState::opened(now, look.sample, limited));
            self.partitions.insert(look.sample.owner, state);
        }
        let front = Front::of(loads);
        let share_of = |background: f64| front.share(&sample.device, background);
        let peak = self.pauses.as_mut().and_then(|pauses| pauses.reason(sample, loads));
        let used = share_of(loads.iter().map(|load| load.background).sum());
        self.patience.step(used);
        if short.is_some() {
            self.put_off(now, &looks, share_of, demand);
            self.deepen(now, &looks);
            self.drain(now, &looks);
            let put_off: Vec<PutOff> = looks
                .iter()
                .filter(|look| self.stage(look) == Stage::One)
                .map(|look| PutOff {
                    owner: look.sample.owner,
                    deep_debt: look.sample.tree.deep_debt,
                    parked: look.sample.jobs.parked,
                    l0_runs: look.sample.tree.l0_runs,
                })
                .collect();
            if self.has(Ingredient::Rest) {
                self.rest.step(now, used, &put_off);
            }
        } else {
            self.rest = Rest::default();
            self.resume(now, &looks);
        }
        // A throttled partition keeps the share of the bandwidth that it had before. A share in proportion to the
        // writes that are let through would shrink with them, and they would shrink with it.
        let wanted = |look: &Look<'_>| {
            self.partitions.get(&look.sample.owner).map_or(0.0, |state| state.guard.wanted(look.load.ingest))
        };
        let each = left(sample, loads) / looks.iter().map(wanted).sum::<f64>().max(1.0);
        let fits = self.has(Ingredient::Fit) && self.hysteresis.fits(now);
        let longest = sample.partitions.iter().map(|partition| partition.tree.l0_runs).max().unwrap_or(0);
        let late = short.is_some_and(|since| now - since > 2 * self.migration);
        // Where nothing waits at the gate, flushes have no order.
        let in_order = limited && self.has(Ingredient::FlushOrder);
        if in_order {
            let weights = self.flush_order.step(&sample.partitions);
            knobs.partitions.iter_mut().zip(weights).for_each(|(knob, weight)| knob.flush_weight = Some(weight));
        }
        if self.has(Ingredient::Rush) {
            // States and looks are both in the order of owners.
            let paces = self.partitions.values_mut().map(|state| &mut state.paces);
            let waits = |look: &Look<'_>| in_order && self.flush_order.waits(look.sample.owner);
            knobs.floor = in_time::floor(now, &sample.device, front, &looks, paces, waits).filter(|_| limited);
        }
        for (look, knob) in looks.iter().zip(&mut knobs.partitions) {
            let Some(state) = self.partitions.get(&look.sample.owner) else { continue };
            (knob.stage, knob.scope, knob.why) = (state.stage, state.stage.scope(), state.why);
            let is_let_go = short.is_some() && (fits || self.rest.is_open(look.sample.owner));
            if state.stage == Stage::One && (is_let_go || !self.has(Ingredient::StageOne)) {
                knob.scope = Scope::All;
            }
            // C-4: a compaction runs if neither rule forbids it.
            if let (Scope::All, Some(why)) = (knob.scope, peak) {
                (knob.stage, knob.scope, knob.why) = (Stage::One, Stage::One.scope(), why);
            }
            let is_patient = state.stage == Stage::Two && self.has(Ingredient::Patience);
            knob.intra_l0_from = if is_patient { self.patience.runs(longest) } else { 0 };
            if self.has(Ingredient::MergeSize) {
                knob.intra_l0_bytes = look.merge_bytes();
            }
            (knob.flush_gather, knob.write_buffers) = (look.gathering.memtables, look.gathering.buffers);
            let stall_in = look.stall_in(knob.stage);
            knob.time_to_stall = stall_in.map(nanos);
            knob.flush_may_rush = self.has(Ingredient::Rush);
            knob.warm = kept;
            // The way back ends when level 0 is short, and it would never be short while it gathers. As long as there
            // is deep debt it gathers nevertheless: a merge of level 0 rewrites level 1, which is many times too large
            // then, and the deeper merges that make level 1 smaller wait for slots behind those of level 0.
            knob.l0_gathers = match state.stage {
                Stage::Drain => false,
                Stage::Resume => look.sample.tree.deep_debt > 0,
                _ => true,
            };
            if knobs.floor.is_some_and(|floor| floor.merges) {
                // Nobody lends anything while foreground uses all of the device.
                let (most, needed) =
                    (knob.background.rates(Direction::Write).bytes, in_time::behind(&sample.device, look));
                knob.background = Limits::Shared(Rates::bytes(most.max(needed as u64)));
            }
            knob.write_rate = self.guard(look, late, each);
        }
        if let Some(admission) = &mut self.admission {
            let rates = admission.rates(sample, loads, &knobs.partitions);
            for ((partition, knob), rate) in sample.partitions.iter().zip(&mut knobs.partitions).zip(rates) {
                // C-1: a tenant that bought writes is limited by what it bought.
                if partition.capacity.wcu == 0 {
                    knob.write_rate = knob.write_rate.into_iter().chain(rate).min();
                }
            }
        }
    }

    fn is_atypical(&self, owner: Owner) -> bool {
        self.pauses.as_ref().is_some_and(|pauses| pauses.is_atypical(owner))
            || self.partitions.get(&owner).is_some_and(|state| state.stage != Stage::Normal)
    }
}
