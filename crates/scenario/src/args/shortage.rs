//! A device that is sold too often: the arguments that all scenarios have.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use serde::{Deserialize, Serialize};
use weir_admission::policy::Ingredient;
use weir_node::Profile;

use super::Shape;

/// A week.
pub(super) const SECONDS_MAX: u64 = 7 * 86_400;

/// Sell the device several times over, and see who is served
///
/// Every partition was sold `--wcu` writes a second. Compacting what they write costs about 20 device bytes for each
/// byte written (reads and writes together; the measured figure of the FlexEngine paper), so all of them together need
/// INGEST x 20 of background bandwidth. BOSR (background over-subscription ratio) says how many times over the device
/// was sold: it has INGEST x 20 / BOSR for the background, plus what the log and the reads take. At BOSR 3 there are
/// 6.67 background bytes for each byte that a client writes, at 7 there are 2.86, at 10 there are 2.0. What is missing
/// must be deferred, or writes stall.
///
/// The device is the same for every profile. All bytes (memtables, levels, data, rates, bandwidth) are divided by
/// `--scale`, times are not, so that stalls come when they would come at full size.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[group(skip)]
pub struct Shortage {
    /// Tenants, with one partition each
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub partitions: u16,
    /// Writes a second that each partition was sold, and that a bursting one sends
    #[arg(long, value_name = "N", default_value_t = 3000)]
    pub wcu: u64,
    /// Reads a second of each partition, uniform over what was preloaded
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub rcu: u64,
    /// Bytes of an item, its 16-byte key included
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(24..=65_536))]
    pub item_bytes: u32,
    /// Items that each partition has before the load (at scale 1)
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    pub preload_items: u64,
    /// How many times over the background bandwidth of the device is sold, 1 to 100
    #[arg(long, value_name = "X", default_value_t = 3.0)]
    pub bosr: f64,
    /// Share of the partitions that send all they bought, 0 to 1; the others send wcu / BOSR
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    pub burst_share: f64,
    /// Memory of the node, in GiB (at scale 1): three quarters for cached blocks, including data whose compaction is
    /// put off, and the rest for memtables [default: 48 for blocks, and more memtables than anybody asks for]
    #[arg(long, value_name = "GIB", value_parser = clap::value_parser!(u64).range(1..=4096))]
    #[serde(default)]
    pub memory: Option<u64>,
    /// What the load and the trees look like
    #[command(flatten)]
    #[serde(default)]
    pub shape: Shape,
    /// Seconds of load
    #[arg(long, value_name = "SECONDS", default_value_t = 200)]
    pub seconds: u64,
    /// Seconds of little load (2 % of what was bought) after that, until the trees are restored
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub after: u64,
    /// All bytes are divided by this, times are not
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub scale: u64,
    /// Profiles to compare, separated by commas: how the node shares the device and what it puts off
    #[arg(long = "profile", value_name = "PROFILE", value_delimiter = ',', default_value = "rocksdb", value_parser = profiles())]
    #[serde(skip)]
    pub profiles: Vec<String>,
    /// Compactions at a time, of all partitions together: compaction slots of Weir, threads that RocksDB's share
    /// [default: one for every four partitions, at least 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub compactions: Option<u16>,
    /// Seed of keys, payloads, send times, and of the order in which tasks run
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

/// The names of the profiles, each with its line for the help. Also `weir` with an ingredient more or less, which the
/// help does not list.
pub(super) fn profiles() -> PossibleValuesParser {
    let named = |profile: Profile| PossibleValue::new(profile.name()).help(profile.about());
    let varied = Ingredient::ALL.map(|ingredient| named(Profile::Varied(ingredient)).hide(true));
    PossibleValuesParser::new(Profile::ALL.map(named).into_iter().chain(varied))
}

impl Shortage {
    /// Checks whether this can be run.
    ///
    /// # Errors
    /// The error says in words what cannot be run.
    pub fn check(&self) -> Result<(), String> {
        let rules = [
            (self.bosr >= 1.0 && self.bosr <= 100.0, "--bosr must be between 1 and 100"),
            ((0.0..=1.0).contains(&self.burst_share), "--burst-share must be between 0 and 1"),
            (self.seconds >= 1 && self.seconds <= SECONDS_MAX, "--seconds must be between 1 and 604800 (a week)"),
            (self.after <= SECONDS_MAX, "--after must be at most 604800 (a week)"),
            ((0.0..=1.0).contains(&self.shape.debt), "--debt must be between 0 and 1"),
            (!self.shape.mixed || self.item_bytes >= 128, "--mixed needs --item-bytes of at least 128"),
            (self.scale >= 1, "--scale must be at least 1"),
            (self.wcu >= self.scale, "--wcu must be at least --scale: less than a write a second says nothing"),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, broken)| Err(broken.to_owned()))
    }
}
