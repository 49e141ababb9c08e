//! What a scenario is told on the command line: the same in both worlds.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

/// Sells the device several times over, and looks who is served
///
/// Every partition was sold `--wcu` writes a second. Compacting what they write costs about 20 device bytes for each byte written
/// (reads and writes together; the measured figure of the FlexEngine paper), so all of them together need INGEST x 20 of background
/// bandwidth. BOSR (background over-subscription ratio) says how many times over the device was sold: it has INGEST x 20 / BOSR for the
/// background, plus what the log and the reads take. At BOSR 3 there are 6.67 background bytes for each byte that a client writes, at 7
/// there are 2.86, at 10 there are 2.0. What is missing must be deferred, or writes stall.
///
/// The device is the same for every profile. All bytes (memtables, levels, data, rates, bandwidth) are divided by `--scale`, times are not, so
/// that stalls come when they would come at full size.
#[derive(Clone, Debug, Args, Serialize)]
#[group(skip)]
pub struct Shortage {
    /// Tenants, with one partition each
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub partitions: u16,
    /// Writes a second that each partition was sold, and that a bursting one sends
    #[arg(long, default_value_t = 3000)]
    pub wcu: u64,
    /// Reads a second of each partition, uniform over what was preloaded
    #[arg(long, default_value_t = 0)]
    pub rcu: u64,
    /// Bytes of an item, its 16-byte key included
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(24..=65_536))]
    pub item_bytes: u32,
    /// Items that each partition has before (at scale 1)
    #[arg(long, default_value_t = 10_000_000)]
    pub preload_items: u64,
    /// Background bandwidth sold, over what the device has
    #[arg(long, default_value_t = 3.0)]
    pub bosr: f64,
    /// Share of the partitions that send all they bought; the others send wcu / BOSR
    #[arg(long, default_value_t = 1.0)]
    pub burst_share: f64,
    /// Seconds of load
    #[arg(long, default_value_t = 200)]
    pub seconds: u64,
    /// Seconds of little load (2 % of what was bought) after that, to see the trees restored; ends when they are
    #[arg(long, default_value_t = 0)]
    pub after: u64,
    /// All bytes are divided by this, times are not
    #[arg(long, default_value_t = 200)]
    pub scale: u64,
    /// Profiles to compare, separated by commas
    #[arg(long = "profile", value_delimiter = ',', default_value = "rocksdb")]
    #[serde(skip)]
    pub profiles: Vec<String>,
    /// Seed of keys, payloads, send times, and of the order in which tasks run
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where the outcome goes, as JSON (`-` = standard output)
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub json: Option<PathBuf>,
    /// Where a page with all time series goes
    #[arg(long, value_name = "FILE.html")]
    #[serde(skip)]
    pub report: Option<PathBuf>,
}

impl Shortage {
    /// Says what cannot be run.
    ///
    /// # Errors
    /// In words.
    pub fn check(&self) -> Result<(), String> {
        let rules = [
            (self.bosr >= 1.0 && self.bosr <= 100.0, "--bosr must be between 1 and 100"),
            ((0.0..=1.0).contains(&self.burst_share), "--burst-share must be between 0 and 1"),
            (self.seconds >= 1 && self.seconds <= 86_400, "--seconds must be between 1 and 86400"),
            (self.scale >= 1, "--scale must be at least 1"),
            (self.wcu >= self.scale, "--wcu must be at least --scale: less than a write a second says nothing"),
            (!self.profiles.is_empty(), "--profile needs a name"),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, broken)| Err(broken.to_owned()))
    }
}
