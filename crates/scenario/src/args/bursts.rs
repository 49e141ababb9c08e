//! Arguments of the scenario with peaks and valleys.

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::shortage::profiles;
use super::{Shape, Shortage};
use crate::bursts::{Course, trace};
use crate::pattern::Pattern;
use crate::plan::{Buffers, Plan};

const WEEK: u64 = 7 * 86_400;

/// Peaks of the clients' load, with short valleys between them
///
/// A store with a device of its own, as SILK's authors measured it: two memtables of 128 MiB, three compactions at a
/// time, little memory. In a peak clients send `--wcu` writes and `--rcu` reads a second, in a valley the share `--low`
/// of that. Compactions of what a peak wrote fall into the next peak, unless they are put off until a valley and those
/// that relieve level 0 go first. Look at the stalls, and at the P99 of the worst second. Levels 0 and 1 have the
/// thresholds of the other scenarios (20 and 36 runs); the paper's are "very large".
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[group(skip)]
pub struct Bursts {
    /// Seconds of a peak
    #[arg(long, value_name = "SECONDS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=WEEK))]
    pub peak: u64,
    /// Seconds of a valley
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=WEEK))]
    pub valley: u64,
    /// Draw the lengths of peaks and valleys from the seed, like those of a production workload: nine peaks of ten last
    /// 10 to 20 s, the others 100 to 400 s; valleys last 5 to 20 s
    #[arg(long, conflicts_with_all = ["peak", "valley"])]
    pub drawn: bool,
    /// Load in a valley, as a share of the load in a peak, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.25)]
    pub low: f32,
    /// What the device can do, reads and writes together, in MB a second (at scale 1)
    #[arg(long, value_name = "MB", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub device: u64,
    /// Tenants, with one partition each; they share the device
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub partitions: u16,
    /// Writes a second of each partition in a peak
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub wcu: u64,
    /// Reads a second of each partition in a peak, uniform over what was preloaded
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub rcu: u64,
    /// Bytes of an item, its 16-byte key included
    #[arg(long, value_name = "BYTES", default_value_t = 1040, value_parser = clap::value_parser!(u32).range(24..=65_536))]
    pub item_bytes: u32,
    /// Items that each partition has before the load (at scale 1)
    #[arg(long, value_name = "N", default_value_t = 20_000_000)]
    pub preload_items: u64,
    /// Memory of the node, in GiB (at scale 1): three quarters for cached blocks, the rest for memtables
    #[arg(long, value_name = "GIB", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub memory: u64,
    /// Seconds of load
    #[arg(long, value_name = "SECONDS", default_value_t = 660, value_parser = clap::value_parser!(u64).range(10..=WEEK))]
    pub seconds: u64,
    /// All bytes are divided by this, times are not
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub scale: u64,
    /// Profiles to compare, separated by commas: how the node shares the device and what it puts off
    #[arg(long = "profile", value_name = "PROFILE", value_delimiter = ',', default_value = "rocksdb,rocksdb-autotune,silk-bw-only,silk-prio-only,silk,weir", value_parser = profiles())]
    #[serde(skip)]
    pub profiles: Vec<String>,
    /// Compactions at a time, of all partitions together
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    pub compactions: u16,
    /// Seed of drawn peaks and valleys, keys, payloads, send times
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write every figure as JSON, a row for each tenant included, to this file (`-` = standard output)
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub json: Option<PathBuf>,
    /// Write a page with all time series to this file, for a browser
    #[arg(long, value_name = "FILE.html")]
    #[serde(skip)]
    pub report: Option<PathBuf>,
}

impl Bursts {
    /// The plan.
    ///
    /// # Errors
    /// The error says in words what cannot be run.
    pub fn plan(self) -> Result<Plan, String> {
        if !(0.0..=1.0).contains(&self.low) {
            return Err("--low must be between 0 and 1".to_owned());
        }
        let course = match self.drawn {
            true => Course::Drawn,
            false => Course::Regular { peak: self.peak, valley: self.valley },
        };
        let trace = trace(course, self.low, self.partitions.into(), self.seconds, self.seed);
        let args = Shortage {
            partitions: self.partitions,
            wcu: self.wcu,
            rcu: self.rcu,
            item_bytes: self.item_bytes,
            preload_items: self.preload_items,
            // The device is given, and the ratio follows from it.
            bosr: 1.0,
            burst_share: 1.0,
            memory: Some(self.memory),
            shape: Shape::default(),
            seconds: self.seconds,
            after: 0,
            scale: self.scale,
            profiles: self.profiles,
            compactions: Some(self.compactions),
            seed: self.seed,
            json: self.json,
            report: self.report,
        };
        let plan = Plan::of("bursts", args, Pattern::Trace(trace.into()))?;
        Ok(Plan { given: Some(plan.scaled(self.device * 1_000_000)), buffers: Buffers::SILK, ..plan })
    }
}
