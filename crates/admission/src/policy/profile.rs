//! Profiles: a bandwidth policy and a deferral policy under one name, so that a comparison changes one word.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_io::Nanos;

use super::bandwidth::{
    Autotune, AutotuneSettings, BandwidthPolicy, BandwidthSettings, Calcspar, Fixed, Gated, Reserved, Silk, Unlimited,
};
use super::deferral::{Cruise, DeferralPolicy, FlexEngine, Law, Merging, Never, Pauses, Weir};
use super::device_map::DeviceMap;
use super::ingredient::Ingredient;
use super::knobs::{Knobs, NodeKnobs, PartitionKnobs, Stage};
use super::meter::{Load, Meters};
use super::relief::{Relief, Violation};
use super::sample::{PartitionSample, Sample};
use crate::limits::Limits;

/// A named pair of policies, and the tree that goes with it. `docs/policy/` has a page on each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// RocksDB as it comes: no limits, nothing put off.
    RocksDb,
    /// RocksDB with its auto-tuned limiter for every partition.
    RocksDbAutotune,
    /// RocksDB as an expert would set it up for a shortage: memtables merged in fours, upper levels in memory.
    RocksDbMerging,
    /// RocksDB without level 0: CruiseDB's SP-LSM-tree.
    SpLsm,
    /// RocksDB's trees behind one gate for the node.
    RocksDbGate,
    /// The same with fixed limits for partitions.
    RocksDbLimits,
    /// The same with upper levels in memory.
    Node,
    /// The same with the first stage of deferral.
    NodeStage1,
    /// One gate for the node, with the device's contract by the second.
    Calcspar,
    /// SILK: background has what clients leave, level 0 goes first, and takes the slots of deeper compactions.
    Silk,
    /// SILK's bandwidth without its order.
    SilkBandwidthOnly,
    /// SILK's order without its bandwidth.
    SilkPriorityOnly,
    /// CruiseDB: adaptive admission before a tree without level 0, and one gate for the node.
    Cruise,
    /// RocksDB with CruiseDB's adaptive admission.
    CruiseNoSp,
    /// The same with a fixed limit.
    CruiseStatic,
    /// The same with the controller of CruiseDB's published code.
    CruiseRepro,
    /// FlexEngine as its paper has it.
    FlexEngine,
    /// FlexEngine, with decisions where its paper leaves questions open.
    #[default]
    Weir,
    /// The same with one ingredient more or less, for comparisons. Not among [`Profile::ALL`].
    Varied(Ingredient),
}

/// The parts of a profile.
struct Parts {
    name: &'static str,
    about: &'static str,
    bandwidth: BandwidthKind,
    deferral: DeferralKind,
    gathers_l0: bool,
    slows_at_last_buffer: bool,
    keeps_upper_levels: bool,
    preempts: bool,
    level_0: bool,
    picks_by_score: bool,
    shares_within_a_delay: bool,
}

/// The bandwidth policies.
enum BandwidthKind {
    Unlimited,
    Autotune,
    Gate,
    Fixed,
    Calcspar,
    Silk { l0_first: bool },
    Reserved { lends: bool },
}

/// The deferral policies.
enum DeferralKind {
    Never,
    Merging { memtables: u64 },
    Pauses,
    FlexEngine(Stage),
    Cruise(Law),
    Weir(Option<Ingredient>),
}

impl Profile {
    /// Every profile.
    pub const ALL: [Profile; 18] = [
        Profile::RocksDb,
        Profile::RocksDbAutotune,
        Profile::RocksDbMerging,
        Profile::SpLsm,
        Profile::RocksDbGate,
        Profile::RocksDbLimits,
        Profile::Node,
        Profile::NodeStage1,
        Profile::Calcspar,
        Profile::Silk,
        Profile::SilkBandwidthOnly,
        Profile::SilkPriorityOnly,
        Profile::Cruise,
        Profile::CruiseNoSp,
        Profile::CruiseStatic,
        Profile::CruiseRepro,
        Profile::FlexEngine,
        Profile::Weir,
    ];

    /// The names of [`Profile::ALL`], in that order.
    pub const NAMES: [&'static str; Profile::ALL.len()] = {
        let mut names = [""; Profile::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = Profile::ALL[at].name();
            at += 1;
        }
        names
    };

    const fn parts(self) -> Parts {
        /// The parts of a RocksDB. The other profiles say what they change.
        const ROCKSDB: Parts = Parts {
            name: "rocksdb",
            about: "RocksDB as it comes: no limits, nothing put off",
            bandwidth: BandwidthKind::Unlimited,
            deferral: DeferralKind::Never,
            gathers_l0: false,
            slows_at_last_buffer: true,
            keeps_upper_levels: false,
            preempts: false,
            level_0: true,
            picks_by_score: false,
            shares_within_a_delay: false,
        };
        /// A RocksDB under a load that never ends.
        const CRUISE: Parts = Parts { picks_by_score: true, ..ROCKSDB };
        /// A FlexEngine with more.
        const WEIR: Parts = Parts {
            name: "weir",
            about: "FlexEngine, with answers to what its paper leaves open; the default of `weir serve`",
            bandwidth: BandwidthKind::Reserved { lends: true },
            deferral: DeferralKind::Weir(None),
            gathers_l0: true,
            slows_at_last_buffer: false,
            keeps_upper_levels: true,
            ..ROCKSDB
        };
        match self {
            Profile::RocksDb => ROCKSDB,
            Profile::RocksDbAutotune => Parts {
                name: "rocksdb-autotune",
                about: "RocksDB with its auto-tuned rate limiter, one for every partition",
                bandwidth: BandwidthKind::Autotune,
                ..ROCKSDB
            },
            Profile::RocksDbMerging => Parts {
                name: "rocksdb-merging",
                about: "RocksDB set up for a shortage: memtables merged in fours, up to twelve; levels 0 and 1 cached",
                deferral: DeferralKind::Merging { memtables: 4 },
                keeps_upper_levels: true,
                ..ROCKSDB
            },
            Profile::SpLsm => Parts {
                name: "sp-lsm",
                about: "RocksDB without level 0: up to twelve memtables, merged straight into level 1 (SP-LSM-tree)",
                deferral: DeferralKind::Merging { memtables: 1 },
                level_0: false,
                ..ROCKSDB
            },
            Profile::RocksDbGate => Parts {
                name: "rocksdb+gate",
                about: "RocksDB behind one gate for the node: foreground, flushes, compactions",
                bandwidth: BandwidthKind::Gate,
                ..ROCKSDB
            },
            Profile::RocksDbLimits => Parts {
                name: "rocksdb+limits",
                about: "the same with fixed limits for partitions",
                bandwidth: BandwidthKind::Fixed,
                ..ROCKSDB
            },
            Profile::Node => Parts {
                name: "node",
                about: "the same with levels 0 and 1 cached as they are written: two levels of admission",
                bandwidth: BandwidthKind::Fixed,
                keeps_upper_levels: true,
                ..ROCKSDB
            },
            Profile::NodeStage1 => Parts {
                name: "node+stage1",
                about: "the same with the first stage of deferral: deep compactions wait",
                bandwidth: BandwidthKind::Fixed,
                deferral: DeferralKind::FlexEngine(Stage::One),
                keeps_upper_levels: true,
                ..ROCKSDB
            },
            Profile::Calcspar => Parts {
                name: "calcspar",
                about: "one gate for the node, with the device's contract by the second (Calcspar)",
                bandwidth: BandwidthKind::Calcspar,
                ..ROCKSDB
            },
            Profile::Silk => Parts {
                name: "silk",
                about: "SILK: flushes and compactions get the bandwidth that clients leave; level 0 goes first, and \
                        deeper compactions wait for it",
                bandwidth: BandwidthKind::Silk { l0_first: true },
                deferral: DeferralKind::Pauses,
                preempts: true,
                ..ROCKSDB
            },
            Profile::SilkBandwidthOnly => Parts {
                name: "silk-bw-only",
                about: "only SILK's bandwidth rule: compactions get what clients leave, in no special order",
                bandwidth: BandwidthKind::Silk { l0_first: false },
                ..ROCKSDB
            },
            Profile::SilkPriorityOnly => Parts {
                name: "silk-prio-only",
                about: "only SILK's order: level 0 takes the slots of deeper compactions, and bandwidth is not limited",
                preempts: true,
                ..ROCKSDB
            },
            Profile::Cruise => Parts {
                name: "cruise",
                about: "CruiseDB: adaptive admission before a tree without level 0, and one gate for the node",
                bandwidth: BandwidthKind::Gate,
                deferral: DeferralKind::Cruise(Law::Adaptive),
                level_0: false,
                ..CRUISE
            },
            Profile::CruiseNoSp => Parts {
                name: "cruise-no-sp",
                about: "RocksDB with CruiseDB's adaptive admission: writes pass at a rate that keeps buffers half full",
                deferral: DeferralKind::Cruise(Law::Adaptive),
                ..CRUISE
            },
            Profile::CruiseStatic => Parts {
                name: "cruise-static",
                about: "RocksDB with writes limited to what the first minute without a limit had",
                deferral: DeferralKind::Cruise(Law::Fixed),
                ..CRUISE
            },
            Profile::CruiseRepro => Parts {
                name: "cruise-repro",
                about: "RocksDB with the admission of CruiseDB's published code, which is not its paper's",
                deferral: DeferralKind::Cruise(Law::Published),
                ..CRUISE
            },
            Profile::FlexEngine => Parts {
                name: "flexengine",
                about: "FlexEngine as its paper has it: both stages of deferral, reserved bandwidth",
                bandwidth: BandwidthKind::Reserved { lends: false },
                deferral: DeferralKind::FlexEngine(Stage::Two),
                keeps_upper_levels: true,
                ..ROCKSDB
            },
            Profile::Weir => WEIR,
            Profile::Varied(ingredient) => {
                let name = ingredient.profile_name();
                let about = "`weir` with one ingredient more or less, for comparisons";
                let weir = Parts { name, about, deferral: DeferralKind::Weir(Some(ingredient)), ..WEIR };
                match ingredient {
                    Ingredient::Deferral => Parts { deferral: DeferralKind::Never, ..weir },
                    Ingredient::LongLevel0 => Parts { gathers_l0: false, ..weir },
                    Ingredient::LastMemtable => Parts { slows_at_last_buffer: true, ..weir },
                    Ingredient::Lending => Parts { bandwidth: BandwidthKind::Reserved { lends: false }, ..weir },
                    Ingredient::Cache => Parts { keeps_upper_levels: false, ..weir },
                    Ingredient::Preemption => Parts { preempts: true, ..weir },
                    Ingredient::Delta => Parts { shares_within_a_delay: true, ..weir },
                    _ => weir,
                }
            }
        }
    }

    /// The name of the profile.
    pub const fn name(self) -> &'static str {
        self.parts().name
    }

    /// What the profile is, in a line.
    pub const fn about(self) -> &'static str {
        self.parts().about
    }

    /// The profile called `name`, one of [`Profile::ALL`] or `weir` with an [`Ingredient`] more or less.
    pub fn parse(name: &str) -> Option<Profile> {
        let varied = Ingredient::ALL.into_iter().map(Profile::Varied);
        Profile::ALL.into_iter().chain(varied).find(|profile| profile.name() == name)
    }

    /// Whether the profile goes by what the device can keep up, and does nothing where that is not known (CR-12).
    pub const fn needs_device(self) -> bool {
        matches!(self.parts().deferral, DeferralKind::Cruise(Law::Adaptive | Law::Published))
    }

    /// Whether trees let runs gather in level 0 where that saves rewriting level 1. The peers' trees do not.
    pub const fn gathers_l0(self) -> bool {
        self.parts().gathers_l0
    }

    /// Whether writes are slowed while the last memtable fills and all others wait for their flush (FX-29): so in a
    /// RocksDB, and in everything built on one.
    pub const fn slows_at_last_buffer(self) -> bool {
        self.parts().slows_at_last_buffer
    }

    /// Whether levels that are fuller, relative to their targets, than level 0 are compacted before it (CR-17).
    pub const fn picks_by_score(self) -> bool {
        self.parts().picks_by_score
    }

    /// Whether blocks of levels 0 and 1 go into the block cache as they are written, and stay there (FX-26). A RocksDB
    /// caches only what is read, unless it is told otherwise.
    pub const fn keeps_upper_levels(self) -> bool {
        self.parts().keeps_upper_levels
    }

    /// Whether trees have a level 0, where they are configured to have one.
    pub const fn has_level_0(self) -> bool {
        self.parts().level_0
    }

    /// Whether a compaction that relieves level 0 takes the slot of a deeper one that runs (SI-8).
    pub const fn preempts(self) -> bool {
        self.parts().preempts
    }

    /// Whether a scenario under this profile shares write memory and block cache within a delay. On a node its settings
    /// say that, not the profile, and no profile of [`Profile::ALL`] does so.
    pub const fn shares_within_a_delay(self) -> bool {
        self.parts().shares_within_a_delay
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The settings of a profile's policies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// For the bandwidth policy.
    pub bandwidth: BandwidthSettings,
    /// For [`Profile::RocksDbAutotune`].
    pub autotune: AutotuneSettings,
    /// How long it takes to move a partition to another node, in nanoseconds: deferral has to bridge that time.
    pub migration: Nanos,
    /// What the device gives by the mix of reads and writes (CR-5); `None` where that was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<DeviceMap>,
}

impl Settings {
    /// FlexEngine's: a read touches at most four times its bytes (FX-11), a migration takes 200 s.
    pub const fn new(bandwidth: BandwidthSettings) -> Self {
        let autotune = AutotuneSettings { start: 0.5, step: 1_000_000_000 };
        Self { bandwidth, autotune, migration: 200_000_000_000, map: None }
    }
}

/// The policies of one node at work: asked once every [`Policy::period`], and whenever a partition is opened.
pub struct Policy {
    meters: Meters,
    bandwidth: Box<dyn BandwidthPolicy>,
    deferral: Box<dyn DeferralPolicy>,
    relief: Relief,
    /// `None` where every tick is a second.
    seconds: Option<Seconds>,
}

/// Windows of a second, for what counts seconds, where policies look more often than once a second.
#[derive(Default)]
struct Seconds {
    meters: Meters,
    /// The end of the last window, and the violation found then.
    last: Option<(Nanos, Option<Violation>)>,
}

/// What was decided from one sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// What was measured, in the order of the sample.
    pub loads: Vec<Load>,
    /// The positions of all knobs.
    pub knobs: Knobs,
    /// Which partitions should leave the node, where it is short.
    pub violation: Option<Violation>,
}

impl Policy {
    /// Time between two decisions of most policies, in nanoseconds. Policies rely on it where they count samples
    /// ("three in a row"). Like all times it is never scaled.
    pub const PERIOD: Nanos = 1_000_000_000;

    /// The policies of `profile`, which know nothing yet.
    pub fn new(profile: Profile, settings: Settings) -> Self {
        let rates = settings.bandwidth;
        let parts = profile.parts();
        let bandwidth: Box<dyn BandwidthPolicy> = match parts.bandwidth {
            BandwidthKind::Unlimited => Box::new(Unlimited),
            BandwidthKind::Autotune => Box::new(Autotune::new(rates, settings.autotune)),
            BandwidthKind::Gate => Box::new(Gated),
            BandwidthKind::Fixed => Box::new(Fixed(rates)),
            BandwidthKind::Calcspar => Box::new(Calcspar(rates)),
            BandwidthKind::Silk { l0_first } => Box::new(Silk::new(rates, l0_first)),
            BandwidthKind::Reserved { lends } => Box::new(Reserved { settings: rates, lends }),
        };
        // A gate hands out the same under all mixes.
        let map = settings.map.filter(|_| matches!(parts.bandwidth, BandwidthKind::Unlimited));
        let deferral: Box<dyn DeferralPolicy> = match parts.deferral {
            DeferralKind::Never => Box::new(Never),
            DeferralKind::Merging { memtables } => Box::new(Merging { memtables }),
            DeferralKind::Pauses => Box::new(Pauses::default()),
            DeferralKind::FlexEngine(last) => Box::new(FlexEngine::new(last, rates.background)),
            DeferralKind::Cruise(law) => Box::new(Cruise::new(law, map)),
            DeferralKind::Weir(ingredient) => Box::new(Weir::new(settings.migration, ingredient)),
        };
        let (meters, relief) = (Meters::default(), Relief::default());
        let mut policy = Self { meters, bandwidth, deferral, relief, seconds: None };
        policy.seconds = (policy.period() < Self::PERIOD).then(Seconds::default);
        policy
    }

    /// Time between two decisions of these policies, in nanoseconds: [`Policy::PERIOD`], or less where one of them
    /// looks more often.
    pub fn period(&self) -> Nanos {
        self.bandwidth.period().min(self.deferral.period())
    }

    /// The knobs of a partition that is being opened, or whose limits were altered.
    pub fn opening(&self, partition: &PartitionSample) -> PartitionKnobs {
        self.bandwidth.opening(partition)
    }

    /// The knobs of the node gate before `device`.
    pub fn node(&self, device: Limits) -> NodeKnobs {
        self.bandwidth.node(device)
    }

    /// Takes in a sample and decides the positions of all knobs. Samples come in the order of their time.
    pub fn decide(&mut self, sample: &Sample) -> Decision {
        let deferral = &self.deferral;
        let loads = self.meters.observe(sample, |owner| deferral.is_atypical(owner));
        let partitions = self.bandwidth.decide(sample, &loads);
        let mut knobs = Knobs { node: self.node(sample.device), floor: None, partitions };
        self.deferral.decide(sample, &loads, &mut knobs);
        let violation = self.violation(sample, &loads, &knobs.partitions);
        Decision { loads, knobs, violation }
    }

    fn violation(&mut self, sample: &Sample, loads: &[Load], knobs: &[PartitionKnobs]) -> Option<Violation> {
        let Some(seconds) = &mut self.seconds else { return self.relief.observe(sample, loads, knobs) };
        if seconds.last.as_ref().is_none_or(|(at, _)| sample.now.saturating_sub(*at) >= Self::PERIOD) {
            let deferral = &self.deferral;
            let loads = seconds.meters.observe(sample, |owner| deferral.is_atypical(owner));
            seconds.last = Some((sample.now, self.relief.observe(sample, &loads, knobs)));
        }
        seconds.last.as_ref().and_then(|(_, violation)| violation.clone())
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
        for profile in Ingredient::ALL.map(Profile::Varied) {
            assert_eq!(Profile::parse(profile.name()), Some(profile));
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
