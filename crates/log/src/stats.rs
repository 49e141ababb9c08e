//! The counters of a log.

use weir_model::LogIndex;

/// Plain counters since the log was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Records appended.
    pub records: u64,
    /// Their payloads, in bytes.
    pub payload_bytes: u64,
    /// Bytes written to segments: records, marks and padding.
    pub bytes_written: u64,
    /// The padding to whole pages among these.
    pub padding_bytes: u64,
    /// Writes: each writes a group of records.
    pub groups: u64,
    /// Explicit syncs (mode `Always` has synced writes instead).
    pub syncs: u64,
    /// Segments made from new files.
    pub segments_created: u64,
    /// Segments made from files that were no longer needed.
    pub segments_recycled: u64,
    /// How often the log was fenced after a failed write or sync.
    pub failures: u64,
    /// The last index appended.
    pub last: LogIndex,
    /// The last index acknowledged.
    pub committed: LogIndex,
    /// The last index known to be on the device.
    pub durable: LogIndex,
    /// Segments on disk, without the spare.
    pub segments: u64,
    /// Their used bytes.
    pub live_bytes: u64,
}
