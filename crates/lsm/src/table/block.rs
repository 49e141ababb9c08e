//! Blocks: the unit of reading, checking, compressing and caching.
//!
//! ```text
//!  entry …        see below; ascending
//!  restart …      2 bytes each: offsets of every 16th entry but the first, whose offset is 0
//!  restarts       2 bytes: how many offsets there are
//! ```
//!
//! An entry is one byte `shared << 5 | unshared` (a part that does not fit its 3 or 5 bits is stored as all ones, and what is beyond
//! follows as a varint), the varints `value length << 2 | expires << 1 | put` and sequence number, if it expires the varint of that
//! time, the unshared end of the key, and the value. Four entries of 16 + 1000 bytes thus fit one page with everything around them, at
//! any sequence number below 2 million even if their keys share nothing, and below 268 million if they share two bytes.

use std::cmp::Ordering;
use std::sync::Arc;

use weir_io::AlignedBuf;
use weir_model::varint;

use super::format::{BLOCK_BYTES_MAX, RESTART_INTERVAL};
use super::index::common_prefix;
use crate::entry::{Entry, Kind, Seq};
use crate::value::{Found, Value};

const SHARED_MAX: usize = 7;
const UNSHARED_MAX: usize = 31;
const PUT: u64 = 1;
const EXPIRES: u64 = 2;

/// What is wrong with a block that does not decode.
pub(super) const MALFORMED: &str = "an entry of the block is malformed";

/// A block in memory, checked and decompressed.
pub struct Block {
    storage: Storage,
    /// The content's place in the storage.
    start: usize,
    len: usize,
    /// Where the entries end and the restarts begin. Invariant: `entries_end + 2 * restarts + 2 == len`.
    entries_end: usize,
    restarts: usize,
}

/// Who owns the bytes.
enum Storage {
    /// Only this block; exactly as long as the content.
    Own(Box<[u8]>),
    /// Only this block: the page it was read into.
    Page(AlignedBuf),
    /// Several blocks that were read in one go.
    Chunk(Arc<AlignedBuf>),
}

impl Block {
    /// A block of its own memory.
    pub(super) fn from_vec(content: Vec<u8>) -> Result<Self, &'static str> {
        let len = content.len();
        Self::new(Storage::Own(content.into_boxed_slice()), 0, len)
    }

    /// A block that is `len` bytes from `start` of a buffer that it takes over.
    pub(super) fn from_page(page: AlignedBuf, start: usize, len: usize) -> Result<Self, &'static str> {
        Self::new(Storage::Page(page), start, len)
    }

    /// A block that is `len` bytes from `start` of a buffer that it shares. For readers that soon move on: it keeps the whole buffer.
    pub(super) fn from_chunk(chunk: &Arc<AlignedBuf>, start: usize, len: usize) -> Result<Self, &'static str> {
        Self::new(Storage::Chunk(Arc::clone(chunk)), start, len)
    }

    fn new(storage: Storage, start: usize, len: usize) -> Result<Self, &'static str> {
        const SHORT: &str = "the block is shorter than its list of restarts";
        let mut block = Block { storage, start, len, entries_end: 0, restarts: 0 };
        let count_at = len.checked_sub(2).ok_or(SHORT)?;
        block.restarts = usize::from(block.u16_at(count_at));
        block.entries_end = count_at.checked_sub(2 * block.restarts).ok_or(SHORT)?;
        Ok(block)
    }

    /// Entries and restarts.
    #[inline]
    pub(crate) fn content(&self) -> &[u8] {
        let bytes: &[u8] = match &self.storage {
            Storage::Own(bytes) => bytes,
            Storage::Page(page) => page,
            Storage::Chunk(chunk) => chunk,
        };
        &bytes[self.start..self.start + self.len]
    }

    /// Memory that it takes, in bytes; a shared buffer is not counted.
    pub fn bytes(&self) -> usize {
        let storage = match &self.storage {
            Storage::Own(bytes) => bytes.len(),
            Storage::Page(page) => page.capacity(),
            Storage::Chunk(_) => 0,
        };
        size_of::<Block>() + 2 * size_of::<usize>() + storage
    }

    #[inline]
    fn u16_at(&self, at: usize) -> u16 {
        let content = self.content();
        u16::from_le_bytes([content[at], content[at + 1]])
    }

    /// Length of the entries' part.
    #[inline]
    pub(super) fn entries_end(&self) -> usize {
        self.entries_end
    }

    /// Number of restarts, with the first entry.
    #[inline]
    pub(super) fn restarts(&self) -> usize {
        self.restarts + 1
    }

    /// Offset of the `number`-th restart.
    #[inline]
    pub(super) fn restart(&self, number: usize) -> usize {
        if number == 0 { 0 } else { usize::from(self.u16_at(self.entries_end + 2 * (number - 1))) }
    }

    /// The entry that begins at `offset`.
    #[inline]
    pub(super) fn raw(&self, offset: usize) -> Result<Raw, &'static str> {
        let entries = &self.content()[..self.entries_end];
        Raw::decode(entries, offset).ok_or(MALFORMED)
    }

    /// The last restart whose entry is before (`key`, `seq`); the first one if none is.
    pub(super) fn restart_before(&self, key: &[u8], seq: Seq) -> Result<usize, &'static str> {
        let (mut low, mut high) = (0, self.restarts);
        while low < high {
            let middle = (low + high).div_ceil(2);
            let raw = self.raw(self.restart(middle))?;
            if raw.shared != 0 {
                return Err(MALFORMED);
            }
            let before = crate::entry::compare((&self.content()[raw.key_start..raw.value_start], raw.seq), (key, seq));
            if before == Ordering::Less {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        Ok(low)
    }

    /// The newest version of `key` with a sequence number of at most `at` in this block.
    pub(super) fn get(self: &Arc<Self>, key: &[u8], at: Seq) -> Result<Option<Found>, &'static str> {
        let content = self.content();
        let entries = &content[..self.entries_end];
        let restart = if self.restarts == 0 { 0 } else { self.restart_before(key, at)? };
        let mut offset = self.restart(restart);
        // Keys are compared without being put together. So far every entry was before (`key`, `at`), and the last one had
        // `matched` bytes in common with `key`. If an entry shares more than that with its predecessor, it still differs from `key`
        // in the same byte, so it is before it, too; if it shares less, it has a greater byte where the predecessor agreed with `key`,
        // so `key` is not there.
        let mut matched = 0;
        // The next restart is at or after (`key`, `at`), and shares nothing with its predecessor.
        let next_restart = if restart < self.restarts { self.restart(restart + 1) } else { entries.len() };
        while offset < entries.len() {
            let raw = Raw::decode(entries, offset).ok_or(MALFORMED)?;
            if offset == next_restart {
                matched = 0;
            }
            if raw.shared < matched {
                return Ok(None);
            }
            if raw.shared == matched {
                let suffix = &entries[raw.key_start..raw.value_start];
                let rest = &key[matched..];
                let more = common_prefix(suffix, rest);
                matched += more;
                match (suffix.get(more), rest.get(more)) {
                    (None, None) if raw.seq <= at => return Ok(Some(self.found(&raw))),
                    (Some(_), None) => return Ok(None),
                    (Some(have), Some(want)) if have > want => return Ok(None),
                    _ => {}
                }
            }
            offset = raw.end;
        }
        Ok(None)
    }

    fn found(self: &Arc<Self>, raw: &Raw) -> Found {
        Found {
            seq: raw.seq,
            kind: raw.kind,
            expire_at_ms: raw.expire_at_ms,
            value: Value::in_block(self, raw.value_start, raw.end - raw.value_start),
        }
    }
}

#[cfg(test)]
impl Block {
    /// A block of `len` zeros.
    pub(crate) fn for_cache_tests(len: usize) -> Self {
        Self::from_vec(vec![0; len]).expect("zeros are a block without restarts")
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Block({} bytes, {} restarts)", self.len, self.restarts())
    }
}

/// An entry as it lies in a block; all places are offsets in the block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw {
    /// Bytes of the key that are those of the previous entry.
    pub(super) shared: usize,
    /// The rest of the key is `key_start..value_start`, the value is `value_start..end`.
    pub(super) key_start: usize,
    pub(super) value_start: usize,
    pub(super) end: usize,
    pub(super) seq: Seq,
    pub(super) kind: Kind,
    pub(super) expire_at_ms: u64,
}

impl Raw {
    #[inline]
    fn decode(entries: &[u8], offset: usize) -> Option<Raw> {
        let mut rest = entries.get(offset..)?;
        let (&lens, after) = rest.split_first()?;
        rest = after;
        let mut shared = usize::from(lens >> 5);
        let mut unshared = usize::from(lens & UNSHARED_MAX as u8);
        if shared == SHARED_MAX {
            shared = shared.checked_add(usize::try_from(varint::take(&mut rest)?).ok()?)?;
        }
        if unshared == UNSHARED_MAX {
            unshared = unshared.checked_add(usize::try_from(varint::take(&mut rest)?).ok()?)?;
        }
        let value = varint::take(&mut rest)?;
        let seq = varint::take(&mut rest)?;
        let expire_at_ms = if value & EXPIRES != 0 { varint::take(&mut rest)? } else { 0 };
        let key_start = entries.len() - rest.len();
        let value_start = key_start.checked_add(unshared)?;
        let end = value_start.checked_add(usize::try_from(value >> 2).ok()?)?;
        let kind = if value & PUT != 0 { Kind::Put } else { Kind::Delete };
        (end <= entries.len()).then_some(Raw { shared, key_start, value_start, end, seq, kind, expire_at_ms })
    }
}

/// Builds the content of one block after the other.
pub(super) struct BlockBuilder {
    content: Vec<u8>,
    restarts: Vec<u16>,
    entries: usize,
}

impl BlockBuilder {
    pub(super) fn new() -> Self {
        BlockBuilder { content: Vec::new(), restarts: Vec::new(), entries: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Length of the content if it were finished now.
    pub(super) fn len(&self) -> usize {
        self.content.len() + 2 * self.restarts.len() + 2
    }

    /// Length of the content if it were finished behind `entry`, of whose key `shared` bytes are those of the last one added.
    pub(super) fn len_with(&self, entry: &Entry<'_>, shared: usize) -> usize {
        let restarts = self.is_restart();
        let shared = if restarts { 0 } else { shared };
        let unshared = entry.key.len() - shared;
        let mut len = 1 + varint_len(flagged_len(entry)) + varint_len(entry.seq) + unshared + entry.value.len();
        if shared >= SHARED_MAX {
            len += varint_len((shared - SHARED_MAX) as u64);
        }
        if unshared >= UNSHARED_MAX {
            len += varint_len((unshared - UNSHARED_MAX) as u64);
        }
        if entry.expire_at_ms != 0 {
            len += varint_len(entry.expire_at_ms);
        }
        self.len() + len + if restarts && !self.is_empty() { 2 } else { 0 }
    }

    fn is_restart(&self) -> bool {
        self.entries.is_multiple_of(RESTART_INTERVAL)
    }

    /// Adds `entry`, of whose key the first `shared` bytes (and no more) are those of the last one added.
    pub(super) fn add(&mut self, entry: &Entry<'_>, shared: usize) {
        let mut shared = shared;
        if self.is_restart() {
            shared = 0;
            if self.entries > 0 {
                debug_assert!(self.content.len() < BLOCK_BYTES_MAX);
                self.restarts.push(self.content.len() as u16);
            }
        }
        self.entries += 1;
        let unshared = entry.key.len() - shared;
        let out = &mut self.content;
        out.push((shared.min(SHARED_MAX) << 5 | unshared.min(UNSHARED_MAX)) as u8);
        if shared >= SHARED_MAX {
            varint::put(out, (shared - SHARED_MAX) as u64);
        }
        if unshared >= UNSHARED_MAX {
            varint::put(out, (unshared - UNSHARED_MAX) as u64);
        }
        varint::put(out, flagged_len(entry));
        varint::put(out, entry.seq);
        if entry.expire_at_ms != 0 {
            varint::put(out, entry.expire_at_ms);
        }
        out.extend_from_slice(&entry.key[shared..]);
        out.extend_from_slice(entry.value);
    }

    /// Completes the block and lends its content; [`BlockBuilder::clear`] before the next.
    pub(super) fn finish(&mut self) -> &mut Vec<u8> {
        for restart in &self.restarts {
            self.content.extend_from_slice(&restart.to_le_bytes());
        }
        self.content.extend_from_slice(&(self.restarts.len() as u16).to_le_bytes());
        &mut self.content
    }

    /// Begins the next block. A buffer that one huge value has blown up is given back.
    pub(super) fn clear(&mut self) {
        self.content.clear();
        self.content.shrink_to(2 * BLOCK_BYTES_MAX);
        self.restarts.clear();
        self.entries = 0;
    }
}

/// Length of the value with the flags.
fn flagged_len(entry: &Entry<'_>) -> u64 {
    let expires = if entry.expire_at_ms != 0 { EXPIRES } else { 0 };
    let put = if entry.kind == Kind::Put { PUT } else { 0 };
    (entry.value.len() as u64) << 2 | expires | put
}

fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_entries_of_a_kilobyte_fit_one_page() {
        // 4096 - 5 bytes of trailer; see the module's comment.
        let worst = |seq: Seq, shared: usize| {
            let mut builder = BlockBuilder::new();
            for number in 0..4_u8 {
                let mut key = [7; 16];
                key[shared] = number;
                let entry = Entry { key: &key, seq, kind: Kind::Put, expire_at_ms: 0, value: &[1; 1000] };
                let expected = builder.len_with(&entry, shared);
                builder.add(&entry, if number == 0 { 0 } else { shared });
                if number > 0 {
                    assert_eq!(builder.len(), expected, "the length is known in advance");
                }
            }
            builder.finish().len() + super::super::format::TRAILER_BYTES
        };
        assert!(worst((1 << 21) - 1, 0) <= 4096);
        assert!(worst((1 << 28) - 1, 2) <= 4096);
        assert!(worst((1 << 28) - 1, 1) <= 4096);
    }

    #[test]
    fn varint_len_is_what_put_writes() {
        for value in (0..64).flat_map(|shift| [(1_u64 << shift) - 1, 1 << shift]).chain([u64::MAX]) {
            let mut out = Vec::new();
            varint::put(&mut out, value);
            assert_eq!(out.len(), varint_len(value), "{value}");
        }
    }
}
