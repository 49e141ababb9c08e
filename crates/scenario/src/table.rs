//! Outcomes side by side, to be read on a terminal.

use std::fmt::Write as _;

use crate::outcome::Outcome;
use crate::plan::Plan;

/// What is the same for all runs: a few lines before they begin.
pub fn heading(plan: &Plan) -> String {
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
    let _ = writeln!(
        text,
        "BOSR {}: device {} = background {} ({:.2} bytes per user byte) + log {} + reads {}",
        args.bosr,
        rate(plan.device() as f64),
        rate(plan.background_bandwidth()),
        plan.background_bytes_per_user_byte(),
        rate(plan.log_bandwidth()),
        rate(plan.read_bandwidth()),
    );
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

/// The table.
pub fn outcomes(outcomes: &[&Outcome]) -> String {
    let mut text = format!(
        "{:<18} {:>8} {:>8} {:>8}  {:>9} {:>9} {:>9}  {:>8} {:>8}  {:>7} {:>6} {:>8}\n",
        "profile", "served", "worst", "best", "p50", "p99", "p99.9", "stalls", "stalled", "bg/byte", "device", "memory"
    );
    for outcome in outcomes {
        let (served, latency) = (&outcome.normally_served, &outcome.latency_us);
        let _ = writeln!(
            text,
            "{:<18} {:>8} {:>8} {:>8}  {:>9} {:>9} {:>9}  {:>8} {:>7.0}s  {:>7.2} {:>5.0}% {:>8}",
            outcome.profile,
            share(served.avg),
            share(served.min),
            share(served.max),
            time(latency.p50),
            time(latency.p99),
            time(latency.p999),
            outcome.stalls.count,
            outcome.stalls.seconds,
            outcome.background_amplification,
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

fn share(share: f64) -> String {
    // Never round up to what was not reached.
    if share >= 1.0 { "100 %".into() } else { format!("{:.2} %", (share * 1e4).floor() / 1e2) }
}

/// Microseconds, with a unit that fits.
pub fn time(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{us:.0} us"),
        us if us < 1e6 => format!("{:.1} ms", us / 1e3),
        us => format!("{:.1} s", us / 1e6),
    }
}

/// Bytes, with a unit that fits.
pub fn size(bytes: f64) -> String {
    match bytes {
        bytes if bytes < 1e6 => format!("{:.0} kB", bytes / 1e3),
        bytes if bytes < 1e9 => format!("{:.1} MB", bytes / 1e6),
        bytes => format!("{:.1} GB", bytes / 1e9),
    }
}

/// Bytes a second, with a unit that fits.
pub fn rate(bytes: f64) -> String {
    format!("{}/s", size(bytes))
}
