//! The table: one row for each work and depth, Redis beside both engines.

use super::{DEPTHS, Work, label};
use crate::outcome::Outcome;
use crate::redis::Kind;
use crate::report::median::{median, ratio_of};
use crate::report::words::count;

/// The speed that is wanted of `memory`, relative to Redis.
const MEMORY_WANTED: f64 = 1.0;
/// The speed that is wanted of reads of `lsm`; writes of `lsm` should be as fast as those of `memory`.
const LSM_READS_WANTED: f64 = 0.8;

const COLUMNS: usize = 9;

/// The table in Markdown.
pub fn table(outcomes: &[Outcome]) -> String {
    let header =
        ["", "Redis", "lsm", "to Redis", "wanted", "memory", "to Redis", "wanted", "CPU, us: Redis, lsm, memory"];
    let rule = std::array::from_fn(|_| "---".to_owned());
    let mut rows = vec![header.map(str::to_owned), rule];
    for work in Work::ALL {
        for (pipeline, _) in DEPTHS {
            rows.extend(row(outcomes, &work, pipeline));
        }
    }
    rows.iter().map(|row| format!("| {} |\n", row.join(" | "))).collect()
}

/// One row; `None` unless all contestants have run it.
fn row(outcomes: &[Outcome], work: &Work, pipeline: u32) -> Option<[String; COLUMNS]> {
    let name = label(work, pipeline);
    let runs = |kind: Kind| -> Vec<&Outcome> {
        outcomes.iter().filter(|outcome| outcome.work == name && outcome.engine == kind.name()).collect()
    };
    let (redis, lsm, memory) = (runs(Kind::Redis), runs(Kind::Weir), runs(Kind::WeirMemory));
    let middle = |runs: &[&Outcome], measure: fn(&Outcome) -> f64| {
        median(&runs.iter().map(|outcome| measure(outcome)).collect::<Vec<_>>())
    };
    let speed = |runs: &[&Outcome]| middle(runs, |outcome| outcome.ops_per_sec).map(count);
    let cpu = |runs: &[&Outcome]| middle(runs, |outcome| outcome.cpu_seconds * 1e6 / outcome.ops.max(1) as f64);
    let beside = |runs: &[&Outcome], wanted: f64| {
        let ratio = ratio_of(runs, &redis, |outcome| outcome.ops_per_sec)?;
        let judged = if ratio.of_medians >= wanted { "met".to_owned() } else { format!("{wanted:.1}, **not met**") };
        Some((format!("{:.2} {}", ratio.of_medians, ratio.spread()), judged))
    };
    let (lsm_ratio, lsm_judged) = beside(&lsm, if work.writes { MEMORY_WANTED } else { LSM_READS_WANTED })?;
    let (memory_ratio, memory_judged) = beside(&memory, MEMORY_WANTED)?;
    let cpus = format!("{:.1}, {:.1}, {:.1}", cpu(&redis)?, cpu(&lsm)?, cpu(&memory)?);
    let title = format!("`{}`, `-P {pipeline}`", work.name);
    Some([
        title,
        speed(&redis)?,
        speed(&lsm)?,
        lsm_ratio,
        lsm_judged,
        speed(&memory)?,
        memory_ratio,
        memory_judged,
        cpus,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(engine: Kind, round: u32, ops_per_sec: f64) -> Outcome {
        let work = "get -P 16".to_owned();
        Outcome {
            work,
            engine: engine.name().into(),
            round,
            ops: 10,
            ops_per_sec,
            cpu_seconds: 2e-5,
            ..Outcome::default()
        }
    }

    #[test]
    fn engines_stand_beside_redis_and_are_judged() {
        let outcomes = [
            outcome(Kind::Redis, 1, 1000.0),
            outcome(Kind::Redis, 2, 1000.0),
            outcome(Kind::Weir, 1, 850.0),
            outcome(Kind::Weir, 2, 950.0),
            outcome(Kind::WeirMemory, 1, 900.0),
            outcome(Kind::WeirMemory, 2, 900.0),
        ];
        let text = table(&outcomes);
        let row: Vec<_> = text.lines().nth(2).expect("a row").split('|').map(str::trim).collect();
        assert_eq!(row[1], "`get`, `-P 16`");
        assert_eq!(row[4..6], ["0.90 [0.85 .. 0.95]", "met"]);
        assert_eq!(row[7..9], ["0.90 [0.90 .. 0.90]", "1.0, **not met**"]);
        assert_eq!(row[9], "2.0, 2.0, 2.0");
        assert_eq!(text.lines().count(), 3);
        assert_eq!(table(&outcomes[..4]).lines().count(), 2, "one of them has not run");
    }
}
