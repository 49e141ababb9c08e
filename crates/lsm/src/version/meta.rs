//! What the manifest knows of a table without opening it.

use weir_model::engine::{Deadlines, Seq};
use weir_model::{parts, varint};

use crate::table::TableSummary;

/// Facts of one table. Written to the manifest; see `docs/format/manifest.md`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMeta {
    /// File number: the table is `{id:06}.sst`. Never used twice in a tree.
    pub id: u64,
    /// Place among the level-0 runs: a larger epoch is newer. The output of a merge within level 0 inherits the
    /// *smallest* epoch of its inputs, so that it takes their place (U-19b). Level 0 is sorted by it, never by `id`.
    pub epoch: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Tells this table from any other: [`crate::table::TableSummary::digest`].
    pub digest: u64,
    /// Number of entries, tombstones included.
    pub entries: u64,
    /// Number of tombstones.
    pub tombstones: u64,
    /// Number of values with an expiry time.
    pub expiring: u64,
    /// Smallest sequence number inside.
    pub smallest_seq: Seq,
    /// Largest sequence number inside.
    pub largest_seq: Seq,
    /// Smallest key inside.
    pub smallest: Box<[u8]>,
    /// Largest key inside.
    pub largest: Box<[u8]>,
    /// Bytes of keys and values, before compression and without what the format adds.
    pub raw_bytes: u64,
    /// Those of `raw_bytes` that belong to tombstones.
    pub tombstone_bytes: u64,
    /// When its values expire, in bytes of keys and values.
    pub deadlines: Deadlines,
}

impl TableMeta {
    /// The facts of a finished table with this number and epoch.
    pub fn of(id: u64, epoch: u64, summary: &TableSummary) -> Self {
        Self {
            id,
            epoch,
            bytes: summary.bytes,
            digest: summary.digest,
            entries: summary.entries,
            tombstones: summary.tombstones,
            expiring: summary.expiring,
            smallest_seq: summary.smallest_seq,
            largest_seq: summary.largest_seq,
            smallest: summary.smallest_key.clone().into(),
            largest: summary.largest_key.clone().into(),
            raw_bytes: summary.raw_bytes,
            tombstone_bytes: summary.tombstone_bytes,
            deadlines: summary.deadlines.clone(),
        }
    }

    /// The file name of table `id`.
    pub fn file_name(id: u64) -> String {
        format!("{id:06}.sst")
    }

    /// Whether any key of `lo..=hi` may be inside.
    pub fn overlaps(&self, lo: &[u8], hi: &[u8]) -> bool {
        &*self.smallest <= hi && lo <= &*self.largest
    }

    /// The smallest and the largest version that the lives inside may have; `None` if there are neither parts nor
    /// covers.
    pub fn lives(&self) -> Option<(u64, u64)> {
        let first = parts::version_of(&self.smallest).unwrap_or(0);
        let last = parts::version_of(&self.largest).unwrap_or(u64::MAX);
        parts::is_part(&self.largest).then_some((first, last))
    }

    /// Bytes of the file for `raw` bytes of keys and values: each has its share of what the format adds and compression
    /// saves.
    pub fn file_bytes(&self, raw: u64) -> u64 {
        let share = u128::from(self.bytes) * u128::from(raw) / u128::from(self.raw_bytes.max(1));
        u64::try_from(share).unwrap_or(u64::MAX).min(self.bytes)
    }

    /// Bytes of the file that belong to values which have surely expired at `now_ms`, by the wall clock.
    pub fn expired_bytes(&self, now_ms: u64) -> u64 {
        self.file_bytes(self.deadlines.expired_bytes(now_ms))
    }

    /// Bytes of the file without expired values and tombstones. Entries that a newer table overwrites or deletes count
    /// as present.
    pub fn present_bytes(&self, now_ms: u64) -> u64 {
        self.bytes - self.file_bytes(self.deadlines.expired_bytes(now_ms).saturating_add(self.tombstone_bytes))
    }

    /// Whether nothing in it is alive at `now_ms`, whatever reads it: there are only tombstones and values that have
    /// expired.
    pub fn is_dead(&self, now_ms: u64) -> bool {
        self.tombstones.saturating_add(self.expiring) >= self.entries && self.deadlines.all_expired(now_ms)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let numbers = [
            self.id,
            self.epoch,
            self.bytes,
            self.digest,
            self.entries,
            self.tombstones,
            self.expiring,
            self.smallest_seq,
            self.largest_seq,
            self.raw_bytes,
            self.tombstone_bytes,
        ];
        for number in numbers {
            varint::put(out, number);
        }
        for key in [&self.smallest, &self.largest] {
            varint::put(out, key.len() as u64);
            out.extend_from_slice(key);
        }
        self.deadlines.encode(out);
    }

    pub(super) fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let mut number = || varint::take(bytes);
        Some(Self {
            id: number()?,
            epoch: number()?,
            bytes: number()?,
            digest: number()?,
            entries: number()?,
            tombstones: number()?,
            expiring: number()?,
            smallest_seq: number()?,
            largest_seq: number()?,
            raw_bytes: number()?,
            tombstone_bytes: number()?,
            smallest: varint::take_slice(bytes)?.into(),
            largest: varint::take_slice(bytes)?.into(),
            deadlines: Deadlines::decode(bytes)?,
        })
    }
}
