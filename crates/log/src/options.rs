//! The few choices a log has.

use weir_io::{Owner, PAGE};
use weir_model::LogIndex;

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// On the device before the acknowledgement: nothing acknowledged is lost with the machine.
    Always,
    /// In the kernel before the acknowledgement, on the device at the next [`crate::WriteAheadLog::sync`]: a killed
    /// process loses nothing, a lost machine what came after the last sync.
    #[default]
    Interval,
    /// In memory: a killed process loses up to 256 KiB.
    None,
}

impl SyncMode {
    /// As configuration, command line and JSON have it.
    pub const fn name(self) -> &'static str {
        match self {
            SyncMode::Always => "always",
            SyncMode::Interval => "interval",
            SyncMode::None => "none",
        }
    }
}

/// What somebody else remembers of a log, durably: no file of the log can tell that it is an older copy of itself, or
/// another log's. By default nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogAnchor {
    /// A random number that was drawn when the log was made: every segment has it.
    pub identity: u64,
    /// Every record up to here was on the device. May lag behind.
    pub durable: LogIndex,
}

/// How to open a log.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// When a commit is acknowledged.
    pub sync: SyncMode,
    /// Size at which a segment is left for the next one, in bytes, for a log that has grown: it starts with small
    /// segments ([`LogOptions::first_segment_bytes`]), each twice as long as the one before. A larger record gets a
    /// segment of its own.
    pub segment_bytes: u64,
    /// The partition to book all I/O to.
    pub owner: Owner,
    /// A random number, different at every opening: no record of another log or another life has a valid checksum here.
    pub salt: u64,
    /// What is known of it besides what its files say.
    pub anchor: LogAnchor,
}

impl LogOptions {
    /// The defaults, for `owner`.
    pub fn new(owner: Owner, salt: u64) -> Self {
        Self { sync: SyncMode::default(), segment_bytes: 64 << 20, owner, salt, anchor: LogAnchor::default() }
    }

    /// Size of the first segment after an opening, in bytes: most partitions write little before they sleep again, and
    /// in mode `Always` all of it is filled with zeros first.
    pub fn first_segment_bytes(&self) -> u64 {
        (self.segment_bytes / 64).max(4 * PAGE as u64).min(self.segment_bytes)
    }
}
