//! Arguments of the scenario with more partitions than fit awake.

use std::path::PathBuf;

use clap::Args;

use super::shortage::profiles;
use super::{Shape, Shortage};
use crate::pattern::{Pattern, SECOND};
use crate::plan::Plan;
use crate::visits::{SILENCE, VISIT, Visits, trace};

const WEEK: u64 = 7 * 86_400;

/// More partitions than fit awake: they sleep, and are woken all the time
///
/// A node has many tenants, and memory for a part of them. At any moment `--at-once` of them are asked, for ten seconds
/// at a time, and then others: drawn by Zipf's law, so that a few tenants are asked all the time and most seldom. Who
/// is asked reads and writes all that it bought. A partition that nobody has asked for `--asleep-after` seconds falls
/// asleep, by the server's own mechanism (`hibernate_after_seconds` in its configuration): its memtables are flushed,
/// its tables are closed. All partitions sleep when the load begins.
///
/// Look at the first requests, those that find their partition asleep: a wake reads a few pages, which take as long as
/// the device needs for them. Pages do not scale, so at `--scale 200` each takes ten times as long as at 20. Beside
/// them are all other requests. Time counts from the moment at which a request was to be sent.
///
/// Every value has a number. A read that gives an older one than was acknowledged before is counted as lost. After the
/// load and a minute of silence, when all partitions have fallen asleep, everything that was written is read back.
#[derive(Clone, Debug, Args)]
#[group(skip)]
pub struct Sleepers {
    /// Tenants, with one partition each
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u16).range(2..=1024))]
    pub partitions: u16,
    /// Tenants that are asked at the same time; at most half of all
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub at_once: u16,
    /// Seconds without a request after which a partition falls asleep; the node looks twice in this time, so it may
    /// take half as long again
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub asleep_after: u64,
    /// Memory of the node, in GiB (at scale 1): three quarters for cached blocks, the rest for memtables
    #[arg(long, value_name = "GIB", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub memory: u64,
    /// How many times over the background bandwidth of the device is sold, 1 to 1000: to all tenants, as if all were
    /// asked at the same time
    #[arg(long, value_name = "X", default_value_t = 30.0)]
    pub bosr: f64,
    /// Writes a second that each tenant was sold, and that it sends when it is asked
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub wcu: u64,
    /// Reads a second of each tenant when it is asked, uniform over what was preloaded
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub rcu: u64,
    /// Bytes of an item, its 16-byte key included
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(24..=65_536))]
    pub item_bytes: u32,
    /// Items that each tenant has before the load (at scale 1)
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub preload_items: u64,
    /// Seconds of load, the minute of silence at its end included
    #[arg(long, value_name = "SECONDS", default_value_t = 1800, value_parser = clap::value_parser!(u64).range(SILENCE + VISIT..=WEEK))]
    pub seconds: u64,
    /// All bytes are divided by this, times are not
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub scale: u64,
    /// Profiles to compare, separated by commas: how the node shares the device and what it puts off
    #[arg(long = "profile", value_name = "PROFILE", value_delimiter = ',', default_value = "rocksdb,weir", value_parser = profiles())]
    pub profiles: Vec<String>,
    /// Compactions at a time, of all tenants together [default: one for every four tenants that are asked at the same
    /// time, at least 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub compactions: Option<u16>,
    /// Seed of visits, keys, payloads, send times
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write every figure as JSON, a row for each tenant included, to this file (`-` = standard output)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page with all time series to this file, for a browser
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
}

impl Sleepers {
    /// The plan.
    ///
    /// # Errors
    /// The error says in words what cannot be run.
    pub fn plan(self) -> Result<Plan, String> {
        let rules = [
            ((1.0..=1000.0).contains(&self.bosr), "--bosr must be between 1 and 1000"),
            (self.at_once <= self.partitions / 2, "--at-once must be at most half of --partitions"),
        ];
        if let Some((_, broken)) = rules.into_iter().find(|(holds, _)| !holds) {
            return Err(broken.to_owned());
        }
        let visits = Visits { at_once: self.at_once, asleep_after: self.asleep_after * SECOND };
        let trace = trace(visits, self.partitions.into(), self.seconds, self.seed);
        let args = Shortage {
            partitions: self.partitions,
            wcu: self.wcu,
            rcu: self.rcu,
            item_bytes: self.item_bytes,
            preload_items: self.preload_items,
            // The device has room for the log and the reads of those who are asked, and what the ratio leaves.
            bosr: 1.0,
            burst_share: 1.0,
            memory: Some(self.memory),
            shape: Shape::default(),
            seconds: self.seconds,
            after: 0,
            scale: self.scale,
            profiles: self.profiles,
            compactions: self.compactions.or(Some(self.at_once.div_ceil(4).max(2))),
            seed: self.seed,
            json: self.json,
            report: self.report,
        };
        let plan = Plan::of("sleepers", args, Pattern::Trace(trace.into()))?;
        Ok(Plan { given: Some(0), visits: Some(visits), ..plan }.sold_times(self.bosr))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Sleepers,
    }

    fn plan(line: &str) -> Result<Plan, String> {
        Line::parse_from(std::iter::once("sleepers").chain(line.split_whitespace())).args.plan()
    }

    #[test]
    fn the_device_is_sold_as_often_as_was_asked_and_memory_does_not_hold_all() {
        let plan = plan("").expect("it can be run");
        assert_eq!((plan.bosr(), plan.compactions()), (30.0, 2));
        // 512 x 500 KiB a second x 20 / 30, and 8 x 500 reads of two pages; a twentieth of that.
        let (background, reads) = (512.0 * 512_000.0 * 20.0 / 30.0, 8.0 * 500.0 * 8192.0 * 174.0 / 180.0);
        let rest = plan.device() as f64 * 20.0 - background - reads;
        assert!((0.0..40e6).contains(&rest), "{rest} for logs");
        let text = crate::table::heading(&plan);
        assert!(text.contains("8 of them asked at a time; asleep after 300 s"), "{text}");
        assert!(text.contains("a memtable for each of 64, and all items of 157"), "{text}");
        assert_eq!(plan.params(serde_json::json!({}))["asleep_after_seconds"], 300);
    }

    #[test]
    fn what_cannot_be_run_is_named() {
        for (line, option) in [
            ("--bosr 0.5", "--bosr"),
            ("--bosr NaN", "--bosr"),
            ("--partitions 15", "--at-once"),
            ("--wcu 19", "--wcu"),
            ("--scale 0", "--scale"),
        ] {
            let error = plan(line).expect_err("it cannot be run");
            assert!(error.contains(option), "{line}: {error}");
        }
    }
}
