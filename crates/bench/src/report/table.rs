//! The final table: medians of every contestant, and the promises that they are compared with.

use super::median::{Ratio, median, ratio_of};
use super::words::{align, count, time};
use crate::outcome::Outcome;

/// What a promise is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Operations per second, at least `limit` times the peer's.
    Speed,
    /// Processor time of an operation, at most `limit` times the peer's.
    Processor,
    /// Bytes written, at most `limit` times the peer's.
    Written,
    /// Space, at most `limit` times the peer's.
    Space,
    /// Seconds, at most; no peer is involved.
    Seconds,
    /// Bytes written, at most `limit` times those of the same load without its deletion; no peer is involved.
    WrittenToKeep,
}

/// What the first contestant promises.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    /// The quantity that is promised.
    pub quantity: Quantity,
    /// The contestant to compare with; not used if no peer is involved.
    pub against: &'static str,
    /// The limit.
    pub limit: f64,
}

/// One work as the table sees it.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The work's name.
    pub work: &'static str,
    /// What is promised for it.
    pub promises: Vec<Promise>,
    /// Bytes that the user stored, if bytes written and space are shown as multiples of them.
    pub user_bytes: Option<u64>,
}

const COLUMNS: usize = 12;
/// The first column that compares.
const COMPARISON: usize = 8;

const HEADER: [&str; COLUMNS] = [
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
];

/// One row per work and contestant, then one per further promise. The columns after `|` compare the first contestant of
/// `engines` with that of the row.
pub fn table(outcomes: &[Outcome], subjects: &[Subject], engines: &[&str]) -> String {
    let mut rows = vec![HEADER.map(str::to_owned)];
    for subject in subjects {
        let runs = |engine: &str| -> Vec<&Outcome> {
            outcomes.iter().filter(|outcome| outcome.work == subject.work && outcome.engine == engine).collect()
        };
        let ours = engines.first().map(|first| runs(first)).unwrap_or_default();
        let mut title = subject.work;
        for (place, engine) in engines.iter().enumerate() {
            let runs = runs(engine);
            let Some(summary) = Summary::of(&runs, subject) else { continue };
            let verdicts = match place {
                0 => absolute(subject, &runs, &summary),
                _ => compare(subject, engine, &ours, &runs),
            };
            let mut verdicts = verdicts.iter();
            let mut cells = summary.cells(std::mem::take(&mut title), engine);
            if let Some(verdict) = verdicts.next() {
                cells[COMPARISON..].clone_from_slice(&verdict.cells());
            }
            rows.push(cells);
            rows.extend(verdicts.map(|verdict| {
                let mut cells: [String; COLUMNS] = Default::default();
                cells[COMPARISON..].clone_from_slice(&verdict.cells());
                cells
            }));
        }
    }
    align(&rows)
}

/// One comparison with its judgement.
struct Verdict {
    value: String,
    spread: String,
    /// What was promised, and whether it was kept.
    judged: Option<(String, bool)>,
}

impl Verdict {
    fn cells(&self) -> [String; COLUMNS - COMPARISON] {
        let (target, met) = self.judged.clone().unwrap_or_default();
        let verdict = match (self.judged.is_some(), met) {
            (false, _) => "",
            (true, true) => "met",
            (true, false) => "MISSED",
        };
        [format!("| {}", self.value), self.spread.clone(), target, verdict.into()]
    }
}

/// The promises that involve no peer.
fn absolute(subject: &Subject, runs: &[&Outcome], own: &Summary) -> Vec<Verdict> {
    let judge = |promise: &Promise| match promise.quantity {
        Quantity::Seconds => Some(Verdict {
            value: own.shown(own.median),
            spread: String::new(),
            judged: Some((format!("<= {} s", promise.limit), own.median <= promise.limit)),
        }),
        Quantity::WrittenToKeep => {
            let written: Vec<_> = runs.iter().map(|run| run.bytes_written as f64).collect();
            let kept: Vec<_> = runs.iter().filter_map(|run| Some(run.deletion?.bytes_kept as f64)).collect();
            let ratios: Vec<_> = written.iter().zip(&kept).map(|(written, kept)| written / kept).collect();
            Some(at_most("wrote", promise, &Ratio::from_values(&written, &kept, &ratios)?))
        }
        _ => None,
    };
    subject.promises.iter().filter_map(judge).collect()
}

/// The verdict on a ratio that is to be no more than promised.
fn at_most(name: &str, promise: &Promise, ratio: &Ratio) -> Verdict {
    Verdict {
        value: format!("{name} {:.2}", ratio.of_medians),
        spread: ratio.spread(),
        judged: Some((format!("<= {:.2}", promise.limit), ratio.of_medians <= promise.limit)),
    }
}

/// The verdict on speed against `peer`, promised or not, and on what else is promised against it.
fn compare(subject: &Subject, peer: &str, ours: &[&Outcome], theirs: &[&Outcome]) -> Vec<Verdict> {
    let promised =
        |quantity| subject.promises.iter().find(|promise| promise.against == peer && promise.quantity == quantity);
    let mut verdicts = Vec::new();
    if let Some(ratio) = ratio_of(ours, theirs, |outcome| outcome.ops_per_sec) {
        let judge = |promise: &Promise| (format!(">= {:.2}", promise.limit), ratio.of_medians >= promise.limit);
        let judged = promised(Quantity::Speed).map(judge);
        verdicts.push(Verdict { value: format!("{:.2}", ratio.of_medians), spread: ratio.spread(), judged });
    }
    type Measure = fn(&Outcome) -> f64;
    let others: [(&str, Quantity, Measure); 3] = [
        ("cpu", Quantity::Processor, |outcome| outcome.cpu_seconds / outcome.ops.max(1) as f64),
        ("wrote", Quantity::Written, |outcome| outcome.bytes_written as f64),
        ("space", Quantity::Space, |outcome| outcome.space_bytes as f64),
    ];
    for (name, quantity, measure) in others {
        let Some((promise, ratio)) = promised(quantity).zip(ratio_of(ours, theirs, measure)) else { continue };
        verdicts.push(at_most(name, promise, &ratio));
    }
    verdicts
}

/// All rounds of one work on one contestant.
struct Summary {
    /// Whether the unit is seconds, and not operations per second.
    in_seconds: bool,
    median: f64,
    min: f64,
    max: f64,
    p99_ns: u64,
    /// Processor microseconds per operation: steadier than speed on a busy machine.
    cpu_us: f64,
    /// Bytes written and space, as multiples of what the user stored.
    bytes: Option<(f64, f64)>,
}

impl Summary {
    fn of(runs: &[&Outcome], subject: &Subject) -> Option<Self> {
        let in_seconds = subject.promises.iter().any(|promise| promise.quantity == Quantity::Seconds);
        let main = |outcome: &Outcome| if in_seconds { outcome.seconds } else { outcome.ops_per_sec };
        let all = |measure: &dyn Fn(&Outcome) -> f64| runs.iter().map(|outcome| measure(outcome)).collect::<Vec<_>>();
        let middle = |measure: &dyn Fn(&Outcome) -> f64| median(&all(measure));
        let values = all(&main);
        let bytes = match subject.user_bytes {
            Some(user) => Some((
                middle(&|outcome| outcome.bytes_written as f64)? / user as f64,
                middle(&|outcome| outcome.space_bytes as f64)? / user as f64,
            )),
            None => None,
        };
        Some(Self {
            in_seconds,
            median: median(&values)?,
            min: values.iter().copied().reduce(f64::min)?,
            max: values.iter().copied().reduce(f64::max)?,
            p99_ns: middle(&|outcome| outcome.p99_ns as f64)? as u64,
            cpu_us: middle(&|outcome| outcome.cpu_seconds * 1e6 / outcome.ops.max(1) as f64)?,
            bytes,
        })
    }

    fn cells(&self, title: &str, engine: &str) -> [String; COLUMNS] {
        let mut cells: [String; COLUMNS] = Default::default();
        cells[0] = title.into();
        cells[1] = engine.into();
        cells[2] = self.shown(self.median);
        cells[3] = format!("[{} .. {}]", self.shown(self.min), self.shown(self.max));
        cells[4] = if self.p99_ns == 0 { String::new() } else { time(self.p99_ns) };
        cells[5] = format!("{:.2} us", self.cpu_us);
        if let Some((written, space)) = self.bytes {
            cells[6] = format!("{written:.2}");
            cells[7] = format!("{space:.2}");
        }
        cells
    }

    fn shown(&self, value: f64) -> String {
        if self.in_seconds { time((value * 1e9) as u64) } else { count(value) }
    }
}
