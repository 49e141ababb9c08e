//! How many tenants a machine carries, and what `weir plan` makes of a recording.

use clap::Parser;
use indicatif::ProgressBar;
use weir_scenario::args::{Capacity, Density};
use weir_scenario::capacity::{Answer, Question};
use weir_scenario::trace::Trace;
use weir_sim::scenario::{capacity, density, image, run};

#[derive(Parser)]
struct DensityLine {
    #[command(flatten)]
    args: Density,
}

#[derive(Parser)]
struct PlanLine {
    #[command(flatten)]
    args: Capacity,
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    std::iter::once("it").chain(line.split_whitespace())
}

/// The busiest ten minutes of a week: `weir` carries at least three times as many tenants as `rocksdb`.
#[test]
fn weir_carries_three_times_as_many_tenants() {
    let find = |line: &str| {
        let line = format!("--seconds 600 --scale 400 --precision 20 --preload-items 1000000 {line}");
        density(&DensityLine::parse_from(words(&line)).args, 1).expect("every run ends").remove(0)
    };
    let rocksdb = find("--profile rocksdb --from 20");
    // Where the search ends, a tenant is late.
    assert!(rocksdb.is_known && rocksdb.tried.iter().any(|tried| tried.worst < 0.999), "{rocksdb:?}");
    // How many more fit than this is not the question.
    let weir = find("--profile weir --from 81 --tries 1");
    let (weir, rocksdb) = (weir.tenants.expect("81 fit"), rocksdb.tenants.expect("some fit"));
    assert!(weir >= 3 * rocksdb, "{weir} and {rocksdb} tenants");
}

/// A ratio that a plan calls safe holds when it is played, and a tenth more than that breaks.
#[test]
fn a_ratio_that_is_called_safe_holds_and_one_within_a_tenth_does_not() {
    let line = "trace.csv --seconds 300 --scale 400 --precision 8 --items 500000 --memory 8";
    let args = PlanLine::parse_from(words(line)).args;
    let question = Question::new(&args, Trace::generate(8, 86_400, 1), 125_000_000).expect("it can be run");
    let Answer { ratio, tenants, .. } = capacity(&question, 2).expect("every run ends");
    let (holds, breaks) = (ratio.holds.expect("some ratio is safe"), ratio.breaks.expect("another is not"));
    let (safe, broken) = (holds.tried.bosr, breaks.tried.bosr);
    assert!(safe < broken && broken <= safe * 1.1, "{safe} {broken}");
    // Played as plans of their own, as `weir sim trace` would.
    let disk = image(question.today(), &ProgressBar::hidden()).expect("preloaded");
    let served = |ratio: f64| {
        let plan = question.today().sold_times((ratio * 100.0).round() / 100.0);
        run(&plan, "weir", &disk, &ProgressBar::hidden()).expect("it runs").outcome.normally_served.min
    };
    assert!(served(safe) >= 0.999 && served(broken) < 0.999, "{safe} {broken}");
    let first = question.first(&breaks).expect("somebody was late");
    assert!(first.tenant < 8 && first.sealed > 0, "{first:?}");
    let (fit, do_not) = (tenants.holds.map(|played| played.tried), tenants.breaks.map(|played| played.tried));
    assert!(fit.zip(do_not).is_none_or(|(fit, do_not)| fit.tenants < do_not.tenants));
}
