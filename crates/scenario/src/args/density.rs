//! Arguments of the question how many tenants fit.

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::shortage::profiles;
use super::{Shape, Shortage};
use crate::pattern::Pattern;
use crate::plan::Plan;
use crate::trace::Trace;

const WEEK: u64 = 7 * 86_400;

/// How many tenants one machine carries
///
/// The device and the node's memory stay the same. Tenants are drawn as in `trace`: each was sold `--wcu` writes a
/// second and uses a tenth of that on average, by day and night, with bursts of its own and seasons in which a quarter
/// of all tenants burst together. The busiest `--seconds` of their week are played with more and more tenants, until
/// the worst served tenant has less than `--served` of its operations in time (writes within 1 ms, reads within 100
/// ms). The answer is the largest number of tenants that was served.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[group(skip)]
pub struct Density {
    /// What the device can do, reads and writes together, in MB a second (at scale 1)
    #[arg(long, value_name = "MB", default_value_t = 250, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub device: u64,
    /// Memory of the node, in GiB (at scale 1): three quarters for cached blocks, including data whose compaction is
    /// put off, and the rest for memtables
    #[arg(long, value_name = "GIB", default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub memory: u64,
    /// Percent of the operations of the worst served tenant that must be in time
    #[arg(long, value_name = "PERCENT", default_value_t = 99.9)]
    pub served: f64,
    /// Number of tenants to try first
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub from: u16,
    /// Numbers of tenants to try at most, to look at one number instead of the answer (`--from N --tries 1`)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    #[serde(default)]
    pub tries: Option<u16>,
    /// Precision of the answer, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub precision: f64,
    /// Seconds to play, of a week
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(10..=WEEK))]
    pub seconds: u64,
    /// Writes a second that each tenant was sold
    #[arg(long, value_name = "N", default_value_t = 3000)]
    pub wcu: u64,
    /// Reads a second that each tenant was sold; a tenant uses three times the share of them that it uses of its writes
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub rcu: u64,
    /// Bytes of an item, its 16-byte key included
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(24..=65_536))]
    pub item_bytes: u32,
    /// Items that each tenant has before the load (at scale 1)
    #[arg(long, value_name = "N", default_value_t = 2_500_000)]
    pub preload_items: u64,
    /// All bytes are divided by this, times are not
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub scale: u64,
    /// Profiles to compare, separated by commas: how the node shares the device and what it puts off
    #[arg(long = "profile", value_name = "PROFILE", value_delimiter = ',', default_value = "rocksdb,rocksdb-merging,flexengine,weir", value_parser = profiles())]
    #[serde(skip)]
    pub profiles: Vec<String>,
    /// Compactions at a time, of all tenants together [default: one for every four tenants, at least 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub compactions: Option<u16>,
    /// Seed of the week, keys, payloads, send times
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Weeks to try, with the seeds from `--seed` on
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub seeds: u64,
    /// Write every number that was tried, with its figures, as JSON to this file (`-` = standard output)
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub json: Option<PathBuf>,
}

impl Density {
    /// Checks whether this can be run.
    ///
    /// # Errors
    /// The error says in words what cannot be run.
    pub fn check(&self) -> Result<(), String> {
        let rules = [
            (self.served > 0.0 && self.served <= 100.0, "--served must be above 0, and at most 100"),
            ((0.1..=100.0).contains(&self.precision), "--precision must be between 0.1 and 100"),
            (self.seed.checked_add(self.seeds).is_some(), "--seed is too large for so many --seeds"),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, broken)| Err(broken.to_owned()))?;
        self.plan(1, self.seed).map(drop)
    }

    /// The plan in which `tenants` use the machine in the week of `seed`.
    ///
    /// # Errors
    /// The error says in words what cannot be run.
    pub fn plan(&self, tenants: u16, seed: u64) -> Result<Plan, String> {
        let week = Trace::generate(usize::from(tenants), WEEK, seed);
        let args = Shortage {
            partitions: tenants,
            wcu: self.wcu,
            rcu: self.rcu,
            item_bytes: self.item_bytes,
            preload_items: self.preload_items,
            // The machine is given, and the ratio follows from it.
            bosr: 1.0,
            burst_share: 1.0,
            memory: Some(self.memory),
            shape: Shape::default(),
            seconds: self.seconds,
            after: 0,
            scale: self.scale,
            profiles: self.profiles.clone(),
            compactions: self.compactions,
            seed,
            json: None,
            report: None,
        };
        let plan = Plan::of("density", args, Pattern::Trace(week.busiest(self.seconds).0.into()))?;
        Ok(Plan { given: Some(plan.scaled(self.device * 1_000_000)), ..plan })
    }
}
