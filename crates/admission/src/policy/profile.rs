//! Profiles: a bandwidth policy and a deferral policy under one name, so that a comparison changes one word.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_io::Nanos;

use super::bandwidth::{
    Autotune, AutotuneSettings, BandwidthPolicy, BandwidthSettings, Calcspar, Fixed, Reserved, Unlimited,
};
use super::deferral::{DeferralPolicy, FlexEngine, Never, Weir};
use super::knobs::{Knobs, NodeKnobs, PartitionKnobs, Stage};
use super::meter::{Load, Meters};
use super::relief::{Relief, Violation};
use super::sample::{PartitionSample, Sample};
use crate::limits::Limits;

/// A named pair of policies. `docs/policy/` has a page on each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// RocksDB as it comes: no limits, nothing put off.
    RocksDb,
    /// RocksDB with its auto-tuned limiter for every partition.
    RocksDbAutotune,
    /// Fixed limits for partitions, and one gate for the node.
    Node,
    /// The same with the first stage of deferral.
    NodeStage1,
    /// One gate for the node, with the device's contract by the second.
    Calcspar,
    /// FlexEngine as its paper has it.
    FlexEngine,
    /// FlexEngine with what its paper leaves open.
    #[default]
    Weir,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Profile; 7] = [
        Profile::RocksDb,
        Profile::RocksDbAutotune,
        Profile::Node,
        Profile::NodeStage1,
        Profile::Calcspar,
        Profile::FlexEngine,
        Profile::Weir,
    ];

    /// Their names, in that order.
    pub const NAMES: [&'static str; 7] = {
        let mut names = [""; 7];
        let mut at = 0;
        while at < names.len() {
            names[at] = Profile::ALL[at].name();
            at += 1;
        }
        names
    };

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Profile::RocksDb => "rocksdb",
            Profile::RocksDbAutotune => "rocksdb-autotune",
            Profile::Node => "node",
            Profile::NodeStage1 => "node+stage1",
            Profile::Calcspar => "calcspar",
            Profile::FlexEngine => "flexengine",
            Profile::Weir => "weir",
        }
    }

    /// What it is, in a line.
    pub const fn about(self) -> &'static str {
        match self {
            Profile::RocksDb => "RocksDB as it comes: no limits, nothing put off",
            Profile::RocksDbAutotune => "RocksDB with its auto-tuned rate limiter, one for every partition",
            Profile::Node => "fixed limits for partitions, and one gate for the node",
            Profile::NodeStage1 => "the same with the first stage of deferral: deep compactions wait",
            Profile::Calcspar => "one gate for the node, with the device's contract by the second (Calcspar)",
            Profile::FlexEngine => "FlexEngine as its paper has it: both stages of deferral, reserved bandwidth",
            Profile::Weir => "FlexEngine with what its paper leaves open; the default of `weir serve`",
        }
    }

    /// The profile called `name`.
    pub fn parse(name: &str) -> Option<Profile> {
        Profile::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// Whether trees let runs gather in level 0 where that saves rewriting level 1. The peers' trees do not.
    pub const fn gathers_l0(self) -> bool {
        matches!(self, Profile::Weir)
    }

    /// Whether writes are slowed while the last memtable fills and all others wait for their flush (FX-29): in a
    /// RocksDB, and in what was built on one.
    pub const fn slows_at_last_buffer(self) -> bool {
        !matches!(self, Profile::Weir)
    }

    /// Whether what goes into levels 0 and 1 stays in the block cache as it is written (FX-26). A RocksDB caches what
    /// is read.
    pub const fn keeps_upper_levels(self) -> bool {
        !matches!(self, Profile::RocksDb | Profile::RocksDbAutotune | Profile::Calcspar)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the policies of a profile are configured with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// For the bandwidth policy.
    pub bandwidth: BandwidthSettings,
    /// For [`Profile::RocksDbAutotune`].
    pub autotune: AutotuneSettings,
    /// How long it takes to move a partition to another node, in nanoseconds: deferral has to bridge that.
    pub migration: Nanos,
}

impl Settings {
    /// FlexEngine's: a read touches at most four times its bytes (FX-11), a migration takes 200 s.
    pub const fn new(bandwidth: BandwidthSettings) -> Self {
        let autotune = AutotuneSettings { start: 0.5, step: 1_000_000_000 };
        Self { bandwidth, autotune, migration: 200_000_000_000 }
    }
}

/// The policies of one node at work: asked once every [`Policy::PERIOD`], and whenever a partition is opened.
pub struct Policy {
    meters: Meters,
    bandwidth: Box<dyn BandwidthPolicy>,
    deferral: Box<dyn DeferralPolicy>,
    relief: Relief,
}

/// What came of one sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// What was measured, in the order of the sample.
    pub loads: Vec<Load>,
    /// Where the knobs go.
    pub knobs: Knobs,
    /// Who should leave the node, where it is short.
    pub violation: Option<Violation>,
}

impl Policy {
    /// Time between two decisions, in nanoseconds. Policies count on it where they count samples ("three in a row").
    /// Like all times it is never scaled.
    pub const PERIOD: Nanos = 1_000_000_000;

    /// The policies of `profile`, knowing nothing yet.
    pub fn new(profile: Profile, settings: Settings) -> Self {
        let rates = settings.bandwidth;
        let bandwidth: Box<dyn BandwidthPolicy> = match profile {
            Profile::RocksDb => Box::new(Unlimited),
            Profile::RocksDbAutotune => Box::new(Autotune::new(rates, settings.autotune)),
            Profile::Node | Profile::NodeStage1 => Box::new(Fixed(rates)),
            Profile::Calcspar => Box::new(Calcspar(rates)),
            Profile::FlexEngine => Box::new(Reserved { settings: rates, lends: false }),
            Profile::Weir => Box::new(Reserved { settings: rates, lends: true }),
        };
        let deferral: Box<dyn DeferralPolicy> = match profile {
            Profile::RocksDb | Profile::RocksDbAutotune | Profile::Node | Profile::Calcspar => Box::new(Never),
            Profile::NodeStage1 => Box::new(FlexEngine::new(Stage::One, rates.background)),
            Profile::FlexEngine => Box::new(FlexEngine::new(Stage::Two, rates.background)),
            Profile::Weir => Box::new(Weir::new(settings.migration)),
        };
        Self { meters: Meters::default(), bandwidth, deferral, relief: Relief::default() }
    }

    /// The knobs of a partition that is being opened, or whose limits were altered.
    pub fn opening(&self, partition: &PartitionSample) -> PartitionKnobs {
        self.bandwidth.opening(partition)
    }

    /// The knobs of the node gate before `device`.
    pub fn node(&self, device: Limits) -> NodeKnobs {
        self.bandwidth.node(device)
    }

    /// Takes in a sample and says where all knobs go. Samples come in the order of their time.
    pub fn decide(&mut self, sample: &Sample) -> Decision {
        let deferral = &self.deferral;
        let loads = self.meters.observe(sample, |owner| deferral.is_atypical(owner));
        let partitions = self.bandwidth.decide(sample, &loads);
        let mut knobs = Knobs { node: self.node(sample.device), partitions };
        self.deferral.decide(sample, &loads, &mut knobs);
        let violation = self.relief.observe(sample, &loads, &knobs.partitions);
        Decision { loads, knobs, violation }
    }
}

#[cfg(test)]
mod tests {
    use weir_io::Owner;

    use super::super::sample::{Bytes, MemoryFacts, Operations, TreeFacts};
    use super::*;
    use crate::bucket::UNLIMITED;
    use crate::limits::Rates;

    #[test]
    fn names_are_read_back() {
        for (profile, name) in Profile::ALL.into_iter().zip(Profile::NAMES) {
            assert_eq!((Profile::parse(name), profile.to_string().as_str()), (Some(profile), name));
        }
        assert_eq!((Profile::parse("none"), Profile::default()), (None, Profile::Weir));
    }

    #[test]
    fn a_device_whose_operations_are_used_up_is_short() {
        // 8 KiB a read, 3000 operations and 125 MB a second: a quarter by bytes. One partition writes, another reads.
        let stages = |ops: u64, reads: u64| {
            let device = Limits::Shared(Rates { bytes: 125_000_000, ops });
            let settings = BandwidthSettings { read_amplification: 4, background: 125_000_000 };
            let mut policy = Policy::new(Profile::Weir, Settings::new(settings));
            let tree = TreeFacts {
                memtable_bytes: 1_000_000,
                depth: 3,
                l0_trigger: 4,
                l0_slow: 20,
                deep_debt: 1_000_000_000,
                write_buffers: 4,
                write_buffers_now: 4,
                ..TreeFacts::default()
            };
            let decide = |second: u64| {
                let (user, read) = (second * 1_000_000, second * reads);
                let bytes = Bytes { user, log: user, flush: user, deep_written: 9 * user, ..Bytes::default() };
                let ops = Operations { log: 10 * second, background: 200 * second, ..Operations::default() };
                let writer = PartitionSample { tree, bytes, ops, partitions: 1, ..PartitionSample::default() };
                let reader = PartitionSample {
                    owner: Owner { tenant: 2, partition: 0 },
                    bytes: Bytes { read: 8192 * read, ..Bytes::default() },
                    ops: Operations { read, ..Operations::default() },
                    ..writer
                };
                let now = second * 1_000_000_000;
                policy.decide(&Sample { now, device, memory: MemoryFacts::default(), partitions: vec![writer, reader] })
            };
            let decisions: Vec<Decision> = (0..30).map(decide).collect();
            let last = decisions.last().expect("thirty");
            (last.violation.is_some(), last.knobs.partitions[0].stage)
        };
        assert_eq!(stages(UNLIMITED, 2900), (false, Stage::Normal));
        assert_eq!(stages(3000, 1000), (false, Stage::Normal));
        assert_eq!(stages(3000, 2900), (true, Stage::One));
    }
}
