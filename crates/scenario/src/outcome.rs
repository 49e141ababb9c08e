//! The outcome of a run: the JSON that both worlds write, and the time series behind it.

mod figures;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::figures::{Bytes, Latency, Spread, Stalls, ratio, tail};

/// The outcome of one profile's run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of the scenario: `shortage`, `surge`, …
    pub scenario: String,
    /// The world of the run: `virtual` or `disk`.
    pub world: String,
    /// The profile's name.
    pub profile: String,
    /// Every parameter, and what followed from them.
    pub params: Map<String, Value>,
    /// Seed of keys, payloads and send times.
    pub seed: u64,
    /// Share of a partition's writes that were done at most 1 ms after they were to be sent (0 to 1).
    pub normally_served: Spread,
    /// Latency of writes, from the intended send time, in microseconds.
    pub latency_us: Latency,
    /// Latency of reads, likewise.
    pub read_latency_us: Latency,
    /// Share of a partition's reads that were answered at most 100 ms after they were to be sent, where there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_in_time: Option<Spread>,
    /// Writes that the tree slowed or stopped.
    pub stalls: Stalls,
    /// Writes done a second, on average.
    pub mean_per_sec: f64,
    /// Writes done in the second that 99 of 100 seconds exceed (CR-1).
    pub tail_per_sec: u64,
    /// Writes done in each second.
    pub served_per_sec: Vec<u64>,
    /// Reads answered in each second.
    pub reads_per_sec: Vec<u64>,
    /// Device bytes by cause, and what users wrote.
    pub bytes: Bytes,
    /// Background bytes for each byte of a user.
    pub background_amplification: f64,
    /// Device bytes over what the device could have moved.
    pub device_utilisation: f64,
    /// Share of the device that was used while work waited for it; `None` if none ever did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilisation_backlogged: Option<f64>,
    /// Every change of a partition's stage.
    pub stages: Vec<StageChange>,
    /// Most bytes in memtables and in levels 0 and 1 at any moment.
    pub memory_peak_bytes: u64,
    /// A row for each tenant, in the order of their partitions. Outcomes from before there were rows have none.
    #[serde(default)]
    pub tenants: Vec<TenantRow>,
    /// What came after the load, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<After>,
    /// How even the service was, if the scenario is about that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steadiness: Option<Steadiness>,
    /// How partitions that slept were woken, if the scenario lets them sleep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waking: Option<Waking>,
    /// What was done in the seconds that count for evenness: all operations first, and then each kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<OfKind>,
}

/// Operations of one kind, in the seconds of a load that count. Whatever a client saw as one operation is one, such as
/// a read that is followed by a write of the same item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfKind {
    /// `all`, or a name of [`crate::mix::Kind`].
    pub kind: String,
    /// How many were done.
    pub done: u64,
    /// How many were done a second, on average.
    pub per_sec: f64,
    /// Latency from the intended send time, in microseconds.
    pub latency_us: Latency,
    /// The worst 99th percentile of any one second, in microseconds.
    pub worst_p99_us: f64,
}

/// How even a service was over the seconds of a load that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Steadiness {
    /// Operations done a second, on average.
    pub mean_per_sec: f64,
    /// Operations done in the second that 99 of 100 seconds exceed (CR-1).
    pub tail_per_sec: u64,
    /// The worst 99th percentile of the writes done in any one second, in microseconds.
    pub worst_write_p99_us: f64,
    /// The same for reads.
    pub worst_read_p99_us: f64,
    /// How full the resource that stalls writes was at the ends of the seconds, on average, 1 = full. That is the
    /// fuller of two: write buffers, and level 0 up to where the tree slows writes to less than a policy would (CR-2).
    pub watermark_mean: f64,
    /// The same at its fullest.
    pub watermark_max: f64,
    /// Device bytes by cause in those seconds, and what users wrote.
    pub bytes: Bytes,
}

/// How partitions that slept were woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waking {
    /// The most partitions that were awake at the end of a second.
    pub awake_max: u64,
    /// How often a partition was woken.
    pub woken: u64,
    /// Requests that found their partition asleep, on its way to sleep, or being woken.
    pub asleep: Answered,
    /// All other requests.
    pub awake: Answered,
    /// The most bytes that memtables, cached blocks, indexes and filters took at the end of a second.
    pub memory_peak_bytes: u64,
    /// How many bytes they may take.
    pub memory_limit_bytes: u64,
    /// Partitions that slept, of all, before everything was read back.
    pub slept: u64,
    /// Items that were read back after the load: all that were written.
    pub read_back: u64,
    /// Reads, during the load and after it, that did not give what was acknowledged before.
    pub lost: u64,
}

/// Some requests, and how they were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// How many were to be sent.
    pub sent: u64,
    /// Share of them that were done at most 10 ms after they were to be sent (0 to 1).
    pub in_time: f64,
    /// Their latency, from the intended send time, in microseconds.
    pub latency_us: Latency,
}

/// One tenant's part of the load; it has one partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TenantRow {
    /// The tenant's name.
    pub tenant: String,
    /// Number of its partition, from 0: the one in `stages`.
    pub partition: usize,
    /// Operations that were to be sent.
    pub sent: Operations,
    /// How many of these were done.
    pub done: Operations,
    /// Capacity units of what was done: of 1 KiB for writes and 4 KiB for reads, each operation rounded up (where items
    /// have several sizes, by the mean).
    pub units: Operations,
    /// Share of its writes that were done at most 1 ms after they were to be sent (0 to 1).
    pub normally_served: f64,
    /// Latency of its writes, from the intended send time, in microseconds, to 1 %.
    pub latency_us: Latency,
    /// Share of its reads that were answered at most 100 ms after they were to be sent, if it sent any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_in_time: Option<f64>,
    /// Latency of its reads, likewise.
    pub read_latency_us: Latency,
    /// The second of the load, from 0, in which one of its operations was answered late for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_late_second: Option<u64>,
    /// Its writes that the tree slowed or stopped.
    pub stalls: Stalls,
    /// Device bytes by cause, and what it wrote. The store of a peer does not say which of its process's bytes are its
    /// own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
}

/// A number of writes and a number of reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operations {
    /// Writes.
    pub writes: u64,
    /// Reads.
    pub reads: u64,
}

impl Outcome {
    /// Whether there were writes: a write that was sent was served in some second, or counts as not served.
    pub fn wrote(&self) -> bool {
        self.normally_served.min < 1.0 || self.served_per_sec.iter().any(|&done| done > 0)
    }
}

/// A partition's move from one stage of deferral to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageChange {
    /// Seconds since the load began.
    pub t: f64,
    /// Number of the partition, from 0.
    pub partition: usize,
    /// Stage before.
    pub from: String,
    /// Stage after.
    pub to: String,
    /// The policy's reason.
    pub why: String,
}

/// What came after the load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct After {
    /// Seconds until every level of every tree was within its target, with nothing sealed and nothing running; `None`
    /// if that was not so by the end of the run.
    pub restored_seconds: Option<u64>,
    /// Share of writes of the small load that were normally served.
    pub normally_served: Spread,
    /// Latency of its writes.
    pub latency_us: Latency,
    /// Latency of its reads.
    pub read_latency_us: Latency,
    /// Writes that the tree slowed or stopped.
    pub stalls: Stalls,
}

/// One second of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Second {
    /// Writes done.
    pub served: u64,
    /// How many of these were done at most 1 ms after they were to be sent.
    pub normally: u64,
    /// Reads answered.
    pub reads: u64,
    /// Operations done: whatever a client saw as one operation is one.
    #[serde(default)]
    pub operations: u64,
    /// Percentiles of the writes done in this second, in microseconds: 50, 99, 99.9.
    pub write_us: [f64; 3],
    /// The same for reads.
    pub read_us: [f64; 3],
    /// Device bytes of this second.
    pub bytes: Bytes,
    /// Level-0 runs of each partition at the end of the second.
    pub l0: Vec<u16>,
    /// Sealed memtables of each partition at the end of the second.
    pub sealed: Vec<u16>,
    /// Stage of each partition at the end of the second.
    pub stage: Vec<u8>,
    /// Bytes in memtables and in levels 0 and 1.
    pub memory: u64,
    /// How full the resource that stalls writes was when policies last looked, 1 = full, in the partition where it was
    /// fullest: write buffers, or level 0.
    #[serde(default)]
    pub watermark: f64,
    /// Bytes a second that all partitions together may write from then on; `None` if nothing limits them.
    #[serde(default)]
    pub write_limit: Option<u64>,
    /// Partitions that are awake.
    #[serde(default)]
    pub awake: u64,
    /// Bytes in memtables and in the block cache, with indexes and filters of open tables.
    #[serde(default)]
    pub held: u64,
}

/// A run, with its time series.
#[derive(Clone, Debug)]
pub struct Run {
    /// The figures.
    pub outcome: Outcome,
    /// Second by second, the time after the load included.
    pub series: Vec<Second>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An outcome with every field, and a figure of its own in each.
    pub fn outcome() -> Outcome {
        let latency = |p50| Latency { avg: 1.0, p50, p99: 3e3, p999: 4e6, max: 5e6 };
        let after = After {
            restored_seconds: Some(10),
            normally_served: Spread::default(),
            latency_us: latency(11.0),
            read_latency_us: latency(12.0),
            stalls: Stalls::default(),
        };
        Outcome {
            scenario: "shortage".into(),
            world: "virtual".into(),
            profile: "weir".into(),
            params: Map::new(),
            seed: 1,
            normally_served: Spread { min: 0.98, avg: 0.99999, max: 1.0 },
            latency_us: latency(2.0),
            read_latency_us: Latency { p99: 17e6, ..latency(8.0) },
            reads_in_time: Some(Spread { min: 0.1, avg: 0.19999, max: 0.3 }),
            stalls: Stalls { count: 5, seconds: 6.0 },
            mean_per_sec: 2.5,
            tail_per_sec: 2,
            served_per_sec: vec![2, 3],
            reads_per_sec: vec![4, 5],
            bytes: Bytes { user: 1, log: 2, flush: 3, l0: 4, deep: 5, read: 6, other: 7 },
            background_amplification: 7.25,
            device_utilisation: 0.5,
            utilisation_backlogged: Some(0.75),
            stages: vec![StageChange { t: 1.0, partition: 0, from: "a".into(), to: "b".into(), why: "c".into() }],
            memory_peak_bytes: 9_000_000,
            tenants: vec![tenant_row()],
            after: Some(after),
            steadiness: Some(Steadiness::default()),
            waking: Some(Waking::default()),
            operations: vec![OfKind {
                kind: "all".into(),
                done: 4,
                per_sec: 2.0,
                latency_us: latency(13.0),
                worst_p99_us: 6.0,
            }],
        }
    }

    fn tenant_row() -> TenantRow {
        TenantRow {
            tenant: "t0000".into(),
            partition: 0,
            sent: Operations { writes: 9, reads: 8 },
            done: Operations { writes: 7, reads: 6 },
            units: Operations { writes: 14, reads: 12 },
            normally_served: 0.5,
            latency_us: Latency::default(),
            reads_in_time: Some(0.25),
            read_latency_us: Latency::default(),
            first_late_second: Some(3),
            stalls: Stalls::default(),
            bytes: Some(Bytes::default()),
        }
    }

    /// Names of the fields of the object that follows `key`, or of the whole document, in the order of the text.
    fn fields(json: &str, key: Option<&str>) -> Vec<String> {
        let mut rest = json;
        if let Some(key) = key {
            rest = json.split_once(&format!("\"{key}\":")).expect("the field").1;
        }
        let (mut depth, mut names, mut last) = (0, Vec::new(), "");
        for part in rest.split_inclusive(['"', '{', '}', '[', ']', ':']) {
            let (word, sign) = part.split_at(part.len() - 1);
            match sign {
                "{" | "[" => depth += 1,
                "}" | "]" => depth -= 1,
                "\"" => last = word,
                _ if depth == 1 => names.push(last.to_owned()),
                _ => {}
            }
            if depth == 0 && matches!(sign, "}" | "]") {
                break;
            }
        }
        names
    }

    #[test]
    fn the_json_has_these_fields_in_this_order() {
        let json = serde_json::to_string(&outcome()).expect("JSON");
        let of = |key| fields(&json, key).join(" ");
        assert_eq!(
            of(None),
            "scenario world profile params seed normally_served latency_us read_latency_us reads_in_time stalls mean_per_sec tail_per_sec \
             served_per_sec reads_per_sec bytes background_amplification device_utilisation utilisation_backlogged stages memory_peak_bytes tenants after steadiness waking operations"
        );
        let even = "mean_per_sec tail_per_sec worst_write_p99_us worst_read_p99_us watermark_mean watermark_max bytes";
        assert_eq!(of(Some("steadiness")), even);
        assert_eq!(of(Some("normally_served")), "min avg max");
        assert_eq!(of(Some("latency_us")), "avg p50 p99 p999 max");
        assert_eq!(of(Some("stalls")), "count seconds");
        assert_eq!(of(Some("bytes")), "user log flush l0 deep read other");
        assert_eq!(of(Some("after")), "restored_seconds normally_served latency_us read_latency_us stalls");
        let row = serde_json::to_string(&tenant_row()).expect("JSON");
        let of = |key| fields(&row, key).join(" ");
        assert_eq!(
            of(None),
            "tenant partition sent done units normally_served latency_us reads_in_time read_latency_us first_late_second stalls bytes"
        );
        for key in ["sent", "done", "units"] {
            assert_eq!(of(Some(key)), "writes reads");
        }
        assert_eq!(of(Some("bytes")), "user log flush l0 deep read other");
        assert!(json.contains(r#"[{"t":1.0,"partition":0,"from":"a","to":"b","why":"c"}]"#), "{json}");
    }

    #[test]
    fn what_was_not_asked_for_is_left_out() {
        let plain = Outcome {
            reads_in_time: None,
            utilisation_backlogged: None,
            after: None,
            steadiness: None,
            waking: None,
            ..outcome()
        };
        let json = serde_json::to_string(&plain).expect("JSON");
        let all = serde_json::to_string(&outcome()).expect("JSON");
        let gone: Vec<String> =
            fields(&all, None).into_iter().filter(|name| !fields(&json, None).contains(name)).collect();
        assert_eq!(gone, ["reads_in_time", "utilisation_backlogged", "after", "steadiness", "waking"]);
    }

    #[test]
    fn who_sent_nothing_wrote_nothing() {
        let of = |share: f64, done: u64| {
            Outcome { normally_served: Spread::of(&[1.0, share]), served_per_sec: vec![0, done], ..outcome() }.wrote()
        };
        assert_eq!([of(1.0, 0), of(1.0, 1), of(0.0, 0)], [false, true, true]);
    }
}
