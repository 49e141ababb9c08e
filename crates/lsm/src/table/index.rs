//! The index of a table: for each block a separator, that is a position at or after the block's last entry and before
//! the next block's first. In memory it is a few flat arrays, so that a search touches little more than one array of
//! numbers.

use weir_model::engine::Seq;
use weir_model::varint;

use super::format::BlockAddress;

/// The decoded index.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Bytes that all separators begin with; left out of `heads`.
    shared_len: usize,
    /// The eight bytes of each separator behind the shared ones, as a number that sorts like them (missing bytes count
    /// as 0).
    heads: Vec<u64>,
    /// All separator keys, one behind the other; `key_ends[i]` is where the i-th ends.
    keys: Vec<u8>,
    key_ends: Vec<u32>,
    /// Separators in the middle of a key's versions: (block, sequence number), ascending. All others have sequence
    /// number 0, which sorts behind every version of the key.
    seqs: Vec<(u32, Seq)>,
    /// Offset and length of each block.
    blocks: Vec<(u64, u32)>,
}

/// A block that was just written.
#[derive(Clone, Copy)]
pub(super) struct CutBlock {
    pub(super) offset: u64,
    pub(super) len: u32,
}

/// Collects the index while a table is written.
#[derive(Default)]
pub(super) struct IndexBuilder {
    encoded: Vec<u8>,
    blocks: u64,
    last_key: Vec<u8>,
    last_end: u64,
}

impl IndexBuilder {
    /// Adds the `block`, with the separator (`key`, `seq`).
    pub(super) fn add(&mut self, block: CutBlock, key: &[u8], seq: Seq) {
        let CutBlock { offset, len } = block;
        let out = &mut self.encoded;
        varint::put(out, offset - self.last_end);
        varint::put(out, u64::from(len));
        let shared = common_prefix(&self.last_key, key);
        varint::put(out, shared as u64);
        varint::put(out, ((key.len() - shared) as u64) << 1 | u64::from(seq != 0));
        out.extend_from_slice(&key[shared..]);
        if seq != 0 {
            varint::put(out, seq);
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.last_end = offset + u64::from(len);
        self.blocks += 1;
    }

    /// The index section.
    pub(super) fn finish(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded.len() + varint::BYTES_MAX);
        varint::put(&mut out, self.blocks);
        out.extend_from_slice(&self.encoded);
        out
    }
}

/// The shortest key that is at or after `last` and before `next`; needs `last < next`.
pub(super) fn separator<'a>(last: &'a [u8], next: &[u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    let shared = common_prefix(last, next);
    // `last`, cut behind the first differing byte, sorts before `last`. With that byte raised by one it sorts behind
    // `last`, and is a separator if it is still below `next`: by that byte, or because `next` goes on.
    if let (Some(&low), Some(&high)) = (last.get(shared), next.get(shared))
        && last.len() > shared + 1
        && (low + 1 < high || (low + 1 == high && next.len() > shared + 1))
    {
        scratch.clear();
        scratch.extend_from_slice(&last[..shared]);
        scratch.push(low + 1);
        return scratch;
    }
    last
}

/// Number of leading bytes that `a` and `b` share.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let limit = a.len().min(b.len());
    let mut at = 0;
    while let (Some(x), Some(y)) = (a[at..].first_chunk::<8>(), b[at..].first_chunk::<8>()) {
        let differing = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differing != 0 {
            return at + differing.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < limit && a[at] == b[at] {
        at += 1;
    }
    at
}

impl Index {
    /// Reads the index section of a table whose blocks end at or before `blocks_end`, and whose keys have
    /// `key_bytes_max` bytes together at most: prefix compression could otherwise blow a few bytes up to any size.
    pub(super) fn decode(bytes: &[u8], blocks_end: u64, key_bytes_max: u64) -> Result<Self, &'static str> {
        const CUT: &str = "the index is cut off or malformed";
        let mut rest = bytes;
        let blocks = varint::take(&mut rest).ok_or(CUT)?;
        // A block takes at least four bytes of index.
        let blocks = usize::try_from(blocks).ok().filter(|&blocks| blocks <= rest.len() / 4).ok_or(CUT)?;
        let mut index = Index {
            heads: Vec::with_capacity(blocks),
            key_ends: Vec::with_capacity(blocks),
            blocks: Vec::with_capacity(blocks),
            ..Index::default()
        };
        let mut end = 0_u64;
        let mut last_key = Vec::new();
        let mut last_seq = 0;
        for block in 0..blocks {
            let gap = varint::take(&mut rest).ok_or(CUT)?;
            let len = varint::take(&mut rest).and_then(|len| u32::try_from(len).ok()).ok_or(CUT)?;
            let offset = end.checked_add(gap).ok_or(CUT)?;
            end = offset
                .checked_add(u64::from(len))
                .filter(|&end| end <= blocks_end)
                .ok_or("a block in the index lies outside the blocks of the table")?;
            let shared = varint::take(&mut rest).and_then(|len| usize::try_from(len).ok()).ok_or(CUT)?;
            let unshared = varint::take(&mut rest).ok_or(CUT)?;
            let has_seq = unshared & 1 != 0;
            let unshared = usize::try_from(unshared >> 1).ok().ok_or(CUT)?;
            let (suffix, after) = rest.split_at_checked(unshared).ok_or(CUT)?;
            rest = after;
            let seq = if has_seq { varint::take(&mut rest).ok_or(CUT)? } else { 0 };
            if shared > last_key.len() {
                return Err(CUT);
            }
            if block > 0 && weir_model::engine::compare((&last_key[shared..], last_seq), (suffix, seq)).is_ge() {
                return Err("the separators of the index do not ascend");
            }
            last_key.truncate(shared);
            last_key.extend_from_slice(suffix);
            last_seq = seq;
            index.keys.extend_from_slice(&last_key);
            let key_end = u32::try_from(index.keys.len()).ok().filter(|&end| u64::from(end) <= key_bytes_max);
            index.key_ends.push(key_end.ok_or("the separators are longer than all keys of the table")?);
            index.blocks.push((offset, len));
            if seq != 0 {
                index.seqs.push((block as u32, seq));
            }
        }
        if !rest.is_empty() {
            return Err(CUT);
        }
        index.fill_heads();
        Ok(index)
    }

    fn fill_heads(&mut self) {
        let Some(last) = self.len().checked_sub(1) else { return };
        // Separators ascend, so all share the bytes that the first and the last share.
        self.shared_len = common_prefix(self.key(0), self.key(last));
        let heads = (0..=last).map(|block| head(&self.key(block)[self.shared_len..])).collect();
        self.heads = heads;
    }

    /// Number of blocks.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Where block `number` is.
    #[inline]
    pub(super) fn address(&self, number: usize) -> BlockAddress {
        let (offset, len) = self.blocks[number];
        BlockAddress { number: number as u32, len, offset }
    }

    /// The separator of block `number`.
    pub(super) fn separator(&self, number: usize) -> (&[u8], Seq) {
        (self.key(number), self.seq(number))
    }

    /// The only block that can hold the first entry at or after (`key`, `seq`), unless that entry is the first of the
    /// next block because (`key`, `seq`) lies between the two blocks. `len()` if (`key`, `seq`) lies behind all blocks.
    #[inline]
    pub(super) fn find(&self, key: &[u8], seq: Seq) -> usize {
        let shared = &self.keys[..self.shared_len];
        let Some(suffix) = key.strip_prefix(shared) else {
            // Not among the separators: before or behind all of them.
            return if key < shared { 0 } else { self.len() };
        };
        let head = head(suffix);
        // The first separator with an equal or greater head; among equal heads the whole separator decides.
        let mut at = partition(&self.heads, head);
        let mut end = at;
        if self.heads.get(at) == Some(&head) {
            end += self.heads[at..].partition_point(|&other| other == head);
        }
        while at < end {
            let middle = (at + end) / 2;
            if weir_model::engine::compare(self.separator(middle), (key, seq)).is_lt() {
                at = middle + 1;
            } else {
                end = middle;
            }
        }
        at
    }

    /// Memory it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.keys.len() + self.len() * (8 + 4 + 16) + self.seqs.len() * 16
    }

    fn key(&self, number: usize) -> &[u8] {
        let start = if number == 0 { 0 } else { self.key_ends[number - 1] as usize };
        &self.keys[start..self.key_ends[number] as usize]
    }

    fn seq(&self, number: usize) -> Seq {
        if self.seqs.is_empty() {
            return 0;
        }
        self.seqs.binary_search_by_key(&(number as u32), |&(block, _)| block).map_or(0, |at| self.seqs[at].1)
    }
}

/// The number of elements below `value`. Without branches: the processor cannot guess them.
#[inline]
fn partition(sorted: &[u64], value: u64) -> usize {
    let mut base = 0;
    let mut len = sorted.len();
    while len > 1 {
        let half = len / 2;
        base += if sorted[base + half - 1] < value { half } else { 0 };
        len -= half;
    }
    base + usize::from(len == 1 && sorted[base] < value)
}

#[inline]
fn head(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => {
            let mut chunk = [0; 8];
            chunk[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(chunk)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_short_and_separate() {
        let cases: [(&str, &str, &str); 7] = [
            ("apple", "banana", "b"),
            ("apple", "b", "apple"),
            ("apple", "c", "b"),
            ("abc", "abcd", "abc"),
            ("abc1999", "abc2000", "abc2"),
            ("abc1", "abc2", "abc1"),
            ("a\u{7f}z", "b", "a\u{7f}z"),
        ];
        for (last, next, want) in cases {
            let mut scratch = Vec::new();
            let got = separator(last.as_bytes(), next.as_bytes(), &mut scratch);
            assert_eq!(got, want.as_bytes(), "between {last} and {next}");
            assert!(last.as_bytes() <= got && got < next.as_bytes());
        }
    }

    #[test]
    fn partition_counts_what_is_below() {
        for len in 0..40_u64 {
            let sorted: Vec<u64> = (0..len).map(|i| i / 3 * 2).collect();
            for value in 0..40 {
                assert_eq!(partition(&sorted, value), sorted.partition_point(|&other| other < value));
            }
        }
    }
}
