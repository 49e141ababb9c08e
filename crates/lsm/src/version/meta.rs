//! What the manifest knows of a table without opening it.

use weir_model::varint;

use crate::entry::Seq;

/// Facts of one table. Written to the manifest; see `docs/format/manifest.md`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMeta {
    /// File number: the table is `{id:06}.sst`. Never used twice in a tree.
    pub id: u64,
    /// Place among the level-0 runs: a larger epoch is newer. The output of a merge within level 0 inherits the *smallest*
    /// epoch of its inputs, so that it takes their place (U-19b). Level 0 is sorted by it, never by `id`.
    pub epoch: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
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
}

impl TableMeta {
    /// The file name of table `id`.
    pub fn file_name(id: u64) -> String {
        format!("{id:06}.sst")
    }

    /// Whether any key of `lo..=hi` may be inside.
    pub fn overlaps(&self, lo: &[u8], hi: &[u8]) -> bool {
        &*self.smallest <= hi && lo <= &*self.largest
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let numbers = [
            self.id,
            self.epoch,
            self.bytes,
            self.entries,
            self.tombstones,
            self.expiring,
            self.smallest_seq,
            self.largest_seq,
        ];
        for number in numbers {
            varint::put(out, number);
        }
        for key in [&self.smallest, &self.largest] {
            varint::put(out, key.len() as u64);
            out.extend_from_slice(key);
        }
    }

    pub(super) fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let mut number = || varint::take(bytes);
        Some(Self {
            id: number()?,
            epoch: number()?,
            bytes: number()?,
            entries: number()?,
            tombstones: number()?,
            expiring: number()?,
            smallest_seq: number()?,
            largest_seq: number()?,
            smallest: varint::take_slice(bytes)?.into(),
            largest: varint::take_slice(bytes)?.into(),
        })
    }
}
