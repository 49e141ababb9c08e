//! Looks at the node once a second.

use std::sync::Arc;

use parking_lot::Mutex;
use weir_admission::policy::{Stage, Tick};
use weir_admission::{Booked, Direction};
use weir_io::{Class, Owner};
use weir_node::{Ledger, Node, PartitionSlot};

use crate::outcome::{Bytes, Second, StageChange, Stalls};
use crate::tally::Tally;

/// What was seen of a node, second by second.
pub struct Watch {
    slots: Vec<Arc<PartitionSlot>>,
    ledger: Arc<Ledger>,
    last: Bytes,
    stages: Vec<Stage>,
    /// Partitions whose trees have not been restored yet.
    owing: Vec<Arc<PartitionSlot>>,
    /// Which partitions were awake at the last look.
    awake: Vec<bool>,
    /// How often a partition was awake that had been asleep at the look before.
    pub woken: u64,
    /// Every change of a partition's stage so far.
    pub changes: Vec<StageChange>,
    /// Every second so far.
    pub series: Vec<Second>,
}

impl Watch {
    /// Begins to watch now.
    pub fn new(slots: Vec<Arc<PartitionSlot>>, ledger: Arc<Ledger>) -> Self {
        let (last, stages) = (bytes(&ledger.total()), vec![Stage::Normal; slots.len()]);
        let (owing, awake) = (slots.clone(), slots.iter().map(|slot| slot.awake().is_some()).collect());
        Self { owing, slots, ledger, last, stages, awake, woken: 0, changes: Vec::new(), series: Vec::new() }
    }

    /// All bytes so far, since the node was opened.
    pub fn bytes(&self) -> Bytes {
        bytes(&self.ledger.total())
    }

    /// Writes slowed or stopped so far, since the node was opened.
    pub fn stalls(&self) -> Stalls {
        let mut stalls = Stalls::default();
        for of_one in self.stalls_of_each() {
            stalls.count += of_one.count;
            stalls.seconds += of_one.seconds;
        }
        stalls
    }

    /// The same, for each partition.
    pub fn stalls_of_each(&self) -> Vec<Stalls> {
        let of_one = |slot: &Arc<PartitionSlot>| {
            let mut stalls = Stalls::default();
            for times in slot.stalls() {
                stalls.count += times.slowed + times.stopped;
                stalls.seconds += (times.slowed_nanos + times.stopped_nanos) as f64 / 1e9;
            }
            stalls
        };
        self.slots.iter().map(of_one).collect()
    }

    /// Bytes of each partition so far, since the node was opened.
    pub fn bytes_of_each(&self) -> Vec<Bytes> {
        bytes_of_each(&self.ledger, self.slots.iter().map(|slot| slot.owner()))
    }

    /// Whether every tree has at some time since the first call been a pyramid: nothing sealed, nothing running, every
    /// level within its target. They need not be so all at once, because under a load some level 0 is always gathering
    /// runs.
    pub fn is_restored(&mut self) -> bool {
        let owes = |slot: &Arc<PartitionSlot>| {
            slot.awake().as_ref().is_some_and(|partition| !partition.engine().facts().is_settled())
        };
        self.owing.retain(owes);
        self.owing.is_empty()
    }

    /// Ends a second.
    pub fn tick(&mut self, node: &Node, tally: &Mutex<Tally>) -> &Second {
        let now = bytes(&self.ledger.total());
        let mut second = Second { bytes: now.since(&self.last), ..Second::default() };
        self.last = now;
        self.look_at_stages(node);
        for (slot, was_awake) in self.slots.iter().zip(&mut self.awake) {
            let shape = slot.awake().as_ref().map(|partition| partition.engine().facts().shape());
            second.awake += u64::from(shape.is_some());
            self.woken += u64::from(shape.is_some() && !*was_awake);
            *was_awake = shape.is_some();
            second.l0.push(shape.as_ref().map_or(0, |shape| shape.levels[0].tables as u16));
            second.sealed.push(shape.as_ref().map_or(0, |shape| shape.sealed as u16));
            second.memory += shape.map_or(0, |shape| (shape.memtable_bytes + shape.sealed_bytes) as u64);
        }
        let cache = node.cache();
        second.held = node.write_memory().stats().used + cache.usage().bytes + cache.charged_bytes() as u64;
        if let Some(tick) = node.last_tick() {
            second.memory += tick.sample.memory.upper_used;
            (second.watermark, second.write_limit) = pressed(&tick);
        }
        second.stage = self.stages.iter().map(|&stage| place(stage)).collect();
        tally.lock().end_second(&mut second);
        self.series.push(second);
        self.series.last().expect("just pushed")
    }

    fn look_at_stages(&mut self, node: &Node) {
        let Some(tick) = node.last_tick() else { return };
        let knobs = &tick.decision.knobs.partitions;
        for (index, slot) in self.slots.iter().enumerate() {
            let owner = slot.owner();
            let Some(knobs) = knobs.iter().find(|knobs| knobs.owner == owner) else { continue };
            let before = std::mem::replace(&mut self.stages[index], knobs.stage);
            if before != knobs.stage {
                let t = self.series.len() as f64 + 1.0;
                let [from, to] = [before, knobs.stage].map(|stage| stage.name().to_owned());
                self.changes.push(StageChange { t, partition: index, from, to, why: knobs.why.to_string() });
            }
        }
    }
}

/// The highest watermark of all partitions at `tick`, and the bytes that all of them together may write in the second
/// after it; `None` if at least one of them is not limited.
fn pressed(tick: &Tick) -> (f64, Option<u64>) {
    let knobs = &tick.decision.knobs.partitions;
    let partitions = tick.sample.partitions.iter().zip(knobs);
    let watermarks =
        partitions.map(|(partition, knobs)| partition.tree.watermark(knobs.write_buffers, partition.tree.l0_mild()));
    (watermarks.fold(0.0, f64::max), knobs.iter().map(|knobs| knobs.write_rate).sum())
}

/// The place of `stage` in [`Stage::ALL`].
pub fn place(stage: Stage) -> u8 {
    Stage::ALL.iter().position(|&other| other == stage).unwrap_or(0) as u8
}

/// What `ledger` booked to the tenant of each of `owners`, which are their only partitions.
pub fn bytes_of_each(ledger: &Ledger, owners: impl Iterator<Item = Owner>) -> Vec<Bytes> {
    let booked = ledger.tenants();
    owners.map(|owner| booked.get(&owner.tenant).map(bytes).unwrap_or_default()).collect()
}

/// What a ledger booked, by the causes that a scenario reports. What users wrote is counted where requests are.
pub fn bytes(booked: &Booked) -> Bytes {
    let of = |class| booked[(class, Direction::Read)].bytes + booked[(class, Direction::Write)].bytes;
    Bytes {
        user: booked.user(Direction::Write).bytes,
        log: of(Class::Log),
        flush: of(Class::Flush),
        l0: of(Class::CompactL0),
        deep: of(Class::CompactDeep) + of(Class::Reclaim),
        read: of(Class::Read),
        other: of(Class::Maintenance),
    }
}
