//! The configuration file: what can be set, in which unit, and what it is otherwise. `docs/config.md` explains each.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, Visitor};
use weir_admission::cost::Capacity;
use weir_admission::{Limits, UNLIMITED};
use weir_gateway::PushLimits;
use weir_gateway::resp::frame;
use weir_gateway::tls::ClientCertificates;
use weir_gateway::{Patience, Settings, UnitPrices};
use weir_log::SyncMode;
use weir_lsm::table::Compression;
use weir_node::{Bandwidth, NodeConfig, Profile};

use crate::units::{BARE_BYTES_MIN, NoBytes, bytes, read_bytes};

/// Caches below this are warned about.
const CACHE_USUAL_MIN: u64 = 1 << 20;
/// Limits on values below this are warned about.
const VALUE_BYTES_USUAL_MIN: u64 = 1 << 10;
/// Values above this cost more memory per request than one connection should have.
const VALUE_BYTES_LIMIT: u64 = 512 << 20;
/// A request may be twice as long as its longest value, and at least this long.
const REQUEST_BYTES_MIN: usize = 16 << 20;

/// An address where nobody listens.
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
    /// The server's certificate, and those between it and its authority.
    pub tls_certificate: PathBuf,
    /// Its key.
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
    /// A connection without requests is cut after so long; 0 = never.
    pub idle_timeout_seconds: u64,
    /// Longest value.
    pub value_bytes_max: Bytes,
    /// What a write waits for before it is acknowledged.
    pub sync: Sync,
    /// Time between two syncs where `sync` is `interval`.
    pub sync_interval_ms: u64,
    /// Size of a memtable.
    pub write_buffer: Bytes,
    /// Memtables, the active one included.
    pub write_buffers_max: usize,
    /// Memory for the memtables of all tenants together.
    pub write_memory: Bytes,
    /// Memory for blocks of tables.
    pub cache: Bytes,
    /// Compactions at the same time.
    pub compactions_max: usize,
    /// How tables are compressed.
    pub compression: Codec,
    /// Most bytes per second of the device.
    pub device_bandwidth: Device,
    /// Read capacity units per second that the gates count for a partition whose tenant has no limit of its own; 0 =
    /// none.
    pub read_units: u64,
    /// The same for writes.
    pub write_units: u64,
    /// A partition that nobody has asked anything for so long goes to sleep; 0 = never.
    pub hibernate_after_seconds: u64,
    /// Who turns gates and trees.
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
            cache: Bytes(256 << 20),
            compactions_max: 2,
            compression: Codec::None,
            device_bandwidth: Device::Rate(Rate(None)),
            read_units: 0,
            write_units: 0,
            hibernate_after_seconds: 300,
            profile: ProfileName(Profile::default()),
        }
    }
}

impl Config {
    /// Reads a configuration; `path` is named in what is wrong with it.
    pub fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let config: Config = toml::from_str(text).map_err(|error| format!("{}: {error}", path.display()))?;
        config.check().map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(config)
    }

    /// Whether the values make sense together.
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
                self.write_memory.0 >= 2 * self.write_buffer.0,
                "write_memory must be at least twice write_buffer: one fills while one is flushed",
            ),
            (self.compactions_max > 0, "compactions_max must be at least 1: level 0 would grow until writes stop"),
            (
                self.sync_interval_ms > 0,
                "sync_interval_ms must be at least 1; `sync = \"always\"` is before each reply",
            ),
            (self.device_bandwidth != Device::Rate(Rate(Some(0))), "device_bandwidth must be more than 0"),
        ];
        match checks.iter().find(|(fine, _)| !fine) {
            Some((_, problem)) => Err((*problem).to_owned()),
            None => Ok(()),
        }
    }

    /// What is possible and hardly meant, in words.
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

    /// Says in the log what is possible and hardly meant.
    pub fn warn(&self) {
        for warning in self.warnings() {
            tracing::warn!("{warning}; is a unit missing? docs/config.md has them");
        }
    }

    /// What `new` says otherwise, as `NAME: OLD -> NEW`.
    pub fn changes(&self, new: &Config) -> Vec<String> {
        let both = self.shown().into_iter().zip(new.shown());
        both.filter(|((_, old), (_, new))| old != new)
            .map(|((name, old), (_, new))| format!("{name}: {old} -> {new}"))
            .collect()
    }

    /// Every setting, with its value in words.
    fn shown(&self) -> [(&'static str, String); 25] {
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
            ("cache", self.cache.to_string()),
            ("compactions_max", self.compactions_max.to_string()),
            ("compression", text(&self.compression)),
            ("device_bandwidth", self.device_bandwidth.to_string()),
            ("read_units", self.read_units.to_string()),
            ("write_units", self.write_units.to_string()),
            ("hibernate_after_seconds", self.hibernate_after_seconds.to_string()),
            ("profile", self.profile.0.name().to_owned()),
        ]
    }

    /// The gateway's part; `processors` are what there is.
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
            // An option of `weir serve`, not a setting.
            allow_debug: false,
            shown: vec![("appendfsync".to_owned(), self.sync.in_redis_words().to_owned())],
            push_limits: PushLimits::default(),
        }
    }

    /// The node's part. `calibrated` is what was measured, where [`Device::Calibrated`] asks for it.
    pub fn node(&self, calibrated: Option<Limits>) -> NodeConfig {
        let mut node = NodeConfig::new(&self.dir);
        node.tree.write_buffer_bytes = usize::try_from(self.write_buffer.0).unwrap_or(usize::MAX);
        node.tree.write_buffers_max = self.write_buffers_max;
        node.tree.compression = std::array::from_fn(|level| self.compression.of_level(level));
        node.write_memory_bytes = self.write_memory.0;
        node.cache_bytes = usize::try_from(self.cache.0).unwrap_or(usize::MAX);
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

/// A profile of policies, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileName(Profile);

impl<'de> Deserialize<'de> for ProfileName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let unknown = || format!("there is no profile {name:?}; there are {}", Profile::NAMES.join(", "));
        Profile::parse(&name).map(Self).ok_or_else(|| serde::de::Error::custom(unknown()))
    }
}

/// Whether clients show certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shown {
    /// They are not asked.
    Off,
    /// Those who have one.
    Optional,
    /// All.
    Required,
}

impl Shown {
    /// The same to the gateway.
    pub fn in_gateway(self) -> ClientCertificates {
        match self {
            Shown::Off => ClientCertificates::Off,
            Shown::Optional => ClientCertificates::Optional,
            Shown::Required => ClientCertificates::Required,
        }
    }
}

/// What a write waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sync {
    /// The device.
    Always,
    /// The kernel; the device follows within the interval.
    Interval,
    /// Nothing.
    None,
}

impl Sync {
    fn mode(self) -> SyncMode {
        match self {
            Sync::Always => SyncMode::Always,
            Sync::Interval => SyncMode::Interval,
            Sync::None => SyncMode::None,
        }
    }

    fn in_redis_words(self) -> &'static str {
        match self {
            Sync::Always => "always",
            Sync::Interval => "everysec",
            Sync::None => "no",
        }
    }
}

/// How tables are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// Not at all.
    None,
    /// LZ4 on every level but the first two, whose tables do not live long.
    Lz4,
    /// The same, with Zstandard from level 3 on, where most bytes of a large tree are.
    Zstd,
}

impl Codec {
    fn of_level(self, level: usize) -> Compression {
        match (self, level) {
            (Codec::None, _) | (_, 0 | 1) => Compression::None,
            (Codec::Zstd, 3..) => Compression::Zstd,
            _ => Compression::Lz4,
        }
    }
}

/// The bytes that `text` means. A small number in quotes may be meant as bytes or as megabytes, so it needs a unit.
fn amount<E: de::Error>(text: &str, expected: &dyn de::Expected) -> Result<u64, E> {
    read_bytes(text.trim()).map_err(|problem| match problem {
        NoBytes::NoUnit(number) => E::custom(format_args!(
            "\"{number}\" has no unit: write \"{number} MB\" or \"{number} MiB\", or \"{number} B\" for bytes"
        )),
        NoBytes::Unknown => E::invalid_value(de::Unexpected::Str(text), expected),
    })
}

/// A number of bytes: an integer, or a text such as `"64 MiB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    /// Every byte: two sizes that differ are shown differently.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BytesVisitor;
        impl Visitor<'_> for BytesVisitor {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes: an integer, or a text such as \"64 MiB\" or \"100 MB\"")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Bytes, E> {
                u64::try_from(value).map(Bytes).map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
                amount(text, &self).map(Bytes)
            }
        }
        deserializer.deserialize_any(BytesVisitor)
    }
}

/// Bytes per second, or `"unlimited"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate(pub Option<u64>);

/// Rates below this are warned about: no device is so slow.
const RATE_USUAL_MIN: u64 = 1_000_000;

impl Rate {
    fn of_integer<E: de::Error>(value: i64, expected: &dyn de::Expected) -> Result<Self, E> {
        let wrong = || E::invalid_value(de::Unexpected::Signed(value), expected);
        let rate = u64::try_from(value).ok().filter(|&rate| rate > 0).ok_or_else(wrong)?;
        if rate < BARE_BYTES_MIN {
            return Err(E::custom(format_args!(
                "{rate} would be {rate} bytes per second: write \"{rate} MB\", or \"{rate} B\" if that is meant"
            )));
        }
        Ok(Rate(Some(rate)))
    }

    fn of_text<E: de::Error>(text: &str, expected: &dyn de::Expected) -> Result<Self, E> {
        match text.trim() {
            "unlimited" => Ok(Rate(None)),
            text => amount(text.strip_suffix("/s").unwrap_or(text), expected).map(|rate| Rate(Some(rate))),
        }
    }
}

/// What the device gives: a rate, or `"calibrated"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// What `weir calibrate` has measured and stored beside the data.
    Calibrated,
    /// This.
    Rate(Rate),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Calibrated => f.write_str("calibrated"),
            Device::Rate(Rate(None)) => f.write_str("unlimited"),
            Device::Rate(Rate(Some(rate))) => write!(f, "{rate} bytes per second"),
        }
    }
}

impl<'de> Deserialize<'de> for Device {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DeviceVisitor;
        impl Visitor<'_> for DeviceVisitor {
            type Value = Device;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes per second: \"unlimited\", \"calibrated\", or a text such as \"100 MB\"")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Device, E> {
                Rate::of_integer(value, &self).map(Device::Rate)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Device, E> {
                if text.trim() == "calibrated" {
                    return Ok(Device::Calibrated);
                }
                Rate::of_text(text, &self).map(Device::Rate)
            }
        }
        deserializer.deserialize_any(DeviceVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(Path::new("weir.toml"), text)
    }

    #[test]
    fn units_are_understood_and_the_rest_stays_as_it_was() {
        let config = parse(
            "cache = \"1 GiB\"\nwrite_buffer = 1048576\ndevice_bandwidth = \"100 MB/s\"\nsync = \"always\"\ncompression = \"zstd\"",
        )
        .expect("valid");
        assert_eq!((config.cache, config.write_buffer), (Bytes(1 << 30), Bytes(1 << 20)));
        assert_eq!(config.device_bandwidth, Device::Rate(Rate(Some(100_000_000))));
        assert_eq!(config.listen, Config::default().listen);
        let node = config.node(None);
        assert_eq!(node.sync, SyncMode::Always);
        assert_eq!(node.bandwidth.expect("limited").device, Limits::bytes(100_000_000));
        assert_eq!(node.tree.compression[0], Compression::None);
        assert_eq!(node.tree.compression[2..4], [Compression::Lz4, Compression::Zstd]);
        assert_eq!(parse("").expect("valid").node(None).bandwidth, None);
        let peer = parse("profile = \"rocksdb\"").expect("valid").node(None);
        assert_eq!(peer.profile, Profile::RocksDb);
        assert_eq!(parse("").expect("valid").node(None).hibernate_after, 300_000_000_000);
        assert_eq!(parse("hibernate_after_seconds = 0").expect("valid").node(None).hibernate_after, 0, "never");
        let calibrated = parse("device_bandwidth = \"calibrated\"").expect("valid").node(Some(Limits::bytes(7)));
        assert_eq!(calibrated.bandwidth.expect("limited").device, Limits::bytes(7));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            ("cach = 5", "cach"),
            ("cache = \"5 parsecs\"", "parsecs"),
            ("cache = -1", "-1"),
            ("sync = \"sometimes\"", "sometimes"),
            ("write_memory = \"100 MiB\"", "write_memory"),
            ("write_buffers_max = 1", "write_buffers_max"),
            ("value_bytes_max = \"1 GiB\"", "value_bytes_max"),
            ("device_bandwidth = 0", "device_bandwidth"),
            ("device_bandwidth = \"0 MB\"", "more than 0"),
            ("device_bandwidth = \"100\"", "write \"100 MB\""),
            ("device_bandwidth = \"100/s\"", "write \"100 MB\""),
            ("device_bandwidth = 100", "write \"100 MB\""),
            ("device_bandwidth = -5", "-5"),
            ("value_bytes_max = \"64\"", "\"64 MiB\""),
            ("write_buffer = \"64\"", "\"64 MiB\""),
            ("write_memory = \"64\"", "\"64 MiB\""),
            ("cache = \"256\"", "\"256 MiB\""),
            ("profile = \"rocks\"", "rocksdb-autotune"),
            ("listen = \"off\"", "listen and tls_listen"),
            ("tls_listen = \"127.0.0.1:6390\"", "tls_certificate"),
            ("tls_listen = \"127.0.0.1:6390\"\ntls_certificate = \"c.pem\"", "tls_key"),
            (
                "tls_listen = \"127.0.0.1:6390\"\ntls_certificate = \"c.pem\"\ntls_key = \"k.pem\"\ntls_client_certificates = \"required\"",
                "tls_client_ca",
            ),
            ("tls_client_certificates = \"optional\"\ntls_client_ca = \"ca.pem\"", "tls_listen"),
            ("tls_client_certificates = \"some\"", "optional"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(named) && error.starts_with("weir.toml: "), "{error}");
        }
    }

    #[test]
    fn what_is_hardly_meant_is_warned_about() {
        for (text, named) in [
            ("device_bandwidth = \"100 B\"", "device_bandwidth is 100 B per second"),
            ("device_bandwidth = \"999 KB/s\"", "device_bandwidth is 976 KiB per second"),
            ("cache = 256", "cache is 256 B"),
            ("value_bytes_max = 64", "value_bytes_max is 64 B"),
        ] {
            let warnings = parse(text).expect(text).warnings();
            assert!(warnings.len() == 1 && warnings[0].starts_with(named), "{text}: {warnings:?}");
        }
        for fine in ["", "device_bandwidth = \"1 MB\"", "device_bandwidth = 1000000", "cache = \"1 MiB\""] {
            assert!(parse(fine).expect(fine).warnings().is_empty(), "{fine}");
        }
    }

    #[test]
    fn changes_name_what_differs_and_nothing_else() {
        let (old, new) =
            (Config::default(), parse("cache = \"1 GiB\"\nsync = \"always\"\nprofile = \"node\"").expect("valid"));
        let changes = old.changes(&new).join(", ");
        assert_eq!(
            changes,
            "sync: interval -> always, cache: 268435456 bytes -> 1073741824 bytes, profile: weir -> node"
        );
        assert!(old.changes(&old).is_empty());
        let names = old.shown().map(|(name, _)| name);
        let debug = format!("{:#?}", Config::default());
        let fields = debug.lines().filter(|line| line.starts_with("    ") && !line.starts_with("     "));
        let fields: Vec<&str> = fields.filter_map(|line| line.trim().split_once(':')).map(|(name, _)| name).collect();
        assert_eq!(names.as_slice(), fields, "every setting, in the order of the struct");
    }

    /// The page that explains the settings names each of them with its default, and says when to change it.
    #[test]
    fn every_setting_is_documented() {
        let page = include_str!("../../../../docs/config.md");
        let shown = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
        let documented = parse(shown).expect("the example is a valid configuration");
        assert_eq!(format!("{documented:?}"), format!("{:?}", Config::default()), "the example shows the defaults");
        let settings = || shown.lines().filter(|line| !line.starts_with('#'));
        let names: Vec<&str> = settings().filter_map(|line| line.split_once(" = ")).map(|(name, _)| name).collect();
        let debug = format!("{:#?}", Config::default());
        for line in debug.lines().filter(|line| line.starts_with("    ") && !line.starts_with("     ")) {
            if let Some((name, _)) = line.trim().split_once(':') {
                assert!(names.contains(&name), "{name} is not in docs/config.md");
            }
        }
        assert!(names.len() <= 25, "{} settings: who is to know them all?", names.len());
        for setting in shown.trim().split("\n\n") {
            assert!(setting.starts_with("# ") && setting.contains("\n# When: "), "{setting}");
            assert_eq!(setting.lines().filter(|line| !line.starts_with('#')).count(), 1, "{setting}");
        }
    }
}
