//! Arguments of YCSB's workloads.

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::shortage::profiles;
use super::{Shape, Shortage};
use crate::mix::{Mix, Pace, Popularity};
use crate::pattern::Pattern;
use crate::plan::{Buffers, Plan};
use crate::ycsb::{Case, RECORD_BYTES, SCAN_ENTRIES_MAX, Workload};

/// YCSB's core workloads A to F
///
/// Gets, updates, inserts, scans and read-modify-writes in the shares of YCSB's workloads, on records of 1000 bytes
/// under keys of 24, by YCSB's own choice of keys: zipfian (its exponent is 0.99, and popular records are scattered),
/// uniform, or latest. An update writes the whole record. By default `--clients` ask as fast as they are answered
/// (closed loop); with `--rate` operations come at times of their own (open loop). Nothing is sold, and the device is
/// the same for every profile. The store is as in `bursts`: two memtables of 128 MiB, three compactions at a time,
/// little memory for much data.
///
/// All bytes are divided by `--scale`, so an operation of the device takes that many times as long as at full size:
/// latencies and rates are shown at this scale. The time between an answer and the client's next operation is
/// multiplied by it. Stalls last as long as at full size.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[group(skip)]
pub struct Ycsb {
    /// Workloads, separated by commas
    #[arg(long = "workload", value_name = "WORKLOAD", value_enum, value_delimiter = ',', ignore_case = true, default_values_t = Workload::ALL)]
    pub workloads: Vec<Workload>,
    /// Which records are asked for, separated by commas [default: latest for D, zipfian for all others]
    #[arg(long = "dist", value_name = "DIST", value_enum, value_delimiter = ',')]
    pub popularities: Vec<Popularity>,
    /// Partitions, each of a tenant of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub partitions: u16,
    /// Clients of each partition
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: u32,
    /// Microseconds between an answer and the client's next operation (at scale 1) [default: 1000 in virtual time, in
    /// which processors take none; 0 on a disk]
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(0..=10_000_000))]
    pub client_us: Option<u64>,
    /// Operations a second of each partition (at scale 1), whether or not earlier ones are answered, instead of clients
    /// that wait. On a disk at most a hundred of each partition are under way at a time
    #[arg(long, value_name = "N", conflicts_with_all = ["clients", "client_us"])]
    pub rate: Option<f64>,
    /// Records that each partition has before the load (at scale 1)
    #[arg(long, value_name = "N", default_value_t = 20_000_000)]
    pub records: u64,
    /// What the device can do, reads and writes together, in MB a second (at scale 1)
    #[arg(long, value_name = "MB", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub device: u64,
    /// Memory of the node for each partition, in GiB (at scale 1): three quarters for cached blocks, the rest for
    /// memtables
    #[arg(long, value_name = "GIB", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub memory: u64,
    /// Seconds of load that count
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    pub seconds: u64,
    /// Seconds of load before those that count: a tree begins with less to merge than such a load keeps it at
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub warm_up: u64,
    /// All bytes are divided by this, times are not
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=WCU))]
    pub scale: u64,
    /// Profiles to compare, separated by commas: how the node shares the device and what it puts off
    #[arg(long = "profile", value_name = "PROFILE", value_delimiter = ',', default_value = "rocksdb,weir", value_parser = profiles())]
    #[serde(skip)]
    pub profiles: Vec<String>,
    /// Compactions at a time, of all partitions together
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    pub compactions: u16,
    /// Seed of keys, payloads, send times, and of the order in which tasks run
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Seeds to try, from `--seed` on
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub seeds: u64,
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

/// Time between two operations of a client in a world where processors take none, in microseconds.
pub const CLIENT_US: u64 = 1000;

impl Ycsb {
    /// The cases to run, in this order.
    pub fn cases(&self) -> Vec<Case> {
        Case::all(&self.workloads, &self.popularities)
    }

    /// The plan of `case` with `seed`. `client_us` is the time between two operations of a client if the command line
    /// does not say, at scale 1.
    ///
    /// # Errors
    /// The error says in words what cannot be run.
    pub fn plan(&self, case: Case, seed: u64, client_us: u64) -> Result<Plan, String> {
        if self.seconds == 0 {
            return Err("--seconds must be at least 1".to_owned());
        }
        let pace = match self.rate {
            Some(rate) if rate > 0.0 && rate <= 1e9 => Pace::Open(rate / self.scale as f64),
            Some(_) => return Err("--rate must be above 0, and at most 1000000000".to_owned()),
            None => {
                let client_us = self.client_us.unwrap_or(client_us);
                Pace::Closed { clients: self.clients, own_time: client_us * 1000 * self.scale }
            }
        };
        let args = Shortage {
            partitions: self.partitions,
            wcu: WCU,
            rcu: 0,
            item_bytes: RECORD_BYTES,
            preload_items: self.records,
            // The device is given, and nothing is sold.
            bosr: 1.0,
            burst_share: 1.0,
            memory: Some(self.memory * u64::from(self.partitions)),
            shape: Shape::default(),
            seconds: self.seconds.saturating_add(self.warm_up),
            after: 0,
            scale: self.scale,
            profiles: self.profiles.clone(),
            compactions: Some(self.compactions),
            seed,
            json: self.json.clone(),
            report: self.report.clone(),
        };
        let mix = Mix {
            pace,
            shares: case.workload.shares(),
            entries_max: SCAN_ENTRIES_MAX,
            popularity: case.popularity,
            workload: Some(case.workload.name()),
            warm_up: self.warm_up,
        };
        let plan = Plan::of("ycsb", args, Pattern::Mix(mix))?;
        if plan.items() < 2 {
            return Err("--records must be at least twice --scale".to_owned());
        }
        Ok(Plan { given: Some(plan.scaled(self.device * 1_000_000)), buffers: Buffers::SILK, ..plan })
    }

    /// The same plan in virtual time, where a client that takes no time would never let time pass.
    ///
    /// # Errors
    /// The error says in words what cannot be run.
    pub fn plan_in_virtual_time(&self, case: Case, seed: u64) -> Result<Plan, String> {
        match self.client_us {
            Some(0) => Err("--client-us must be at least 1 in virtual time".to_owned()),
            _ => self.plan(case, seed, CLIENT_US),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::data::Sizes;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Ycsb,
    }

    fn args(line: &str) -> Ycsb {
        Line::parse_from(std::iter::once("ycsb").chain(line.split_whitespace())).args
    }

    #[test]
    fn workloads_are_named_in_either_case() {
        let cases = |line| args(line).cases().iter().map(Case::to_string).collect::<Vec<_>>();
        assert_eq!(cases("--workload a,E --dist uniform"), ["A uniform", "E uniform"]);
        assert_eq!(cases("").len(), 6);
        assert_eq!(cases("--workload D --dist latest,zipfian"), ["D latest", "D zipfian"]);
    }

    #[test]
    fn a_record_is_a_key_of_24_bytes_and_ten_fields_of_100() {
        let args = args("--scale 50 --workload A");
        let plan = args.plan_in_virtual_time(args.cases()[0], 7).expect("a plan");
        assert_eq!((plan.sizes(), plan.sizes().value_bytes(1)), (Sizes::Ycsb(1024), 1000));
        assert_eq!((plan.items(), plan.device(), plan.args.seed), (400_000, 4_000_000, 7));
        let mix = plan.mix().expect("a mix");
        assert_eq!(mix.pace, Pace::Closed { clients: 100, own_time: 50_000_000 });
        assert_eq!((plan.even_from(), plan.args.seconds), (Some(300), 900));
    }

    #[test]
    fn what_cannot_be_run_is_said() {
        let error = |line: &str| {
            let args = args(line);
            args.plan_in_virtual_time(args.cases()[0], 1).expect_err("cannot be run")
        };
        assert!(error("--rate 0").contains("--rate"));
        assert!(error("--seconds 0").contains("--seconds"));
        assert!(error("--client-us 0").contains("--client-us"));
        assert!(error("--records 100").contains("--records"));
        assert!(Line::try_parse_from(["ycsb", "--workload", "G"]).is_err());
        assert!(Line::try_parse_from(["ycsb", "--rate", "5", "--clients", "7"]).is_err(), "clients would be ignored");
    }
}
