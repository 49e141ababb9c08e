//! How the values of a list lie in parts with keys of their own (`docs/format/rows.md`).
//!
//! Every value has a position, and positions follow one another without a gap. A long value is a part by itself. Short
//! values stand in *chunks*: parts of several values at consecutive positions. The key of a chunk names its *anchor*,
//! which is the position of its first value; the others follow outwards, away from zero.
//!
//! ```text
//! positions       -4 -3 -2 -1   0  1  2  3
//! chunk at -1     [d  c  b  a]                 its value: a b c d
//! chunk at 0                   [e  f  g]       its value: e f g
//! value at 3                             h
//! ```
//!
//! So a list grows at either end by an append to the value of its outermost chunk, whose key stays. What is taken out
//! at an end stays in its chunk until all of that chunk is gone: only the head changes. The head knows the outermost
//! chunks, because nothing else tells how many of their values are gone.

use std::ops::{Deref, RangeInclusive};

use super::subkey::{ordered_i64, take_i64};
use crate::varint;

/// The longest value that stands in a chunk, in bytes. A longer one is a part by itself: it would be written again and
/// again with its neighbours.
pub const CHUNK_VALUE_BYTES_MAX: usize = 64;

// The varint of every length in a chunk is one byte.
const _: () = assert!(CHUNK_VALUE_BYTES_MAX < 0x80);

/// Most values of a chunk.
pub const CHUNK_VALUES_MAX: usize = 64;

/// Most bytes of a chunk that takes a further value, if it was begun by the same command.
pub const NEW_CHUNK_BYTES_MAX: usize = 1 << 10;

/// Bytes of a position. A head counts each value with them.
pub const POSITION_BYTES: u64 = 8;

/// Bytes of a position in a subkey.
const SUBKEY_BYTES: usize = POSITION_BYTES as usize;

/// What stands behind the position in the subkey of a chunk.
const CHUNK: u8 = 1;

/// A part of a list, by what its subkey says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListPart {
    /// The value at a position.
    Value(i64),
    /// The chunk whose anchor is at a position.
    Chunk(i64),
}

/// The subkey of a part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListSubkey {
    bytes: [u8; SUBKEY_BYTES + 1],
    len: usize,
}

impl Deref for ListSubkey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl ListPart {
    /// The part whose subkey this is.
    pub fn parse(subkey: &[u8]) -> Option<Self> {
        let mut rest = subkey;
        let position = take_i64(&mut rest)?;
        match rest {
            [] => Some(Self::Value(position)),
            [CHUNK] => Some(Self::Chunk(position)),
            _ => None,
        }
    }

    /// The subkey. Subkeys are in the order of the values' positions.
    pub fn subkey(self) -> ListSubkey {
        let (position, len) = match self {
            Self::Value(position) => (position, SUBKEY_BYTES),
            Self::Chunk(anchor) => (anchor, SUBKEY_BYTES + 1),
        };
        let mut bytes = [CHUNK; SUBKEY_BYTES + 1];
        bytes[..SUBKEY_BYTES].copy_from_slice(&ordered_i64(position));
        ListSubkey { bytes, len }
    }

    /// The positions of the values of this part, whose value is `value`; `None` if it is damaged.
    pub fn positions(self, value: &[u8]) -> Option<RangeInclusive<i64>> {
        match self {
            Self::Value(position) => Some(position..=position),
            Self::Chunk(anchor) => chunk_positions(anchor, Chunk::parse(value)?.values_len()),
        }
    }
}

/// The positions of the values of the chunk at `anchor`, which has `values` values, at least one; `None` if there are
/// not as many positions.
pub fn chunk_positions(anchor: i64, values: usize) -> Option<RangeInclusive<i64>> {
    let further = values as i64 - 1;
    match anchor < 0 {
        true => Some(anchor.checked_sub(further)?..=anchor),
        false => Some(anchor..=anchor.checked_add(further)?),
    }
}

/// Which value of the chunk at `anchor` is at `position`, one of the chunk's positions.
pub fn chunk_index(anchor: i64, position: i64) -> usize {
    anchor.abs_diff(position) as usize
}

/// The values of a chunk, from its anchor outwards.
///
/// ```text
/// chunk := (length varint | value)+
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    bytes: &'a [u8],
    len: usize,
}

impl<'a> Chunk<'a> {
    /// The chunk with the value `bytes`; `None` if it has no values, too many, a long one, or is not what
    /// [`Chunk::push`] makes.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (mut rest, mut len) = (bytes, 0);
        while !rest.is_empty() {
            take_value(&mut rest)?;
            len += 1;
        }
        (1..=CHUNK_VALUES_MAX).contains(&len).then_some(Self { bytes, len })
    }

    /// As [`Chunk::parse`], for `bytes` that were parsed before and have `len` values.
    pub fn parsed(bytes: &'a [u8], len: usize) -> Self {
        debug_assert_eq!(Self::parse(bytes).map(|chunk| chunk.len), Some(len), "how many values there are");
        Self { bytes, len }
    }

    /// Appends `value`, which has at most [`CHUNK_VALUE_BYTES_MAX`] bytes, to the value of a chunk.
    pub fn push(bytes: &mut Vec<u8>, value: &[u8]) {
        debug_assert!(value.len() <= CHUNK_VALUE_BYTES_MAX, "{} bytes", value.len());
        varint::put(bytes, value.len() as u64);
        bytes.extend_from_slice(value);
    }

    /// How many values it has: at least one.
    pub fn values_len(&self) -> usize {
        self.len
    }

    /// Its values, from the anchor outwards.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.bytes;
        std::iter::from_fn(move || take_value(&mut rest))
    }

    /// The bytes of the first `len` values, and those of the others.
    pub fn split_at(&self, len: usize) -> (&'a [u8], &'a [u8]) {
        if len >= self.len {
            return (self.bytes, &[]);
        }
        let mut rest = self.bytes;
        for _ in 0..len {
            take_value(&mut rest);
        }
        self.bytes.split_at(self.bytes.len() - rest.len())
    }
}

fn take_value<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    // The first byte of a longer varint is more than the greatest length.
    let (&len, behind) = rest.split_first()?;
    let len = usize::from(len);
    let (value, behind) = behind.split_at_checked(len).filter(|_| len <= CHUNK_VALUE_BYTES_MAX)?;
    *rest = behind;
    Some(value)
}

/// What the head says of a list's outermost part at an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndPart {
    /// Nothing, and nothing of it is gone.
    #[default]
    Unknown,
    /// A value by itself.
    Value,
    /// A chunk with this anchor. Values at this end of it may be gone.
    Chunk(i64),
}

/// The detail of the head of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListDetail {
    /// The position of the first value.
    pub first: i64,
    /// The outermost parts, at the front and at the back; `None` if every value has always been a part by itself.
    pub ends: Option<[EndPart; 2]>,
}

/// How the head says that.
const UNKNOWN: u64 = 0;
const VALUE: u64 = 1;
const CHUNK_AT: u64 = 2;

impl ListDetail {
    /// Decodes what [`ListDetail::encode`] makes of some detail; `None` if `bytes` are nothing like that.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let first = take_i64(&mut rest)?;
        if rest.is_empty() {
            return Some(Self { first, ends: None });
        }
        let mut end = || {
            Some(match varint::take_shortest(&mut rest)? {
                UNKNOWN => EndPart::Unknown,
                VALUE => EndPart::Value,
                CHUNK_AT => EndPart::Chunk(first.wrapping_add(unzigzag(varint::take_shortest(&mut rest)?))),
                _ => return None,
            })
        };
        let ends = [end()?, end()?];
        rest.is_empty().then_some(Self { first, ends: Some(ends) })
    }

    /// Replaces `bytes` with the detail.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.clear();
        bytes.extend_from_slice(&ordered_i64(self.first));
        for end in self.ends.iter().flatten() {
            match *end {
                EndPart::Unknown => varint::put(bytes, UNKNOWN),
                EndPart::Value => varint::put(bytes, VALUE),
                EndPart::Chunk(anchor) => {
                    varint::put(bytes, CHUNK_AT);
                    varint::put(bytes, zigzag(anchor.wrapping_sub(self.first)));
                }
            }
        }
    }
}

/// About how many parts a spread list has, if its head says this of it.
pub(super) fn parts_about(count: u64, bytes: u64, detail: &[u8]) -> u64 {
    let has_chunks = ListDetail::decode(detail).is_some_and(|detail| detail.ends.is_some());
    let value_bytes = (bytes / count.max(1)).saturating_sub(POSITION_BYTES);
    if !has_chunks || value_bytes > CHUNK_VALUE_BYTES_MAX as u64 {
        return count;
    }
    // Chunks are half full: of their values, or of the bytes that they take from many values at once.
    let by_values = count.div_ceil(CHUNK_VALUES_MAX as u64 / 2);
    let by_bytes = count.saturating_mul(value_bytes + 1) / (NEW_CHUNK_BYTES_MAX as u64 / 2);
    by_values.max(by_bytes).min(count)
}

/// A small number for a number near zero.
fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn position() -> impl Strategy<Value = i64> {
        prop_oneof![-70..70_i64, any::<i64>(), Just(i64::MIN), Just(i64::MAX)]
    }

    fn part() -> impl Strategy<Value = ListPart> {
        prop_oneof![position().prop_map(ListPart::Value), position().prop_map(ListPart::Chunk)]
    }

    fn end() -> impl Strategy<Value = EndPart> {
        prop_oneof![Just(EndPart::Unknown), Just(EndPart::Value), position().prop_map(EndPart::Chunk)]
    }

    proptest! {
        #[test]
        fn subkeys_come_back_and_are_in_the_order_of_positions(a in part(), b in part()) {
            prop_assert_eq!(ListPart::parse(&a.subkey()), Some(a));
            let position = |part| match part { ListPart::Value(at) | ListPart::Chunk(at) => at };
            if position(a) < position(b) {
                prop_assert!(a.subkey()[..] < b.subkey()[..]);
            }
        }

        #[test]
        fn a_chunk_comes_back_and_is_cut_anywhere(
            values in vec(vec(any::<u8>(), 0..=CHUNK_VALUE_BYTES_MAX), 1..=CHUNK_VALUES_MAX),
            at in 0..70_usize,
            anchor in position(),
        ) {
            let mut bytes = Vec::new();
            values.iter().for_each(|value| Chunk::push(&mut bytes, value));
            let chunk = Chunk::parse(&bytes).expect("own bytes parse");
            prop_assert_eq!(chunk.values_len(), values.len());
            prop_assert!(chunk.iter().eq(values.iter().map(|value| &value[..])));
            let (front, rest) = chunk.split_at(at);
            let front_values = Chunk::parse(front).map_or(0, |chunk| chunk.values_len());
            prop_assert_eq!(front_values, at.min(values.len()));
            prop_assert_eq!([front, rest].concat(), &bytes[..]);
            if let Some(positions) = ListPart::Chunk(anchor).positions(&bytes) {
                prop_assert_eq!(positions.clone().count(), values.len());
                let mut outwards: Vec<i64> = positions.collect();
                if anchor < 0 {
                    outwards.reverse();
                }
                for (index, position) in outwards.into_iter().enumerate() {
                    prop_assert_eq!(chunk_index(anchor, position), index);
                    prop_assert_eq!(position < 0, anchor < 0, "a chunk lies on one side of zero");
                }
            }
        }

        #[test]
        fn any_bytes_are_a_chunk_or_refused(bytes in vec(0..70_u8, 0..40)) {
            if let Some(chunk) = Chunk::parse(&bytes) {
                let mut again = Vec::new();
                chunk.iter().for_each(|value| Chunk::push(&mut again, value));
                prop_assert_eq!(again, bytes);
            }
        }

        #[test]
        fn a_detail_comes_back_and_others_are_refused(
            first in position(), ends in proptest::option::of((end(), end())), other in vec(any::<u8>(), 0..20)
        ) {
            let detail = ListDetail { first, ends: ends.map(|(front, back)| [front, back]) };
            let mut bytes = other.clone();
            detail.encode(&mut bytes);
            prop_assert_eq!(ListDetail::decode(&bytes), Some(detail));
            bytes.push(0);
            prop_assert_eq!(ListDetail::decode(&bytes), None);
            if let Some(detail) = ListDetail::decode(&other) {
                let mut again = Vec::new();
                detail.encode(&mut again);
                prop_assert_eq!(again, other);
            }
        }
    }

    #[test]
    fn a_list_of_short_values_has_fewer_parts_than_values() {
        let mut detail = Vec::new();
        ListDetail { first: 0, ends: Some([EndPart::Unknown, EndPart::Chunk(0)]) }.encode(&mut detail);
        let about = |value_bytes: u64| parts_about(6400, 6400 * (POSITION_BYTES + value_bytes), &detail);
        assert_eq!([0, 3, 15, 63, 65, 1000].map(about), [200, 200, 200, 800, 6400, 6400]);
        assert_eq!(parts_about(6400, 6400 * 11, &detail[..8]), 6400, "none of them is in a chunk");
        assert_eq!(parts_about(0, 0, &detail), 0);
    }

    #[test]
    fn chunks_that_no_command_writes_are_refused() {
        let mut many = Vec::new();
        (0..=CHUNK_VALUES_MAX).for_each(|_| Chunk::push(&mut many, b""));
        let long = [&[65][..], &[b'x'; 65]].concat();
        let longer = [&[0x80, 1][..], &[b'x'; 0x80]].concat();
        for bytes in [&[][..], &[1], &[2, b'a'], &[0x81, 0, b'a'], &[0x80], &many, &long, &longer] {
            assert!(Chunk::parse(bytes).is_none(), "{bytes:?}");
        }
        assert_eq!(ListPart::Chunk(i64::MAX).positions(&[0, 0]), None, "no position is left");
        assert_eq!(ListPart::Chunk(i64::MIN).positions(&[0, 0]), None, "no position is left");
        assert_eq!(ListPart::parse(&[0; 7]), None);
        assert_eq!(ListPart::parse(&[0; 9]), None);
        assert_eq!(ListPart::parse(&[1; 10]), None);
    }
}
