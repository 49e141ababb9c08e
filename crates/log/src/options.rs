//! The few options of a log.

use weir_io::{Owner, PAGE};
use weir_model::LogIndex;

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// On the device before the acknowledgement: nothing acknowledged is lost with the machine.
    Always,
    /// In the kernel before the acknowledgement, on the device at the next [`crate::WriteAheadLog::sync`]: a killed
    /// process loses nothing, a lost machine loses what was written after the last sync.
    #[default]
    Interval,
    /// In memory: a killed process loses up to 256 KiB.
    None,
}

impl SyncMode {
    /// The name in configuration, command line and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            SyncMode::Always => "always",
            SyncMode::Interval => "interval",
            SyncMode::None => "none",
        }
    }
}

/// Facts about a log that are remembered durably elsewhere: no file of the log can tell that it is an older copy of
/// itself, or belongs to another log. By default nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogAnchor {
    /// A random number that was drawn when the log was made; it is in every segment.
    pub identity: u64,
    /// Every record up to this one was on the device. May lag behind.
    pub durable: LogIndex,
}

/// How to open a log.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// When a commit is acknowledged.
    pub sync: SyncMode,
    /// Size in bytes at which a segment is left for the next one, for a log that has grown. A log starts with small
    /// segments ([`LogOptions::first_segment_bytes`]), each twice as long as the one before. A larger record gets a
    /// segment of its own.
    pub segment_bytes: u64,
    /// The partition to book all I/O to.
    pub owner: Owner,
    /// A random number, different at every opening: it makes the checksums of records of another log or another life
    /// invalid.
    pub salt: u64,
    /// What is known of the log besides its files.
    pub anchor: LogAnchor,
}

impl LogOptions {
    /// The defaults, for `owner`.
    pub fn new(owner: Owner, salt: u64) -> Self {
        Self { sync: SyncMode::default(), segment_bytes: 64 << 20, owner, salt, anchor: LogAnchor::default() }
    }

    /// Size of the first segment after an opening, in bytes. It is small, because most partitions write little before
    /// they sleep again, and mode `Always` fills all of it with zeros first.
    pub fn first_segment_bytes(&self) -> u64 {
        (self.segment_bytes / 64).max(4 * PAGE as u64).min(self.segment_bytes)
    }
}
