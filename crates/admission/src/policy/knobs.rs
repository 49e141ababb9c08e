//! The positions of all knobs, and the reasons for them.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_io::{Nanos, Owner};

use super::owner::OwnerDef;
use super::sample::PartitionSample;
use crate::limits::Limits;

/// The knobs of one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knobs {
    /// The knobs of the node's gate.
    pub node: NodeKnobs,
    /// What background has at the node while foreground would use all of it; `None` = only what foreground leaves.
    #[serde(default)]
    pub floor: Option<Floor>,
    /// One per partition of the sample, in its order.
    pub partitions: Vec<PartitionKnobs>,
}

/// How much background has of a device that foreground would use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    /// How many bytes of foreground pass for one byte of background where both wait.
    pub foreground: u32,
    /// Whether that one byte may go to compactions, too; otherwise it is for flushes alone.
    pub merges: bool,
}

/// The knobs of the node gate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeKnobs {
    /// What the gate hands out.
    pub limits: Limits,
    /// The burst: it keeps the tokens of at most this much time, in nanoseconds.
    pub burst: Nanos,
}

/// The knobs of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartitionKnobs {
    /// The partition.
    #[serde(with = "OwnerDef")]
    pub owner: Owner,
    /// Its foreground gate.
    pub foreground: Limits,
    /// Its background gate.
    pub background: Limits,
    /// If set, background draws on the foreground's bucket, and this is the time between two refills, in nanoseconds;
    /// `None` = each has its own bucket.
    #[serde(default)]
    pub one_bucket: Option<Nanos>,
    /// Whether its foreground may pass beyond its limit while the node is idle (C-9).
    pub borrows: bool,
    /// Its share inside a class at the node, in bytes per second (C-8); `None` for an equal share.
    pub weight: Option<u64>,
    /// Its share among flushes at the node; `None` = as in the other classes.
    #[serde(default)]
    pub flush_weight: Option<u64>,
    /// How far its compactions are put off.
    pub stage: Stage,
    /// Which compactions may run.
    pub scope: Scope,
    /// How many sealed memtables a flush waits for, to write them as one run.
    pub flush_gather: u64,
    /// Memtables allowed, the active one included.
    pub write_buffers: u64,
    /// Fewest runs that a merge inside level 0 takes.
    pub intra_l0_fan_in: u64,
    /// Runs in level 0 from which on merges inside it begin.
    #[serde(default)]
    pub intra_l0_from: u64,
    /// Most bytes that a merge inside level 0 takes, unless it takes the fewest runs.
    #[serde(default = "any_bytes")]
    pub intra_l0_bytes: u64,
    /// Whether what merges write into levels 0 and 1 stays in the block cache, where that has room (FX-26).
    pub warm: bool,
    /// Whether level 0 may gather more runs than make it due, where the tree is one that gathers.
    #[serde(default = "gathers")]
    pub l0_gathers: bool,
    /// Whether a flush passes as foreground while all memtables but two are full (U-11).
    pub flush_may_rush: bool,
    /// Whether compactions that relieve level 0 go before deeper ones (SI-6).
    pub l0_first: bool,
    /// Bytes per second that users may write; `None` = as they like.
    pub write_rate: Option<u64>,
    /// Why the stage is what it is.
    pub why: Reason,
    /// Nanoseconds until a write would stall under the present load, bandwidth and stage; `None` = never.
    pub time_to_stall: Option<Nanos>,
}

impl PartitionKnobs {
    /// All gates open, nothing put off.
    pub fn open(partition: &PartitionSample) -> Self {
        Self {
            owner: partition.owner,
            foreground: Limits::UNLIMITED,
            background: Limits::UNLIMITED,
            one_bucket: None,
            borrows: false,
            weight: None,
            flush_weight: None,
            stage: Stage::Normal,
            scope: Scope::All,
            flush_gather: 1,
            write_buffers: partition.tree.write_buffers,
            intra_l0_fan_in: INTRA_L0_FAN_IN,
            intra_l0_from: 0,
            intra_l0_bytes: any_bytes(),
            warm: true,
            l0_gathers: true,
            flush_may_rush: false,
            l0_first: false,
            write_rate: None,
            why: Reason::Enough,
            time_to_stall: None,
        }
    }
}

/// The value in recordings from before this knob existed.
fn any_bytes() -> u64 {
    u64::MAX
}

/// The value in recordings from before this knob existed.
fn gathers() -> bool {
    true
}

/// Fewest runs that a merge inside level 0 takes (FX-22).
pub const INTRA_L0_FAN_IN: u64 = 4;

/// How far the compactions of a partition are put off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Not at all.
    #[default]
    Normal,
    /// Only level 0 into level 1 is compacted (FX-19).
    #[serde(rename = "stage1")]
    One,
    /// Only runs inside level 0 are merged (FX-20).
    #[serde(rename = "stage2")]
    Two,
    /// On the way back from stage two: level 0 is emptied into level 1 (U-3).
    Drain,
    /// Everything runs again, until what was put off is done.
    Resume,
}

impl Stage {
    /// Every stage.
    pub const ALL: [Stage; 5] = [Stage::Normal, Stage::One, Stage::Two, Stage::Drain, Stage::Resume];

    /// The label used in metrics, JSON and fixtures.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Normal => "normal",
            Stage::One => "stage1",
            Stage::Two => "stage2",
            Stage::Drain => "drain",
            Stage::Resume => "resume",
        }
    }

    /// The compactions that run in this stage.
    pub const fn scope(self) -> Scope {
        match self {
            Stage::Normal | Stage::Resume => Scope::All,
            Stage::One | Stage::Drain => Scope::L0ToL1,
            Stage::Two => Scope::IntraL0,
        }
    }

    /// Whether compactions are put off.
    pub const fn is_deferred(self) -> bool {
        matches!(self, Stage::One | Stage::Two | Stage::Drain)
    }
}

/// Which compactions may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Every one.
    #[default]
    All,
    /// Only level 0 into level 1.
    L0ToL1,
    /// Only inside level 0.
    IntraL0,
}

impl Scope {
    /// The label used in fixtures.
    pub const fn name(self) -> &'static str {
        match self {
            Scope::All => "all",
            Scope::L0ToL1 => "l0-to-l1",
            Scope::IntraL0 => "intra-l0",
        }
    }
}

/// Why a partition is in its stage. Displayed, it is a sentence for an operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// There is bandwidth enough.
    #[default]
    Enough,
    /// The load needs this much of the device, in percent.
    Demand(u64),
    /// Level 0 has this many runs while the node is short.
    Runs(u64),
    /// A write would stall in this many seconds.
    StallAhead(u64),
    /// Opened with a long level 0.
    Opened,
    /// Level 0 was drained, and deeper compactions are still put off.
    #[serde(alias = "queued")]
    Drained,
    /// There is bandwidth again, and the partition is catching up.
    CatchingUp,
    /// Clients need this much of the device, in percent, before any flush or compaction.
    Peak(u64),
}

impl Reason {
    /// Label and number, for fixtures.
    pub const fn parts(self) -> (&'static str, Option<u64>) {
        match self {
            Reason::Enough => ("enough", None),
            Reason::Demand(percent) => ("demand", Some(percent)),
            Reason::Runs(runs) => ("runs", Some(runs)),
            Reason::StallAhead(seconds) => ("stall-ahead", Some(seconds)),
            Reason::Opened => ("opened", None),
            Reason::Drained => ("drained", None),
            Reason::CatchingUp => ("catching-up", None),
            Reason::Peak(percent) => ("peak", Some(percent)),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Enough => f.write_str("the device has enough bandwidth for everything"),
            Reason::Demand(percent) => write!(f, "the node's load needs {percent} % of the device"),
            Reason::Runs(runs) => write!(f, "level 0 has {runs} runs while the device is short of bandwidth"),
            Reason::StallAhead(seconds) => write!(f, "writes would stall in {seconds} s if nothing changed"),
            Reason::Opened => f.write_str("it was opened with many runs in level 0"),
            Reason::Drained => f.write_str("level 0 has been drained, and deeper compactions are still put off"),
            Reason::CatchingUp => {
                f.write_str("the device has bandwidth again; it is catching up on compactions that were put off")
            }
            Reason::Peak(percent) => write!(f, "reads and logs alone need {percent} % of the device"),
        }
    }
}
