//! More partitions than fit awake, in virtual time: they fall asleep, and their clients wake them, all the time.

use clap::Parser;
use indicatif::ProgressBar;
use weir_scenario::args::Sleepers;
use weir_scenario::outcome::Operations;
use weir_scenario::pattern::Pattern;
use weir_scenario::plan::Plan;
use weir_scenario::visits::VISIT;
use weir_sim::scenario::{image, run};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Sleepers,
}

/// 96 tenants with 200 KB of items each. The memory has room for a memtable for each of 16, and for all items of 39.
const LINE: &str = "--partitions 96 --at-once 2 --wcu 1000 --rcu 1000 --memory 1 --bosr 10 --scale 100";
/// A partition that nobody has asked for this many steps sleeps: falling asleep takes at most half as long again as
/// `--asleep-after`, 300 s, and a flush.
const ASLEEP_STEPS: usize = 60;
/// Nobody falls asleep who is asked again after this many steps: they are less than 300 s.
const AWAKE_STEPS: usize = 28;

/// The steps of the load in which each tenant is asked.
fn asked(plan: &Plan) -> Vec<Vec<usize>> {
    let Pattern::Trace(trace) = &plan.pattern else { panic!("visits are a trace") };
    let asked = |tenant| trace.steps(tenant, false).enumerate().filter(|&(_, share)| share > 0.0);
    (0..trace.tenants()).map(|tenant| asked(tenant).map(|(step, _)| step).collect()).collect()
}

/// How often tenants are asked for the first time, or after more than `steps` in which nobody asked them.
fn wakes(asked: &[Vec<usize>], steps: usize) -> u64 {
    let of_one = |asked: &Vec<usize>| {
        let after_a_rest = asked.windows(2).filter(|two| two[1] - two[0] - 1 > steps).count();
        after_a_rest + asked.len().min(1)
    };
    asked.iter().map(of_one).sum::<usize>() as u64
}

#[test]
fn more_partitions_than_fit_awake_sleep_by_turns_and_lose_nothing() {
    let plan = Line::parse_from(std::iter::once("sleepers").chain(LINE.split(' '))).args.plan().expect("it can be run");
    let asked = asked(&plan);
    let disk = image(&plan, &ProgressBar::hidden()).expect("preloaded");
    let outcome = run(&plan, "weir", &disk, &ProgressBar::hidden()).expect("it runs").outcome;
    let waking = outcome.waking.expect("it is about that");
    println!("{waking:?}");

    let visited = asked.iter().filter(|asked| !asked.is_empty()).count() as u64;
    // Who sleeps, and how often: no more are awake than were asked lately, and nobody is woken who did not rest.
    let lately = |step: usize| {
        let is_recent = |at: &usize| *at <= step && step - at <= ASLEEP_STEPS;
        asked.iter().filter(|asked| asked.iter().any(is_recent)).count() as u64
    };
    let awake_max = (0..plan.args.seconds / VISIT).map(|step| lately(step as usize)).max().expect("some steps");
    assert!(awake_max < 96 && waking.awake_max <= awake_max, "{awake_max}: {waking:?}");
    let woken = wakes(&asked, ASLEEP_STEPS)..=wakes(&asked, AWAKE_STEPS);
    assert!(*woken.start() > visited && woken.contains(&waking.woken), "{woken:?}: {waking:?}");
    assert!(waking.asleep.sent >= waking.woken, "each was woken by a request: {waking:?}");

    // What they hold: never more than the limit.
    assert!(waking.memory_peak_bytes <= waking.memory_limit_bytes, "{waking:?}");

    // What they were told: all that was acknowledged is there after everybody has slept, and at every read before.
    assert_eq!((waking.slept, waking.lost), (96, 0), "{waking:?}");
    assert!(waking.read_back >= visited, "{waking:?}");

    // Nobody starves: whatever was asked is answered before the silence at the end is over.
    let mut sent = 0;
    for (row, asked) in outcome.tenants.iter().zip(&asked) {
        assert_eq!(row.done, row.sent, "{}", row.tenant);
        assert_eq!(row.sent != Operations::default(), !asked.is_empty(), "{}", row.tenant);
        sent += row.sent.writes + row.sent.reads;
    }
    assert_eq!(waking.asleep.sent + waking.awake.sent, sent, "{waking:?}");
}
