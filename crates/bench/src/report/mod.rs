//! From outcomes to lines, tables and verdicts.

pub(crate) mod median;
mod table;
pub(crate) mod words;

pub use table::{Promise, Quantity, Subject, table};

use crate::Result;
use crate::outcome::{Deletion, Outcome};
use crate::work::Work;
use words::{bytes, count, time};

/// The outcomes as a JSON array.
pub fn json(outcomes: &[Outcome]) -> Result<String> {
    Ok(serde_json::to_string_pretty(outcomes)? + "\n")
}

/// One run in one line.
pub fn line(outcome: &Outcome) -> String {
    let Outcome { work, engine, ops_per_sec, seconds, cpu_seconds, shape, .. } = outcome;
    let load = outcome.load_ops_per_sec.map_or(String::new(), |load| {
        let what = if work == Work::ReadWhileWriting.name() { "beside writes at" } else { "loading" };
        format!(", {what} {}/s", count(load))
    });
    let deletion = outcome.deletion.map_or(String::new(), |deletion| {
        let Deletion { durable_ns, seen_ns, log_records, log_bytes, bytes_alone, bytes_kept } = deletion;
        format!(
            ", durable after {}, seen after {}, {log_records} records of log ({}), {} because of it alone, {} without it",
            time(durable_ns),
            time(seen_ns),
            bytes(log_bytes),
            bytes(bytes_alone),
            bytes(bytes_kept),
        )
    });
    format!(
        "{work:<16} {engine:<12} {:>8} ops/s in {seconds:.2} s{load}, p50 {} p99 {} max {}, cpu {:.1} us/op, wrote {}, read {}, \
         space {}, rss {}, {shape}{deletion}",
        count(*ops_per_sec),
        time(outcome.p50_ns),
        time(outcome.p99_ns),
        time(outcome.max_ns),
        cpu_seconds * 1e6 / (outcome.ops.max(1)) as f64,
        bytes(outcome.bytes_written),
        bytes(outcome.bytes_read),
        bytes(outcome.space_bytes),
        bytes(outcome.rss_bytes),
    )
}

#[cfg(test)]
mod tests;
