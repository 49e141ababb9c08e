//! What a log counts.

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
    /// Of which padding to whole pages.
    pub padding_bytes: u64,
    /// Writes: one each for a group of records.
    pub groups: u64,
    /// Explicit syncs (mode `Always` has synced writes instead).
    pub syncs: u64,
    /// Segments made new, and made from one no longer needed.
    pub segments_created: u64,
    /// See above.
    pub segments_recycled: u64,
    /// Times that the log was fenced after a failed write or sync.
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
