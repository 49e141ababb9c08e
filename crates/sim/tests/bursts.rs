//! Peaks and valleys under SILK and its halves: which of them flush and compact too late.

use clap::Parser;
use indicatif::ProgressBar;
use weir_scenario::args::Bursts;
use weir_scenario::outcome::Run;
use weir_scenario::plan::Plan;
use weir_sim::scenario::{image, run};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Bursts,
}

fn plan(line: &str) -> Plan {
    let words = std::iter::once("bursts").chain(line.split_whitespace());
    Line::parse_from(words).args.plan().expect("it can be run")
}

/// Runs of `profiles` on the same data.
fn runs<const N: usize>(line: &str, profiles: [&str; N]) -> [Run; N] {
    let plan = plan(line);
    let disk = image(&plan, &ProgressBar::hidden()).expect("preloaded");
    profiles.map(|name| run(&plan, name, &disk, &ProgressBar::hidden()).expect("it runs"))
}

/// The worst 99th percentile of reads in any second of the load, in milliseconds.
fn worst_read(run: &Run) -> f64 {
    run.series.iter().map(|second| second.read_us[1]).fold(0.0, f64::max) / 1e3
}

/// The same of writes.
fn worst_write(run: &Run) -> f64 {
    run.series.iter().map(|second| second.write_us[1]).fold(0.0, f64::max) / 1e3
}

/// SI-E4: a store with a device of its own, peaks of 50 and 100 s with valleys of 10 s. Under `silk` and `weir` no
/// write meets a stall or comes late, and reads do not wait for compactions.
#[test]
fn silk_and_weir_serve_peaks_with_short_valleys() {
    for peak in [50, 100] {
        let line = format!("--peak {peak} --seconds 330 --scale 200");
        let [rocksdb, silk, weir] = runs(&line, ["rocksdb", "silk", "weir"]);
        for run in [&silk, &weir] {
            assert_eq!(run.outcome.stalls.count, 0, "{}", run.outcome.profile);
            assert!(worst_write(run) <= 1.0, "{}: {} ms", run.outcome.profile, worst_write(run));
            assert!(
                worst_read(run) * 4.0 < worst_read(&rocksdb),
                "{} and {} ms",
                worst_read(run),
                worst_read(&rocksdb)
            );
        }
    }
}

/// SI-E5, with memory for half of the memtables, and more compactions at a time than the device serves: flushes come
/// too late unless bandwidth is kept for them. SILK's order alone does not help; its bandwidth does.
#[test]
fn many_compactions_delay_flushes_unless_bandwidth_is_kept_for_them() {
    let line = "--partitions 4 --wcu 5000 --rcu 2000 --preload-items 5000000 --compactions 8 --seconds 330";
    let profiles = ["rocksdb", "silk-prio-only", "silk-bw-only", "silk", "weir"];
    let [rocksdb, order, bandwidth, silk, weir] = runs(line, profiles);
    for run in [&rocksdb, &order] {
        assert!(
            run.outcome.stalls.count > 0 && worst_write(run) > 1_000.0,
            "{}: {} ms",
            run.outcome.profile,
            worst_write(run)
        );
    }
    for run in [&bandwidth, &silk, &weir] {
        assert_eq!(run.outcome.stalls.count, 0, "{}", run.outcome.profile);
        assert!(worst_write(run) <= 1.0, "{}: {} ms", run.outcome.profile, worst_write(run));
    }
}

/// CR-21: without a level 0 fewer bytes are written for the same data, once all background work is done.
#[test]
fn a_tree_without_level_0_writes_less() {
    let line = "--peak 100 --seconds 200 --memory 8 --wcu 8000 --rcu 0 --scale 200";
    let plan = plan(line);
    let plan = Plan { args: weir_scenario::args::Shortage { after: 600, ..plan.args.clone() }, ..plan };
    let disk = image(&plan, &ProgressBar::hidden()).expect("preloaded");
    let written = |name: &str| {
        let run = run(&plan, name, &disk, &ProgressBar::hidden()).expect("it runs");
        let restored = run.outcome.after.expect("it was asked for").restored_seconds;
        assert!(restored.is_some(), "{name} has come to rest");
        run.series.iter().map(|second| second.bytes.background()).sum::<u64>()
    };
    let [with, without] = ["rocksdb", "sp-lsm"].map(written);
    assert!(without * 100 <= with * 90, "{without} of {with} bytes");
}
