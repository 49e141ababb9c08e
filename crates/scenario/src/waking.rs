//! How partitions that slept were woken: a table of that.

use std::fmt::Write as _;

use crate::outcome::{Answered, Outcome};
use crate::table::{name_width, share, size, time};

/// A line for each of `outcomes` that has such figures, under a line of headings; empty if none has.
pub fn table(outcomes: &[&Outcome]) -> String {
    let woken: Vec<_> = outcomes.iter().filter_map(|outcome| Some((outcome, outcome.waking?))).collect();
    if woken.is_empty() {
        return String::new();
    }
    let width = name_width(outcomes);
    let mut text = format!(
        "\n{:<width$} {:>6} {:>7}  {:>8} {:>8} {:>9}  {:>9} {:>8} {:>9}  {:>9} {:>9}  {:>6}\n",
        "profile",
        "awake",
        "woken",
        "first",
        "in 10 ms",
        "p99.9",
        "others",
        "in 10 ms",
        "p99.9",
        "memory",
        "limit",
        "lost"
    );
    for (outcome, waking) in woken {
        let of = |answered: Answered| (answered.sent, share(answered.in_time), time(answered.latency_us.p999));
        let (first, others) = (of(waking.asleep), of(waking.awake));
        let _ = writeln!(
            text,
            "{:<width$} {:>6} {:>7}  {:>8} {:>8} {:>9}  {:>9} {:>8} {:>9}  {:>9} {:>9}  {:>6}",
            outcome.profile,
            waking.awake_max,
            waking.woken,
            first.0,
            first.1,
            first.2,
            others.0,
            others.1,
            others.2,
            size(waking.memory_peak_bytes as f64),
            size(waking.memory_limit_bytes as f64),
            waking.lost,
        );
    }
    text + "awake: partitions at a time, at most; first: requests that found their partition asleep or just being woken; memory: of \
            memtables, cached blocks, indexes and filters, at most; lost: items that were not read as they were acknowledged\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::tests::outcome;
    use crate::outcome::{Latency, Waking};

    #[test]
    fn only_who_sleeps_has_a_line() {
        let latency_us = Latency { p999: 25e3, ..Latency::default() };
        let asleep = Answered { sent: 5, in_time: 0.5, latency_us };
        let waking = Waking { awake_max: 3, woken: 4, asleep, memory_limit_bytes: 7_000_000, ..Waking::default() };
        let [sleeper, other] = [Some(waking), None].map(|waking| Outcome { waking, ..outcome() });
        assert_eq!(table(&[&other]), "");
        let text = table(&[&other, &sleeper]);
        let lines: Vec<&str> = text.lines().collect();
        let words = lines[2].split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words, "weir 3 4 5 50.00 % 25.0 ms 0 0.00 % 0 us 0 kB 7.0 MB 0");
        assert_eq!(lines[1].len(), lines[2].len(), "columns are aligned: {text}");
    }
}
