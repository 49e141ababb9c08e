//! FlexEngine's promises, in virtual time: which writes are served while the disk is sold several times over.
//!
//! Bytes are divided by 200, times are not; `docs/benchmarks/shortage.md` has the figures, and some at a scale of 20.
//! Further seeds: `WEIR_SEEDS=3 cargo test -p weir-sim --test sim shortage::`.

use std::ops::RangeInclusive;
use std::sync::OnceLock;

use indicatif::ProgressBar;
use weir_io::sim::DiskImage;
use weir_scenario::args::{Shape, Shortage, Surge, Waves};
use weir_scenario::outcome::{Bytes, Outcome};
use weir_scenario::pattern::Pattern;
use weir_scenario::plan::{AMPLIFICATION, Plan};
use weir_scenario::trace::Trace;
use weir_sim::scenario::{image, run};

/// The seeds of every run that is judged by itself: the first, or as many as `WEIR_SEEDS` says.
fn seeds() -> RangeInclusive<u64> {
    1..=std::env::var("WEIR_SEEDS").map_or(1, |seeds| seeds.parse().expect("a number"))
}

/// The seeds of runs whose median is judged.
const THREE_SEEDS: RangeInclusive<u64> = 1..=3;

/// All partitions burst, and write what they bought: 3000 writes of 1 KiB a second each.
fn plan(bosr: f64, seconds: u64, seed: u64) -> Plan {
    let args = Shortage {
        partitions: 32,
        wcu: 3000,
        rcu: 0,
        item_bytes: 1024,
        preload_items: 10_000_000,
        bosr,
        burst_share: 1.0,
        memory: None,
        shape: Shape::default(),
        seconds,
        after: 0,
        scale: 200,
        compactions: None,
        profiles: Vec::new(),
        seed,
        json: None,
        report: None,
    };
    Plan::new(args).expect("a plan")
}

/// The disk from which all runs start: 1.6 GB, made once.
fn disk() -> &'static DiskImage {
    static IMAGE: OnceLock<DiskImage> = OnceLock::new();
    IMAGE.get_or_init(|| image(&plan(3.0, 1, 1), &ProgressBar::hidden()).expect("preloaded"))
}

fn outcome(profile: &str, plan: &Plan) -> Outcome {
    let outcome = run(plan, profile, disk(), &ProgressBar::hidden()).expect("it runs").outcome;
    assert_rows_add_up(&outcome);
    outcome
}

/// Checks that the rows of the tenants add up to the figures of the whole node.
fn assert_rows_add_up(outcome: &Outcome) {
    let rows = &outcome.tenants;
    assert_eq!(Some(rows.len() as u64), outcome.params["partitions"].as_u64());
    let sum = |of: fn(&Bytes) -> u64| rows.iter().map(|row| of(&row.bytes.expect("Weir says"))).sum::<u64>();
    let of_rows = [sum(|b| b.user), sum(|b| b.log), sum(|b| b.flush), sum(|b| b.l0), sum(|b| b.deep), sum(|b| b.read)];
    let all = &outcome.bytes;
    assert_eq!(of_rows, [all.user, all.log, all.flush, all.l0, all.deep, all.read]);
    assert_eq!(rows.iter().map(|row| row.stalls.count).sum::<u64>(), outcome.stalls.count);
    let worst = rows.iter().map(|row| row.normally_served).fold(1.0, f64::min);
    assert_eq!(worst, outcome.normally_served.min);
    assert!(rows.iter().all(|row| row.done.writes <= row.sent.writes && row.units.writes >= row.done.writes));
    let slowest = rows.iter().map(|row| row.latency_us.max).fold(0.0, f64::max);
    assert!((slowest - outcome.latency_us.max).abs() <= 0.01 * outcome.latency_us.max, "{slowest}");
}

/// Checks that every write of every partition was done within a millisecond, and that none met a stall.
fn assert_all_served(outcome: &Outcome) {
    let who = (&outcome.profile, outcome.params.get("bosr"), outcome.seed);
    assert_eq!(outcome.normally_served.min, 1.0, "{who:?}: {:?}", outcome.normally_served);
    assert_eq!(outcome.stalls.count, 0, "{who:?}");
    assert!(outcome.latency_us.p999 <= 100.0, "{who:?}: {:?}", outcome.latency_us);
}

/// Some trees are in a stall when the load ends, with a queue of writes behind it.
#[test]
fn what_waits_at_the_end_of_the_load_counts_however_soon_the_run_ends() {
    let plan = plan(10.0, 300, 1);
    let then = Plan::new(Shortage { after: 1, ..plan.args.clone() }).expect("a plan");
    let sent = |plan: &Plan| outcome("rocksdb", plan).tenants.iter().map(|row| row.sent).collect::<Vec<_>>();
    assert_eq!(sent(&then), sent(&plan));
}

/// FX-E3: the paper's engine keeps all promises of the paper.
#[test]
fn flexengine_serves_everybody_while_the_disk_is_sold_three_times() {
    for seed in seeds() {
        // The more often the disk is sold, the more is put off in a second.
        for (bosr, seconds) in [(1.5, 100), (2.0, 100), (2.5, 100), (3.0, 200)] {
            assert_all_served(&outcome("flexengine", &plan(bosr, seconds, seed)));
        }
    }
}

#[test]
fn flexengine_serves_everybody_for_a_hundred_seconds_at_seven_times() {
    for seed in seeds() {
        assert_all_served(&outcome("flexengine", &plan(7.0, 100, seed)));
    }
}

/// If the other tenants write a seventh of what they bought, the paper's engine needs nothing else for twice that time.
#[test]
fn flexengine_serves_everybody_while_half_of_them_burst() {
    for seed in seeds() {
        let plan = plan(7.0, 200, seed);
        let half = Plan::new(Shortage { burst_share: 0.5, ..plan.args }).expect("a plan");
        assert_all_served(&outcome("flexengine", &half));
    }
}

/// As far as the paper reached, and beyond.
#[test]
fn weir_serves_everybody_while_the_disk_is_sold_three_seven_and_ten_times() {
    for seed in seeds() {
        // Work that is put off runs in what the load leaves. (At 3 and 7 the load leaves most between the flushes of
        // all trees at once.)
        for (bosr, seconds, least_used) in [(3.0, 200, 0.75), (7.0, 300, 0.85), (10.0, 200, 0.95)] {
            let plan = plan(bosr, seconds, seed);
            let weir = outcome("weir", &plan);
            assert_all_served(&weir);
            let used = weir.utilisation_backlogged.expect("work waited");
            assert!(used >= least_used, "at {bosr}: {used}");
            // Memtables and levels 0 and 1 took no more memory than was predicted before the run.
            let (taken, said) = (weir.memory_peak_bytes * 200, plan.deferral_memory().expect("a shortage") as u64);
            assert!(taken <= said, "at {bosr}: {taken} bytes, {said} were said");
        }
    }
}

/// All trees fill their memtables at the same pace. Flushes that go one after the other give back memory sooner.
#[test]
fn flushes_in_turn_take_less_memory() {
    let plan = plan(15.0, 300, 1);
    let in_turn = outcome("weir", &plan);
    assert_all_served(&in_turn);
    let at_once = outcome("weir-without-flush-order", &plan);
    let [in_turn, at_once] = [in_turn, at_once].map(|outcome| outcome.memory_peak_bytes);
    assert!(in_turn * 10 < at_once * 9, "{in_turn} and {at_once} bytes");
}

fn surge(idle: u64, seconds: u64, writes: bool, seed: u64) -> Plan {
    let surge = Surge { idle, writes, common: plan(3.0, seconds, seed).args };
    surge.plan().expect("a plan")
}

/// FX-E2: nothing for ten seconds, and then all the reads that were bought. A profile whose limits are what was sold
/// answers them from the first second on; a limiter that follows the load has forgotten what was sold.
#[test]
fn a_surge_of_reads_is_answered_from_the_first_second_on() {
    for seed in seeds() {
        // The bucket's burst is gone by the third second of reads.
        let plan = surge(10, 8, false, seed);
        let asked = 32.0 * plan.reads_per_sec();
        for profile in ["flexengine", "weir"] {
            let outcome = outcome(profile, &plan);
            let in_time = outcome.reads_in_time.expect("reads were sent");
            assert_eq!(in_time.min, 1.0, "{profile}, {seed}: {in_time:?}");
            assert_eq!(outcome.reads_per_sec[..10], [0; 10]);
            assert!(outcome.reads_per_sec[10] as f64 >= asked - 2.0, "{profile}, {seed}: {:?}", outcome.reads_per_sec);
        }
    }
}

/// FX-17: the limit comes back, by 5 % a second; `tests/autotune.rs` of the admission crate has the curve of a real
/// one.
#[test]
fn an_auto_tuned_limiter_comes_back_from_silence_step_by_step() {
    for seed in seeds() {
        let plan = surge(10, 30, false, seed);
        let reads = &outcome("rocksdb-autotune", &plan).reads_per_sec[10..];
        let asked = 32.0 * plan.reads_per_sec();
        // The bucket's burst is gone by the third second, and the cache warm by the sixth.
        let early = reads[2..6].iter().sum::<u64>() as f64 / 4.0;
        assert!(early < 0.55 * asked, "{seed}: {reads:?}");
        assert!(reads.windows(2).skip(2).all(|two| two[1] as f64 > 0.85 * two[0] as f64), "{seed}: {reads:?}");
        let late = reads[26..].iter().sum::<u64>() as f64 / 4.0;
        let (steps, ratio) = (FACTOR.powi(24), late / early);
        assert!((0.85 * steps..=1.15 * steps).contains(&ratio) && late > asked, "{seed}: {ratio}, {reads:?}");
    }
}

/// A step of the limiter.
const FACTOR: f64 = 1.05;

/// U-9: after ten idle minutes there is no average by which to size the background, and the first flush must not wait
/// for one.
#[test]
fn a_surge_of_writes_after_ten_idle_minutes_meets_no_stall() {
    for seed in seeds() {
        let plan = surge(600, 60, true, seed);
        assert_all_served(&outcome("weir", &plan));
        let flexengine = outcome("flexengine", &plan);
        assert!(flexengine.normally_served.avg < 0.5 && flexengine.stalls.count > 0, "{seed}: {flexengine:?}");
    }
}

/// FX-E1, the part of it that matters: a season, in which tenants of one kind burst together and need half as much
/// again as the device has.
#[test]
fn the_busiest_minutes_of_a_day_are_served() {
    for seed in seeds() {
        let trace = Pattern::Trace(Trace::generate(32, 86_400, seed).busiest(400).0.into());
        let plan = Plan::of("trace", plan(8.0, 400, seed).args, trace).expect("a plan");
        let weir = outcome("weir", &plan);
        assert_all_served(&weir);
        assert!(weir.stages.iter().any(|change| change.to == "stage1"), "{seed}: nothing was short");
        // A profile that merges as it likes serves everybody, too, but moves more bytes.
        let moved = |outcome: &Outcome| outcome.bytes.flush + outcome.bytes.l0 + outcome.bytes.deep;
        let (weir, rocksdb) = (moved(&weir), moved(&outcome("rocksdb", &plan)));
        assert!(weir < rocksdb, "{seed}: {weir} bytes, {rocksdb}");
    }
}

/// The paper's order of profiles, at a ratio where a tree that compacts as it likes serves fewer than 97 of 100 writes.
/// The gate alone helps nobody here; from `node` on merges find levels 0 and 1 in memory.
#[test]
fn every_step_of_the_paper_serves_more() {
    for seed in seeds() {
        let plan = plan(11.0, 200, seed);
        let served = |profile: &str| outcome(profile, &plan).normally_served.avg;
        let names = ["rocksdb", "rocksdb+gate", "node", "node+stage1", "flexengine", "weir"];
        let [rocksdb, gate, node, stage1, flexengine, weir] = names.map(served);
        assert!(rocksdb.max(gate) < 0.97, "{rocksdb} {gate}");
        assert!(rocksdb.max(gate) < node && node <= stage1, "{rocksdb} {gate} {node} {stage1}");
        assert!(stage1 < flexengine && flexengine < weir && weir == 1.0, "{stage1} {flexengine} {weir}");
    }
}

/// Reads beside writes that are put off are at most 2 ms slower than before, at the 99th percentile, in the
/// median of three seeds. A percentile is reported up to a hundredth too high.
#[test]
fn reads_stay_fast_while_compactions_are_put_off() {
    let by_seed = THREE_SEEDS.map(|seed| {
        let reading = |burst_share, seconds| {
            let plan = plan(10.0, seconds, seed);
            outcome("weir", &Plan::new(Shortage { rcu: 3000, burst_share, ..plan.args }).expect("a plan"))
        };
        // Before, nothing changes from second to second.
        let (before, during) = (reading(0.0, 100), reading(1.0, 200));
        assert_eq!((during.normally_served.min, during.stalls.count), (1.0, 0));
        0.99 * during.read_latency_us.p99 - before.read_latency_us.p99
    });
    let mut slower: Vec<f64> = by_seed.collect();
    slower.sort_by(f64::total_cmp);
    assert!(slower[1] <= 2_000.0 && slower[2] <= 2_500.0, "{slower:?} us slower");
}

/// Checks that after the load every tree becomes a pyramid again, in the time that the device needs for what was put
/// off, that nobody stalls, and that reads are not twice as slow as on an idle node. Catching up may use `share` of the
/// device, the load included.
fn assert_restored(profile: &str, share: f64) {
    let reading = |bosr, burst_share, seconds, after| {
        let plan = plan(bosr, seconds, 1);
        Plan::new(Shortage { rcu: 3000, burst_share, after, ..plan.args }).expect("a plan")
    };
    let idle = outcome(profile, &reading(7.0, 0.0, 30, 0)).read_latency_us.p99;
    let seconds = 60;
    let plan = reading(7.0, 1.0, seconds, 1_500);
    let outcome = outcome(profile, &plan);
    let after = outcome.after.expect("it was looked at");
    // All that was written, 20 times over, with what reads and the log leave of that share. Allowed besides are the
    // calm before, a slow start, and a straggler or two.
    let debt = outcome.bytes.user as f64 * AMPLIFICATION;
    let reads = outcome.bytes.read as f64 / seconds as f64;
    let free = share * plan.device() as f64 - reads - 0.02 * plan.ingest() * AMPLIFICATION;
    let bound = debt / free * 1.2 + 60.0;
    let took = after.restored_seconds.expect("restored") as f64;
    assert!(took <= bound, "{profile}: {took} s, {bound} s allowed");
    assert_eq!((after.stalls.count, after.latency_us.p999 < 1_000.0), (0, true), "{profile}: {after:?}");
    assert!(after.read_latency_us.p99 <= 2.0 * idle, "{profile}: {} us, idle {idle} us", after.read_latency_us.p99);
}

/// FX-25: all trees at once. Three quarters of the device are enough for the time that is allowed.
#[test]
fn trees_are_restored_in_the_time_that_the_debt_takes() {
    assert_restored("weir", 0.75);
}

/// FX-25: catching up gets all that foreground leaves.
#[test]
fn flexengine_restores_its_trees_too() {
    assert_restored("flexengine", 1.0);
}

/// Waves around 80 % of what the device can do (U-3). The tree is small, so that it soon is in its steady state. Its
/// cost there was measured: 13.74 background bytes a byte, from second 1500 to 3000 of `weir sim waves --amplification
/// 40`. The cost comes in steps, because files are merged whole, and the policy sees up to 5 % more for some seconds.
/// The value given here is in between: with it no such step of these seeds passes 80 %.
fn waves(low: f64, high: f64, seconds: u64, seed: u64) -> Outcome {
    let plan = |seconds, seed| {
        let common = Shortage { preload_items: 1_500_000, seconds, ..plan(1.0, 1, seed).args };
        Waves { low, high, period: 60, amplification: 14.4, common }.plan().expect("a plan")
    };
    // The disk from which all of these runs start does not depend on the load.
    static IMAGE: OnceLock<DiskImage> = OnceLock::new();
    let disk = IMAGE.get_or_init(|| image(&plan(1, 1), &ProgressBar::hidden()).expect("preloaded"));
    run(&plan(seconds, seed), "weir", disk, &ProgressBar::hidden()).expect("it runs").outcome
}

/// Checks that nothing is held at a gate while the device has time for it.
fn assert_used_while_work_waits(outcome: &Outcome) {
    let used = outcome.utilisation_backlogged.expect("work waited");
    assert!(used >= 0.95, "{:?}: {used}", outcome.params);
}

#[test]
fn at_79_percent_nothing_is_put_off() {
    for seed in seeds() {
        let below = waves(0.79, 0.79, 400, seed);
        assert_all_served(&below);
        assert_eq!(below.stages, [], "{seed}: {:?}", below.stages.first());
        assert_used_while_work_waits(&below);
    }
}

fn assert_little_is_put_off(low: f64) {
    for seed in seeds() {
        let above = waves(low, 0.81, 300, seed);
        assert_all_served(&above);
        assert!(above.stages.iter().any(|change| change.to == "stage1"), "{seed}");
        let mut last = std::collections::BTreeMap::new();
        for change in &above.stages {
            let before = last.insert(change.partition, change.t);
            assert!(before.is_none_or(|before| change.t - before >= 10.0), "{seed}: {change:?}");
        }
        assert_used_while_work_waits(&above);
        // Work that is put off runs in what others leave, so that the device does all that is needed. Where the load
        // goes up and down, six seeds use 0.745 to 0.77 of the device.
        let needed = (low + 0.81) / 2.0;
        assert!(above.device_utilisation > 0.74 * needed, "{seed}: {}", above.device_utilisation);
    }
}

#[test]
fn at_81_percent_something_is_put_off() {
    assert_little_is_put_off(0.81);
}

#[test]
fn at_79_and_81_percent_by_turns_something_is_put_off() {
    assert_little_is_put_off(0.79);
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let plan = plan(7.0, 60, 5);
    let [one, two] = [(); 2].map(|()| serde_json::to_string(&outcome("weir", &plan)).expect("JSON"));
    assert_eq!(one, two);
}
