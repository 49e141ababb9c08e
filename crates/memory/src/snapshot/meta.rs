//! What the manifest says of a snapshot file: enough to tell it from every other file.

use weir_model::varint;

use super::record::End;

/// The manifest's facts of a snapshot file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotMeta {
    /// Number of the file.
    pub number: u64,
    /// Length of the file.
    pub file_bytes: u64,
    /// Checksum of its blocks' checksums.
    pub digest: u32,
    /// What is in the file.
    pub end: End,
}

impl SnapshotMeta {
    /// Appends it: seven varints.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let End { rows, bytes, seq, persisted } = self.end;
        let numbers = [self.number, self.file_bytes, u64::from(self.digest), rows, bytes, seq, persisted];
        numbers.into_iter().for_each(|number| varint::put(out, number));
    }

    /// Takes such a meta off `bytes`; `None` if they do not begin with one.
    pub(crate) fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let mut number = || varint::take(bytes);
        Some(Self {
            number: number()?,
            file_bytes: number()?,
            digest: u32::try_from(number()?).ok()?,
            end: End { rows: number()?, bytes: number()?, seq: number()?, persisted: number()? },
        })
    }
}

/// The checksum of the checksums of blocks, in their order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Digest(u32);

impl Digest {
    pub fn add(&mut self, crc: u32) {
        self.0 = crc32c::crc32c_append(self.0, &crc.to_le_bytes());
    }

    pub fn value(self) -> u32 {
        self.0
    }
}
