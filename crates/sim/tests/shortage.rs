//! FlexEngine's promises, in virtual time: what is served while the disk is sold several times over.
//!
//! Bytes are divided by 200, times are not; `docs/benchmarks.md` has the figures, and the same at a scale of 20.

use std::sync::OnceLock;

use indicatif::ProgressBar;
use weir_io::sim::DiskImage;
use weir_scenario::args::Shortage;
use weir_scenario::outcome::Outcome;
use weir_scenario::plan::Plan;
use weir_sim::scenario::{image, run};

const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;

/// All partitions burst at what they bought: 3000 writes of 1 KiB a second each.
fn plan(bosr: f64, seconds: u64, seed: u64) -> Plan {
    let args = Shortage {
        partitions: 32,
        wcu: 3000,
        rcu: 0,
        item_bytes: 1024,
        preload_items: 10_000_000,
        bosr,
        burst_share: 1.0,
        seconds,
        after: 0,
        scale: 200,
        profiles: Vec::new(),
        seed,
        json: None,
        report: None,
    };
    Plan::new(args).expect("a plan")
}

/// What all runs find on the disk: 1.6 GB, made once.
fn disk() -> &'static DiskImage {
    static IMAGE: OnceLock<DiskImage> = OnceLock::new();
    IMAGE.get_or_init(|| image(&plan(3.0, 1, 1), &ProgressBar::hidden()).expect("preloaded"))
}

fn outcome(profile: &str, plan: &Plan) -> Outcome {
    run(plan, profile, disk(), &ProgressBar::hidden()).expect("it runs").outcome
}

/// Every write of every partition was done within a millisecond, and none met a stall.
fn assert_all_served(outcome: &Outcome) {
    let who = (&outcome.profile, outcome.params.get("bosr"), outcome.seed);
    assert_eq!(outcome.normally_served.min, 1.0, "{who:?}: {:?}", outcome.normally_served);
    assert_eq!(outcome.stalls.count, 0, "{who:?}");
    assert!(outcome.latency_us.p999 <= 100.0, "{who:?}: {:?}", outcome.latency_us);
}

/// FX-E3: the paper's engine keeps every promise of the paper.
#[test]
fn flexengine_serves_everybody_while_the_disk_is_sold_three_times() {
    for seed in SEEDS {
        for bosr in [1.5, 2.0, 2.5, 3.0] {
            assert_all_served(&outcome("flexengine", &plan(bosr, 200, seed)));
        }
    }
}

#[test]
fn flexengine_serves_everybody_for_a_hundred_seconds_at_seven_times() {
    for seed in SEEDS {
        assert_all_served(&outcome("flexengine", &plan(7.0, 100, seed)));
    }
}

/// Beyond what the paper reached.
#[test]
fn weir_serves_everybody_while_the_disk_is_sold_seven_and_ten_times() {
    for seed in SEEDS {
        for (bosr, seconds) in [(7.0, 300), (10.0, 200)] {
            let weir = outcome("weir", &plan(bosr, seconds, seed));
            assert_all_served(&weir);
            // Memtables and levels 0 and 1: a GiB for each partition at full size, and not more the longer it lasts.
            assert!(weir.memory_peak_bytes * 200 <= 34 << 30, "{} bytes", weir.memory_peak_bytes * 200);
        }
    }
}

/// The paper's order, at the lowest ratio where a tree that compacts as it likes serves fewer than 95 of 100.
#[test]
fn every_step_of_the_paper_serves_more() {
    for seed in SEEDS {
        let plan = plan(2.5, 200, seed);
        let served = |profile: &str| outcome(profile, &plan).normally_served.avg;
        let [rocksdb, node, stage1, flexengine] = ["rocksdb", "node", "node+stage1", "flexengine"].map(served);
        assert!(rocksdb < 0.95, "rocksdb served {rocksdb}");
        assert!(node < stage1 && rocksdb < stage1, "{rocksdb} {node} {stage1}");
        assert!(stage1 <= flexengine && flexengine == 1.0, "{stage1} {flexengine}");
    }
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let plan = plan(7.0, 60, 5);
    let [one, two] = [(); 2].map(|()| serde_json::to_string(&outcome("weir", &plan)).expect("JSON"));
    assert_eq!(one, two);
}
