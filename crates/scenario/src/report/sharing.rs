//! A page with ways to share side by side: what each class of tenants got done, and how long tenants waited for their
//! shares.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

use super::{POINTS_MAX, fill};
use crate::outcome::tail;

/// What the page shows.
const VIEW: &str = include_str!("sharing.js");

/// What the tenants of one class got done in each second of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassSeries {
    /// The name of the class.
    pub class: String,
    /// Bytes read and written, at scale 1.
    pub bytes_per_sec: Vec<u64>,
    /// The 99th percentile of the requests that were done in this second, in microseconds; 0 if none was.
    pub p99_us: Vec<f64>,
}

/// What a tenant has a share of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scarce {
    /// The memory of all memtables.
    WriteMemory,
    /// The block cache.
    BlockCache,
    /// Both, for a request that needs both.
    MemoryAndCache,
    /// Flushes at a time.
    FlushSlots,
}

/// The longest that a tenant waited for its share of something.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Acquisition {
    /// The name of the tenant.
    pub tenant: String,
    /// The name of its class.
    pub class: String,
    /// What it has a share of.
    pub resource: Scarce,
    /// The longest wait, in milliseconds.
    pub longest_ms: f64,
    /// The delay that was promised, in milliseconds; `None` if none was.
    pub delta_ms: Option<f64>,
}

impl Acquisition {
    /// Whether the wait was longer than promised, by more than a hundredth. Less than a millisecond counts as nothing.
    pub fn is_late(&self) -> bool {
        self.delta_ms.is_some_and(|delta| self.longest_ms > (delta * 1.01).max(1.0))
    }
}

/// A run under one way to share, second by second and tenant by tenant.
#[derive(Clone, PartialEq, Serialize)]
pub struct Sharing {
    /// The first second that counts: by then memory and cache are full.
    pub counts_from: u64,
    /// Bytes read and written in the second that 99 of 100 seconds exceed (CR-1), at scale 1.
    pub tail_bytes_per_sec: u64,
    /// Each class of tenants.
    pub classes: Vec<ClassSeries>,
    /// What each tenant waited for.
    pub acquisitions: Vec<Acquisition>,
    /// Whether the node said in the end that it could not keep its promise.
    #[serde(skip)]
    pub is_broken: bool,
}

impl Sharing {
    /// The run that these figures are of.
    pub fn new(counts_from: u64, classes: Vec<ClassSeries>, acquisitions: Vec<Acquisition>, is_broken: bool) -> Self {
        let mut sharing = Self { counts_from, tail_bytes_per_sec: 0, classes, acquisitions, is_broken };
        sharing.tail_bytes_per_sec = tail(sharing.counted().into_iter());
        sharing
    }

    fn seconds(&self) -> usize {
        self.classes.iter().map(|class| class.bytes_per_sec.len()).max().unwrap_or(0)
    }

    /// Bytes of all classes in each second that counts.
    fn counted(&self) -> Vec<u64> {
        let all = |second| self.classes.iter().filter_map(|class| class.bytes_per_sec.get(second)).sum::<u64>();
        (self.counts_from as usize..self.seconds()).map(all).collect()
    }

    fn mean_bytes_per_sec(&self) -> u64 {
        let counted = self.counted();
        counted.iter().sum::<u64>() / counted.len().max(1) as u64
    }
}

/// Without the time series, which no line has room for.
impl fmt::Debug for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sharing").field("tail_bytes_per_sec", &self.tail_bytes_per_sec).finish_non_exhaustive()
    }
}

/// Makes the page: `lead` says what is tried, with these `params`, and each run has the name of its way to share.
pub fn page(scenario: &str, lead: &str, params: &Value, runs: &[(&str, &Sharing)]) -> String {
    let seconds = runs.iter().map(|(_, run)| run.seconds()).max().unwrap_or(0).max(1);
    let every = seconds.div_ceil(POINTS_MAX);
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let facts = params.as_object().into_iter().flatten().map(|(name, value)| json!([name, shown(value)]));
    let settled = runs.iter().map(|(_, run)| run.counts_from).max().unwrap_or(0);
    let data = json!({
        "title": title(scenario, runs),
        "lead": lead,
        "facts": facts.collect::<Vec<_>>(),
        "from": 0,
        "every": every,
        // The first second that counts, in points.
        "marks": [settled as f64 / every as f64],
        "runs": runs.iter().map(|(name, run)| one(name, run, every)).collect::<Vec<_>>(),
        "footer": "In virtual time. Bytes are those at scale 1. Seconds before a dotted line do not count: memory and cache are not full yet.",
    });
    fill(VIEW, &data)
}

fn title(scenario: &str, runs: &[(&str, &Sharing)]) -> String {
    let kept = runs.iter().filter(|(_, run)| !run.is_broken);
    let promised: Vec<&Acquisition> =
        kept.flat_map(|(_, run)| &run.acquisitions).filter(|share| share.delta_ms.is_some()).collect();
    let late = promised.iter().filter(|share| share.is_late()).count();
    match (promised.len(), late) {
        (0, _) => format!("{scenario}: no share was promised"),
        (all, 0) => format!("{scenario}: each of {all} promised shares was there in time"),
        (all, late) => format!("{scenario}: {late} of {all} promised shares came late"),
    }
}

fn one(name: &str, run: &Sharing, every: usize) -> Value {
    let points = |class: &ClassSeries| {
        let bytes = class.bytes_per_sec.chunks(every).map(|seconds| seconds.iter().sum::<u64>() / seconds.len() as u64);
        let p99 = class.p99_us.chunks(every).map(|seconds| seconds.iter().copied().fold(0.0, f64::max));
        let counted = class.p99_us.iter().skip(run.counts_from as usize).copied();
        json!({
            "class": class.class,
            "bytes": bytes.collect::<Vec<u64>>(),
            "p99_us": p99.collect::<Vec<f64>>(),
            "worst_p99_us": counted.fold(0.0, f64::max),
        })
    };
    let wait = |share: &Acquisition| {
        json!({
            "tenant": share.tenant,
            "class": share.class,
            "resource": share.resource,
            "longest_ms": share.longest_ms,
            "delta_ms": share.delta_ms,
            "late": share.is_late(),
        })
    };
    json!({
        "name": name,
        "points": run.seconds().div_ceil(every),
        "broken": run.is_broken,
        "mean": run.mean_bytes_per_sec(),
        "tail": run.tail_bytes_per_sec,
        "classes": run.classes.iter().map(points).collect::<Vec<_>>(),
        "waits": run.acquisitions.iter().map(wait).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_loads_nothing, data};
    use super::*;

    fn series(class: &str, seconds: usize) -> ClassSeries {
        let bytes_per_sec = (0..seconds as u64).map(|second| 10 * second).collect();
        let p99_us = (0..seconds).map(|second| 1_000.0 - second as f64).collect();
        ClassSeries { class: class.to_owned(), bytes_per_sec, p99_us }
    }

    fn acquisition(longest_ms: f64, delta_ms: Option<f64>) -> Acquisition {
        let (tenant, class) = ("tenant0".to_owned(), "ramping".to_owned());
        Acquisition { tenant, class, resource: Scarce::BlockCache, longest_ms, delta_ms }
    }

    fn sharing(seconds: usize, acquisitions: Vec<Acquisition>) -> Sharing {
        Sharing::new(2, vec![series("steady", seconds), series("</script>", seconds)], acquisitions, false)
    }

    #[test]
    fn a_page_has_what_was_done_and_what_was_waited_for() {
        let runs = [sharing(4, vec![acquisition(300.0, Some(250.0))]), sharing(4, vec![acquisition(900.0, None)])];
        let params = json!({ "scale": 32, "shares": "fair" });
        let page = page("delta-cache", "What is tried", &params, &[("delta 250 ms", &runs[0]), ("fair", &runs[1])]);
        assert_loads_nothing(&page);
        let data = data(&page);
        assert_eq!(data["facts"], json!([["scale", "32"], ["shares", "fair"]]));
        assert_eq!(data["title"], "delta-cache: 1 of 1 promised shares came late");
        let run = &data["runs"][0];
        assert_eq!((&run["name"], &run["points"], &data["marks"]), (&json!("delta 250 ms"), &json!(4), &json!([2.0])));
        // Of the seconds that count, the third and the fourth.
        assert_eq!((&run["mean"], &run["tail"]), (&json!(50), &json!(40)));
        assert_eq!(run["classes"][1]["class"], "</script>");
        assert_eq!(
            (&run["classes"][0]["bytes"], &run["classes"][0]["worst_p99_us"]),
            (&json!([0, 10, 20, 30]), &json!(998.0))
        );
        let late = |run: &Value| (run["waits"][0]["longest_ms"].as_f64(), run["waits"][0]["late"].as_bool());
        assert_eq!((late(run), late(&data["runs"][1])), ((Some(300.0), Some(true)), (Some(900.0), Some(false))));
        assert_eq!(run["waits"][0]["resource"], "block-cache");
    }

    #[test]
    fn a_long_series_is_thinned() {
        let run = sharing(4_000, Vec::new());
        let data = data(&page("delta-mix", "", &Value::Null, &[("fair", &run)]));
        assert_eq!(
            (&data["every"], &data["marks"], &data["runs"][0]["points"]),
            (&json!(2), &json!([1.0]), &json!(2_000))
        );
        let class = &data["runs"][0]["classes"][0];
        assert_eq!((&class["bytes"][1], &class["p99_us"][1]), (&json!(25), &json!(998.0)), "the mean, and the worst");
        assert_eq!(data["title"], "delta-mix: no share was promised");
    }

    #[test]
    fn a_share_is_late_beyond_its_delay() {
        let late = |longest, delta| acquisition(longest, delta).is_late();
        assert_eq!([late(252.0, Some(250.0)), late(253.0, Some(250.0)), late(9e9, None)], [false, true, false]);
        assert_eq!([late(0.9, Some(0.0)), late(1.1, Some(0.0))], [false, true], "less than a millisecond is nothing");
        let broken = Sharing { is_broken: true, ..sharing(4, vec![acquisition(300.0, Some(250.0))]) };
        let kept = sharing(4, vec![acquisition(3.0, Some(250.0))]);
        let title = title("delta-cache", &[("delta 250 ms", &broken), ("delta 750 ms", &kept)]);
        assert_eq!(title, "delta-cache: each of 1 promised shares was there in time");
    }
}
