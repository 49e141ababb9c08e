//! Blocks: the unit of reading, checking, compressing and caching.
//!
//! ```text
//!  key …        of each entry, ascending: lengths, sequence number, key; see below
//!  value …      of each entry, in the same order
//!  restart …    4 bytes each: where the keys and the values of every 16th entry but the first begin, 2 bytes each
//!  keys length  varint, written backwards
//!  restarts     varint, written backwards: how many there are
//! ```
//!
//! A key is stored as these parts, one after the other: one byte `shared << 5 | unshared`; for each of these two
//! lengths that does not fit its 3 or 5 bits, which are all ones then, a varint of the rest; the varints
//! `value length << 2 | expires << 1 | put` and sequence number; if the entry expires, the varint of that time; and the
//! unshared end of the key. Without `put`, the entry is a tombstone if there is neither a value nor `expires`. It is a
//! head if there is `expires`, then with 0 for a time that never comes. It is a cover if there is a value alone. Keys
//! lie together so that a search touches neighbouring cache lines, whatever the size of the values.
//!
//! Four entries of 16 + 1000 bytes fit one page with everything around them, at any sequence number below 2 million
//! even if their keys share nothing, and below 268 million if they share one byte.

use std::cmp::Ordering;
use std::sync::Arc;

use weir_io::AlignedBuf;
use weir_model::Value;
use weir_model::engine::{Entry, Found, Kind, Seq};
use weir_model::varint;

use super::format::{BLOCK_BYTES_MAX, RESTART_INTERVAL};
use super::index::common_prefix;
use weir_model::prefetch::prefetch;

const SHARED_MAX: usize = 7;
const UNSHARED_MAX: usize = 31;
const PUT: u64 = 1;
const EXPIRES: u64 = 2;
const RESTART_BYTES: usize = 4;

/// What is wrong with a block that does not decode.
pub(super) const MALFORMED: &str = "an entry of the block is malformed";

/// A block in memory, checked and decompressed.
pub struct Block {
    /// The content: a part of what `storage` owns, which neither moves nor changes.
    content: *const u8,
    len: u32,
    /// Where the keys end and the values begin.
    keys_len: u32,
    /// Where the values end and the restarts begin. Invariant: `keys_len <= values_end` and
    /// `values_end + 4 * restarts <= len`.
    values_end: u32,
    restarts: u32,
    storage: Storage,
}

// SAFETY: the content is owned by the block through `storage`, and only ever read.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

const LINE_BYTES: usize = 64;
/// Fetching more lines in advance would push out other lines that are needed.
const HINT_LINES_MAX: usize = 8;

/// What a search in a block will touch: see [`Block::hint`].
#[derive(Clone, Copy)]
pub(crate) struct Hint {
    start: usize,
    end: u32,
    key_lines: u16,
}

impl Hint {
    /// Asks the processor to fetch all of it.
    #[inline]
    pub(crate) fn prefetch(self) {
        for line in 0..usize::from(self.key_lines) {
            prefetch((self.start + line * LINE_BYTES) as *const u8);
        }
        prefetch((self.start + self.end as usize).wrapping_sub(1) as *const u8);
    }
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

impl Storage {
    fn bytes(&self) -> &[u8] {
        match self {
            Storage::Own(bytes) => bytes,
            Storage::Page(page) => page,
            Storage::Chunk(chunk) => chunk,
        }
    }
}

impl Block {
    /// A block that owns its memory.
    pub(super) fn from_vec(content: Vec<u8>) -> Result<Self, &'static str> {
        let len = content.len();
        Self::new(Storage::Own(content.into_boxed_slice()), 0, len)
    }

    /// A block that is `len` bytes from `start` of a buffer that it takes over.
    pub(super) fn from_page(page: AlignedBuf, start: usize, len: usize) -> Result<Self, &'static str> {
        Self::new(Storage::Page(page), start, len)
    }

    /// A block that is `len` bytes from `start` of a buffer that it shares. For readers that soon move on: it keeps the
    /// whole buffer.
    pub(super) fn from_chunk(chunk: &Arc<AlignedBuf>, start: usize, len: usize) -> Result<Self, &'static str> {
        Self::new(Storage::Chunk(Arc::clone(chunk)), start, len)
    }

    fn new(storage: Storage, start: usize, len: usize) -> Result<Self, &'static str> {
        const MALFORMED_TAIL: &str = "the end of the block is malformed";
        let content = storage.bytes().get(start..).and_then(|rest| rest.get(..len)).ok_or(MALFORMED_TAIL)?;
        let mut rest = content;
        let restarts = take_backwards(&mut rest).ok_or(MALFORMED_TAIL)?;
        let keys_len = take_backwards(&mut rest).ok_or(MALFORMED_TAIL)?;
        let values_end =
            restarts.checked_mul(RESTART_BYTES as u64).and_then(|bytes| (rest.len() as u64).checked_sub(bytes));
        let values_end = values_end.filter(|&end| keys_len <= end).ok_or(MALFORMED_TAIL)?;
        Ok(Block {
            content: content.as_ptr(),
            len: u32::try_from(len).map_err(|_| MALFORMED_TAIL)?,
            keys_len: keys_len as u32,
            values_end: values_end as u32,
            restarts: restarts as u32,
            storage,
        })
    }

    /// Keys, values and restarts.
    #[inline]
    pub(crate) fn content(&self) -> &[u8] {
        // SAFETY: `new` took both from a slice of `storage`: heap memory that stays where it is when the block moves,
        // and as it is.
        unsafe { std::slice::from_raw_parts(self.content, self.len as usize) }
    }

    /// What it takes besides its content, in bytes.
    pub(crate) const OVERHEAD_BYTES: usize = size_of::<Self>() + 2 * size_of::<usize>();

    /// Memory that it takes, in bytes; a shared buffer is not counted.
    pub fn bytes(&self) -> usize {
        let storage = match &self.storage {
            Storage::Own(bytes) => bytes.len(),
            Storage::Page(page) => page.capacity(),
            Storage::Chunk(_) => 0,
        };
        Self::OVERHEAD_BYTES + storage
    }

    /// What a search in this block will touch: where the content begins, in how many cache lines of keys, and where it
    /// ends.
    pub(crate) fn hint(&self) -> Hint {
        let start = self.content as usize;
        let lines = (self.keys_len as usize).div_ceil(LINE_BYTES).min(HINT_LINES_MAX);
        Hint { start, key_lines: lines as u16, end: self.len }
    }

    #[inline]
    fn keys(&self) -> &[u8] {
        &self.content()[..self.keys_len as usize]
    }

    /// Number of restarts, with the first entry.
    #[inline]
    pub(super) fn restarts(&self) -> usize {
        self.restarts as usize + 1
    }

    /// Where the entry of the `number`-th restart begins.
    #[inline]
    pub(super) fn restart(&self, number: usize) -> EntryOffsets {
        if number == 0 {
            return EntryOffsets { key: 0, value: self.keys_len as usize };
        }
        let at = self.values_end as usize + RESTART_BYTES * (number - 1);
        let [key_low, key_high, value_low, value_high] =
            *self.content()[at..].first_chunk().expect("there are as many restarts as `new` made sure of");
        EntryOffsets {
            key: usize::from(u16::from_le_bytes([key_low, key_high])),
            value: self.keys_len as usize + usize::from(u16::from_le_bytes([value_low, value_high])),
        }
    }

    /// The entry at `place`; `None` if the block ends there.
    #[inline(always)] // By the call, an entry would go through memory.
    pub(super) fn entry(&self, place: EntryOffsets) -> Result<Option<Raw>, &'static str> {
        if place.key >= self.keys_len as usize {
            return Ok(None);
        }
        let raw = Raw::decode(self.keys(), place).filter(|raw| raw.next.value <= self.values_end as usize);
        raw.map(Some).ok_or(MALFORMED)
    }

    /// The bytes of the entry's key that are not shared with the one before.
    #[inline]
    pub(super) fn suffix(&self, raw: &Raw) -> &[u8] {
        &self.content()[raw.suffix_start..raw.next.key]
    }

    /// The entry's value.
    #[inline]
    pub(super) fn value(&self, raw: &Raw) -> &[u8] {
        &self.content()[raw.value_start..raw.next.value]
    }

    /// The last restart whose entry is before (`key`, `seq`); the first one if none is.
    pub(super) fn restart_before(&self, key: &[u8], seq: Seq) -> Result<usize, &'static str> {
        let (mut low, mut high) = (0, self.restarts());
        while low + 1 < high {
            let middle = (low + high) / 2;
            let raw = self.entry(self.restart(middle))?.filter(|raw| raw.shared == 0).ok_or(MALFORMED)?;
            if weir_model::engine::compare((self.suffix(&raw), raw.seq), (key, seq)) == Ordering::Less {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The newest version of `key` with a sequence number of at most `at` in this block.
    pub(super) fn get(self: &Arc<Self>, key: &[u8], at: Seq) -> Result<Option<Found>, &'static str> {
        let restart = self.restart_before(key, at)?;
        let mut place = self.restart(restart);
        // The next restart is at or after (`key`, `at`), and shares nothing with its predecessor.
        let next_restart = if restart + 1 < self.restarts() { self.restart(restart + 1).key } else { usize::MAX };
        // Keys are compared without being put together. So far every entry was before (`key`, `at`), and the last one
        // had `matched` bytes in common with `key`. If an entry shares more than that with its predecessor, it still
        // differs from `key` in the same byte, so it is before it, too; if it shares less, it has a greater byte where
        // the predecessor agreed with `key`, so `key` is not there.
        let mut matched = 0;
        while let Some(raw) = self.entry(place)? {
            if place.key == next_restart {
                matched = 0;
            }
            if raw.shared < matched {
                return Ok(None);
            }
            if raw.shared == matched {
                let (suffix, rest) = (self.suffix(&raw), &key[matched..]);
                let more = common_prefix(suffix, rest);
                matched += more;
                match (suffix.get(more), rest.get(more)) {
                    (None, None) if raw.seq <= at => return Ok(Some(self.found(&raw))),
                    (Some(_), None) => return Ok(None),
                    (Some(have), Some(want)) if have > want => return Ok(None),
                    _ => {}
                }
            }
            place = raw.next;
        }
        Ok(None)
    }

    fn found(self: &Arc<Self>, raw: &Raw) -> Found {
        let bytes = &self.content()[raw.value_start..raw.next.value];
        Found {
            seq: raw.seq,
            kind: raw.kind,
            expire_at_ms: raw.expire_at_ms,
            // SAFETY: the bytes are the block's own, and a block never changes once it can be seen.
            value: unsafe { Value::held(Arc::clone(self), bytes) },
        }
    }
}

#[cfg(test)]
impl Block {
    /// A block of `len` zeros.
    pub(crate) fn for_cache_tests(len: usize) -> Self {
        Self::from_vec(vec![0; len.max(2)]).expect("zeros are a block without restarts")
    }
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Block({} bytes, {} restarts)", self.len, self.restarts())
    }
}

/// Where an entry begins: offsets of its key and its value in the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EntryOffsets {
    pub(super) key: usize,
    pub(super) value: usize,
}

/// An entry as it lies in a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw {
    /// Bytes of the key that are those of the previous entry.
    pub(super) shared: usize,
    /// The rest of the key is `suffix_start..next.key`, the value is `value_start..next.value`.
    suffix_start: usize,
    value_start: usize,
    /// The next entry.
    pub(super) next: EntryOffsets,
    pub(super) seq: Seq,
    pub(super) kind: Kind,
    pub(super) expire_at_ms: u64,
}

impl Raw {
    /// No entry, for a cursor that has none yet.
    pub(super) const NONE: Raw = Raw {
        shared: 0,
        suffix_start: 0,
        value_start: 0,
        next: EntryOffsets { key: 0, value: 0 },
        seq: 0,
        kind: Kind::Delete,
        expire_at_ms: 0,
    };

    #[inline(always)]
    fn decode(keys: &[u8], place: EntryOffsets) -> Option<Raw> {
        let (&lens, mut rest) = keys.get(place.key..)?.split_first()?;
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
        let suffix_start = keys.len() - rest.len();
        if unshared > rest.len() {
            return None;
        }
        let next_value = place.value.checked_add(usize::try_from(value >> 2).ok()?)?;
        let kind = match value {
            _ if value & PUT != 0 => Kind::Put,
            0 => Kind::Delete,
            _ if value & EXPIRES != 0 => Kind::Head,
            _ => Kind::Cover,
        };
        let next = EntryOffsets { key: suffix_start + unshared, value: next_value };
        Some(Raw { shared, suffix_start, value_start: place.value, next, seq, kind, expire_at_ms })
    }
}

/// Builds the content of one block after the other.
pub(super) struct BlockBuilder {
    keys: Vec<u8>,
    values: Vec<u8>,
    restarts: Vec<[u16; 2]>,
    entries: usize,
}

impl BlockBuilder {
    pub(super) fn new() -> Self {
        BlockBuilder { keys: Vec::new(), values: Vec::new(), restarts: Vec::new(), entries: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Length of the content if it were finished now.
    pub(super) fn len(&self) -> usize {
        content_len(self.keys.len(), self.values.len(), self.restarts.len())
    }

    /// Length of the content if it were finished behind `entry`, whose key shares `shared` bytes with that of the last
    /// entry.
    pub(super) fn len_with(&self, entry: &Entry<'_>, shared: usize) -> usize {
        let shared = if self.is_restart() { 0 } else { shared };
        let unshared = entry.key.len() - shared;
        let mut key_len = 1 + varint_len(flagged_len(entry)) + varint_len(entry.seq) + unshared;
        if shared >= SHARED_MAX {
            key_len += varint_len((shared - SHARED_MAX) as u64);
        }
        if unshared >= UNSHARED_MAX {
            key_len += varint_len((unshared - UNSHARED_MAX) as u64);
        }
        if has_time(entry) {
            key_len += varint_len(entry.expire_at_ms);
        }
        let restarts = self.restarts.len() + usize::from(self.is_restart() && !self.is_empty());
        content_len(self.keys.len() + key_len, self.values.len() + entry.value.len(), restarts)
    }

    fn is_restart(&self) -> bool {
        self.entries.is_multiple_of(RESTART_INTERVAL)
    }

    /// Adds `entry`, whose key shares the first `shared` bytes (and no more) with that of the last entry.
    pub(super) fn add(&mut self, entry: &Entry<'_>, shared: usize) {
        let mut shared = shared;
        if self.is_restart() {
            shared = 0;
            if self.entries > 0 {
                debug_assert!(self.keys.len() + self.values.len() < BLOCK_BYTES_MAX);
                self.restarts.push([self.keys.len() as u16, self.values.len() as u16]);
            }
        }
        self.entries += 1;
        let unshared = entry.key.len() - shared;
        let out = &mut self.keys;
        out.push((shared.min(SHARED_MAX) << 5 | unshared.min(UNSHARED_MAX)) as u8);
        if shared >= SHARED_MAX {
            varint::put(out, (shared - SHARED_MAX) as u64);
        }
        if unshared >= UNSHARED_MAX {
            varint::put(out, (unshared - UNSHARED_MAX) as u64);
        }
        varint::put(out, flagged_len(entry));
        varint::put(out, entry.seq);
        if has_time(entry) {
            varint::put(out, entry.expire_at_ms);
        }
        out.extend_from_slice(&entry.key[shared..]);
        self.values.extend_from_slice(entry.value);
    }

    /// Completes the block and lends its content. Call [`BlockBuilder::clear`] before the next block.
    pub(super) fn finish(&mut self) -> &mut Vec<u8> {
        let keys_len = self.keys.len();
        let out = &mut self.keys;
        out.extend_from_slice(&self.values);
        for [key, value] in &self.restarts {
            out.extend_from_slice(&key.to_le_bytes());
            out.extend_from_slice(&value.to_le_bytes());
        }
        put_backwards(out, keys_len as u64);
        put_backwards(out, self.restarts.len() as u64);
        out
    }

    /// Begins the next block. A buffer that one huge value has blown up is given back.
    pub(super) fn clear(&mut self) {
        for buffer in [&mut self.keys, &mut self.values] {
            buffer.clear();
            buffer.shrink_to(2 * BLOCK_BYTES_MAX);
        }
        self.restarts.clear();
        self.entries = 0;
    }
}

fn content_len(keys: usize, values: usize, restarts: usize) -> usize {
    keys + values + RESTART_BYTES * restarts + varint_len(keys as u64) + varint_len(restarts as u64)
}

/// Appends `value` as a varint that [`take_backwards`] finds from its end.
fn put_backwards(out: &mut Vec<u8>, value: u64) {
    let start = out.len();
    varint::put(out, value);
    out[start..].reverse();
}

/// Reads a varint from the end of `bytes`, and takes it off.
fn take_backwards(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_last()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Whether a time of expiry is stored. That of a head always is: it tells the head from other entries.
fn has_time(entry: &Entry<'_>) -> bool {
    entry.expire_at_ms != 0 || entry.kind == Kind::Head
}

/// Length of the value with the flags.
fn flagged_len(entry: &Entry<'_>) -> u64 {
    debug_assert!(entry.kind != Kind::Cover || !entry.value.is_empty(), "a cover without a value");
    let expires = if has_time(entry) { EXPIRES } else { 0 };
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
