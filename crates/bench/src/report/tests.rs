//! Numbers, ratios and verdicts, on runs that are made up for the purpose.

use super::median::{median, median_of_counts, ratio_of};
use super::words::align;
use super::*;
use crate::entry::Engine;
use crate::work::Size;

fn run(work: Work, engine: Engine, round: u32, ops_per_sec: f64, bytes_written: u64) -> Outcome {
    Outcome {
        work: work.name().into(),
        engine: engine.name().into(),
        round,
        ops: 100,
        seconds: 100.0 / ops_per_sec,
        ops_per_sec,
        bytes_written,
        space_bytes: 1016,
        ..Outcome::default()
    }
}

fn judged(outcomes: &[Outcome], works: &[Work], engines: &[Engine], size: &Size) -> String {
    let subjects: Vec<_> = works.iter().map(|work| work.subject(size)).collect();
    table(outcomes, &subjects, &engines.iter().map(|engine| engine.name()).collect::<Vec<_>>())
}

/// The row of the table that starts a comparison of `work` on `engine`.
fn row_of<'a>(table: &'a str, engine: &str) -> &'a str {
    table.lines().find(|line| line.contains(&format!(" {engine} "))).expect("the engine has a row")
}

#[test]
fn numbers_have_three_digits_and_a_unit() {
    assert_eq!(
        [count(0.0), count(950.0), count(999.6), count(12_345.0), count(1_204_000.0)],
        ["0", "950", "1.00 K", "12.3 K", "1.20 M"]
    );
    assert_eq!([bytes(512), bytes(4_140_000_000)], ["512 B", "4.14 GB"]);
    assert_eq!([time(850), time(1_940_000)], ["850 ns", "1.94 ms"]);
}

#[test]
fn a_median_is_the_middle_or_the_mean_of_two() {
    assert_eq!(median(&[]), None);
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    let of = |counts: &[u64]| median_of_counts(counts.iter().copied());
    assert_eq!([of(&[]), of(&[7, 1, 5]), of(&[40, 10]), of(&[5, 2, 9, 3])], [0, 5, 25, 4]);
}

#[test]
fn a_ratio_is_of_medians_and_its_range_within_rounds() {
    let work = Work::Scan;
    let ours: Vec<_> =
        [(1, 120.0), (2, 60.0), (3, 130.0)].map(|(round, speed)| run(work, Engine::Weir, round, speed, 0)).into();
    let theirs: Vec<_> =
        [(3, 100.0), (1, 100.0), (2, 50.0)].map(|(round, speed)| run(work, Engine::Rocksdb, round, speed, 0)).into();
    let ratio =
        ratio_of(&ours.iter().collect::<Vec<_>>(), &theirs.iter().collect::<Vec<_>>(), |outcome| outcome.ops_per_sec);
    let ratio = ratio.expect("both sides ran");
    assert_eq!((ratio.of_medians, ratio.spread()), (1.2, "[1.20 .. 1.30]".into()));
}

#[test]
fn the_table_judges_speed_bytes_and_space() {
    let size = Size { items: 1, value_bytes: 1000, ..Size::default() };
    let outcomes = [
        run(Work::FillRandom, Engine::Weir, 1, 119.0, 4000),
        run(Work::FillRandom, Engine::Rocksdb, 1, 100.0, 5000),
        run(Work::FillRandom, Engine::WeirUngated, 1, 121.0, 4000),
    ];
    let table = judged(&outcomes, &Work::ALL, &[Engine::Weir, Engine::Rocksdb, Engine::WeirUngated], &size);
    assert!(row_of(&table, "rocksdb").contains("| 1.19"), "{table}");
    assert!(row_of(&table, "rocksdb").ends_with(">= 1.20  MISSED"), "{table}");
    assert!(table.lines().any(|line| line.contains("| wrote 0.80") && line.ends_with("<= 1.00  met")), "{table}");
    assert!(table.lines().any(|line| line.contains("| space 1.00") && line.ends_with("<= 1.05  met")), "{table}");
    assert!(row_of(&table, "weir-ungated").ends_with(">= 0.97  met"), "{table}");
}

#[test]
fn processor_time_is_judged_by_operation() {
    let subject = |limit| Subject {
        work: "set",
        promises: vec![Promise { quantity: Quantity::Processor, against: "weir", limit }],
        user_bytes: None,
    };
    let run = |engine: &str, ops, cpu_seconds| Outcome {
        work: "set".into(),
        engine: engine.into(),
        ops,
        ops_per_sec: 1.0,
        cpu_seconds,
        ..Outcome::default()
    };
    let outcomes = [run("weir-tenants", 200, 2.2), run("weir", 100, 1.0)];
    for (limit, verdict) in [(1.03, "<= 1.03  MISSED"), (1.2, "<= 1.20  met")] {
        let table = table(&outcomes, &[subject(limit)], &["weir-tenants", "weir"]);
        assert!(table.lines().any(|line| line.contains("| cpu 1.10") && line.ends_with(verdict)), "{table}");
    }
}

#[test]
fn recovery_is_judged_in_seconds_and_not_against_the_peer() {
    let outcomes = [run(Work::Recovery, Engine::Weir, 1, 40.0, 0), run(Work::Recovery, Engine::Rocksdb, 1, 80.0, 0)];
    let table = judged(&outcomes, &[Work::Recovery], &[Engine::Weir, Engine::Rocksdb], &Size::default());
    assert!(row_of(&table, "weir").contains("2.50 s") && row_of(&table, "weir").ends_with("<= 2 s  MISSED"), "{table}");
    assert!(!row_of(&table, "rocksdb").contains("met") && !row_of(&table, "rocksdb").contains("MISSED"), "{table}");
}

#[test]
fn a_deletion_is_judged_by_its_time_and_by_what_the_same_load_wrote_without_it() {
    let deleted = |seconds: f64, bytes_kept| Outcome {
        deletion: Some(Deletion { bytes_kept, ..Deletion::default() }),
        ..run(Work::DeleteRow, Engine::Weir, 1, 100.0 / seconds, 900)
    };
    let verdicts = |outcome| {
        let table = judged(&[outcome], &[Work::DeleteRow], &[Engine::Weir], &Size::default());
        let is_met = |words: &str, limit: &str| {
            table.lines().any(|line| line.contains(words) && line.contains(limit) && line.ends_with(" met"))
        };
        assert!(table.contains("wrote"), "{table}");
        (is_met("deleterow", "<= 0.001 s"), is_met("| wrote", "<= 1.00"))
    };
    assert_eq!(verdicts(deleted(0.0002, 1000)), (true, true));
    assert_eq!(verdicts(deleted(0.0011, 800)), (false, false));
}

#[test]
fn columns_line_up_by_characters() {
    let rows = [["work", "x", "end"], ["µ", "1.00", "!"]].map(|row| row.map(str::to_owned));
    assert_eq!(align(&rows), "work  x     end\nµ     1.00  !\n");
}

#[test]
fn json_is_an_array_with_the_agreed_names() {
    let text = json(&[run(Work::Scan, Engine::Weir, 1, 5.0, 7)]).expect("plain fields");
    let value: serde_json::Value = serde_json::from_str(&text).expect("own JSON parses");
    for name in ["work", "engine", "ops_per_sec", "bytes_written", "bytes_read", "space_bytes", "round"] {
        assert!(value[0].get(name).is_some(), "{name} is missing in {text}");
    }
}
