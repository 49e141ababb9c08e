//! The parts of a table file and their limits; see `docs/format/table.md` for the bytes.

use weir_model::engine::{Deadlines, Entry, Kind, Seq};
use weir_model::{STORED_KEY_BYTES_MAX, VALUE_BYTES_MAX, parts, varint};

use super::covers::{self, CoverPoint};

/// The last eight bytes of every table.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"weirtabl");
/// The format version of a table that holds strings alone. A reader refuses any version that is not this one plus some
/// of the two numbers below.
const VERSION: u32 = 2;
/// Added to the version for heads and covers.
const HEADS: u32 = 1;
/// Added to the version for parts and covers: the properties end with the facts of the covers.
const PARTS: u32 = 2;
/// Three sections (offset 8, length 4, CRC 4), version 4, CRC of the footer 4, magic 8.
pub(super) const FOOTER_BYTES: usize = 3 * 16 + 4 + 4 + 8;
/// Compression (1) and CRC (4) behind every block.
pub(super) const TRAILER_BYTES: usize = 5;
/// The length before compression, in front of the trailer of a compressed block.
pub(super) const RAW_LEN_BYTES: usize = 4;
/// Entries between two restarts. At a restart the key is stored whole, so that a search can start there.
pub(super) const RESTART_INTERVAL: usize = 16;
/// Restarts are 16-bit offsets, so that a block of many entries must end below this; one entry alone may be longer.
pub(super) const BLOCK_BYTES_MAX: usize = 32 << 10;
/// No content of a block is longer: that of the longest key and the longest value, with the byte of lengths and the six
/// numbers around them (two more lengths, sequence number and expiry; two in the tail). A block that claims to be
/// longer is not decompressed, because that takes as much memory as it claims.
const CONTENT_BYTES_MAX: u64 = (STORED_KEY_BYTES_MAX + VALUE_BYTES_MAX + 1 + 6 * varint::BYTES_MAX) as u64;
/// A block is cut at a page boundary if that wastes at most 1/32 of it: one device page per read is worth 3 % of space.
pub(super) const PADDING_SHARE: usize = 32;
/// No count of a table is larger: no job writes that much into one file. So what is added up over tables stays below
/// 2^64 even for two million of them, more than a process can have open, whatever their files say.
const COUNT_MAX: u64 = 1 << 43;

/// How blocks are compressed. The number is stored behind each block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Compression {
    /// As they are.
    None = 0,
    /// LZ4 block format: cheap enough for every level.
    Lz4 = 1,
    /// Zstandard at its fast level: for the last level, where most bytes are.
    Zstd = 2,
}

impl Compression {
    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Compression::None),
            1 => Some(Compression::Lz4),
            2 => Some(Compression::Zstd),
            _ => None,
        }
    }
}

/// How to write a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// Block size aimed at, in bytes, before compression; at most 32 KiB. One page makes most point reads cost one
    /// page.
    pub block_bytes: usize,
    /// Compression of the blocks; filter and index are never compressed.
    pub compression: Compression,
    /// Bits of filter per key; 0 = no filter. 10 bits let 1.05 % of absent keys through.
    pub filter_bits_per_key: u32,
    /// Size of one write, in bytes; rounded up to pages.
    pub write_bytes: usize,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self { block_bytes: 4096, compression: Compression::None, filter_bits_per_key: 10, write_bytes: 256 << 10 }
    }
}

/// Where a block is in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockAddress {
    /// Its number in the table, from 0.
    pub number: u32,
    /// Length in the file, with its trailer.
    pub len: u32,
    /// First byte in the file.
    pub offset: u64,
}

impl BlockAddress {
    /// The first byte behind it.
    pub(super) fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }
}

/// What is in a table: returned by the writer, stored in the table, checked by [`super::Table::verify`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableSummary {
    /// Length of the file.
    pub bytes: u64,
    /// Tells this table from any other: the checksums of its index and of its properties, which hold its identity.
    pub digest: u64,
    /// A number that hardly any other table has. The checksum of every block covers it: a sound block of another table
    /// does not pass.
    pub identity: u64,
    /// Number of entries: versions, not keys.
    pub entries: u64,
    /// Entries that delete.
    pub tombstones: u64,
    /// Entries with an expiry time.
    pub expiring: u64,
    /// Bytes of keys and values as they came in.
    pub raw_bytes: u64,
    /// Those of `raw_bytes` that belong to entries which delete.
    pub tombstone_bytes: u64,
    /// Key of the first entry.
    pub smallest_key: Vec<u8>,
    /// Key of the last entry.
    pub largest_key: Vec<u8>,
    /// Least sequence number; 0 if there is no entry.
    pub smallest_seq: Seq,
    /// Greatest sequence number; 0 if there is no entry.
    pub largest_seq: Seq,
    /// Length of the largest block before compression: bounds the memory that reading a block may take.
    pub block_bytes_max: u64,
    /// When the values with an expiry time are gone, in bytes of keys and values.
    pub deadlines: Deadlines,
    /// Whether there is a head or a cover. The footer has it, as the version of the format.
    pub holds_heads: bool,
    /// Whether there is a part or a cover. The footer has it, too.
    pub holds_parts: bool,
    /// The table holds no part that is dead by a cover up to this sequence number, wherever that cover is.
    pub covers_met: Seq,
    /// The covers in the table.
    pub covers: Vec<CoverPoint>,
}

impl TableSummary {
    /// Counts the next `entry`, and returns its bytes if its value expires. The caller sets the largest key, the covers
    /// and the deadlines.
    pub(super) fn count(&mut self, entry: &Entry<'_>) -> Option<u64> {
        if self.entries == 0 {
            self.smallest_key = entry.key.to_vec();
            self.smallest_seq = entry.seq;
        }
        self.entries += 1;
        let bytes = (entry.key.len() + entry.value.len()) as u64;
        self.raw_bytes += bytes;
        if entry.kind == Kind::Delete {
            self.tombstones += 1;
            self.tombstone_bytes += bytes;
        }
        self.holds_heads |= matches!(entry.kind, Kind::Head | Kind::Cover);
        self.holds_parts |= parts::is_part(entry.key);
        self.smallest_seq = self.smallest_seq.min(entry.seq);
        self.largest_seq = self.largest_seq.max(entry.seq);
        // A head that has expired stays until somebody has seen to its parts.
        let expires = entry.kind == Kind::Put && entry.expire_at_ms != 0;
        self.expiring += u64::from(expires);
        expires.then_some(bytes)
    }

    /// The properties section. Length and digest of the file are not in it, for the file itself tells them.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.identity.to_le_bytes());
        for number in [
            self.entries,
            self.tombstones,
            self.expiring,
            self.raw_bytes,
            self.smallest_seq,
            self.largest_seq,
            self.block_bytes_max,
            self.tombstone_bytes,
        ] {
            varint::put(out, number);
        }
        for key in [&self.smallest_key, &self.largest_key] {
            varint::put(out, key.len() as u64);
            out.extend_from_slice(key);
        }
        self.deadlines.encode(out);
        if self.holds_parts {
            varint::put(out, self.covers_met);
            covers::encode(&self.covers, out);
        }
    }

    /// The reverse of [`TableSummary::encode`]; `None` unless exactly the whole of `bytes` is a summary, and its counts
    /// and its longest block are such as a table can have.
    pub(super) fn decode(bytes: &[u8], file_bytes: u64, footer: &Footer) -> Option<Self> {
        let (&identity, mut rest) = bytes.split_first_chunk()?;
        let mut number = || varint::take(&mut rest);
        let mut summary = TableSummary {
            bytes: file_bytes,
            digest: footer.digest(),
            identity: u64::from_le_bytes(identity),
            entries: number()?,
            tombstones: number()?,
            expiring: number()?,
            raw_bytes: number()?,
            smallest_seq: number()?,
            largest_seq: number()?,
            block_bytes_max: number()?,
            tombstone_bytes: number()?,
            holds_heads: footer.holds_heads,
            holds_parts: footer.holds_parts,
            ..TableSummary::default()
        };
        summary.smallest_key = varint::take_slice(&mut rest)?.to_vec();
        summary.largest_key = varint::take_slice(&mut rest)?.to_vec();
        summary.deadlines = Deadlines::decode(&mut rest)?;
        if summary.holds_parts {
            summary.covers_met = varint::take(&mut rest)?;
            summary.covers = covers::decode(&mut rest)?;
        }
        let TableSummary { entries, tombstones, expiring, raw_bytes, tombstone_bytes, .. } = summary;
        let counts = [entries, tombstones, expiring, raw_bytes, tombstone_bytes];
        let is_possible =
            counts.iter().all(|&count| count <= COUNT_MAX) && summary.block_bytes_max <= CONTENT_BYTES_MAX;
        (rest.is_empty() && is_possible).then_some(summary)
    }
}

/// A part of the file that is not a block: where it is, and its CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) crc: u32,
}

impl Section {
    /// The first byte behind it; `None` if no file is that long.
    pub(super) fn end(&self) -> Option<u64> {
        self.offset.checked_add(u64::from(self.len))
    }
}

/// The end of the file: where everything else is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) filter: Section,
    pub(super) index: Section,
    pub(super) properties: Section,
    /// See [`TableSummary::holds_heads`].
    pub(super) holds_heads: bool,
    /// See [`TableSummary::holds_parts`].
    pub(super) holds_parts: bool,
}

impl Footer {
    /// Tells this table from any other. The manifest has it, so that another table's file in its place is found out
    /// when it is opened.
    pub(super) fn digest(&self) -> u64 {
        u64::from(self.index.crc) << 32 | u64::from(self.properties.crc)
    }

    pub(super) fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut out = [0; FOOTER_BYTES];
        for (section, slot) in [self.filter, self.index, self.properties].iter().zip(out.chunks_exact_mut(16)) {
            slot[..8].copy_from_slice(&section.offset.to_le_bytes());
            slot[8..12].copy_from_slice(&section.len.to_le_bytes());
            slot[12..].copy_from_slice(&section.crc.to_le_bytes());
        }
        let heads = if self.holds_heads { HEADS } else { 0 };
        let parts = if self.holds_parts { PARTS } else { 0 };
        let version = VERSION + heads + parts;
        out[48..52].copy_from_slice(&version.to_le_bytes());
        let crc = crc32c::crc32c(&out[..52]);
        out[52..56].copy_from_slice(&crc.to_le_bytes());
        out[56..].copy_from_slice(&MAGIC.to_le_bytes());
        out
    }

    /// Checks magic, CRC, version, and that the sections lie one behind the other in front of the footer.
    pub(super) fn decode(bytes: &[u8; FOOTER_BYTES], footer_offset: u64) -> Result<Self, &'static str> {
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        if u64_at(56) != MAGIC {
            return Err("this is not the end of a table: the magic number is missing");
        }
        if u32_at(52) != crc32c::crc32c(&bytes[..52]) {
            return Err("the footer's checksum does not match");
        }
        let added = u32_at(48).checked_sub(VERSION).filter(|&added| added <= HEADS + PARTS);
        let added = added.ok_or("the table has a format version that this program does not know")?;
        let [holds_heads, holds_parts] = [HEADS, PARTS].map(|what| added & what != 0);
        let section = |at: usize| Section { offset: u64_at(at), len: u32_at(at + 8), crc: u32_at(at + 12) };
        let footer =
            Footer { filter: section(0), index: section(16), properties: section(32), holds_heads, holds_parts };
        let in_order = footer.filter.end().is_some_and(|end| end == footer.index.offset)
            && footer.index.end().is_some_and(|end| end == footer.properties.offset)
            && footer.properties.end().is_some_and(|end| end <= footer_offset);
        if in_order {
            Ok(footer)
        } else {
            Err("the sections that the footer names do not lie in order inside the file")
        }
    }
}

/// The CRC of a block of table `identity`: over its offset too, so that a block that was written to or read from the
/// wrong place does not pass, in this table or another.
pub(super) fn block_crc(identity: u64, offset: u64, stored: &[u8]) -> u32 {
    let place = u128::from(identity) | u128::from(offset) << 64;
    crc32c::crc32c_append(crc32c::crc32c(&place.to_le_bytes()), stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A summary with these counts: entries, tombstones, expiring entries, bytes of all, bytes of tombstones.
    fn counting(counts: [u64; 5]) -> TableSummary {
        let [entries, tombstones, expiring, raw_bytes, tombstone_bytes] = counts;
        TableSummary { entries, tombstones, expiring, raw_bytes, tombstone_bytes, ..TableSummary::default() }
    }

    /// Whether the properties of a table with this summary are read.
    fn is_read(summary: TableSummary) -> bool {
        let mut bytes = Vec::new();
        summary.encode(&mut bytes);
        let none = Section { offset: 0, len: 0, crc: 0 };
        let footer = Footer { filter: none, index: none, properties: none, holds_heads: false, holds_parts: false };
        TableSummary::decode(&bytes, 0, &footer) == Some(summary)
    }

    #[test]
    fn properties_with_a_count_that_no_table_can_have_are_refused() {
        assert!(is_read(counting([COUNT_MAX; 5])));
        for forged in 0..5 {
            let mut counts = [1; 5];
            counts[forged] = COUNT_MAX + 1;
            assert!(!is_read(counting(counts)), "{counts:?}");
        }
    }

    #[test]
    fn properties_with_a_block_that_is_longer_than_any_entry_are_refused() {
        let with_longest = |block_bytes_max| is_read(TableSummary { block_bytes_max, ..TableSummary::default() });
        assert!(with_longest(CONTENT_BYTES_MAX));
        assert!(!with_longest(CONTENT_BYTES_MAX + 1));
    }

    #[test]
    fn the_longest_entry_makes_a_block_that_is_not_too_long() {
        let value_len = VALUE_BYTES_MAX as u64;
        let key_len = STORED_KEY_BYTES_MAX as u64;
        // Lengths of the rest of the key and of the value with its flags, sequence number, time of expiry; then the
        // tail: length of the keys, number of restarts.
        let numbers = [key_len, value_len << 2 | 3, u64::MAX, u64::MAX, 2 * key_len, 0].map(varint::len);
        let content = key_len + value_len + 1 + numbers.iter().sum::<usize>() as u64;
        assert!((content..content + 64).contains(&CONTENT_BYTES_MAX));
    }
}
