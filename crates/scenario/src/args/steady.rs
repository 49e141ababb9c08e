//! Arguments of a load that never ends, in given shares.

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::shortage::profiles;
use super::{Shape, Shortage};
use crate::mix::{Mix, Pace, Popularity, Shares};
use crate::pattern::Pattern;
use crate::plan::{Buffers, Plan};

/// Inserts, gets and scans all the time, and how evenly they are served
///
/// Nothing is sold. By default `--clients` ask as fast as they are answered (closed loop): each sends its next
/// operation when it has the answer to the last one, so that the store sets the pace. With `--rate` operations come at
/// times of their own (open loop). The figure to look at is the tail throughput, what was done in the worst of a
/// hundred seconds, beside the mean. The device is the same for every profile, and all have twelve memtables of 64 MiB.
///
/// All bytes are divided by `--scale`, so an operation takes that many times as long as at full size: divide latencies
/// by it. The time between an answer and the client's next operation is multiplied by it. Stalls last as long as at
/// full size.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[group(skip)]
pub struct Steady {
    /// Partitions, each of a tenant of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub partitions: u16,
    /// Clients of each partition
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: u32,
    /// Microseconds between an answer and the client's next operation (at scale 1)
    #[arg(long, value_name = "US", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub client_us: u64,
    /// Operations a second of each partition (at scale 1), whether or not earlier ones are answered, instead of clients
    /// that wait
    #[arg(long, value_name = "N", conflicts_with_all = ["clients", "client_us"])]
    pub rate: Option<f64>,
    /// Percent of the operations that are gets, uniform over what was there before the load
    #[arg(long, value_name = "PERCENT", default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub gets: u8,
    /// Percent of the operations that are scans; what is neither is an insert of a new item
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub scans: u8,
    /// Entries of a scan, on average
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub entries: u64,
    /// Bytes of an item, its 16-byte key included
    #[arg(long, value_name = "BYTES", default_value_t = 1040, value_parser = clap::value_parser!(u32).range(24..=65_536))]
    pub item_bytes: u32,
    /// Items that each partition has before the load (at scale 1)
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    pub preload_items: u64,
    /// What the device can do, reads and writes together, in MB a second (at scale 1)
    #[arg(long, value_name = "MB", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub device: u64,
    /// Memory of the node for each partition, in GiB (at scale 1): three quarters for cached blocks, the rest for
    /// memtables
    #[arg(long, value_name = "GIB", default_value_t = 8, value_parser = clap::value_parser!(u64).range(4..=1024))]
    pub memory: u64,
    /// Seconds of load that count, for the second table
    #[arg(long, value_name = "SECONDS", default_value_t = 500)]
    pub seconds: u64,
    /// Seconds of load before those that count: a tree begins with less to merge than such a load keeps it at
    #[arg(long, value_name = "SECONDS", default_value_t = 500)]
    pub warm_up: u64,
    /// All bytes are divided by this, times are not
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=WCU))]
    pub scale: u64,
    /// Profiles to compare, separated by commas: how the node shares the device and what it puts off
    #[arg(long = "profile", value_name = "PROFILE", value_delimiter = ',', default_value = "rocksdb,cruise-static,cruise-repro,cruise-no-sp", value_parser = profiles())]
    #[serde(skip)]
    pub profiles: Vec<String>,
    /// Compactions at a time, of all partitions together [default: one for every four partitions, at least 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub compactions: Option<u16>,
    /// Seed of keys, payloads, send times, and of the order in which tasks run
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write every figure as JSON to this file (`-` = standard output)
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub json: Option<PathBuf>,
    /// Write a page with all time series to this file, for a browser
    #[arg(long, value_name = "FILE.html")]
    #[serde(skip)]
    pub report: Option<PathBuf>,
}

/// Writes a second of a partition that the slowest rates of a tree are made for.
const WCU: u64 = 3000;

impl Steady {
    /// The plan.
    ///
    /// # Errors
    /// The error says in words what cannot be run.
    pub fn plan(self) -> Result<Plan, String> {
        if self.seconds == 0 {
            return Err("--seconds must be at least 1".to_owned());
        }
        if u32::from(self.gets) + u32::from(self.scans) > 100 {
            return Err("--gets and --scans must not be more than 100 together".to_owned());
        }
        let pace = match self.rate {
            Some(rate) if rate > 0.0 && rate <= 1e9 => Pace::Open(rate / self.scale as f64),
            Some(_) => return Err("--rate must be above 0, and at most 1000000000".to_owned()),
            None => Pace::Closed { clients: self.clients, own_time: self.client_us * 1000 * self.scale },
        };
        let (gets, scans) = (self.gets, self.scans);
        let shares = Shares { inserts: 100 - gets - scans, gets, scans, ..Shares::default() };
        let args = Shortage {
            partitions: self.partitions,
            wcu: WCU,
            rcu: 0,
            item_bytes: self.item_bytes,
            preload_items: self.preload_items,
            // The device is given, and nothing is sold.
            bosr: 1.0,
            burst_share: 1.0,
            memory: Some(self.memory * u64::from(self.partitions)),
            shape: Shape::default(),
            seconds: self.seconds.saturating_add(self.warm_up),
            after: 0,
            scale: self.scale,
            profiles: self.profiles,
            compactions: self.compactions,
            seed: self.seed,
            json: self.json,
            report: self.report,
        };
        let mix = Mix {
            pace,
            shares,
            entries_max: 2 * self.entries - 1,
            popularity: Popularity::Uniform,
            workload: None,
            warm_up: self.warm_up,
        };
        let plan = Plan::of("steady", args, Pattern::Mix(mix))?;
        Ok(Plan { given: Some(plan.scaled(self.device * 1_000_000)), buffers: Buffers::CRUISE, ..plan })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::mix::Kind;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Steady,
    }

    fn plan(line: &str) -> Result<Plan, String> {
        Line::try_parse_from(std::iter::once("steady").chain(line.split_whitespace()))
            .map_err(|error| error.to_string())?
            .args
            .plan()
    }

    #[test]
    fn bytes_are_divided_and_a_client_takes_as_many_times_longer() {
        let plan = plan("--scale 50 --gets 40 --scans 10").expect("a plan");
        let mix = plan.mix().expect("a mix");
        assert_eq!(mix.pace, Pace::Closed { clients: 100, own_time: 50_000_000 });
        assert_eq!((mix.shares.inserts, plan.device(), plan.writes(0)[..].len()), (50, 4_000_000, 1));
        // CR-16, CR-22.
        let (tree, mib) = (plan.tree(), 1 << 20);
        assert_eq!((tree.write_buffer_bytes, tree.write_buffers_max), (64 * mib / 50, 12));
        assert_eq!(plan.write_memory_bytes(), (8 << 30) / 50 / 4);
    }

    #[test]
    fn operations_with_times_of_their_own_are_shared_out() {
        let plan = plan("--rate 10000 --gets 30 --scans 20 --scale 10").expect("a plan");
        let rates = [plan.writes(0), plan.reads(0)].map(|rates| rates[0].1.round());
        assert_eq!((rates, plan.mix().map(|mix| mix.per_sec(Kind::Scan).round())), ([500.0, 300.0], Some(200.0)));
    }

    #[test]
    fn what_cannot_be_run_is_said() {
        assert!(plan("--gets 60 --scans 50").is_err_and(|error| error.contains("100 together")));
        assert!(plan("--rate -1").is_err());
        assert!(plan("--rate 10 --clients 3").is_err());
        assert!(plan("--seconds 0").is_err_and(|error| error.contains("--seconds")));
    }
}
