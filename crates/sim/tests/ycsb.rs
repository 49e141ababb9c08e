//! YCSB's workloads in virtual time, small: clients send what was asked for, every item is found, and a seed repeats.

use clap::Parser;
use weir_scenario::args::Ycsb;
use weir_scenario::outcome::{OfKind, Outcome, Run};
use weir_scenario::ycsb::Case;
use weir_sim::scenario::Cases;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Ycsb,
}

/// Ten thousand records in a store of 10 MB, and half a minute.
const SMALL: &str = "--scale 500 --records 5000000 --seconds 20 --memory 2";

fn runs(line: &str) -> Vec<(Case, Run)> {
    let words = ["ycsb"].into_iter().chain(SMALL.split_whitespace()).chain(line.split_whitespace());
    let cases = Cases::of(&Line::parse_from(words).args).expect("they can be run");
    cases.run(2).expect("they run")
}

fn of_kind<'a>(outcome: &'a Outcome, kind: &str) -> Option<&'a OfKind> {
    outcome.operations.iter().find(|row| row.kind == kind)
}

/// The share of `kind` in all operations, in percent.
fn percent(outcome: &Outcome, kind: &str) -> f64 {
    let [kind, all] = [kind, "all"].map(|name| of_kind(outcome, name).map_or(0.0, |row| row.done as f64));
    100.0 * kind / all
}

fn assert_all_was_found(outcome: &Outcome) {
    for row in &outcome.tenants {
        assert!(row.sent.reads > 0 && row.sent.reads == row.done.reads, "{}: {row:?}", outcome.profile);
    }
}

/// Scans begin at items that are there, and reads ask for such items, also where records are new.
#[test]
fn updates_and_scans_have_their_shares_and_repeat_exactly() {
    let line = "--workload A,E --profile rocksdb,weir --seed 3 --warm-up 10";
    let [one, two] = [(); 2].map(|()| runs(line));
    let texts = [&one, &two].map(|runs| {
        let outcomes: Vec<&Outcome> = runs.iter().map(|(_, run)| &run.outcome).collect();
        serde_json::to_string(&outcomes).expect("JSON")
    });
    assert_eq!(texts[0], texts[1]);
    let names = |(case, run): &(Case, Run)| format!("{case} {}", run.outcome.profile);
    let wanted = ["A zipfian rocksdb", "A zipfian weir", "E zipfian rocksdb", "E zipfian weir"];
    assert_eq!(one.iter().map(names).collect::<Vec<_>>(), wanted);
    for (case, run) in &one {
        let outcome = &run.outcome;
        let shares = case.workload.shares();
        assert_all_was_found(outcome);
        for (kind, share) in
            [("get", shares.gets), ("update", shares.updates), ("scan", shares.scans), ("insert", shares.inserts)]
        {
            assert!((percent(outcome, kind) - f64::from(share)).abs() < 3.0, "{case} {kind}: {:?}", outcome.operations);
        }
    }
}

/// Every read-modify-write reads once and writes once, and is one operation.
#[test]
fn a_read_modify_write_is_one_operation() {
    let all = runs("--workload F --profile weir --warm-up 0");
    let outcome = &all[0].1.outcome;
    assert_all_was_found(outcome);
    let (modified, row) = (of_kind(outcome, "read-modify-write").expect("there were some"), &outcome.tenants[0]);
    assert_eq!(row.done.writes, modified.done);
    assert_eq!(row.done.reads, of_kind(outcome, "all").expect("all").done);
    assert!((percent(outcome, "get") - 50.0).abs() < 3.0);
}

/// In D what is read most is in memory; of a uniform choice most is not. Nobody asks for a record before it is there.
#[test]
fn popular_records_are_found_in_memory_and_new_ones_once_they_are_there() {
    let all = runs("--workload D --dist latest,uniform,zipfian --profile weir --warm-up 10");
    let per_operation = |run: &Run| {
        let even = run.outcome.steadiness.expect("it is about that");
        even.bytes.read as f64 / of_kind(&run.outcome, "get").expect("gets").done as f64
    };
    let [latest, uniform] = [0, 1].map(|at| per_operation(&all[at].1));
    all.iter().for_each(|(_, run)| assert_all_was_found(&run.outcome));
    assert!(latest * 3.0 < uniform, "{latest} and {uniform} bytes for a get");
}

/// Operations with times of their own: each kind is sent at its rate, whether or not earlier ones are answered.
#[test]
fn an_open_loop_sends_each_kind_at_its_rate() {
    for (_, run) in runs("--workload B,E,F --profile weir --rate 5000 --warm-up 0") {
        let all = of_kind(&run.outcome, "all").expect("there were some");
        // Some are in flight at either end of the seconds that count; scans of a full device more than others.
        assert!((195..=205).contains(&all.done), "{:?}", run.outcome.operations);
        assert_all_was_found(&run.outcome);
    }
}
