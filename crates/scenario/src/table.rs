//! Outcomes side by side, to be read on a terminal.

use std::fmt::Write as _;

use crate::mix::{Mix, Pace};
use crate::outcome::Outcome;
use crate::pattern::{Pattern, SECOND};
use crate::plan::Plan;

/// What is the same for all runs: a few lines before they begin.
pub fn heading(plan: &Plan) -> String {
    if let Some(mix) = plan.mix() {
        return heading_of_mix(plan, &mix);
    }
    let (args, mut text) = (&plan.args, String::new());
    let _ = writeln!(
        text,
        "{} partitions, {} of them bursting at {} writes/s of {} B; scale {} (bytes divided, times not)",
        args.partitions,
        plan.bursting(),
        args.wcu,
        args.item_bytes,
        args.scale
    );
    if plan.scenario == "trace"
        && let Pattern::Trace(trace) = &plan.pattern
    {
        // A trace that is drawn ends with a whole step.
        let (tenants, seconds) = (trace.tenants(), trace.seconds());
        if tenants != usize::from(args.partitions) || seconds.abs_diff(args.seconds) >= trace.step {
            let _ = writeln!(
                text,
                "the trace has {tenants} tenants and {seconds} s; {} tenants are played for {} s (--partitions, --seconds)",
                args.partitions, args.seconds
            );
        }
    }
    let shape = &args.shape;
    let said = [
        shape.zipf.then(|| "few items are written often (Zipf's law)".to_owned()),
        shape
            .mixed
            .then(|| "of ten items six have a quarter of that, three have it, one has 5.5 times as much".to_owned()),
        plan.visits.map(|visits| {
            let memtables = plan.write_memory_bytes() / plan.tree().write_buffer_bytes as u64;
            let items = plan.cache_bytes() as u64 / (plan.items() * u64::from(args.item_bytes));
            format!(
                "{} of them asked at a time; asleep after {} s without a request; memory for a memtable for each of {memtables}, \
                 and all items of {items}",
                visits.at_once,
                visits.asleep_after / SECOND
            )
        }),
        (shape.debt > 0.0).then(|| {
            let (runs, above) = (plan.preload_runs(), shape.debt * 100.0);
            format!("level 0 begins with {runs} runs, each level {above:.0} % above its target")
        }),
    ];
    let said: Vec<String> = said.into_iter().flatten().collect();
    if !said.is_empty() {
        let _ = writeln!(text, "{}", said.join("; "));
    }
    let _ = writeln!(
        text,
        "BOSR {}: {} {} = background {} ({:.2} bytes per user byte) + log {} + reads {}",
        plan.bosr(),
        if plan.caps.is_some() { "both caps" } else { "device" },
        rate(plan.caps.unwrap_or(plan.device()) as f64),
        rate(plan.background_bytes_per_user_byte() * plan.ingest()),
        plan.background_bytes_per_user_byte(),
        rate(plan.log_bandwidth()),
        rate(plan.read_bandwidth()),
    );
    if plan.caps.is_some() {
        let _ = writeln!(text, "Weir is told {} (--bosr {})", rate(plan.device() as f64), args.bosr);
    }
    let _ = write!(text, "log synced every {} ms; one flush at a time per partition", plan.sync_interval() / 1_000_000);
    if let Some(bytes) = plan.deferral_memory() {
        let _ = write!(
            text,
            "; deferring it all for {} s takes up to {} of memory at scale 1",
            plan.args.seconds,
            size(bytes)
        );
    }
    text.push('\n');
    text
}

/// The same, for a mix, in which nothing is sold.
fn heading_of_mix(plan: &Plan, mix: &Mix) -> String {
    let (args, tree) = (&plan.args, plan.tree());
    let who = match mix.pace {
        Pace::Closed { clients, own_time } => format!(
            "{clients} clients each, which ask {:.0} us after an answer (times {})",
            own_time as f64 / 1e3 / args.scale as f64,
            args.scale
        ),
        Pace::Open(per_sec) => format!("{:.0} operations/s each", per_sec * args.scale as f64),
    };
    let scans = match mix.shares.scans {
        0 => String::new(),
        _ => format!(", scans of up to {} entries", mix.entries_max),
    };
    format!(
        "{} partitions, {who}: {}{scans}, items of {} B; scale {} (bytes divided, times not)\n\
         {} s before the {} s that count for the second table; device {}; {} memtables of {}; {} items each before, {} of blocks in memory\n",
        args.partitions,
        mix.shares.words(),
        args.item_bytes,
        args.scale,
        mix.warm_up,
        args.seconds - mix.warm_up,
        rate(plan.device() as f64),
        tree.write_buffers_max,
        size(tree.write_buffer_bytes as f64),
        plan.items(),
        size(plan.cache_bytes() as f64),
    )
}

/// Width of the first column, in characters.
pub(crate) fn name_width(outcomes: &[&Outcome]) -> usize {
    outcomes.iter().map(|outcome| outcome.profile.len()).fold(18, usize::max)
}

/// The table. It has columns for reads if anybody sent some; outcomes without writes have no figures of them.
pub fn outcomes(outcomes: &[&Outcome]) -> String {
    let any_reads = outcomes.iter().any(|outcome| outcome.reads_in_time.is_some());
    let of_reads = |in_time: &str, p99: &str| match any_reads {
        true => format!("  {in_time:>8} {p99:>9}"),
        false => String::new(),
    };
    let width = name_width(outcomes);
    let mut text = format!(
        "{:<width$} {:>8} {:>8} {:>8} {:>7}  {:>9} {:>9} {:>9}  {:>8} {:>8}{}  {:>7} {:>6} {:>8}\n",
        "profile",
        "served",
        "worst",
        "best",
        "held",
        "p50",
        "p99",
        "p99.9",
        "stalls",
        "stalled",
        of_reads("in time", "read p99"),
        "bg/byte",
        "device",
        "memory"
    );
    for outcome in outcomes {
        let (served, latency, wrote) = (&outcome.normally_served, &outcome.latency_us, outcome.wrote());
        let of_writes = |figure: String| if wrote { figure } else { NONE.into() };
        let reads = match &outcome.reads_in_time {
            Some(in_time) => of_reads(&share(in_time.avg), &time(outcome.read_latency_us.p99)),
            None => of_reads(NONE, NONE),
        };
        let _ = writeln!(
            text,
            "{:<width$} {:>8} {:>8} {:>8} {:>7}  {:>9} {:>9} {:>9}  {:>8} {:>8}{reads}  {:>7} {:>5.0}% {:>8}",
            outcome.profile,
            of_writes(share(served.avg)),
            of_writes(share(served.min)),
            of_writes(share(served.max)),
            held(outcome),
            of_writes(time(latency.p50)),
            of_writes(time(latency.p99)),
            of_writes(time(latency.p999)),
            of_writes(outcome.stalls.count.to_string()),
            of_writes(format!("{:.0}s", outcome.stalls.seconds)),
            of_writes(format!("{:.2}", outcome.background_amplification)),
            outcome.device_utilisation * 100.0,
            size(outcome.memory_peak_bytes as f64),
        );
        if let Some(after) = &outcome.after {
            let _ = match after.restored_seconds {
                Some(seconds) => write!(text, "{:<18} restored {seconds} s after the load", ""),
                None => write!(text, "{:<18} not restored when the run ended", ""),
            };
            let _ = writeln!(
                text,
                ", writes p99 {}, reads p99 {}, {} stalls",
                time(after.latency_us.p99),
                time(after.read_latency_us.p99),
                after.stalls.count
            );
        }
    }
    text
}

/// The second in which an operation was served late for the first time.
fn held(outcome: &Outcome) -> String {
    match outcome.tenants.iter().filter_map(|row| row.first_late_second).min() {
        Some(second) => format!("{second} s"),
        None => "to end".into(),
    }
}

/// Stands in the place of a figure that does not apply.
const NONE: &str = "-";

/// A share as a percentage.
pub fn share(share: f64) -> String {
    if share >= 1.0 { "100 %".into() } else { format!("{:.2} %", reached(share, 1e4) / 1e2) }
}

/// How many of `parts` equal parts `share` reaches: rounded down, never up to what was not reached. 57 of 100 reach 57,
/// although 0.57 times 100 is a little less in binary.
pub fn reached(share: f64, parts: f64) -> f64 {
    (share * parts + 1e-6).floor()
}

/// Microseconds, with a unit that fits the rounded number.
pub fn time(us: f64) -> String {
    match us {
        us if us < 999.5 => format!("{us:.0} us"),
        us if us < 999_950.0 => format!("{:.1} ms", us / 1e3),
        us => format!("{:.1} s", us / 1e6),
    }
}

/// Bytes, with a unit that fits the rounded number.
pub fn size(bytes: f64) -> String {
    match bytes {
        bytes if bytes < 999.5e3 => format!("{:.0} kB", bytes / 1e3),
        bytes if bytes < 999.95e6 => format!("{:.1} MB", bytes / 1e6),
        bytes => format!("{:.1} GB", bytes / 1e9),
    }
}

/// Bytes a second, with a unit that fits.
pub fn rate(bytes: f64) -> String {
    format!("{}/s", size(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Spread;
    use crate::outcome::tests::outcome;

    #[test]
    fn the_heading_says_what_is_not_even() {
        let of = |line: &str| heading(&crate::plan::tests::plan(line));
        assert!(!of("").contains("Zipf") && !of("").contains("debt") && of("").lines().count() == 3);
        let text = of("--zipf --mixed --debt 0.5");
        assert!(text.contains("(Zipf's law); of ten items six have") && text.contains("begins with 10 runs"), "{text}");
    }

    #[test]
    fn a_share_is_rounded_down_but_not_below_what_it_is() {
        assert_eq!([0.57, 0.69, 0.043, 0.0003].map(share), ["57.00 %", "69.00 %", "4.30 %", "0.03 %"]);
        assert_eq!([0.999_999, 0.569_999, 1.0, 0.0].map(share), ["99.99 %", "56.99 %", "100 %", "0.00 %"]);
    }

    #[test]
    fn a_number_that_is_rounded_up_has_the_next_unit() {
        assert_eq!([999.4, 999.6, 999_940.0, 999_960.0].map(time), ["999 us", "1.0 ms", "999.9 ms", "1.0 s"]);
        assert_eq!([999.4e3, 999.6e3, 999.94e6, 999.96e6].map(size), ["999 kB", "1.0 MB", "999.9 MB", "1.0 GB"]);
    }

    /// An outcome without a time after the load.
    fn load() -> Outcome {
        Outcome { after: None, ..outcome() }
    }

    /// Words of each line, after the first word, which is a name.
    fn words(text: &str) -> Vec<Vec<&str>> {
        text.lines().map(|line| line.split_whitespace().skip(1).collect()).collect()
    }

    #[test]
    fn writes_alone_have_no_columns_of_reads() {
        let writes = Outcome { reads_in_time: None, ..load() };
        let text = outcomes(&[&writes]);
        let lines = words(&text);
        let head = "served worst best held p50 p99 p99.9 stalls stalled bg/byte device memory";
        assert_eq!(lines[0].join(" "), head);
        assert_eq!(lines[1].join(" "), "99.99 % 98.00 % 100 % 3 s 2 us 3.0 ms 4.0 s 5 6s 7.25 50% 9.0 MB");
    }

    #[test]
    fn reads_have_columns_where_anybody_sent_some() {
        let silent = Outcome { normally_served: Spread::of(&[1.0]), served_per_sec: vec![0, 0], ..load() };
        let writes = Outcome { reads_in_time: None, ..load() };
        let text = outcomes(&[&load(), &silent, &writes]);
        let lines = words(&text);
        assert!(lines[0].join(" ").contains(" stalled in time read p99 bg/byte "), "{text}");
        assert!(lines[1].join(" ").ends_with(" 5 6s 19.99 % 17.0 s 7.25 50% 9.0 MB"), "{text}");
        assert_eq!(lines[2].join(" "), "- - - 3 s - - - - - 19.99 % 17.0 s - 50% 9.0 MB", "no writes were sent");
        assert!(lines[3].join(" ").ends_with(" 5 6s - - 7.25 50% 9.0 MB"), "{text}");
        let lengths: Vec<usize> = text.lines().map(str::len).collect();
        assert!(lengths.iter().all(|&length| length == lengths[0]), "columns are aligned: {text}");
    }

    #[test]
    fn writes_of_which_none_was_done_are_shown() {
        let stuck = Outcome { normally_served: Spread::of(&[0.0]), served_per_sec: vec![0, 0], ..load() };
        let text = outcomes(&[&stuck]);
        assert!(words(&text)[1].join(" ").starts_with("0.00 % 0.00 % 0.00 % 3 s 2 us"), "{text}");
    }

    #[test]
    fn what_came_after_has_a_line_of_its_own() {
        let text = outcomes(&[&outcome()]);
        let restored = "10 s after the load, writes p99 3.0 ms, reads p99 3.0 ms, 0 stalls";
        assert_eq!(words(&text)[2].join(" "), restored);
    }
}
