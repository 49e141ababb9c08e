//! The head of a row of many parts: the content at the row's own key.
//!
//! ```text
//! head := format u8 = 1 | type u8 | version varint | count varint | bytes varint
//!       | detail_len varint | detail | form u8 | packed
//! form := 0 the parts have keys of their own, and nothing follows | 1 they stand here
//! ```

use super::fields::{HashDetail, MortalFields};
use super::{Life, Packed, list};
use crate::varint;

/// The only format that is written or read.
const FORMAT: u8 = 1;

/// The parts have keys of their own.
const SPREAD: u8 = 0;
/// The parts stand in the head.
const PACKED: u8 = 1;

/// The largest version: a sequence number ([`crate::engine::SEQ_MAX`]).
pub const VERSION_MAX: u64 = crate::engine::SEQ_MAX;

/// About how many bytes a head has without its detail and its packed parts; it depends on the size of its numbers.
const BYTES: usize = 16;

/// Room for everything but the detail and the packed parts.
const NUMBERS_BYTES_MAX: usize = 3 + 4 * varint::BYTES_MAX;

/// Most bytes of [`Head::detail`].
pub const DETAIL_BYTES_MAX: usize = 256;

/// The type of a row of many parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum RowType {
    /// Fields with values.
    Hash = 1,
    /// Values in the order in which they were put in.
    List = 2,
    /// Members.
    Set = 3,
    /// Members, ordered by their scores.
    SortedSet = 4,
    /// Entries with times.
    Stream = 5,
}

impl RowType {
    /// All of them.
    pub const ALL: [RowType; 5] = [Self::Hash, Self::List, Self::Set, Self::SortedSet, Self::Stream];

    /// The name that `TYPE` gives it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "zset",
            Self::Stream => "stream",
        }
    }

    fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u8 == number)
    }
}

/// The head of a row of many parts. It describes one life of the row, except for its parts and its expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The type of the row.
    pub kind: RowType,
    /// The version of this life. The partition gives it to no other life of any row. From 1 to [`VERSION_MAX`].
    pub version: u64,
    /// The number of parts, as users count them.
    pub count: u64,
    /// Bytes of subkeys and values, as the row's type counts them.
    pub bytes: u64,
    /// Other data of the row's type, at most [`DETAIL_BYTES_MAX`] bytes: where a list begins, a stream's last entry.
    pub detail: Vec<u8>,
    /// All parts of a row that is so small that they stand in its head; `None` where they have keys of their own.
    pub packed: Option<Packed>,
}

/// A head, borrowed from its encoded bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadRef<'a> {
    /// As in a [`Head`].
    pub kind: RowType,
    /// As in a [`Head`].
    pub version: u64,
    /// As in a [`Head`].
    pub count: u64,
    /// As in a [`Head`].
    pub bytes: u64,
    /// As in a [`Head`].
    pub detail: &'a [u8],
    /// The bytes of [`Head::packed`].
    pub packed: Option<&'a [u8]>,
}

impl<'a> HeadRef<'a> {
    /// Decodes `bytes`; `None` if they are not exactly what [`Head::encode`] makes of some head. Packed parts are not
    /// checked: [`Packed::is_sound`] does that.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (&[format, kind], mut rest) = bytes.split_first_chunk()?;
        let kind = RowType::of(kind).filter(|_| format == FORMAT)?;
        let (version, count, bytes_of_parts) =
            (varint::take_shortest(&mut rest)?, varint::take_shortest(&mut rest)?, varint::take_shortest(&mut rest)?);
        let detail_len = usize::try_from(varint::take_shortest(&mut rest)?).ok()?;
        let (detail, rest) = rest.split_at_checked(detail_len)?;
        let packed = match rest.split_first()? {
            (&SPREAD, []) => None,
            (&PACKED, packed) => Some(packed),
            _ => return None,
        };
        let is_whole = is_version(version) && detail_len <= DETAIL_BYTES_MAX && is_detail(kind, detail);
        is_whole.then_some(Self { kind, version, count, bytes: bytes_of_parts, detail, packed })
    }

    /// For a hash: its fields that expire before the row does, if it has any.
    #[inline]
    pub fn mortal(&self) -> Option<MortalFields> {
        mortal_of(self.kind, self.detail)
    }

    /// As [`Head::stored_bytes`].
    #[inline]
    pub fn stored_bytes(&self) -> usize {
        stored_bytes(self.detail, self.packed)
    }

    /// About how many parts with keys of their own the row has, if it is not packed.
    pub fn parts_about(&self) -> u64 {
        match self.kind {
            RowType::List => list::parts_about(self.count, self.bytes, self.detail),
            // Each member is stored by its name and by its score.
            RowType::SortedSet => self.count.saturating_mul(2),
            _ => self.count,
        }
    }

    /// About how many bytes the keys and values of these parts have.
    pub fn parts_bytes_about(&self) -> u64 {
        let parts = self.parts_about();
        // Bytes count each value of a list with its position. In a chunk it has its length instead.
        let in_chunks = if parts < self.count { self.count.saturating_mul(list::POSITION_BYTES - 1) } else { 0 };
        // They count each member of a sorted set with its score once, and both parts have both.
        let times = if self.kind == RowType::SortedSet { 2 } else { 1 };
        let bytes = self.bytes.saturating_sub(in_chunks).saturating_mul(times);
        bytes.saturating_add(parts.saturating_mul(Life::SUBKEY_AT as u64))
    }

    /// Copies it to an owned head.
    pub fn to_head(self) -> Head {
        let Self { kind, version, count, bytes, detail, packed } = self;
        Head { kind, version, count, bytes, detail: detail.into(), packed: packed.map(Packed::of) }
    }
}

impl Head {
    /// About how many bytes the head takes where it is stored.
    #[inline]
    pub fn stored_bytes(&self) -> usize {
        stored_bytes(&self.detail, self.packed.as_ref().map(Packed::as_bytes))
    }

    /// About how many bytes the row has in all: the head, and the parts with keys of their own.
    pub fn bytes_with_parts(&self) -> u64 {
        let &Self { kind, version, count, bytes, .. } = self;
        let packed = self.packed.as_ref().map(Packed::as_bytes);
        let head = HeadRef { kind, version, count, bytes, detail: &self.detail, packed };
        let parts = if packed.is_none() { head.parts_bytes_about() } else { 0 };
        parts.saturating_add(head.stored_bytes() as u64)
    }

    /// For a hash, a set or a sorted set: whether Redis would not keep it as a small one.
    pub fn is_large(&self) -> bool {
        self.detail.first() == Some(&1)
    }

    /// A row in its life `version`, still without parts; they will have keys of their own.
    pub fn new(kind: RowType, version: u64) -> Self {
        Self { kind, version, count: 0, bytes: 0, detail: Vec::new(), packed: None }
    }

    /// For a hash: its fields that expire before the row does, if it has any.
    #[inline]
    pub fn mortal(&self) -> Option<MortalFields> {
        mortal_of(self.kind, &self.detail)
    }

    /// The bytes of a head whose row expires at `row_ms` (`None` = never), and the deadline to be written with them:
    /// where every field expires, the row goes with the last field.
    ///
    /// # Panics
    /// As [`Head::encode`].
    pub fn encode_until(&self, row_ms: Option<u64>) -> (Vec<u8>, Option<u64>) {
        let Some(mortal) = self.mortal() else { return (self.encode(), row_ms) };
        let is_large = self.is_large();
        let detail = HashDetail { is_large, mortal: Some(mortal), row_ms }.encode();
        (Head { detail, ..self.clone() }.encode(), self.end_ms(row_ms))
    }

    /// When a row is gone that has this head and expires by itself at `row_ms`: at the latest with its last field.
    pub fn end_ms(&self, row_ms: Option<u64>) -> Option<u64> {
        let last_ms = self.mortal().filter(|mortal| mortal.count >= self.count).map(|mortal| mortal.last_ms);
        row_ms.into_iter().chain(last_ms).min()
    }

    /// When the row expires by itself, if `stored_ms` was written with this head: see [`Head::encode_until`].
    pub fn row_ms(&self, stored_ms: Option<u64>) -> Option<u64> {
        match self.mortal() {
            None => stored_ms,
            Some(_) => HashDetail::decode(&self.detail).and_then(|detail| detail.row_ms),
        }
    }

    /// Encodes the head.
    ///
    /// # Panics
    /// If the version is out of its bounds, or the detail too long.
    pub fn encode(&self) -> Vec<u8> {
        assert!(is_version(self.version) && self.detail.len() <= DETAIL_BYTES_MAX, "{self:?}");
        let packed_len = self.packed.as_ref().map_or(0, |packed| packed.as_bytes().len());
        let mut out = Vec::with_capacity(NUMBERS_BYTES_MAX + self.detail.len() + packed_len);
        out.extend_from_slice(&[FORMAT, self.kind as u8]);
        for number in [self.version, self.count, self.bytes, self.detail.len() as u64] {
            varint::put(&mut out, number);
        }
        out.extend_from_slice(&self.detail);
        match &self.packed {
            None => out.push(SPREAD),
            Some(packed) => {
                out.push(PACKED);
                out.extend_from_slice(packed.as_bytes());
            }
        }
        out
    }

    /// Decodes `bytes`; `None` as in [`HeadRef::parse`].
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        HeadRef::parse(bytes).map(HeadRef::to_head)
    }
}

#[inline]
fn stored_bytes(detail: &[u8], packed: Option<&[u8]>) -> usize {
    BYTES + detail.len() + packed.map_or(0, <[u8]>::len)
}

fn mortal_of(kind: RowType, detail: &[u8]) -> Option<MortalFields> {
    // Most hashes have no such fields; then the detail has one byte at most.
    if kind != RowType::Hash || detail.len() < 2 {
        return None;
    }
    HashDetail::decode(detail)?.mortal
}

fn is_detail(kind: RowType, detail: &[u8]) -> bool {
    kind != RowType::Hash || HashDetail::decode(detail).is_some()
}

fn is_version(number: u64) -> bool {
    (1..=VERSION_MAX).contains(&number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head() -> impl Strategy<Value = Head> {
        let kind = proptest::sample::select(RowType::ALL.to_vec());
        let detail = proptest::collection::vec(any::<u8>(), 0..DETAIL_BYTES_MAX);
        let mortal = (any::<bool>(), 1..9_u64, 1..99_u64, 0..3_u64).prop_map(|(is_large, count, first_ms, more)| {
            let mortal = Some(MortalFields { count, first_ms, last_ms: first_ms + more });
            HashDetail { is_large, mortal, row_ms: Some(more).filter(|&at| at > 0) }.encode()
        });
        let packed = proptest::option::of(any::<Vec<u8>>().prop_map(|bytes| Packed::of(&bytes)));
        (kind, 1..=VERSION_MAX, any::<u64>(), any::<u64>(), detail, mortal, packed).prop_map(
            |(kind, version, count, bytes, detail, mortal, packed)| {
                let detail = if kind == RowType::Hash { mortal } else { detail };
                Head { kind, version, count, bytes, detail, packed }
            },
        )
    }

    proptest! {
        #[test]
        fn a_head_comes_back_and_no_part_of_it_does(head in head(), cut: proptest::sample::Index) {
            let bytes = head.encode();
            prop_assert_eq!(Head::decode(&bytes), Some(head.clone()));
            let spread = Head { packed: None, ..head }.encode();
            prop_assert_eq!(Head::decode(&spread[..cut.index(spread.len())]), None);
            prop_assert_eq!(Head::decode(&[&spread[..], &[0]].concat()), None);
        }

        #[test]
        fn any_bytes_decode_to_what_encodes_to_them_or_are_refused(bytes: Vec<u8>, kind in 0..7_u8) {
            for bytes in [bytes.clone(), [&[FORMAT, kind], &bytes[..], &[0, 1]].concat()] {
                if let Some(head) = Head::decode(&bytes) {
                    prop_assert_eq!(head.encode(), bytes);
                }
            }
        }
    }

    #[test]
    fn a_hash_is_gone_with_its_last_field_and_knows_its_own_deadline() {
        let detail = |row_ms| {
            let mortal = Some(MortalFields { count: 2, first_ms: 50, last_ms: 70 });
            HashDetail { is_large: false, mortal, row_ms }.encode()
        };
        let head = |count| Head { count, detail: detail(Some(1)), ..Head::new(RowType::Hash, 7) };
        for (count, row_ms, expected) in [
            (3, None, None),
            (3, Some(60), Some(60)),
            (2, None, Some(70)),
            (2, Some(60), Some(60)),
            (2, Some(80), Some(70)),
        ] {
            let (bytes, end_ms) = head(count).encode_until(row_ms);
            let again = Head::decode(&bytes).expect("own bytes decode");
            assert_eq!((end_ms, again.row_ms(end_ms)), (expected, row_ms), "{count} fields");
            assert_eq!(again.detail, detail(row_ms));
        }
        let plain = Head::new(RowType::Hash, 7);
        assert_eq!(plain.encode_until(Some(5)), (plain.encode(), Some(5)));
        assert_eq!(plain.row_ms(Some(5)), Some(5));
    }

    #[test]
    fn a_row_has_the_bytes_of_its_head_and_of_parts_with_keys_of_their_own() {
        let spread = Head { count: 3, bytes: 900, ..Head::new(RowType::Hash, 7) };
        assert_eq!(spread.bytes_with_parts(), (BYTES + 900 + 3 * Life::SUBKEY_AT) as u64);
        let packed = Head { packed: Some(Packed::of(&[0; 50])), ..spread };
        assert_eq!(packed.bytes_with_parts(), (BYTES + 50) as u64, "the head has its parts");
        let scored = Head { count: 3, bytes: 900, ..Head::new(RowType::SortedSet, 7) };
        let told = scored.bytes_with_parts();
        assert_eq!(told, (BYTES + 2 * (900 + 3 * Life::SUBKEY_AT)) as u64, "each member has two parts");
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let bytes = Head::new(RowType::Set, 7).encode();
        assert_eq!(bytes, [1, 3, 7, 0, 0, 0, 0]);
        for (at, byte) in [(0, 0), (0, 2), (1, 0), (1, 6), (2, 0), (6, 2)] {
            let mut other = bytes.clone();
            other[at] = byte;
            assert_eq!(Head::decode(&other), None, "byte {at} is {byte}");
        }
        assert_eq!(Head::decode(&[1, 3, 0x87, 0, 0, 0, 0, 0]), None, "a longer form of the same");
        let beyond = [1, 3, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 0, 0, 0, 0];
        assert_eq!(Head::decode(&beyond), None, "2^56");
    }
}
