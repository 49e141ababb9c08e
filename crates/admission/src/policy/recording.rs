//! A recording of what was seen and decided, to be taken to another machine: a bug report whose decisions can be made
//! again.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_io::Owner;

use super::explain::replay;
use super::history::Tick;
use super::knobs::PartitionKnobs;
use super::profile::{Decision, Profile, Settings};

/// The version of recordings that this program writes and reads.
const VERSION: u32 = 3;

/// Ticks of one node, the oldest first, and what its policies were configured with. Written as JSON; times are
/// nanoseconds of the node's monotonic clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    version: u32,
    profile: String,
    settings: Settings,
    /// How many ticks before the first one are forgotten.
    pub forgotten: u64,
    /// The ticks that are remembered.
    pub ticks: Vec<Arc<Tick>>,
}

/// The result of deciding again.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// How many decisions were made again.
    pub ticks: usize,
    /// How many of them came out differently.
    pub different: usize,
    /// The first one that did.
    pub first: Option<Difference>,
    /// The last one that did, as an index.
    pub last: usize,
}

/// A decision that came out differently.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The index of its tick.
    pub tick: usize,
    /// The partition that it is about; `None` where only what was measured or the node's own gate differs.
    pub owner: Option<Owner>,
    /// What was decided, and what would be.
    pub decided: [String; 2],
}

impl Recording {
    /// A recording of what `profile` decided under `settings` in `ticks`, after `forgotten` ticks that are not in it.
    pub fn new(profile: Profile, settings: Settings, forgotten: u64, ticks: Vec<Arc<Tick>>) -> Self {
        Self { version: VERSION, profile: profile.name().to_owned(), settings, forgotten, ticks }
    }

    /// Makes all decisions again with this program's policies, which know nothing at the first tick.
    ///
    /// # Errors
    /// In words, if another version wrote the recording, or a profile that is not known here made the decisions.
    pub fn replay(&self) -> Result<Replayed, String> {
        if self.version != VERSION {
            return Err(format!(
                "the recording has version {}, but this program reads only version {VERSION}",
                self.version
            ));
        }
        let profile =
            Profile::parse(&self.profile).ok_or_else(|| format!("there is no profile called {}", self.profile))?;
        let again = replay(profile, self.settings, self.ticks.iter().map(|tick| &tick.sample));
        let pairs = self.ticks.iter().map(|tick| &tick.decision).zip(&again).enumerate();
        let mut replayed = Replayed { ticks: self.ticks.len(), different: 0, first: None, last: 0 };
        for (index, (decided, again)) in pairs.filter(|(_, (decided, again))| decided != again) {
            replayed.different += 1;
            replayed.last = index;
            replayed.first.get_or_insert_with(|| difference(index, decided, again));
        }
        Ok(replayed)
    }
}

fn difference(tick: usize, decided: &Decision, again: &Decision) -> Difference {
    let mut partitions = decided.knobs.partitions.iter().zip(&again.knobs.partitions);
    let words = |knobs: &PartitionKnobs| format!("{knobs:?}");
    match partitions.find(|(decided, again)| decided != again) {
        Some((decided, again)) => Difference { tick, owner: Some(decided.owner), decided: [decided, again].map(words) },
        None => {
            let words = |decision: &Decision| {
                format!("{:?} {:?} {:?}", decision.knobs.node, decision.violation, decision.loads)
            };
            Difference { tick, owner: None, decided: [decided, again].map(words) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::UNLIMITED;
    use crate::cost::Capacity;
    use crate::limits::{Limits, Rates};
    use crate::policy::bandwidth::BandwidthSettings;
    use crate::policy::{Bytes, MemoryFacts, PartitionSample, Policy, Sample, TreeFacts};

    /// Three minutes of a partition that writes more than its device can compact.
    fn recording() -> Recording {
        let bandwidth = BandwidthSettings { read_amplification: 4, background: UNLIMITED };
        let settings = Settings::new(bandwidth);
        let mut policy = Policy::new(Profile::Weir, settings);
        let ticks = (0..180).map(|second| {
            let tree = TreeFacts {
                l0_runs: second / 10,
                l0_bytes: second * 1_000_003,
                l0_target: 64_000_000,
                depth: 3,
                memtable_bytes: 16_000_000,
                write_buffers: 4,
                l0_trigger: 4,
                l0_slow: 20,
                ..TreeFacts::default()
            };
            let partition = PartitionSample {
                owner: Owner { tenant: 2, partition: 3 },
                capacity: Capacity { rcu: 3000, wcu: 3000 },
                partitions: 1,
                bytes: Bytes { user: second * 3_000_001, flush: second * 3_100_007, ..Bytes::default() },
                tree,
                ..PartitionSample::default()
            };
            let device = Limits::Split { read: Rates::bytes(7_000_000), write: Rates { bytes: 9_000_000, ops: 1000 } };
            let memory = MemoryFacts { buffers_used: 5, ..MemoryFacts::default() };
            let sample = Sample { now: second * 1_000_000_007, device, memory, partitions: vec![partition] };
            let decision = policy.decide(&sample);
            Arc::new(Tick { sample, decision })
        });
        Recording::new(Profile::Weir, settings, 0, ticks.collect())
    }

    #[test]
    fn a_recording_is_the_same_after_a_journey_and_decides_the_same() {
        let recording = recording();
        let text = serde_json::to_string(&recording).expect("it can be written");
        let read: Recording = serde_json::from_str(&text).expect("it can be read");
        assert_eq!(read, recording);
        assert_eq!(read.replay(), Ok(Replayed { ticks: 180, different: 0, first: None, last: 0 }));
        assert!(text.contains(r#""stage":"stage"#), "it was short at some time");
    }

    #[test]
    fn the_first_decision_that_differs_is_found() {
        let mut recording = recording();
        for index in [70, 90] {
            let mut tick = Tick::clone(&recording.ticks[index]);
            tick.decision.knobs.partitions[0].flush_gather += 1;
            recording.ticks[index] = Arc::new(tick);
        }
        let replayed = recording.replay().expect("known");
        assert_eq!((replayed.different, replayed.last), (2, 90));
        let first = replayed.first.expect("one");
        assert_eq!((first.tick, first.owner), (70, Some(Owner { tenant: 2, partition: 3 })));
        recording.profile = "other".into();
        assert!(recording.replay().is_err());
    }
}
