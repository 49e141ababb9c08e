//! The policy tick: once every [`Policy::period`] a sample of the whole node goes to the profile's policies, and all
//! knobs are set to what they say.
//!
//! Only partitions that are awake are sampled, in the order of their owners. A partition that is opened between two
//! ticks, or whose tenant's limits are altered, at once gets the settings that do not depend on the load.
//!
//! Lock order: `policy`, then a slot's reservation, then gates. `awake`, `observer`, `history` and the mover's desk are
//! alone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use weir_admission::policy::bandwidth::BandwidthSettings;
use weir_admission::policy::{
    self, Behaviour, BehaviourObserver, Bytes, Felt, History, JobFacts, MemoryFacts, NodeKnobs, Operations,
    PartitionKnobs, PartitionSample, Policy, Recording, Sample, Settings, Tick, TreeFacts,
};
use weir_admission::{Booked, Direction, Gate, Ledger, Limits, UNLIMITED, Unit, Wait};
use weir_io::{Class, Clock, Nanos, Owner, sleep_until};
use weir_log::SyncMode;
use weir_model::TenantId;
use weir_model::engine::{EngineFacts, JobKind, Scope, TreeKnobs, TreeShape};

use crate::bandwidth::Reservation;
use crate::cache_shares::KeptBlocks;
use crate::config::NodeConfig;
use crate::engines::BlockCache;
use crate::flush_queue::FlushQueue;
use crate::memory::WriteMemory;
use crate::metrics::StallTimes;
use crate::mover::Desk;
use crate::partition::Partition;
use crate::stall::StallCause;

/// Device bytes read per byte asked for, at most, with four levels of which two are in memory (FX-11).
pub(crate) const READ_AMPLIFICATION: u64 = 4;

/// Memory for the last ticks: a quarter of an hour with 32 partitions.
const HISTORY_BYTES_MAX: usize = 16 << 20;

/// The slot of a partition as the tick sees it.
pub(crate) trait Ticked: Send + Sync {
    /// The partition, if it is awake.
    fn partition(&self) -> Option<Arc<Partition>>;

    /// The limits of its gates.
    fn reservation(&self) -> &Reservation;

    /// How long its writes have waited, by cause in the order of [`StallCause::ALL`].
    fn stalls(&self) -> [StallTimes; StallCause::ALL.len()];
}

/// The control loop of the policies: it samples, asks the policies, and turns the knobs.
pub(crate) struct Ticker {
    config: NodeConfig,
    device: Limits,
    gate: Arc<Gate>,
    /// The node's knobs as the policy wants them.
    node: NodeKnobs,
    /// The burst of the node's gate, in nanoseconds.
    burst: AtomicU64,
    memory: Arc<WriteMemory>,
    flushes: Option<Arc<FlushQueue>>,
    cache: Arc<BlockCache>,
    kept_blocks: Arc<KeptBlocks>,
    ledger: Arc<Ledger>,
    policy: Mutex<Policy>,
    /// Time between two ticks, in nanoseconds.
    period: Nanos,
    observer: Mutex<BehaviourObserver>,
    awake: Mutex<BTreeMap<Owner, Weak<dyn Ticked>>>,
    history: Mutex<History>,
    /// Tells the mover which partitions should leave the node.
    pub desk: Desk,
    /// Log written by all partitions together in the last window, in bytes per second.
    log_rate: AtomicU64,
}

impl Ticker {
    /// For a node under `config` whose gate is `gate`. Its memtables are booked in `memory`, its blocks are in `cache`,
    /// where `kept_blocks` says what is kept for whom, and its I/O is in `ledger`. Its flushes wait in `flushes`, if at
    /// all.
    pub fn new(
        config: &NodeConfig,
        gate: &Arc<Gate>,
        memory: &Arc<WriteMemory>,
        (cache, kept_blocks): (&Arc<BlockCache>, &Arc<KeptBlocks>),
        ledger: &Arc<Ledger>,
        flushes: Option<Arc<FlushQueue>>,
    ) -> Arc<Self> {
        let device = config.bandwidth.map_or(Limits::UNLIMITED, |bandwidth| bandwidth.device);
        let policy = Policy::new(config.profile, settings(config));
        // The node's knobs are the same whatever the load is.
        let node = policy.node(device);
        gate.set_burst(node.burst);
        gate.set_limits(node.limits);
        Arc::new(Self {
            config: config.clone(),
            device,
            gate: Arc::clone(gate),
            node,
            burst: AtomicU64::new(node.burst),
            memory: Arc::clone(memory),
            flushes,
            cache: Arc::clone(cache),
            kept_blocks: Arc::clone(kept_blocks),
            ledger: Arc::clone(ledger),
            period: policy.period(),
            policy: Mutex::new(policy),
            observer: Mutex::default(),
            awake: Mutex::default(),
            history: Mutex::new(History::new(HISTORY_BYTES_MAX)),
            desk: Desk::default(),
            log_rate: AtomicU64::new(0),
        })
    }

    /// `slot` is being opened and has its gates, as `owner`'s.
    pub fn opened(&self, owner: Owner, slot: &Arc<dyn Ticked>) {
        self.awake.lock().insert(owner, Arc::downgrade(slot));
        self.altered(owner, slot.reservation());
    }

    /// The limits of its tenant have changed.
    pub fn altered(&self, owner: Owner, reservation: &Reservation) {
        let policy = self.policy.lock();
        let sample = reservation.sold(owner, &self.config);
        let knobs = policy.opening(&sample);
        reservation.turn(&knobs, &self.gate);
    }

    /// The partition is closed.
    pub fn closed(&self, owner: Owner) {
        self.awake.lock().remove(&owner);
    }

    fn sample(&self, now: Nanos, partitions: Vec<PartitionSample>) -> Sample {
        let stats = self.memory.pool().stats();
        let memory = MemoryFacts {
            buffers_used: stats.used,
            buffers_max: Some(stats.capacity),
            upper_used: self.cache.upper_bytes() as u64,
            // The memory that indexes and filters take is not there for blocks.
            upper_max: Some(self.cache.capacity_bytes().saturating_sub(self.cache.charged_bytes()) as u64),
        };
        Sample { now, device: self.device, memory, partitions }
    }

    /// Samples, asks the policies, and turns the knobs.
    pub fn tick(&self, now: Nanos) {
        self.memory.turn();
        if let Some(flushes) = &self.flushes {
            let mut tenants: Vec<u32> = self.awake.lock().keys().map(|owner| owner.tenant).collect();
            tenants.dedup();
            flushes.turn(&tenants);
        }
        let slots: Vec<(Owner, Arc<dyn Ticked>)> = {
            let awake = self.awake.lock();
            awake.iter().filter_map(|(owner, slot)| slot.upgrade().map(|slot| (*owner, slot))).collect()
        };
        // A partition that is on its way in or out has no tree to be asked.
        let there = slots.iter().filter_map(|(owner, slot)| {
            let partition = slot.partition().filter(|partition| partition.owner() == *owner)?;
            Some((slot, partition))
        });
        let there: Vec<(&Arc<dyn Ticked>, Arc<Partition>)> = there.collect();
        self.kept_blocks.turn(there.iter().map(|(_, partition)| (partition.owner(), Arc::clone(&partition.account))));
        let mut policy = self.policy.lock();
        let samples = there.iter().map(|(slot, partition)| self.look(&***slot, partition)).collect();
        let sample = self.sample(now, samples);
        let decision = policy.decide(&sample);
        for ((slot, partition), knobs) in there.iter().zip(&decision.knobs.partitions) {
            slot.reservation().turn(knobs, &self.gate);
            partition.turn(knobs);
        }
        self.memory.set_floor(decision.knobs.floor);
        drop(policy);
        let jobs_parked = sample.partitions.iter().any(|partition| partition.jobs.parked > 0);
        let background_waits = || there.iter().any(|(slot, _)| slot.reservation().background_waits());
        let waits = jobs_parked || self.gate.anybody_waits() || background_waits();
        let backlog = waits.then(|| self.ledger.total());
        self.log_rate.store(decision.loads.iter().map(|load| load.log).sum::<f64>() as u64, Ordering::Relaxed);
        self.keep_burst();
        self.observer.lock().observe(&sample, &decision.knobs, backlog);
        self.desk.decided(decision.violation.as_ref());
        self.history.lock().push(Tick { sample, decision });
    }

    /// Log records are paid for when they are written, and moved at the next sync. Tokens that arrive while they are
    /// moved are nobody's to use, and would be lost if that takes longer than the gate's burst. So the burst is made
    /// longer by that time: with a second between syncs, a twelfth of a full device would otherwise go unused.
    fn keep_burst(&self) {
        let ahead = match self.config.sync {
            SyncMode::Always => 0,
            SyncMode::Interval | SyncMode::None => {
                let interval = self.config.sync_interval;
                self.log_time(interval).min(interval)
            }
        };
        let burst = self.node.burst + ahead;
        if self.burst.swap(burst, Ordering::Relaxed) != burst {
            self.gate.set_burst(burst);
            self.gate.set_limits(self.node.limits);
        }
    }

    /// Device time for what is written to logs in `interval`, in nanoseconds; 0 where the device has no limit.
    pub fn log_time(&self, interval: Nanos) -> Nanos {
        match self.device.rates(Direction::Write).bytes {
            UNLIMITED => 0,
            rate => {
                let written = u128::from(self.log_rate.load(Ordering::Relaxed)) * u128::from(interval);
                (written / u128::from(rate.max(1))) as Nanos
            }
        }
    }

    /// The ticks that are remembered, the oldest first.
    pub fn ticks(&self) -> Vec<Arc<Tick>> {
        self.history.lock().ticks().cloned().collect()
    }

    /// All remembered ticks, with what is needed to decide them again.
    pub fn recording(&self) -> Recording {
        let history = self.history.lock();
        let ticks = history.ticks().cloned().collect();
        Recording::new(self.config.profile, settings(&self.config), history.forgotten(), ticks)
    }

    /// The tick whose decision held at `at`; `None` if that is forgotten.
    pub fn tick_at(&self, at: Nanos) -> Option<Arc<Tick>> {
        self.history.lock().at(at).cloned()
    }

    /// What `tenant` met in the seconds before `at`; `None` if that is forgotten, or the tenant was asleep.
    pub fn felt(&self, tenant: TenantId, at: Nanos) -> Option<policy::Window> {
        policy::window(self.history.lock().ticks().rev(), tenant.0, at)
    }

    /// The last tick.
    pub fn last_tick(&self) -> Option<Arc<Tick>> {
        self.history.lock().last().cloned()
    }

    /// How the policies have behaved: oscillation and under-utilisation.
    pub fn behaviour(&self) -> Behaviour {
        self.observer.lock().behaviour()
    }

    fn look(&self, slot: &dyn Ticked, partition: &Partition) -> PartitionSample {
        let (facts, booked) = (partition.engine.facts(), partition.account.booked());
        PartitionSample {
            bytes: bytes(&booked),
            ops: operations(&booked),
            tree: facts.tree.as_ref().map(|shape| tree_facts(&facts, shape)).unwrap_or_default(),
            jobs: JobFacts {
                running: facts.jobs_running as u64,
                parked: facts.jobs.iter().map(|jobs| jobs.parked as u64).sum(),
                flush_left: left(&facts, &[JobKind::Flush]),
                flush: facts.jobs[JobKind::Flush as usize].newest,
                l0_left: left(&facts, &[JobKind::IntraL0, JobKind::L0]),
            },
            drains: slot.reservation().drains(),
            felt: felt(slot, &booked),
            ..slot.reservation().sold(partition.owner(), &self.config)
        }
    }
}

impl Partition {
    /// Turns the knobs of log and tree, but only those that a policy has changed its mind about: somebody who turns a
    /// knob by hand is not overruled every second.
    fn turn(self: &Arc<Self>, knobs: &PartitionKnobs) {
        self.set_write_rate(knobs.write_rate);
        self.note_urgency();
        let wanted = TreeKnobs {
            scope: match knobs.scope {
                policy::Scope::All => Scope::All,
                policy::Scope::L0ToL1 => Scope::L0ToL1,
                policy::Scope::IntraL0 => Scope::IntraL0,
            },
            flush_gather: knobs.flush_gather as usize,
            write_buffers: knobs.write_buffers as usize,
            intra_l0_fan_in: knobs.intra_l0_fan_in as usize,
            intra_l0_from: knobs.intra_l0_from as usize,
            intra_l0_bytes: knobs.intra_l0_bytes,
            warm: knobs.warm,
            l0_gathers: knobs.l0_gathers,
            pending_stalls: knobs.stage == policy::Stage::Normal,
        };
        let before = std::mem::replace(&mut *self.policy_knobs.lock(), wanted);
        if before != wanted {
            self.set_tree_knobs(wanted);
        }
    }
}

/// The waits and refusals that a partition's requests met, as sums from the books, for whoever asks why.
fn felt(slot: &dyn Ticked, booked: &Booked) -> Felt {
    let quota = slot.reservation().quota();
    let (queued, quota) = (quota.queued_ns(), Unit::ALL.map(|unit| quota.stats(unit)));
    let stalled = slot.stalls().iter().map(|times| times.slowed_nanos + times.stopped_nanos).sum();
    let units = quota.iter().map(|stats| stats.delayed_ns).sum();
    Felt {
        waited: [units, queued, stalled, booked.waited(Wait::Partition), booked.waited(Wait::Node)],
        refused: quota.iter().map(|stats| stats.refused).sum(),
    }
}

/// A tree in the words of policies.
fn tree_facts(facts: &EngineFacts, shape: &TreeShape) -> TreeFacts {
    let above = shape.levels[1..].iter().map(|level| level.bytes.saturating_sub(level.target_bytes));
    let percent = shape.levels[1..].iter().map(|level| level.bytes.saturating_mul(100) / level.target_bytes.max(1));
    TreeFacts {
        l0_runs: shape.levels[0].tables as u64,
        l0_bytes: shape.levels[0].bytes,
        l0_target: shape.levels[0].target_bytes,
        l1_bytes: shape.levels[1].bytes,
        bytes: shape.levels.iter().map(|level| level.bytes).sum(),
        depth: shape.levels.iter().rposition(|level| level.tables > 0).unwrap_or(0) as u64,
        deep_debt: above.sum(),
        worst_level: percent.max().unwrap_or(0),
        unflushed: facts.unflushed_bytes,
        sealed: shape.sealed as u64,
        memtable_bytes: shape.write_buffer_bytes as u64,
        write_buffers: shape.write_buffers_max as u64,
        write_buffers_now: shape.write_buffers as u64,
        l0_trigger: shape.l0_trigger as u64,
        l0_slow: shape.l0_limits[0] as u64,
        l0_stop: shape.l0_limits[1] as u64,
        l0_merge_bytes_max: shape.l0_merge_bytes_max,
    }
}

/// Bytes that jobs of these kinds have still to write, unless all of a kind are parked.
fn left(facts: &EngineFacts, kinds: &[JobKind]) -> u64 {
    let jobs = JobKind::ALL.into_iter().zip(&facts.jobs).filter(|(kind, _)| kinds.contains(kind));
    jobs.filter(|(_, jobs)| jobs.running > jobs.parked).map(|(_, jobs)| jobs.bytes_left).sum()
}

/// The ledger's page in the words of policies.
fn bytes(booked: &Booked) -> Bytes {
    let of = |class, direction| booked[(class, direction)].bytes;
    Bytes {
        user: booked.user(Direction::Write).bytes,
        log: of(Class::Log, Direction::Write),
        read: of(Class::Read, Direction::Read),
        flush: of(Class::Flush, Direction::Write),
        // Without a level 0, flushes merge memtables with the tables of level 1.
        l0_read: of(Class::CompactL0, Direction::Read) + of(Class::Flush, Direction::Read),
        l0_written: of(Class::CompactL0, Direction::Write),
        deep_read: of(Class::CompactDeep, Direction::Read) + of(Class::Reclaim, Direction::Read),
        deep_written: of(Class::CompactDeep, Direction::Write) + of(Class::Reclaim, Direction::Write),
    }
}

fn operations(booked: &Booked) -> Operations {
    let of = |class, direction| booked[(class, direction)].ops;
    let both = |class| of(class, Direction::Read) + of(class, Direction::Write);
    Operations {
        read: of(Class::Read, Direction::Read),
        log: of(Class::Log, Direction::Write),
        background: [Class::Flush, Class::CompactL0, Class::CompactDeep, Class::Reclaim].map(both).iter().sum(),
    }
}

/// The configuration of the policies of a node under `config`.
pub(crate) fn settings(config: &NodeConfig) -> Settings {
    let bandwidth = BandwidthSettings {
        read_amplification: READ_AMPLIFICATION,
        background: config.bandwidth.map_or(UNLIMITED, |bandwidth| bandwidth.background),
    };
    Settings { map: config.device_map, ..Settings::new(bandwidth) }
}

/// Ticks until the node is gone.
pub(crate) async fn run(ticker: Weak<Ticker>, clock: Arc<dyn Clock>) {
    loop {
        let Some(period) = ticker.upgrade().map(|ticker| ticker.period) else { return };
        sleep_until(&clock, clock.now() + period).await;
        let Some(ticker) = ticker.upgrade() else { return };
        ticker.tick(clock.now());
    }
}

#[cfg(test)]
mod tests;
