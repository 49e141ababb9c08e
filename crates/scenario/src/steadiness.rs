//! How even a service was (CR-1), over all operations, second by second; and a table of that.

use std::fmt::Write as _;

use crate::outcome::{Bytes, Outcome, Second, Steadiness, tail};
use crate::table::{name_width, time};

/// The evenness over the seconds of a load.
pub fn of(load: &[Second]) -> Steadiness {
    let done = || load.iter().map(|second| second.operations);
    let seconds = load.len().max(1) as f64;
    let worst = |of: fn(&Second) -> f64| load.iter().map(of).fold(0.0, f64::max);
    Steadiness {
        mean_per_sec: done().sum::<u64>() as f64 / seconds,
        tail_per_sec: tail(done()),
        worst_write_p99_us: worst(|second| second.write_us[1]),
        worst_read_p99_us: worst(|second| second.read_us[1]),
        watermark_mean: load.iter().map(|second| second.watermark).sum::<f64>() / seconds,
        watermark_max: worst(|second| second.watermark),
        bytes: load.iter().fold(Bytes::default(), |bytes, second| bytes.and(&second.bytes)),
    }
}

/// A line for each of `outcomes` that has such figures, under a line of headings; empty if none has.
pub fn table(outcomes: &[&Outcome]) -> String {
    let even: Vec<_> = outcomes.iter().filter_map(|outcome| Some((outcome, outcome.steadiness?))).collect();
    if even.is_empty() {
        return String::new();
    }
    let width = name_width(outcomes);
    let mut text = format!(
        "\n{:<width$} {:>9} {:>9} {:>7}  {:>9} {:>9}  {:>9} {:>7}\n",
        "profile", "ops/s", "tail", "of mean", "write p99", "read p99", "watermark", "at most"
    );
    for (outcome, even) in even {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let _ = writeln!(
            text,
            "{:<width$} {:>9.1} {:>9} {:>7}  {:>9} {:>9}  {:>9} {:>7}",
            outcome.profile,
            even.mean_per_sec,
            even.tail_per_sec,
            percent(even.tail_per_sec as f64 / even.mean_per_sec.max(f64::MIN_POSITIVE)),
            time(even.worst_write_p99_us),
            time(even.worst_read_p99_us),
            percent(even.watermark_mean),
            percent(even.watermark_max),
        );
    }
    text + "ops/s: reads and writes done a second, on average; tail: in the worst of a hundred seconds; p99: of the worst second\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::tests::outcome;

    #[test]
    fn all_operations_count_and_the_worst_second_of_each() {
        let second = |operations, p99: f64, watermark| Second {
            operations,
            bytes: Bytes { user: operations, ..Bytes::default() },
            write_us: [1.0, p99, 9e9],
            read_us: [1.0, 2.0 * p99, 9e9],
            watermark,
            ..Second::default()
        };
        let even = of(&[second(40, 5.0, 0.25), second(20, 7.0, 0.75), second(60, 6.0, 0.5)]);
        let wanted = Steadiness {
            mean_per_sec: 40.0,
            tail_per_sec: 20,
            worst_write_p99_us: 7.0,
            worst_read_p99_us: 14.0,
            watermark_mean: 0.5,
            watermark_max: 0.75,
            bytes: Bytes { user: 120, ..Bytes::default() },
        };
        assert_eq!((even, of(&[])), (wanted, Steadiness::default()));
    }

    #[test]
    fn only_who_is_about_it_has_a_line() {
        let steadiness = Steadiness { mean_per_sec: 40.0, tail_per_sec: 20, ..Steadiness::default() };
        let [even, other] = [Some(steadiness), None].map(|steadiness| Outcome { steadiness, ..outcome() });
        assert_eq!(table(&[&other]), "");
        let text = table(&[&other, &even]);
        let line: Vec<&str> = text.lines().nth(2).expect("a line").split_whitespace().collect();
        assert_eq!(line[..5], ["weir", "40.0", "20", "50", "%"], "{text}");
    }
}
