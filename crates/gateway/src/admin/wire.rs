//! The requests and answers of the operators' API, as JSON. Rust programs that call it over HTTP use the same types.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use weir_node::Delay;
use weir_node::waits::Waits;

/// What happens to a request beyond a tenant's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnLimit {
    /// It waits, `delay_max_ms` at most, and is refused if it would have to wait longer.
    Delay,
    /// It is refused at once.
    Refuse,
}

/// How long a tenant may have to wait for its share: milliseconds, `"never"` or `"node"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected milliseconds, \"never\" or \"node\"")]
pub enum DeltaMs {
    /// This many milliseconds.
    Ms(u32),
    /// A word instead of a number.
    Word(DeltaWord),
}

/// A delay that is not a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeltaWord {
    /// The tenant is promised nothing: it waits as long as it takes.
    Never,
    /// The delay that the node promises to everybody.
    Node,
}

impl From<Delay> for DeltaMs {
    fn from(delay: Delay) -> Self {
        match delay {
            Delay::Ms(ms) => DeltaMs::Ms(ms),
            Delay::Endless => DeltaMs::Word(DeltaWord::Never),
            Delay::OfNode => DeltaMs::Word(DeltaWord::Node),
        }
    }
}

impl From<DeltaMs> for Delay {
    fn from(delta: DeltaMs) -> Self {
        match delta {
            DeltaMs::Ms(ms) => Delay::Ms(ms),
            DeltaMs::Word(DeltaWord::Never) => Delay::Endless,
            DeltaMs::Word(DeltaWord::Node) => Delay::OfNode,
        }
    }
}

impl fmt::Display for DeltaMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeltaMs::Ms(ms) => write!(f, "{ms} ms"),
            DeltaMs::Word(DeltaWord::Never) => f.write_str("never"),
            DeltaMs::Word(DeltaWord::Node) => f.write_str("node"),
        }
    }
}

impl FromStr for DeltaMs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "never" => Ok(DeltaMs::Word(DeltaWord::Never)),
            "node" => Ok(DeltaMs::Word(DeltaWord::Node)),
            ms => ms.parse().map(DeltaMs::Ms).map_err(|_| "expected milliseconds, `never` or `node`".to_owned()),
        }
    }
}

/// A tenant's settings, or those of them that are to be changed. An absent setting stays as it is (in a new tenant: at
/// its default).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Read capacity units per second; 0 = unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rcu: Option<u64>,
    /// Write capacity units per second; 0 = unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wcu: Option<u64>,
    /// Request units per second; 0 = unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ru: Option<u64>,
    /// Whether the tenant may use more request units than that while the node has some left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spare: Option<bool>,
    /// Seconds of unused units that may be used later at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst_seconds: Option<u32>,
    /// What happens beyond the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_limit: Option<OnLimit>,
    /// Longest delay, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_max_ms: Option<u32>,
    /// Connections at most; 0 = as many as the node allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections_max: Option<u32>,
    /// Bytes on disk at most; 0 = unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_bytes_max: Option<u64>,
    /// Bytes of memory at most that its rows take, if its engine keeps rows in memory; 0 = unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes_max: Option<u64>,
    /// Its share of what tenants share, in proportion to the others' weights: 1 to 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
    /// How long it may have to wait for its share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta_ms: Option<DeltaMs>,
    /// Whether its clients are refused; its data stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspended: Option<bool>,
}

/// Body of `POST /v1/tenants`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewTenant {
    /// Its name.
    pub name: String,
    /// Partitions; 1 if absent. They cannot be changed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u16>,
    /// `lsm`, `memory` or `sp-lsm`; `lsm` if absent. It cannot be changed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// `own` or `shared`; `own` if absent. It cannot be changed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// A secret of the operator's choice. If absent, a secret is generated and told once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Everything else.
    #[serde(default)]
    pub settings: Settings,
}

/// Body of `PATCH /v1/tenants/NAME`.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Change {
    /// A new secret of the operator's choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Whether to generate a new secret, which is told once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub new_secret: bool,
    /// Everything else.
    pub settings: Settings,
}

/// A tenant as it is shown. Its secret is never shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its number, never reused.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Number of partitions.
    pub partitions: u32,
    /// How many partitions are awake.
    pub awake: u32,
    /// `lsm`, `memory` or `sp-lsm`; absent in the answers of versions that know only one engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// `own` or `shared`; absent in the answers of versions that know only one kind of log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// Bytes of memory that its rows take; absent if its engine does not keep rows in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Whether its clients need a secret.
    pub has_secret: bool,
    /// The names of its users besides itself. Characters that no terminal should show are escaped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// All settings are present.
    pub settings: Settings,
}

/// Answer to an order that creates or alters a tenant.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The tenant as it is now.
    pub tenant: Tenant,
    /// A generated secret. It is stored nowhere and cannot be shown again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// What all tenants have bought now.
    #[serde(default)]
    pub sold: Sold,
}

/// What tenants have bought, compared with what the device gives. A node is meant to sell its bandwidth several times;
/// this says how often.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sold {
    /// Tenants with a limit on reads or on writes.
    pub tenants: u64,
    /// Tenants that have no limit on reads, or none on writes.
    pub unlimited: u64,
    /// Read units a second, of all tenants.
    pub rcu: u64,
    /// Write units a second, of all tenants.
    pub wcu: u64,
    /// Device bytes a second that all these units would take if they were used at once, before flushes and compactions.
    pub bytes_per_second: u64,
    /// Device bytes a second that the device gives; absent if `device_bandwidth` does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_bytes_per_second: Option<u64>,
    /// What is sold, in percent of what the device gives; absent in the same case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<u64>,
    /// Device bytes a second that it takes to bring all sold writes, at once, into the log and out of memory, without
    /// any compaction.
    pub uncompacted_bytes_per_second: u64,
    /// Whether the device can take that; absent in the same case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passes_uncompacted: Option<bool>,
}

impl fmt::Display for Sold {
    /// One line for an operator.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mega = |bytes: u64| bytes as f64 / 1e6;
        let tenants = if self.tenants == 1 { "1 tenant" } else { &*format!("{} tenants", self.tenants) };
        let (rcu, wcu) = (self.rcu, self.wcu);
        match (self.percent, self.device_bytes_per_second) {
            (Some(percent), Some(device)) => write!(
                f,
                "{:.*} x what the device gives ({:.0} of {:.0} MB/s): {rcu} read and {wcu} write units a second, to {tenants}",
                if percent < 1000 { 2 } else { 1 },
                percent as f64 / 100.0,
                mega(self.bytes_per_second),
                mega(device)
            )?,
            _ => write!(
                f,
                "{:.0} MB/s: {rcu} read and {wcu} write units a second, to {tenants}; what the device gives is not known (device_bandwidth)",
                mega(self.bytes_per_second)
            )?,
        }
        match self.unlimited {
            0 => {}
            1 => f.write_str("; 1 tenant is not limited")?,
            count => write!(f, "; {count} tenants are not limited")?,
        }
        if self.passes_uncompacted == Some(false) {
            write!(
                f,
                "; the device cannot take all these writes at once even without compactions: writing them to the log \
                 and flushing them takes {:.0} MB/s",
                mega(self.uncompacted_bytes_per_second)
            )?;
        }
        Ok(())
    }
}

/// Answer of `GET /v1/tenants`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenants {
    /// Tenants, ordered by name.
    pub tenants: Vec<Tenant>,
    /// What all of them have bought.
    #[serde(default)]
    pub sold: Sold,
}

/// Body of `POST /v1/tenants/NAME/backup`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupOrder {
    /// An absolute path on the server's machine: a new or empty directory.
    pub dir: String,
}

/// Body of `POST /v1/restore`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestoreOrder {
    /// An absolute path on the server's machine: the directory of a backup.
    pub dir: String,
    /// The name of the tenant to make of it; no tenant may have that name yet.
    pub name: String,
    /// A secret of the operator's choice. If absent, a secret is generated and told once. A backup contains no secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// Answer to a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupDone {
    /// Number of partitions in the backup.
    pub partitions: u32,
    /// Number of files in the backup, without its own manifest.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
}

/// Answer of `GET /v1/top`: counters since the server started. The difference of two answers gives a rate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Top {
    /// Nanoseconds of a clock that only goes forward.
    pub at_nanos: u64,
    /// Open connections.
    pub connections: u64,
    /// Bytes of blocks in the cache.
    pub cache_bytes: u64,
    /// Blocks found in the cache.
    pub cache_hits: u64,
    /// Blocks not found there.
    pub cache_misses: u64,
    /// What tenants have bought, in percent of what the device gives; absent if `device_bandwidth` does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sold_percent: Option<u64>,
    /// Tenants, ordered by name.
    pub tenants: Vec<TopTenant>,
}

/// What one tenant has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopTenant {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: u32,
    /// Number of partitions.
    pub partitions: u32,
    /// How many partitions are awake.
    pub awake: u32,
    /// Whether its clients are refused.
    pub suspended: bool,
    /// Keys read by its clients.
    pub reads: u64,
    /// Bytes read by its clients.
    pub read_bytes: u64,
    /// Batches written by its clients.
    pub writes: u64,
    /// Bytes written by its clients.
    pub written_bytes: u64,
    /// Device bytes by cause, read and written together.
    pub device: Vec<Cause>,
    /// Nanoseconds that its requests waited, in the order of [`Cause::NAMES`](weir_node::waits::Cause::NAMES).
    pub waited_nanos: Waits,
    /// Read units a second that it has bought; 0 = no limit.
    pub rcu: u64,
    /// Write units a second that it has bought; 0 = no limit.
    pub wcu: u64,
    /// Replies by how long their clients waited: `[bucket, count]` of the buckets that are not empty. The difference of
    /// two answers is what happened between them.
    #[serde(default)]
    pub latency: Vec<[u64; 2]>,
    /// Whether it keeps the threads that serve clients busy while others want to be served, and therefore goes behind
    /// them.
    #[serde(default)]
    pub is_noisy: bool,
    /// Nanoseconds of processor time that these threads spent on it.
    #[serde(default)]
    pub processor_nanos: u64,
    /// Requests that had to wait for the tenant's own units.
    pub delayed: u64,
    /// Requests refused because of the tenant's own units.
    pub refused: u64,
}

/// Device bytes of one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// `read`, `log`, `flush`, `l0`, `deep` or `maintenance`.
    pub class: String,
    /// Bytes read from the device.
    pub read: u64,
    /// Bytes written to the device.
    pub written: u64,
}

/// Any answer that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What is wrong and what to do about it.
    pub error: String,
}

/// `GET /v1/tenants/NAME/why?ago=SECONDS`, or `why?at=SECONDS` since 1970.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Why {
    /// What the tenant feels most, in one sentence, and what else it feels, in one sentence each.
    #[serde(default)]
    pub felt: String,
    /// Its partitions.
    pub partitions: Vec<PartitionWhy>,
    /// The last replies before that moment for which its clients waited long, newest first.
    #[serde(default)]
    pub slow_replies: Vec<SlowReply>,
}

/// A reply that took more than 10 ms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SlowReply {
    /// When the reply was written, in milliseconds since 1970.
    pub unix_ms: u64,
    /// How long its client waited, in microseconds.
    pub micros: u64,
    /// Number of commands that were answered together: a pipeline.
    pub replies: u64,
    /// The command of the pipeline that took longest.
    pub command: String,
    /// Nanoseconds of that time spent waiting, by cause, in the order of
    /// [`Cause::NAMES`](weir_node::waits::Cause::NAMES).
    pub waited_nanos: Waits,
}

/// Why one partition is as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartitionWhy {
    /// Its number.
    pub partition: u32,
    /// Stage, reason and figures in words; `None` if the partition was asleep, or if the history no longer goes back
    /// that far.
    pub why: Option<String>,
}

/// What tenants have used, by the hour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bill {
    /// Lines by hour and tenant.
    pub lines: Vec<BillLine>,
}

/// What one tenant has used in one hour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BillLine {
    /// When the hour began, in seconds since 1970.
    pub hour_unix_seconds: u64,
    /// The tenant's number.
    pub tenant: u32,
    /// Its name.
    pub name: String,
    /// Commands called.
    pub commands: u64,
    /// What the commands cost, in thousandths of request units.
    pub request_milli_units: u64,
    /// Minutes of the hour in which the tenant was looked at.
    pub minutes: u64,
    /// Bytes on disk, on average over these minutes.
    pub disk_bytes: u64,
    /// Bytes of rows in memory, on average over these minutes.
    pub memory_bytes: u64,
    /// Device bytes, by cause.
    pub device: Vec<Cause>,
}
