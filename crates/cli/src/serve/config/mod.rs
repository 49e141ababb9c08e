//! The configuration file: the settings, their units and defaults. `docs/config.md` explains each setting.

mod values;

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use weir_admission::cost::Capacity;
use weir_admission::{Limits, UNLIMITED};
use weir_gateway::PushLimits;
use weir_gateway::auth::secret;
use weir_gateway::resp::frame;
use weir_gateway::{Patience, Settings, UnitPrices};
use weir_io::real::IdleTime;
use weir_node::{Bandwidth, FlushShares, NodeConfig, Profile, ShareMode};

pub use self::values::{
    Bytes, CacheShared, Codec, Device, FlushSlots, ProfileName, Rate, RequestQueues, Shared, Shown, SlotsShared, Sync,
};
use crate::units::bytes;

/// Caches below this are warned about.
const CACHE_USUAL_MIN: u64 = 1 << 20;
/// Limits on values below this are warned about.
const VALUE_BYTES_USUAL_MIN: u64 = 1 << 10;
/// Rates below this are warned about: no device is so slow.
const RATE_USUAL_MIN: u64 = 1_000_000;
/// Longest value that can be set: longer ones cost more memory per request than one connection should have.
const VALUE_BYTES_LIMIT: u64 = 512 << 20;
/// Memory that no machine has: policies multiply sizes, and must not overflow.
const MEMORY_BYTES_LIMIT: u64 = 1 << 50;
/// Most compactions at a time, each of which has a thread.
const COMPACTIONS_LIMIT: usize = 1024;
/// Most memtables of a partition.
const WRITE_BUFFERS_LIMIT: usize = 1024;
/// Longest time between two syncs: an hour.
const SYNC_INTERVAL_MS_LIMIT: u64 = 3_600_000;
/// A request may be twice as long as its longest value, and at least this long.
const REQUEST_BYTES_MIN: usize = 16 << 20;

/// The word for no address: nobody listens.
pub const OFF: &str = "off";

/// Everything that can be set. Keys that are not here are errors.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Directory of the data.
    pub dir: PathBuf,
    /// Address for Redis clients.
    pub listen: String,
    /// Address for Redis clients that speak TLS.
    pub tls_listen: String,
    /// The server's certificate, and the certificates between it and its authority.
    pub tls_certificate: PathBuf,
    /// The private key of that certificate.
    pub tls_key: PathBuf,
    /// Whether clients show certificates.
    pub tls_client_certificates: Shown,
    /// Authorities whose clients are trusted.
    pub tls_client_ca: PathBuf,
    /// Address for operators: metrics and health.
    pub admin: String,
    /// Event loops that serve connections; 0 = one for each processor.
    pub threads: usize,
    /// Connections beyond this number are refused.
    pub connections_max: usize,
    /// Time after which a connection without requests is cut; 0 = never.
    pub idle_timeout_seconds: u64,
    /// Longest value.
    pub value_bytes_max: Bytes,
    /// What a write waits for before it is acknowledged.
    pub sync: Sync,
    /// Time between two syncs if `sync` is `interval`.
    pub sync_interval_ms: u64,
    /// Size of a memtable.
    pub write_buffer: Bytes,
    /// Memtables, the active one included.
    pub write_buffers_max: usize,
    /// Memory for the memtables of all tenants together.
    pub write_memory: Bytes,
    /// How the write memory is shared between tenants.
    pub write_memory_shares: Shared,
    /// How many flushes may run at the same time, of all tenants together.
    pub flush_slots: FlushSlots,
    /// How these slots are shared between tenants.
    pub flush_slot_shares: SlotsShared,
    /// Memory for blocks of tables.
    pub cache: Bytes,
    /// How the block cache is shared between tenants.
    pub cache_shares: CacheShared,
    /// How many compactions may run at the same time.
    pub compactions_max: usize,
    /// How tables are compressed.
    pub compression: Codec,
    /// Most bytes per second of the device.
    pub device_bandwidth: Device,
    /// Read capacity units per second that the gates assume for a partition whose tenant has no limit of its own; 0 =
    /// none.
    pub read_units: u64,
    /// The same for writes.
    pub write_units: u64,
    /// Whether requests wait in the node's queues while all tenants together use too many request units, and which go
    /// first.
    pub request_queues: RequestQueues,
    /// Time after which a partition without requests goes to sleep; 0 = never.
    pub hibernate_after_seconds: u64,
    /// The policies that set the knobs of gates and trees.
    pub profile: ProfileName,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            dir: PathBuf::from("weir-data"),
            listen: "127.0.0.1:6379".to_owned(),
            tls_listen: OFF.to_owned(),
            tls_certificate: PathBuf::new(),
            tls_key: PathBuf::new(),
            tls_client_certificates: Shown::Off,
            tls_client_ca: PathBuf::new(),
            admin: "127.0.0.1:6380".to_owned(),
            threads: 0,
            connections_max: 10_000,
            idle_timeout_seconds: 0,
            value_bytes_max: Bytes(64 << 20),
            sync: Sync::Interval,
            sync_interval_ms: 100,
            write_buffer: Bytes(64 << 20),
            write_buffers_max: 4,
            write_memory: Bytes(1 << 30),
            write_memory_shares: Shared::default(),
            flush_slots: FlushSlots(None),
            flush_slot_shares: SlotsShared::default(),
            cache: Bytes(256 << 20),
            cache_shares: CacheShared::default(),
            compactions_max: 2,
            compression: Codec::Lz4,
            device_bandwidth: Device::Rate(Rate(None)),
            read_units: 0,
            write_units: 0,
            request_queues: RequestQueues::Off,
            hibernate_after_seconds: 300,
            profile: ProfileName(Profile::default()),
        }
    }
}

impl Config {
    /// Reads a configuration; errors name `path`.
    pub fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let config: Config = toml::from_str(text).map_err(|error| format!("{}: {error}", path.display()))?;
        config.check().map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(config)
    }

    /// Checks that the values make sense together.
    fn check(&self) -> Result<(), String> {
        weir_io::local_path(self.dir.clone()).map_err(|error| format!("dir: {error}"))?;
        let has = |path: &Path| !path.as_os_str().is_empty();
        let (tls, asks) = (self.tls_listen != OFF, self.tls_client_certificates != Shown::Off);
        let checks = [
            (self.listen != OFF || tls, "listen and tls_listen are both \"off\": clients must connect somewhere"),
            (
                !tls || has(&self.tls_certificate) && has(&self.tls_key),
                "tls_listen needs tls_certificate and tls_key, files in PEM",
            ),
            (!asks || has(&self.tls_client_ca), "tls_client_certificates needs tls_client_ca, a file in PEM"),
            (!asks || tls, "tls_client_certificates asks for certificates, and tls_listen is \"off\""),
            ((1..=VALUE_BYTES_LIMIT).contains(&self.value_bytes_max.0), "value_bytes_max must be 1 byte to 512 MiB"),
            (self.connections_max > 0, "connections_max must be at least 1"),
            (self.threads <= 1024, "threads must be at most 1024"),
            (self.write_buffer.0 >= 64 << 10, "write_buffer must be at least 64 KiB"),
            (self.write_buffers_max >= 2, "write_buffers_max must be at least 2: one fills while one is flushed"),
            (
                self.write_memory.0 >= self.write_buffer.0.saturating_mul(2),
                "write_memory must be at least twice write_buffer: one fills while one is flushed",
            ),
            (
                self.flush_slots.0 != Some(1) || !matches!(self.flush_slot_shares.0, ShareMode::Delta(_)),
                "flush_slots = 1 and flush_slot_shares = \"delta …\": of one slot none can be kept; take 2 or more, or \"fair\"",
            ),
            (self.compactions_max > 0, "compactions_max must be at least 1: level 0 would grow until writes stop"),
            (
                self.compactions_max <= COMPACTIONS_LIMIT,
                "compactions_max must be at most 1024: each compaction has a thread",
            ),
            (self.write_buffers_max <= WRITE_BUFFERS_LIMIT, "write_buffers_max must be at most 1024"),
            (self.sync_interval_ms <= SYNC_INTERVAL_MS_LIMIT, "sync_interval_ms must be at most 3600000, an hour"),
            (self.write_memory.0 <= MEMORY_BYTES_LIMIT, "write_memory must be at most 1024 TiB"),
            (self.cache.0 <= MEMORY_BYTES_LIMIT, "cache must be at most 1024 TiB"),
            (
                self.sync_interval_ms > 0,
                "sync_interval_ms must be at least 1; `sync = \"always\"` is before each reply",
            ),
            (self.device_bandwidth != Device::Rate(Rate(Some(0))), "device_bandwidth must be more than 0"),
            (
                !self.profile.0.needs_device() || self.device_bandwidth != Device::Rate(Rate(None)),
                "this profile slows writes to what the device can keep up: it needs device_bandwidth (\"calibrated\" after `weir calibrate`)",
            ),
        ];
        match checks.iter().find(|(fine, _)| !fine) {
            Some((_, problem)) => Err((*problem).to_owned()),
            None => Ok(()),
        }
    }

    /// Warnings about values that are possible but hardly meant.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Device::Rate(Rate(Some(rate))) = self.device_bandwidth
            && rate < RATE_USUAL_MIN
        {
            warnings.push(format!("device_bandwidth is {} per second: a device gives megabytes", bytes(rate)));
        }
        if self.cache.0 < CACHE_USUAL_MIN {
            warnings.push(format!("cache is {}: reads will go to the device", bytes(self.cache.0)));
        }
        if self.value_bytes_max.0 < VALUE_BYTES_USUAL_MIN {
            warnings.push(format!("value_bytes_max is {}: longer values are refused", bytes(self.value_bytes_max.0)));
        }
        warnings
    }

    /// Writes these warnings to the log.
    pub fn warn(&self) {
        for warning in self.warnings() {
            tracing::warn!("{warning}; is a unit missing? docs/config.md has them");
        }
    }

    /// The settings that `new` changes, as `NAME: OLD -> NEW`.
    pub fn changes(&self, new: &Config) -> Vec<String> {
        let both = self.shown().into_iter().zip(new.shown());
        both.filter(|((_, old), (_, new))| old != new)
            .map(|((name, old), (_, new))| format!("{name}: {old} -> {new}"))
            .collect()
    }

    /// Every setting, with its value in words.
    fn shown(&self) -> [(&'static str, String); 30] {
        let text = |value: &dyn fmt::Debug| format!("{value:?}").to_lowercase();
        [
            ("dir", self.dir.display().to_string()),
            ("listen", self.listen.clone()),
            ("tls_listen", self.tls_listen.clone()),
            ("tls_certificate", self.tls_certificate.display().to_string()),
            ("tls_key", self.tls_key.display().to_string()),
            ("tls_client_certificates", text(&self.tls_client_certificates)),
            ("tls_client_ca", self.tls_client_ca.display().to_string()),
            ("admin", self.admin.clone()),
            ("threads", self.threads.to_string()),
            ("connections_max", self.connections_max.to_string()),
            ("idle_timeout_seconds", self.idle_timeout_seconds.to_string()),
            ("value_bytes_max", self.value_bytes_max.to_string()),
            ("sync", text(&self.sync)),
            ("sync_interval_ms", self.sync_interval_ms.to_string()),
            ("write_buffer", self.write_buffer.to_string()),
            ("write_buffers_max", self.write_buffers_max.to_string()),
            ("write_memory", self.write_memory.to_string()),
            ("write_memory_shares", self.write_memory_shares.0.to_string()),
            ("flush_slots", self.flush_slots.to_string()),
            ("flush_slot_shares", self.flush_slot_shares.0.to_string()),
            ("cache", self.cache.to_string()),
            ("cache_shares", self.cache_shares.0.to_string()),
            ("compactions_max", self.compactions_max.to_string()),
            ("compression", text(&self.compression)),
            ("device_bandwidth", self.device_bandwidth.to_string()),
            ("read_units", self.read_units.to_string()),
            ("write_units", self.write_units.to_string()),
            ("request_queues", self.request_queues.name().to_owned()),
            ("hibernate_after_seconds", self.hibernate_after_seconds.to_string()),
            ("profile", self.profile.0.name().to_owned()),
        ]
    }

    /// The gateway's settings; `processors` is the number of processors of the machine.
    pub fn gateway(&self, processors: usize, prices: UnitPrices) -> Settings {
        let value_bytes_max = usize::try_from(self.value_bytes_max.0).unwrap_or(usize::MAX);
        let threads = if self.threads == 0 { processors } else { self.threads };
        Settings {
            prices,
            limits: frame::Limits {
                bulk_bytes_max: value_bytes_max,
                request_bytes_max: (2 * value_bytes_max).max(REQUEST_BYTES_MIN),
                ..frame::Limits::default()
            },
            connections_max: self.connections_max,
            patience: Patience {
                idle_seconds: Some(self.idle_timeout_seconds).filter(|&seconds| seconds > 0),
                ..Patience::default()
            },
            threads,
            long_threads: threads,
            idle_time: IdleTime::now,
            random: secret::system_random,
            // An option of `weir serve`, not a setting.
            allow_debug: false,
            shown: vec![("appendfsync".to_owned(), self.sync.in_redis_words().to_owned())],
            push_limits: PushLimits::default(),
        }
    }

    /// The node's settings. `calibrated` is what was measured, if [`Device::Calibrated`] asks for it.
    pub fn node(&self, calibrated: Option<Limits>) -> NodeConfig {
        let mut node = NodeConfig::new(&self.dir);
        node.tree.write_buffer_bytes = usize::try_from(self.write_buffer.0).unwrap_or(usize::MAX);
        node.tree.write_buffers_max = self.write_buffers_max;
        node.tree.compression = std::array::from_fn(|level| self.compression.of_level(level));
        node.write_memory_bytes = self.write_memory.0;
        node.write_memory_shares = self.write_memory_shares.0;
        let mode = self.flush_slot_shares.0;
        node.flush_slots = self.flush_slots.0.map(|slots| FlushShares { slots, mode });
        node.cache_bytes = usize::try_from(self.cache.0).unwrap_or(usize::MAX);
        node.cache_shares = self.cache_shares.0;
        node.compaction_slots = self.compactions_max;
        node.hibernate_after = self.hibernate_after_seconds.saturating_mul(1_000_000_000);
        node.sync = self.sync.mode();
        node.sync_interval = u64::try_from(Duration::from_millis(self.sync_interval_ms).as_nanos()).unwrap_or(u64::MAX);
        let capacity = Capacity { rcu: self.read_units, wcu: self.write_units };
        let device = match self.device_bandwidth {
            Device::Calibrated => calibrated,
            Device::Rate(Rate(rate)) => rate.map(Limits::bytes),
        };
        let limited = device.is_some() || capacity != Capacity::default();
        node.bandwidth = limited.then_some(Bandwidth {
            device: device.unwrap_or(Limits::UNLIMITED),
            capacity,
            background: UNLIMITED,
        });
        node.profile = self.profile.0;
        node
    }
}
