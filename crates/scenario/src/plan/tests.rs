//! What follows from the parameters of a plan.

use clap::Parser;
use serde_json::{Value, json};

use super::*;
use crate::trace::{HEADER, Trace, line};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Shortage,
}

pub fn plan(line: &str) -> Plan {
    let words = std::iter::once("shortage").chain(line.split_whitespace());
    Plan::new(Line::parse_from(words).args).expect("it can be run")
}

#[test]
fn the_device_leaves_what_the_ratio_says() {
    // FX-E3: 32 partitions x 3 MB/s x 20 = 1966 MB/s, a third of it at BOSR 3; the log passes besides.
    let plan = plan("--bosr 3 --scale 1");
    assert_eq!((plan.ingest() / 1e6).round(), 98.0);
    assert_eq!((plan.background_bandwidth() / 1e6).round(), 655.0);
    assert_eq!(plan.device() as f64, (plan.background_bandwidth() + plan.log_bandwidth()).floor());
    let left = |bosr: &str| (tests::plan(&format!("--bosr {bosr}")).background_bytes_per_user_byte() * 100.0).round();
    assert_eq!([left("3"), left("7"), left("10")], [667.0, 286.0, 200.0]);
}

#[test]
fn the_ratio_is_what_there_is_whoever_gives_it() {
    // The rounds on a disk: 16 partitions, 5 MB/s of users, both caps together.
    let told = plan("--partitions 16 --scale 32 --wcu 9600 --item-bytes 1040 --bosr 10");
    assert_eq!(told.bosr(), 10.0);
    let under = |caps: f64| Plan { caps: Some((caps * 1e6) as u64), ..told.clone() }.bosr();
    assert_eq!([18.9, 24.9, 32.8, 51.0].map(under), [7.5, 5.17, 3.67, 2.2]);
    let same = Plan { caps: Some(told.device()), ..told.clone() };
    assert_eq!((same.bosr(), same.params(json!({}))["bosr"].as_f64()), (10.0, Some(10.0)));
}

#[test]
fn bytes_are_scaled_and_times_are_not() {
    // A memtable fills in 5.3 s (5.5 with binary megabytes), at any scale.
    for scale in [1, 20, 200] {
        let plan = plan(&format!("--scale {scale}"));
        let fill = plan.tree().write_buffer_bytes as f64 / (plan.writes_per_sec(0) * 1024.0);
        assert!((5.3..5.6).contains(&fill), "{fill} s at scale {scale}");
        assert_eq!(plan.tree().level1_bytes / plan.tree().write_buffer_bytes as u64, 4);
    }
}

#[test]
fn a_machine_that_is_given_stays_the_same_and_the_ratio_follows() {
    let of = |tenants: u16, share: f64| {
        let mut args = plan(&format!("--partitions {tenants} --scale 100 --memory 40")).args;
        args.bosr = 1.0;
        let trace = Trace::parse(&format!("{HEADER}\n{}", line(0, 0, (share as f32, 0.0)))).expect("a trace");
        Plan {
            given: Some(2_500_000),
            ..Plan::of("density", args, Pattern::Trace(trace.into())).expect("it can be run")
        }
    };
    // 16 tenants were sold 3.072 MB/s each, and 20 times that in the background, on what the log leaves of 250
    // MB/s.
    let (few, busy, many) = (of(16, 0.1), of(16, 1.0), of(32, 0.1));
    assert!((4.0..4.1).contains(&few.bosr()), "{}", few.bosr());
    assert!(busy.bosr() > 1.2 * few.bosr() && many.bosr() > 2.0 * few.bosr());
    // 0.307 MB/s in items of 1064 bytes, and ten pages a second, for a tenth and for all of what was sold.
    let log = [&few, &busy].map(|plan| (plan.log_bandwidth() * 100.0 / 16.0 / 1e4).round() / 100.0);
    assert_eq!(log, [0.36, 3.23]);
    for plan in [&few, &busy, &many] {
        let memory = (plan.cache_bytes(), plan.write_memory_bytes());
        assert_eq!(memory, ((40 << 30) / 400 * 3, (40 << 30) / 400));
        // Two syncs a second of whole pages at this scale, instead of ten of a hundredth of a page.
        let beyond = u64::from(plan.args.partitions) * (2 * 4096 - 410);
        assert!(plan.device().abs_diff(2_500_000 + beyond) <= 16, "{}", plan.device());
    }
    assert_eq!(few.params(json!({}))["bosr_told"], Value::Null);
    // And the other way round.
    assert_eq!(few.sold_times(9.0).bosr(), 9.0);
    assert_eq!(few.sold_times(few.bosr()).device().abs_diff(few.device()) / 10_000, 0);
}

#[test]
fn the_device_has_room_for_the_reads_that_a_trace_says_were_sold() {
    let text =
        format!("{HEADER}\n# sold,0,3000,100\n# sold,1,3000,300\n{}{}", line(0, 0, (1.0, 1.0)), line(0, 1, (1.0, 1.0)));
    let trace = Pattern::Trace(Trace::parse(&text).expect("a trace").into());
    let of = |line: &str, pattern| Plan::of("trace", plan(line).args, pattern).expect("it can be run");
    let recorded = of("--partitions 2 --scale 1", trace);
    assert_eq!(recorded.read_bandwidth(), 400.0 * READ_BYTES);
    // The same as if all had been sold as much on the command line.
    let told = of("--partitions 2 --scale 1 --rcu 200", Pattern::Steady);
    assert_eq!(recorded.device(), told.device());
}

#[test]
fn half_of_them_burst_and_the_device_stays_the_same() {
    let (all, half) = (plan("--bosr 7"), plan("--bosr 7 --burst-share 0.5"));
    assert_eq!(half.bursting(), 16);
    assert!((half.writes_per_sec(16) * 7.0 - half.writes_per_sec(15)).abs() < 1e-9);
    assert_eq!(all.background_bandwidth(), half.background_bandwidth());
}

#[test]
fn who_begins_in_debt_has_runs_in_level_0_and_levels_above_their_targets() {
    let of = |line: &str| {
        let plan = plan(line);
        let level1 = plan.preload().into_iter().find(|(level, _)| *level == 1).expect("level 1").1;
        ((level1.end - level1.start) * 1024 * 200 / 1_000_000, plan.preload_runs())
    };
    // 64 MiB, 95 % of that, and half as much again.
    assert_eq!([of(""), of("--debt 0.5"), of("--debt 1")], [(63, 0), (95, 10), (127, 20)]);
}

#[test]
fn levels_are_preloaded_from_the_top_and_everything_is_somewhere() {
    let plan = plan("--preload-items 10000000 --scale 20");
    let levels = plan.preload();
    assert_eq!(levels.iter().map(|(level, _)| *level).collect::<Vec<_>>(), [4, 3, 2, 1]);
    assert_eq!(levels.iter().map(|(_, items)| items.end - items.start).sum::<u64>(), plan.items());
}

#[test]
fn memory_for_deferral_is_what_is_written_and_level_1_before() {
    // 32 x (200 s x 3000/s + 95 % of 64 MiB in items) x 1064 B x 5/4 for eight slots. In a run at BOSR 3, with all
    // bursting, 25.7 GB were taken.
    let memory = |line: &str| (plan(line).deferral_memory().expect("a shortage") / 1e8).round() / 10.0;
    assert_eq!([memory("--scale 1"), memory("--scale 200")], [28.2; 2]);
    assert_eq!(memory("--seconds 300"), 41.0);
    assert_eq!(memory("--bosr 10 --burst-share 0"), 5.2);
    assert_eq!(memory("--preload-items 0"), 25.5);
}
