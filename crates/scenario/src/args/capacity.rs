//! Arguments of the question what a machine can carry.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::scenario::read;
use super::shortage::profiles;
use super::{Shape, Shortage};
use crate::pattern::Pattern;
use crate::plan::Plan;
use crate::trace::{Changes, Trace};

/// What was recorded, what is changed of it, and the machine that it is to run on.
#[derive(Clone, Debug, Args, Serialize)]
#[group(skip)]
pub struct Capacity {
    /// What tenants asked for: a file written by `weir serve --record-traffic` or `weir sim trace --record`
    #[arg(value_name = "TRACE.csv")]
    pub trace: PathBuf,
    /// Memory of the node, in GiB: three quarters for cached blocks, including data whose compaction is put off, and
    /// the rest for memtables
    #[arg(long, value_name = "GIB", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub memory: u64,
    /// How many tenants are added: each does what one of the others does, on another day and up to an hour later
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub add: u16,
    /// Tenants that are removed, by their numbers in the trace, separated by commas; its lines `# name,NUMBER,NAME` say
    /// whose these are
    #[arg(long, value_name = "TENANTS", value_delimiter = ',')]
    pub remove: Vec<usize>,
    /// Multiply what every tenant asks for by this, up to all that it bought
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub grow: f64,
    /// Writes a second that a tenant was sold, if the trace does not say so
    #[arg(long, value_name = "N", default_value_t = 3000, value_parser = clap::value_parser!(u64).range(1..))]
    pub wcu: u64,
    /// Reads a second that a tenant was sold, if the trace does not say so
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub rcu: u64,
    /// Bytes of an item, its 16-byte key included
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(24..=65_536))]
    pub item_bytes: u32,
    /// Items that each tenant has
    #[arg(long, value_name = "N", default_value_t = 2_500_000)]
    pub items: u64,
    /// Seconds to play: those of the trace in which most is written
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(10..=604_800))]
    pub seconds: u64,
    /// Percent of the operations of the worst served tenant that must be in time
    #[arg(long, value_name = "PERCENT", default_value_t = 99.9)]
    pub served: f64,
    /// Precision of the answers, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub precision: f64,
    /// Profile of the node: how it shares the device and what it puts off
    #[arg(long, value_name = "PROFILE", default_value = "weir", value_parser = profiles())]
    pub profile: String,
    /// Compactions at a time, of all tenants together [default: one for every four tenants, at least 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub compactions: Option<u16>,
    /// All bytes are divided by this in the simulation, times are not
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    pub scale: u64,
    /// Seed of keys, payloads, send times, and of the times at which added tenants are busy
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write the answer, with every run's figures, as JSON to this file (`-` = standard output)
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub json: Option<PathBuf>,
    /// Write a page with the time series of today's run, of the last run that was served and of the first that was not
    #[arg(long, value_name = "FILE.html")]
    #[serde(skip)]
    pub report: Option<PathBuf>,
}

impl Capacity {
    /// Checks whether this can be run.
    ///
    /// # Errors
    /// The error says in words what cannot be run.
    pub fn check(&self) -> Result<(), String> {
        let rules = [
            (self.served > 0.0 && self.served <= 100.0, "--served must be above 0, and at most 100"),
            ((0.1..=100.0).contains(&self.precision), "--precision must be between 0.1 and 100"),
            (self.grow > 0.0 && self.grow <= 1000.0, "--grow must be above 0, and at most 1000"),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, broken)| Err(broken.to_owned()))
    }

    /// The trace that was recorded, without the changes.
    ///
    /// # Errors
    /// The file cannot be read, or is empty.
    pub fn recorded(&self) -> Result<Trace, String> {
        read(&self.trace)
    }

    /// The changes to the trace, with `more` tenants beyond those that were asked for.
    pub fn changes(&self, more: usize) -> Changes {
        Changes { removed: self.remove.clone(), factor: self.grow, added: usize::from(self.add) + more }
    }

    /// The plan in which the tenants of `played` use a machine whose device can do `device` bytes a second at full
    /// size.
    ///
    /// # Errors
    /// The error says in words what cannot be run.
    pub fn plan(&self, played: Trace, device: u64) -> Result<Plan, String> {
        let sold = (0..played.tenants()).filter_map(|tenant| played.sold(tenant));
        let (writes, reads) =
            sold.fold((0, 0), |(writes, reads), sold| (sold.writes.max(writes), sold.reads.max(reads)));
        let says = played.says_what_was_sold();
        let wcu = if says { writes } else { self.wcu };
        let args = Shortage {
            partitions: u16::try_from(played.tenants()).map_err(|_| "too many tenants".to_owned())?,
            // What a partition's foreground is reserved for: the most that any tenant was sold.
            wcu,
            rcu: if says { reads } else { self.rcu },
            item_bytes: self.item_bytes,
            preload_items: self.items,
            // The machine is given, and the ratio follows from it.
            bosr: 1.0,
            burst_share: 1.0,
            memory: Some(self.memory),
            shape: Shape::default(),
            seconds: self.seconds.min(played.seconds()).max(1),
            after: 0,
            // A tenant that was sold little must not be scaled down to nothing.
            scale: self.scale.min(wcu).max(1),
            profiles: vec![self.profile.clone()],
            compactions: self.compactions,
            seed: self.seed,
            json: None,
            report: None,
        };
        let plan = Plan::of("plan", args, Pattern::Trace(played.into()))?;
        Ok(Plan { given: Some(plan.scaled(device)), ..plan })
    }
}
