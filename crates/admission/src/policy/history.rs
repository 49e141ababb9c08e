//! What policies saw and decided lately, so that "why was it slow at 14:03?" has an answer.

use std::collections::VecDeque;
use std::mem::size_of;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_io::Nanos;

use super::knobs::PartitionKnobs;
use super::meter::Load;
use super::profile::Decision;
use super::sample::{PartitionSample, Sample};

/// One tick.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tick {
    /// What was seen.
    pub sample: Sample,
    /// What was decided.
    pub decision: Decision,
}

impl Tick {
    /// Bytes of memory that the tick takes.
    fn bytes(&self) -> usize {
        let each = size_of::<PartitionSample>() + size_of::<PartitionKnobs>() + size_of::<Load>();
        size_of::<Self>() + self.sample.partitions.len() * each
    }
}

/// The last ticks, as many as fit.
#[derive(Debug)]
pub struct History {
    ticks: VecDeque<Arc<Tick>>,
    bytes: usize,
    bytes_max: usize,
    forgotten: u64,
}

impl History {
    /// A history of at most `bytes_max` bytes. The last tick is kept in any case.
    pub fn new(bytes_max: usize) -> Self {
        Self { ticks: VecDeque::new(), bytes: 0, bytes_max, forgotten: 0 }
    }

    /// Adds a tick, and forgets the oldest where there is no room for it.
    pub fn push(&mut self, tick: Tick) {
        self.bytes += tick.bytes();
        self.ticks.push_back(Arc::new(tick));
        while self.bytes > self.bytes_max && self.ticks.len() > 1 {
            self.forgotten += 1;
            self.bytes -= self.ticks.pop_front().map_or(0, |tick| tick.bytes());
        }
    }

    /// All ticks that are kept, the oldest first.
    pub fn ticks(&self) -> impl DoubleEndedIterator<Item = &Arc<Tick>> {
        self.ticks.iter()
    }

    /// How many ticks were forgotten: those before the oldest that is kept.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The last tick.
    pub fn last(&self) -> Option<&Arc<Tick>> {
        self.ticks.back()
    }

    /// The tick whose decision held at `now`; `None` if it is forgotten.
    pub fn at(&self, now: Nanos) -> Option<&Arc<Tick>> {
        let after = self.ticks.partition_point(|tick| tick.sample.now <= now);
        after.checked_sub(1).and_then(|index| self.ticks.get(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::policy::{Knobs, MemoryFacts, NodeKnobs};

    fn tick(now: Nanos, partitions: usize) -> Tick {
        let memory = MemoryFacts::default();
        let partitions = vec![PartitionSample::default(); partitions];
        let node = NodeKnobs { limits: Limits::UNLIMITED, burst: 0 };
        let knobs = Knobs { node, floor: None, partitions: partitions.iter().map(PartitionKnobs::open).collect() };
        let decision = Decision { loads: vec![Load::default(); partitions.len()], knobs, violation: None };
        Tick { sample: Sample { now, device: Limits::UNLIMITED, memory, partitions }, decision }
    }

    #[test]
    fn the_oldest_are_forgotten_where_there_is_no_room() {
        let mut history = History::new(10 * tick(0, 5).bytes());
        (0..100).for_each(|now| history.push(tick(now, 5)));
        assert_eq!(history.ticks().map(|tick| tick.sample.now).collect::<Vec<_>>(), (90..100).collect::<Vec<_>>());
        assert_eq!(
            [89, 90, 95, 1000].map(|now| history.at(now).map(|tick| tick.sample.now)),
            [None, Some(90), Some(95), Some(99)]
        );
        history.push(tick(100, 1000));
        assert_eq!(history.ticks().count(), 1, "one is kept, whatever it takes");
        history.push(tick(101, 0));
        assert_eq!(history.last().map(|tick| tick.sample.now), Some(101));
    }
}
