//! Answers side by side, to be read on a terminal.

use std::fmt::Write as _;

use super::{Found, Tried};
use crate::args::Density;
use crate::plan::AMPLIFICATION;
use crate::table::{rate, share, size};

pub(super) fn heading(args: &Density) -> String {
    let sold = args.wcu as f64 * f64::from(args.item_bytes);
    format!(
        "One machine: device {}, memory {}. Each tenant was sold {} writes/s of {} B, {} with {AMPLIFICATION} background bytes for each; scale {}\n\
         The busiest {} s of a week; the worst served tenant must have {} % in time\n",
        rate(args.device as f64 * 1e6),
        size((args.memory << 30) as f64),
        args.wcu,
        args.item_bytes,
        rate(sold * (1.0 + AMPLIFICATION)),
        args.scale,
        args.seconds,
        args.served,
    )
}

/// A row for each answer, and for each other profile how many times as many tenants the last profile carries, if that
/// is known.
pub(super) fn answers(found: &[Found]) -> String {
    let mut text = format!(
        "{:<18} {:>5} {:>8}  {:>6} {:>7} {:>8} {:>8} {:>8} {:>7} {:>9}  {}\n",
        "profile", "seed", "tenants", "BOSR", "asked", "worst", "stalls", "bg/byte", "device", "memory", "breaks with"
    );
    for one in found {
        let _ = writeln!(text, "{}", row(one));
    }
    let mut names: Vec<&str> = Vec::new();
    for one in found {
        if !names.contains(&one.profile.as_str()) {
            names.push(&one.profile);
        }
    }
    if let Some((last, others)) = names.split_last()
        && !others.is_empty()
        && found.iter().all(|one| one.is_known)
    {
        let of = |name: &str| -> f64 {
            let all: Vec<f64> = found.iter().filter(|one| one.profile == name).map(fitting).collect();
            all.iter().sum::<f64>() / all.len() as f64
        };
        let times = |name: &&str| match of(name) {
            0.0 => format!("{name} carries none"),
            other => format!("{:.2} times as many as {name}", of(last) / other),
        };
        let all: Vec<String> = others.iter().map(times).collect();
        let _ = writeln!(text, "\n{last} carries {}", all.join(", "));
    }
    text
}

fn fitting(found: &Found) -> f64 {
    f64::from(found.tenants.unwrap_or(0))
}

fn row(found: &Found) -> String {
    let at = found.tried.iter().find(|tried| Some(tried.tenants) == found.tenants);
    let breaks = found.tried.iter().filter(|tried| !tried.are_served).min_by_key(|tried| tried.tenants);
    let breaks = match breaks {
        Some(Tried { tenants, worst, stalls, .. }) => format!("{tenants}: {}, {stalls} stalls", share(*worst)),
        None => "nothing that was tried".to_owned(),
    };
    let head = format!("{:<18} {:>5}", found.profile, found.seed);
    let least = found.tried.iter().map(|tried| tried.tenants).min().unwrap_or(0);
    let fit = match (found.tenants, found.is_known) {
        (Some(tenants), true) => tenants.to_string(),
        (Some(tenants), false) => format!(">= {tenants}"),
        (None, true) => "none".to_owned(),
        (None, false) => format!("< {least}"),
    };
    let Some(at) = at else { return format!("{head} {fit:>8}  {:>63}  {breaks}", "") };
    format!(
        "{head} {fit:>8}  {:>6.2} {:>7} {:>8} {:>8} {:>8.2} {:>6.0}% {:>9}  {breaks}",
        at.bosr,
        share(at.asked),
        share(at.worst),
        at.stalls,
        at.background_amplification,
        at.device_utilisation * 100.0,
        size(at.memory_peak_bytes as f64),
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::{args, found};
    use super::*;

    #[test]
    fn each_answer_has_a_row_and_the_last_profile_is_compared() {
        let args = args("--seconds 60 --precision 0.1");
        let text = answers(&[found(&args, "rocksdb", 10), found(&args, "node", 0), found(&args, "weir", 30)]);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[1][..3], ["rocksdb", "1", "10"]);
        assert!(text.lines().nth(1).expect("a row").ends_with("11: 25.00 %, 5 stalls"), "{text}");
        assert_eq!(rows[2][..3], ["node", "1", "none"]);
        assert!(text.ends_with("\nweir carries 3.00 times as many as rocksdb, node carries none\n"), "{text}");
    }

    #[test]
    fn one_number_that_was_tried_is_no_answer() {
        let args = args("--seconds 60 --from 40 --tries 1");
        let text = answers(&[found(&args, "rocksdb", 29), found(&args, "weir", 50)]);
        let row = |nth| text.lines().nth(nth).expect("a row").split_whitespace().take(4).collect::<Vec<_>>().join(" ");
        assert_eq!([row(1), row(2)], ["rocksdb 1 < 40", "weir 1 >= 40"]);
        assert!(!text.contains("carries"), "{text}");
    }
}
