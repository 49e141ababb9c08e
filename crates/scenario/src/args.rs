//! What a scenario is told on the command line: the same in both worlds.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use serde::{Deserialize, Serialize};
use weir_node::Profile;

use crate::pattern::Pattern;
use crate::plan::Plan;
use crate::trace::Trace;

/// A week.
const SECONDS_MAX: u64 = 7 * 86_400;

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
    /// Items that each partition has before (at scale 1)
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    pub preload_items: u64,
    /// How many times over the background bandwidth of the device is sold, 1 to 100
    #[arg(long, value_name = "X", default_value_t = 3.0)]
    pub bosr: f64,
    /// Share of the partitions that send all they bought, 0 to 1; the others send wcu / BOSR
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    pub burst_share: f64,
    /// Seconds of load
    #[arg(long, value_name = "SECONDS", default_value_t = 200)]
    pub seconds: u64,
    /// Seconds of little load (2 % of what was bought) after that, to see the trees restored; ends when they are
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub after: u64,
    /// All bytes are divided by this, times are not
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub scale: u64,
    /// Profiles to compare, separated by commas: how the node shares the device and what it puts off
    #[arg(long = "profile", value_name = "PROFILE", value_delimiter = ',', default_value = "rocksdb", value_parser = profiles())]
    #[serde(skip)]
    pub profiles: Vec<String>,
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

/// The names of the profiles, each with its line for the help.
fn profiles() -> PossibleValuesParser {
    PossibleValuesParser::new(Profile::ALL.map(|profile| PossibleValue::new(profile.name()).help(profile.about())))
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
            (self.seconds >= 1 && self.seconds <= SECONDS_MAX, "--seconds must be between 1 and 604800 (a week)"),
            (self.scale >= 1, "--scale must be at least 1"),
            (self.wcu >= self.scale, "--wcu must be at least --scale: less than a write a second says nothing"),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, broken)| Err(broken.to_owned()))
    }
}

/// Silence, and then everything at once
///
/// Partitions are idle, and then all read (and with `--writes` write) what they bought from one second to the next. A limiter that follows the
/// load has forgotten what they were sold (FX-E2); one that sizes the background by the last minute has nothing for the first flush (U-9).
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[group(skip)]
pub struct Surge {
    /// Seconds of silence
    #[arg(long, default_value_t = 10)]
    pub idle: u64,
    /// Writes surge as well as reads
    #[arg(long)]
    pub writes: bool,
    /// What is the same as in `shortage`; `--seconds` counts from the surge
    #[command(flatten)]
    pub common: Shortage,
}

/// A load just below and just above what the device can do, by turns
///
/// Writes need `--low` and `--high` of the background bandwidth, half of a period each: controllers should neither sleep through what is above their
/// threshold nor flap.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[group(skip)]
pub struct Waves {
    /// Share of the background bandwidth that is needed in the first half of a period
    #[arg(long, default_value_t = 0.79)]
    pub low: f64,
    /// In the second half
    #[arg(long, default_value_t = 0.81)]
    pub high: f64,
    /// Seconds
    #[arg(long, default_value_t = 60)]
    pub period: u64,
    /// Background bytes that a byte of a user takes on this tree; measure it with `shortage --bosr 1`
    #[arg(long, default_value_t = crate::plan::AMPLIFICATION)]
    pub amplification: f64,
    /// What is the same as in `shortage`
    #[command(flatten)]
    pub common: Shortage,
}

/// A week of a node's traffic, at its own times
///
/// Tenants' usual traffic is heavy-tailed and follows the day; bursts come at random, some to many tenants at once. Generated from the seed, or read from a
/// file. `--scale` thins the events; times are what they are, so that controllers keep their seconds.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[group(skip)]
pub struct Replay {
    /// A trace to replay: `second,tenant,writes,reads`, in shares of what was bought
    #[arg(long, value_name = "FILE.csv")]
    pub trace: Option<PathBuf>,
    /// Writes the trace that is replayed
    #[arg(long, value_name = "FILE.csv")]
    pub record: Option<PathBuf>,
    /// What is the same as in `shortage`; `--seconds 604800` is a week
    #[command(flatten)]
    pub common: Shortage,
}

/// What a user's file holds.
#[allow(clippy::disallowed_methods, reason = "the user's own files, not the database's")]
fn read(path: &std::path::Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

#[allow(clippy::disallowed_methods, reason = "the user's own files, not the database's")]
fn write(path: &std::path::Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

impl Surge {
    /// The plan.
    ///
    /// # Errors
    /// What cannot be run, in words.
    pub fn plan(self) -> Result<Plan, String> {
        let mut args = self.common;
        args.seconds += self.idle;
        // Something must surge.
        if args.rcu == 0 && !self.writes {
            args.rcu = args.wcu;
        }
        Plan::of("surge", args, Pattern::Surge { idle: self.idle, writes: self.writes })
    }
}

impl Waves {
    /// The plan.
    ///
    /// # Errors
    /// What cannot be run, in words.
    pub fn plan(self) -> Result<Plan, String> {
        let pattern = Pattern::Waves { low: self.low, high: self.high, period: self.period };
        let plan = Plan::of("waves", Shortage { bosr: 1.0, ..self.common }, pattern)?;
        Ok(Plan { amplification: self.amplification, ..plan })
    }
}

impl Replay {
    /// The plan.
    ///
    /// # Errors
    /// What cannot be run, in words.
    pub fn plan(self) -> Result<Plan, String> {
        let args = self.common;
        let trace = match &self.trace {
            Some(path) => Trace::parse(&read(path)?)?,
            None => Trace::generate(usize::from(args.partitions), args.seconds, args.seed),
        };
        if let Some(path) = &self.record {
            write(path, &trace.to_csv())?;
        }
        Plan::of("trace", args, Pattern::Trace(Arc::new(trace)))
    }
}

/// Any scenario, as it crosses to another process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// See [`Shortage`].
    Shortage(Shortage),
    /// See [`Surge`].
    Surge(Surge),
    /// See [`Waves`].
    Waves(Waves),
    /// See [`Replay`].
    Trace(Replay),
}

impl Scenario {
    /// The plan.
    ///
    /// # Errors
    /// What cannot be run, in words.
    pub fn plan(self) -> Result<Plan, String> {
        match self {
            Scenario::Shortage(args) => Plan::new(args),
            Scenario::Surge(args) => args.plan(),
            Scenario::Waves(args) => args.plan(),
            Scenario::Trace(args) => args.plan(),
        }
    }
}
