//! CruiseDB's admission, in virtual time: a hundred clients that ask as fast as they are answered, half of them for
//! inserts and half for gets, on a device that cannot merge as fast as they could write.
//!
//! Bytes are divided by 100, times are not; `docs/policy/cruise.md` has the figures.

use std::sync::OnceLock;

use clap::Parser;
use indicatif::ProgressBar;
use weir_io::sim::DiskImage;
use weir_scenario::args::Steady;
use weir_scenario::outcome::{Outcome, Steadiness};
use weir_scenario::plan::Plan;
use weir_sim::scenario::{image, run};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Steady,
}

fn plan(line: &str) -> Plan {
    Line::parse_from(std::iter::once("steady").chain(line.split_whitespace())).args.plan().expect("a plan")
}

/// The disk from which all runs start: 100 MB, made once.
fn disk() -> &'static DiskImage {
    static IMAGE: OnceLock<DiskImage> = OnceLock::new();
    IMAGE.get_or_init(|| image(&plan(""), &ProgressBar::hidden()).expect("preloaded"))
}

fn outcome(profile: &str, line: &str) -> (Outcome, Steadiness) {
    let outcome = run(&plan(line), profile, disk(), &ProgressBar::hidden()).expect("it runs").outcome;
    let even = outcome.steadiness.expect("it is about that");
    (outcome, even)
}

/// The run that most others are compared with, made once.
fn cruise() -> &'static (Outcome, Steadiness) {
    static OUTCOME: OnceLock<(Outcome, Steadiness)> = OnceLock::new();
    OUTCOME.get_or_init(|| outcome("cruise-no-sp", ""))
}

/// CR-2, CR-E3: the resource that stalls writes is half full, and never full; the worst seconds are not much worse than
/// the mean.
fn assert_even((outcome, even): &(Outcome, Steadiness)) {
    assert!((0.4..=0.6).contains(&even.watermark_mean), "{}: {even:?}", outcome.seed);
    assert!(even.watermark_max < 1.0, "{}: {even:?}", outcome.seed);
    // The rate swings slowly: bytes that wait in deeper levels are not seen until they take what level 0 needs.
    assert!(even.tail_per_sec as f64 >= 0.6 * even.mean_per_sec, "{}: {even:?}", outcome.seed);
    let done = outcome.served_per_sec.iter().zip(&outcome.reads_per_sec).map(|(writes, reads)| writes + reads);
    assert!(done.min() > Some(0), "{}: nothing was done for a second", outcome.seed);
}

/// Meanwhile a RocksDB stops for minutes, and does less on the whole.
#[test]
fn writes_that_are_admitted_by_the_watermark_are_served_evenly() {
    assert_even(cruise());
    assert_even(&outcome("cruise-no-sp", "--seed 2"));
    let ((_, even), (_, rocksdb)) = (cruise(), outcome("rocksdb", ""));
    assert!(even.mean_per_sec >= rocksdb.mean_per_sec, "{even:?}, {rocksdb:?}");
    assert!(even.tail_per_sec >= 5 * rocksdb.tail_per_sec.max(1), "{even:?}, {rocksdb:?}");
    assert!(even.worst_write_p99_us * 10.0 < rocksdb.worst_write_p99_us, "{even:?}, {rocksdb:?}");
}

/// CR-E1: starting with a tidy tree, a RocksDB does three times as many operations in its mean second as in its worst
/// ones. Its mean is higher than that of a profile that holds back from the beginning, because it has not yet paid for
/// what it merges later.
#[test]
fn a_rocksdb_does_more_until_it_has_to_merge() {
    let (_, rocksdb) = outcome("rocksdb", "--warm-up 0");
    let (_, cruise) = outcome("cruise-no-sp", "--warm-up 0");
    assert!(rocksdb.mean_per_sec > 3.0 * rocksdb.tail_per_sec as f64, "{rocksdb:?}");
    assert!(rocksdb.mean_per_sec > 1.5 * cruise.mean_per_sec, "{rocksdb:?}, {cruise:?}");
}

/// CR-E5: under a limit that is fixed at the rate reached without a limit, writes wait for seconds, because the tree
/// slows them as if there were none.
#[test]
fn under_a_fixed_limit_the_tree_slows_writes() {
    let (fixed, even) = outcome("cruise-static", "");
    let (_, cruise) = cruise();
    assert!(even.tail_per_sec * 3 < cruise.tail_per_sec, "{even:?}, {cruise:?}");
    assert!(fixed.latency_us.max > 4e6, "{:?}", fixed.latency_us);
}

/// CR-11: the published code keeps level 0 at four to six runs, where the paper aims at half of the allowed runs, and
/// pays for it with a fifth of the throughput at least.
#[test]
fn the_published_controller_admits_less() {
    let (_, published) = outcome("cruise-repro", "");
    let (_, cruise) = cruise();
    assert!(published.watermark_mean < 0.5 * cruise.watermark_mean, "{published:?}, {cruise:?}");
    assert!(published.mean_per_sec < 0.85 * cruise.mean_per_sec, "{published:?}, {cruise:?}");
}

/// Operations with times of their own: a load that can be served is not held back.
#[test]
fn a_load_that_fits_meets_no_limit() {
    let (outcome, even) = outcome("cruise-no-sp", "--rate 6000 --gets 40 --scans 10 --warm-up 0 --seconds 200");
    assert_eq!(outcome.stalls.count, 0, "{:?}", outcome.stalls);
    assert!((59.0..=61.0).contains(&even.mean_per_sec), "{even:?}");
    assert!(even.watermark_max < 0.5, "{even:?}");
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let line = "--scans 20 --gets 30 --warm-up 0 --seconds 100 --seed 7";
    let [one, two] = [(); 2].map(|()| serde_json::to_string(&outcome("cruise-no-sp", line).0).expect("JSON"));
    assert_eq!(one, two);
}
