//! From outcomes to lines, tables and verdicts.

use crate::Result;
use crate::contestant::Engine;
use crate::outcome::Outcome;
use crate::work::{Size, Target, Work};

/// Against its ungated self Weir keeps at least this part.
const UNGATED_TARGET: f64 = 0.97;
/// Bytes written and space, at most so many times the peer's.
const WRITTEN_TARGET: f64 = 1.0;
const SPACE_TARGET: f64 = 1.05;

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
    format!(
        "{work:<16} {engine:<12} {:>8} ops/s in {seconds:.2} s{load}, p50 {} p99 {} max {}, cpu {:.1} us/op, wrote {}, read {}, \
         space {}, rss {}, {shape}",
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

/// The final table: one row per work and engine; the columns after `|` compare the first engine with the row's.
pub fn table(outcomes: &[Outcome], engines: &[Engine], size: &Size) -> String {
    let mut rows = vec![row([
        "work",
        "engine",
        "ops/s",
        "[min .. max]",
        "p99",
        "cpu/op",
        "wrote x",
        "space x",
        "| ratio",
        "[min .. max]",
        "target",
        "",
    ])];
    for work in Work::ALL {
        let of = |engine: Engine| -> Vec<&Outcome> {
            let ours = |outcome: &&Outcome| outcome.work == work.name() && outcome.engine == engine.name();
            outcomes.iter().filter(ours).collect()
        };
        let mut first_row = true;
        for engine in engines {
            let runs = of(*engine);
            let Some(own) = Summary::of(&runs, work) else { continue };
            let user = size.user_bytes() as f64;
            let times_user =
                |bytes: f64| if work.compares_bytes() { format!("{:.2}", bytes / user) } else { String::new() };
            let mut cells: [String; 12] = Default::default();
            cells[0] = if first_row { work.name().into() } else { String::new() };
            cells[1] = engine.name().into();
            cells[2] = own.shown(own.median);
            cells[3] = format!("[{} .. {}]", own.shown(own.min), own.shown(own.max));
            cells[4] = if own.p99_ns == 0 { String::new() } else { time(own.p99_ns) };
            cells[5] = format!("{:.2} us", own.cpu_us);
            cells[6] = times_user(own.written);
            cells[7] = times_user(own.space);
            let verdicts = match engines.first() {
                Some(first) if first != engine => compare(work, *engine, &of(*first), &runs),
                _ => absolute(work, *engine, &own).into_iter().collect(),
            };
            first_row = false;
            let mut verdicts = verdicts.into_iter();
            if let Some(verdict) = verdicts.next() {
                cells[8..12].clone_from_slice(&verdict.cells());
            }
            rows.push(row(cells.each_ref().map(String::as_str)));
            for verdict in verdicts {
                let mut more: [String; 12] = Default::default();
                more[8..12].clone_from_slice(&verdict.cells());
                rows.push(row(more.each_ref().map(String::as_str)));
            }
        }
    }
    align(&rows)
}

fn row(cells: [&str; 12]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_string()).collect()
}

/// One comparison with its judgement.
#[derive(Clone, Debug, PartialEq)]
struct Verdict {
    what: &'static str,
    value: String,
    spread: String,
    target: String,
    met: bool,
}

impl Verdict {
    fn cells(&self) -> [String; 4] {
        let value = format!("| {}{}", self.what, self.value);
        [value, self.spread.clone(), self.target.clone(), if self.met { "met" } else { "MISSED" }.into()]
    }
}

fn absolute(work: Work, engine: Engine, own: &Summary) -> Option<Verdict> {
    let Target::Seconds(limit) = work.target() else { return None };
    (engine == Engine::Weir).then(|| Verdict {
        what: "",
        value: own.shown(own.median),
        spread: String::new(),
        target: format!("<= {limit} s"),
        met: own.median <= limit,
    })
}

/// Compares the first engine's runs (`ours`) with a peer's.
fn compare(work: Work, peer: Engine, ours: &[&Outcome], theirs: &[&Outcome]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let speed = |outcome: &Outcome| outcome.ops_per_sec;
    let target = match (peer, work.target()) {
        (Engine::WeirUngated, _) => Some(UNGATED_TARGET),
        (_, Target::Ratio(ratio)) => Some(ratio),
        (_, Target::Seconds(_)) => None,
    };
    if let Some(ratio) = Ratio::of(ours, theirs, speed) {
        verdicts.push(Verdict {
            what: "",
            value: format!("{:.2}", ratio.of_medians),
            spread: ratio.spread(),
            target: target.map_or(String::new(), |target| format!(">= {target:.2}")),
            met: target.is_none_or(|target| ratio.of_medians >= target),
        });
    }
    if work.compares_bytes() && peer == Engine::Rocksdb {
        let wrote = Ratio::of(ours, theirs, |outcome| outcome.bytes_written as f64);
        let space = Ratio::of(ours, theirs, |outcome| outcome.space_bytes as f64);
        for (what, ratio, limit) in [("wrote ", wrote, WRITTEN_TARGET), ("space ", space, SPACE_TARGET)] {
            let Some(ratio) = ratio else { continue };
            verdicts.push(Verdict {
                what,
                value: format!("{:.2}", ratio.of_medians),
                spread: ratio.spread(),
                target: format!("<= {limit:.2}"),
                met: ratio.of_medians <= limit,
            });
        }
    }
    verdicts
}

/// A ratio of medians, and the smallest and largest ratio within one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) of_medians: f64,
    min: f64,
    max: f64,
}

impl Ratio {
    fn of(ours: &[&Outcome], theirs: &[&Outcome], measure: impl Fn(&Outcome) -> f64) -> Option<Self> {
        let in_round = |outcome: &&Outcome| {
            let peer = theirs.iter().find(|peer| peer.round == outcome.round)?;
            Some(measure(outcome) / measure(peer))
        };
        let ratios: Vec<f64> = ours.iter().filter_map(in_round).collect();
        let values = |runs: &[&Outcome]| runs.iter().map(|outcome| measure(outcome)).collect::<Vec<_>>();
        Self::from_values(&values(ours), &values(theirs), &ratios)
    }

    /// From both sides' values and the ratios within rounds; `None` without any.
    pub(crate) fn from_values(ours: &[f64], theirs: &[f64], ratios: &[f64]) -> Option<Self> {
        let of_medians = median(ours)? / median(theirs)?;
        let min = ratios.iter().copied().reduce(f64::min)?;
        let max = ratios.iter().copied().reduce(f64::max)?;
        Some(Self { of_medians, min, max })
    }

    pub(crate) fn spread(&self) -> String {
        format!("[{:.2} .. {:.2}]", self.min, self.max)
    }
}

/// All rounds of one work on one engine.
struct Summary {
    /// The unit is seconds, not operations per second.
    in_seconds: bool,
    median: f64,
    min: f64,
    max: f64,
    p99_ns: u64,
    /// Processor microseconds per operation: steadier than speed on a busy machine.
    cpu_us: f64,
    written: f64,
    space: f64,
}

impl Summary {
    fn of(runs: &[&Outcome], work: Work) -> Option<Self> {
        let in_seconds = matches!(work.target(), Target::Seconds(_));
        let main = |outcome: &&Outcome| if in_seconds { outcome.seconds } else { outcome.ops_per_sec };
        let values: Vec<f64> = runs.iter().map(main).collect();
        let median_of = |measure: &dyn Fn(&Outcome) -> f64| {
            median(&runs.iter().map(|outcome| measure(outcome)).collect::<Vec<_>>())
        };
        Some(Self {
            in_seconds,
            median: median(&values)?,
            min: values.iter().copied().reduce(f64::min)?,
            max: values.iter().copied().reduce(f64::max)?,
            p99_ns: median_of(&|outcome| outcome.p99_ns as f64)? as u64,
            cpu_us: median_of(&|outcome| outcome.cpu_seconds * 1e6 / outcome.ops.max(1) as f64)?,
            written: median_of(&|outcome| outcome.bytes_written as f64)?,
            space: median_of(&|outcome| outcome.space_bytes as f64)?,
        })
    }

    fn shown(&self, value: f64) -> String {
        if self.in_seconds { format!("{value:.2} s") } else { count(value) }
    }
}

/// The middle value; the mean of the two in the middle of an even number.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let high = *sorted.get(sorted.len() / 2)?;
    Some(if sorted.len() % 2 == 1 { high } else { (sorted[sorted.len() / 2 - 1] + high) / 2.0 })
}

/// Rows of cells as text, columns padded to their widest cell.
pub(crate) fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// A count in three digits: `950`, `12.3 K`, `1.20 M`.
pub(crate) fn count(value: f64) -> String {
    scaled(value, 1000.0, &["", " K", " M", " G"])
}

/// Bytes in three digits, in powers of ten.
fn bytes(value: u64) -> String {
    scaled(value as f64, 1000.0, &[" B", " KB", " MB", " GB", " TB"])
}

fn time(nanos: u64) -> String {
    scaled(nanos as f64, 1000.0, &[" ns", " us", " ms", " s"])
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let decimals = if unit == 0 || value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.decimals$}{}", units[unit])
}

#[cfg(test)]
mod tests;
