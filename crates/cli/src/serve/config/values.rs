//! The types of settings: sizes, rates, and choices of a few words.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Visitor};
use weir_admission::RequestOrder;
use weir_gateway::tls::ClientCertificates;
use weir_log::SyncMode;
use weir_lsm::table::Compression;
use weir_node::{CacheMode, Profile, Promise, ShareMode};

use crate::units::{BARE_BYTES_MIN, NoBytes, read_bytes};

/// A profile of policies, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileName(pub Profile);

impl<'de> Deserialize<'de> for ProfileName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let unknown = || format!("there is no profile {name:?}; there are {}", Profile::NAMES.join(", "));
        let found = Profile::ALL.into_iter().find(|profile| profile.name() == name);
        found.map(Self).ok_or_else(|| serde::de::Error::custom(unknown()))
    }
}

/// How a pool is shared between tenants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shared(pub ShareMode);

impl<'de> Deserialize<'de> for Shared {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

/// How flush slots are shared between tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotsShared(pub ShareMode);

impl SlotsShared {
    /// U-14: flushes take longer than memory takes to come back.
    const DELTA: ShareMode = ShareMode::Delta(Promise { delta: 500_000_000, k: 1 });
}

impl Default for SlotsShared {
    fn default() -> Self {
        Self(Self::DELTA)
    }
}

impl<'de> Deserialize<'de> for SlotsShared {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || {
            de::Error::custom(format_args!(
                "{text:?} is not a way to share flush slots: write \"fair\", \"quota\", \"delta\", \"delta 500 ms\", or \
                 \"delta 500 ms for 2\" (tenants at a time)"
            ))
        };
        match text.parse() {
            _ if text.trim() == "delta" => Ok(Self::default()),
            // A quarter of a few slots would be none, or half of them.
            Ok(ShareMode::Quarter) | Err(_) => Err(wrong()),
            Ok(mode) => Ok(Self(mode)),
        }
    }
}

/// How many flushes may run at a time: a number, or `"unbounded"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushSlots(pub Option<u64>);

impl FlushSlots {
    const UNBOUNDED: &str = "unbounded";
    /// The largest number: more than the threads that flush.
    const MAX: u64 = 1024;
}

impl fmt::Display for FlushSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str(Self::UNBOUNDED),
            Some(slots) => write!(f, "{slots}"),
        }
    }
}

impl<'de> Deserialize<'de> for FlushSlots {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SlotsVisitor;
        impl Visitor<'_> for SlotsVisitor {
            type Value = FlushSlots;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "flushes at a time, 1 to {}, or \"{}\"", FlushSlots::MAX, FlushSlots::UNBOUNDED)
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<FlushSlots, E> {
                let slots = u64::try_from(value).ok().filter(|slots| (1..=FlushSlots::MAX).contains(slots));
                slots
                    .map(|slots| FlushSlots(Some(slots)))
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Signed(value), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<FlushSlots, E> {
                match text.trim() {
                    FlushSlots::UNBOUNDED => Ok(FlushSlots(None)),
                    number => match number.parse() {
                        Ok(number) => self.visit_i64(number),
                        Err(_) => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                    },
                }
            }
        }
        deserializer.deserialize_any(SlotsVisitor)
    }
}

/// How the block cache is shared between tenants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheShared(pub CacheMode);

impl<'de> Deserialize<'de> for CacheShared {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

/// Whether clients show certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shown {
    /// They are not asked for one.
    Off,
    /// Clients that have one show it.
    Optional,
    /// All clients must show one.
    Required,
}

impl Shown {
    /// The same, as the gateway has it.
    pub fn in_gateway(self) -> ClientCertificates {
        match self {
            Shown::Off => ClientCertificates::Off,
            Shown::Optional => ClientCertificates::Optional,
            Shown::Required => ClientCertificates::Required,
        }
    }
}

/// Whether requests wait in the node's queues, and which of them go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestQueues {
    /// They never wait there.
    Off,
    /// Reads and writes in turn.
    InTurn,
    /// Writes first, as long as reads have a tenth.
    WritesFirst,
}

impl RequestQueues {
    pub(super) fn name(self) -> &'static str {
        match self {
            RequestQueues::Off => super::OFF,
            RequestQueues::InTurn => "in-turn",
            RequestQueues::WritesFirst => "writes-first",
        }
    }

    /// The knob's position; `None`: there are no queues.
    pub fn order(self) -> Option<RequestOrder> {
        match self {
            RequestQueues::Off => None,
            RequestQueues::InTurn => Some(RequestOrder::InTurn),
            RequestQueues::WritesFirst => Some(RequestOrder::WritesFirst),
        }
    }
}

/// What a write waits for before it is acknowledged.
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
    /// The same, as the log has it.
    pub(super) fn mode(self) -> SyncMode {
        match self {
            Sync::Always => SyncMode::Always,
            Sync::Interval => SyncMode::Interval,
            Sync::None => SyncMode::None,
        }
    }

    /// The matching value of Redis' `appendfsync`.
    pub(super) fn in_redis_words(self) -> &'static str {
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
    /// LZ4 on every level except level 0, whose tables do not live long. Level 1 has all data of a small tenant.
    Lz4,
    /// The same, with Zstandard from level 3 on, where most bytes of a large tree are.
    Zstd,
}

impl Codec {
    /// How tables of `level` are compressed.
    pub(super) fn of_level(self, level: usize) -> Compression {
        match (self, level) {
            (Codec::None, _) | (_, 0) => Compression::None,
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
    /// Shows the exact number: two sizes that differ must look different.
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
    /// This rate.
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
