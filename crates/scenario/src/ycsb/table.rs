//! Workloads side by side, to be read on a terminal: medians over rounds, and how they compare.

use std::fmt::Write as _;

use super::Case;
use crate::outcome::{Bytes, OfKind, Outcome};
use crate::ratio::{Ratio, median, over};
use crate::table::time;

/// One contestant's run of a case in one round: in the simulation, with one seed.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// The case that was run.
    pub case: Case,
    /// The round; contestants are compared within one. In the simulation, the seed.
    pub round: u64,
    /// The outcome of the run.
    pub outcome: &'a Outcome,
}

/// A figure of operations of one kind.
struct Figure {
    name: &'static str,
    of: fn(&OfKind) -> f64,
    show: fn(f64) -> String,
}

const FIGURES: [Figure; 5] = [
    Figure { name: "ops/s", of: |row| row.per_sec, show: |rate| format!("{rate:.1}") },
    Figure { name: "p50", of: |row| row.latency_us.p50, show: time },
    Figure { name: "p99", of: |row| row.latency_us.p99, show: time },
    Figure { name: "p99.9", of: |row| row.latency_us.p999, show: time },
    Figure { name: "worst p99", of: |row| row.worst_p99_us, show: time },
];

/// A table for each case, in their order. Every contestant is compared with the one called `with`, if that ran.
pub fn table(measured: &[Measured<'_>], with: &str) -> String {
    let mut cases: Vec<Case> = Vec::new();
    for one in measured {
        if !cases.contains(&one.case) {
            cases.push(one.case);
        }
    }
    let mut text = String::new();
    for case in cases {
        let of_case: Vec<&Measured<'_>> = measured.iter().filter(|one| one.case == case).collect();
        let _ = writeln!(text, "\n{case}: {}", case.workload.shares().words());
        text += &rows(&of_case, with);
    }
    let _ = writeln!(
        text,
        "\nMedians over rounds or seeds; in brackets the ratio to {with}, and the smallest and largest one within a round. worst p99: of the worst\n\
         second. device/op and device/user: bytes that passed the device, for an operation and for a byte that users wrote."
    );
    text
}

fn rows(of_case: &[&Measured<'_>], with: &str) -> String {
    let mut text = format!("{:<18} {:<18}", "profile", "operations");
    for figure in FIGURES {
        let _ = write!(text, " {:>10} {:<20}", figure.name, "");
    }
    let _ = writeln!(text, " {:>10} {:>11} {:>7}", "device/op", "device/user", "stalls");
    let mut profiles: Vec<&str> = Vec::new();
    for one in of_case {
        if !profiles.contains(&one.outcome.profile.as_str()) {
            profiles.push(&one.outcome.profile);
        }
    }
    for profile in profiles {
        let of = |name: &str| -> Vec<&Measured<'_>> {
            of_case.iter().copied().filter(|one| one.outcome.profile == name).collect()
        };
        let (ours, theirs) = (of(profile), of(with));
        let Some(first) = ours.first() else { continue };
        for row in &first.outcome.operations {
            let _ = write!(text, "{profile:<18} {:<18}", row.kind);
            for figure in FIGURES {
                let ratio = if profile == with { None } else { ratio(&ours, &theirs, &row.kind, figure.of) };
                let ratio =
                    ratio.map_or_else(String::new, |ratio| format!("{:.2} {}", ratio.of_medians, ratio.spread()));
                let shown = median(&values(&ours, &row.kind, figure.of)).map_or_else(String::new, figure.show);
                let _ = write!(text, " {shown:>10} {ratio:<20}");
            }
            if row.kind == "all" {
                let _ = write!(text, " {:>10} {:>11} {:>7}", per_operation(&ours), per_user_byte(&ours), stalls(&ours));
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
    }
    text
}

/// The operations of `kind` in a run.
fn of_kind<'a>(one: &Measured<'a>, kind: &str) -> Option<&'a OfKind> {
    one.outcome.operations.iter().find(|row| row.kind == kind)
}

fn values(runs: &[&Measured<'_>], kind: &str, of: fn(&OfKind) -> f64) -> Vec<f64> {
    runs.iter().filter_map(|one| of_kind(one, kind).map(of)).collect()
}

/// The ratio of `ours` to `theirs`; `None` unless both had such operations in one round at least.
fn ratio(ours: &[&Measured<'_>], theirs: &[&Measured<'_>], kind: &str, of: fn(&OfKind) -> f64) -> Option<Ratio> {
    let in_round = |one: &&Measured<'_>| {
        let peer = theirs.iter().find(|peer| peer.round == one.round)?;
        Some(over(of(of_kind(one, kind)?), of(of_kind(peer, kind)?)))
    };
    let ratios: Vec<f64> = ours.iter().filter_map(in_round).collect();
    Ratio::from_values(&values(ours, kind, of), &values(theirs, kind, of), &ratios)
}

/// The median of what `of` computes from the bytes and the operations of each run's seconds that count.
fn of_bytes(runs: &[&Measured<'_>], of: fn(&Bytes, f64) -> f64) -> f64 {
    let counted = |one: &&Measured<'_>| {
        let even = one.outcome.steadiness?;
        Some(of(&even.bytes, one.outcome.operations.first()?.done as f64))
    };
    median(&runs.iter().filter_map(counted).collect::<Vec<_>>()).unwrap_or(0.0)
}

fn per_operation(runs: &[&Measured<'_>]) -> String {
    format!("{:.0} B", of_bytes(runs, |bytes, done| bytes.device() as f64 / done.max(1.0)))
}

fn per_user_byte(runs: &[&Measured<'_>]) -> String {
    match of_bytes(runs, |bytes, _| bytes.user as f64) {
        0.0 => "-".to_owned(),
        _ => format!("{:.2}", of_bytes(runs, |bytes, _| bytes.device() as f64 / bytes.user.max(1) as f64)),
    }
}

fn stalls(runs: &[&Measured<'_>]) -> String {
    let counts: Vec<f64> = runs.iter().map(|one| one.outcome.stalls.count as f64).collect();
    format!("{:.0}", median(&counts).unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use super::super::Workload;
    use super::*;
    use crate::mix::Popularity;
    use crate::outcome::tests::outcome;

    fn outcome_of(profile: &str, per_sec: f64) -> Outcome {
        let operations = vec![OfKind { per_sec, ..outcome().operations[0].clone() }];
        let mut outcome = Outcome { profile: profile.into(), operations, ..outcome() };
        outcome.steadiness = outcome.steadiness.map(|even| crate::outcome::Steadiness {
            bytes: Bytes { user: 100, log: 250, ..Bytes::default() },
            ..even
        });
        outcome
    }

    #[test]
    fn contestants_are_compared_within_rounds() {
        let case = Case { workload: Workload::A, popularity: Popularity::Zipfian };
        let other = Case { workload: Workload::C, ..case };
        let runs = [("rocksdb", 100.0), ("weir", 110.0), ("rocksdb", 200.0), ("weir", 190.0)]
            .map(|(name, rate)| outcome_of(name, rate));
        let mut measured: Vec<Measured<'_>> =
            (0..).zip(&runs).map(|(number, outcome)| Measured { case, round: number / 2, outcome }).collect();
        measured.push(Measured { case: other, round: 0, outcome: &runs[1] });
        let text = table(&measured, "rocksdb");
        let line = |start: &str, nth| text.lines().filter(|line| line.starts_with(start)).nth(nth).expect("a line");
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert!(words(line("rocksdb", 0)).starts_with("rocksdb all 150.0 13 us 3.0 ms 4.0 s"), "{text}");
        assert!(words(line("weir", 0)).starts_with("weir all 150.0 1.00 [0.95 .. 1.10] 13 us 1.00"), "{text}");
        assert!(words(line("weir", 0)).ends_with("62 B 2.50 5"), "{text}");
        // There is nobody to compare it with.
        assert!(words(line("weir", 1)).starts_with("weir all 110.0 13 us"), "{text}");
        assert!(
            text.contains("A zipfian: 50 % updates, 50 % gets") && text.contains("C zipfian: 100 % gets"),
            "{text}"
        );
    }
}
