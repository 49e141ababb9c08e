//! The keys of parts, and of the cover in front of them.
//!
//! ```text
//! part  := 80 | version u64 big-endian | space u8 | subkey
//! cover := 80 | version u64 big-endian
//! ```
//!
//! A version is given out once in a partition. It says which row the parts belong to; the row's key is not in the keys
//! of the parts. So a row can be renamed, or moved to another database, by moving its head. The keys of parts are
//! ordered by (version, space, subkey). A cover comes directly before all parts of its life, and both lie behind all
//! heads.

use crate::{KEY_BYTES_MAX, StoredKey, varint};

/// The first byte of the keys of parts and covers. No other stored key has the highest bit of its first byte set.
const REGION: u8 = 0x80;
const VERSION_BYTES: usize = 8;

/// The value of a cover whose parts have about `bytes` bytes of keys and values.
pub fn cover_value(bytes: u64) -> Vec<u8> {
    let mut value = Vec::new();
    varint::put(&mut value, bytes);
    value
}

/// The bytes that [`cover_value`] encoded; `None` for any other value.
pub fn covered_bytes(mut value: &[u8]) -> Option<u64> {
    varint::take_shortest(&mut value).filter(|_| value.is_empty())
}

/// The number of spaces that rows can use: a packed part has room for this many.
pub const SPACES: u8 = 32;

/// The space of a row's elements: values of a list, members of a set or a sorted set, entries of a stream, fields of a
/// hash. Of a spread hash, it has those that do not expire.
pub const ELEMENT_SPACE: u8 = 0;

/// Bytes of a cover's key.
pub const COVER_KEY_BYTES: usize = 1 + VERSION_BYTES;

/// The longest key of a part: its subkey may be as long as a key, and its place in the order takes a few bytes more.
pub const PART_KEY_BYTES_MAX: usize = COVER_KEY_BYTES + 1 + SUBKEY_BYTES_MAX;

/// The longest subkey: a member as long as a key, behind the bytes that order it.
pub const SUBKEY_BYTES_MAX: usize = KEY_BYTES_MAX + 16;

/// Whether `stored` is in the region of parts and covers. No key of a head is.
#[inline]
pub fn is_part(stored: &[u8]) -> bool {
    stored.first().is_some_and(|&first| first & REGION != 0)
}

/// The key of the cover of the life `version`. The keys of all its parts begin with it.
pub fn cover_key(version: u64) -> [u8; COVER_KEY_BYTES] {
    let mut key = [REGION; COVER_KEY_BYTES];
    key[1..].copy_from_slice(&version.to_be_bytes());
    key
}

/// The life that the stored key `key` belongs to, if it is of a part or a cover; `None` for any other key.
#[inline]
pub fn version_of(key: &[u8]) -> Option<u64> {
    let (&REGION, rest) = key.split_first()? else { return None };
    rest.first_chunk().map(|version| u64::from_be_bytes(*version))
}

/// The first key behind all parts of the life `version`.
pub fn cover_end(version: u64) -> [u8; COVER_KEY_BYTES] {
    // A version takes 56 bits, so there is always a next one.
    cover_key(version + 1)
}

/// One life of a row, which determines the keys of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// The version of the row's head.
    pub version: u64,
}

impl Life {
    /// The life `version`.
    pub fn new(version: u64) -> Self {
        Self { version }
    }

    /// The key of a part.
    pub fn part(self, space: u8, subkey: &[u8]) -> Vec<u8> {
        [&self.front(space)[..], subkey].concat()
    }

    /// The same, as a stored key for reads.
    pub fn stored_part(self, space: u8, subkey: &[u8]) -> StoredKey {
        StoredKey::joined([&self.front(space), subkey])
    }

    /// The bytes in front of the subkey in the keys of all parts in `space`.
    pub fn front(self, space: u8) -> [u8; Self::SUBKEY_AT] {
        let mut front = [space; Self::SUBKEY_AT];
        front[..COVER_KEY_BYTES].copy_from_slice(&cover_key(self.version));
        front
    }

    /// The key range of `space`: its parts have keys from the first one on and before the second, ordered by subkey.
    pub fn space(self, space: u8) -> (Vec<u8>, Vec<u8>) {
        let to = match space.checked_add(1) {
            Some(next) => self.part(next, &[]),
            None => cover_end(self.version).to_vec(),
        };
        (self.part(space, &[]), to)
    }

    /// How many bytes stand in front of the subkey in the key of a part.
    pub const SUBKEY_AT: usize = COVER_KEY_BYTES + 1;
}

/// The key of a part, split into its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// The life that the part belongs to.
    pub version: u64,
    /// The order of the row that the part stands in.
    pub space: u8,
    /// The place in that order.
    pub subkey: &'a [u8],
}

impl<'a> Part<'a> {
    /// Splits `key`; `None` if it is not the key of a part.
    pub fn parse(key: &'a [u8]) -> Option<Self> {
        let version = version_of(key)?;
        let (&space, subkey) = key[COVER_KEY_BYTES..].split_first()?;
        Some(Self { version, space, subkey })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoredKey;
    use crate::parts::VERSION_MAX;
    use proptest::collection::vec;
    use proptest::prelude::*;

    type PartAddress = (u64, u8, Vec<u8>);

    fn place() -> impl Strategy<Value = PartAddress> {
        let version = prop_oneof![0..3_u64, 254..258_u64, VERSION_MAX - 1..=VERSION_MAX];
        let space = prop_oneof![0..3_u8, 254..=255_u8];
        (version, space, vec(prop_oneof![Just(0), Just(0xff), any::<u8>()], 0..6))
    }

    fn key_of((version, space, subkey): &PartAddress) -> Vec<u8> {
        Life::new(*version).part(*space, subkey)
    }

    proptest! {
        #[test]
        fn parts_are_ordered_as_what_their_keys_are_made_of(a in place(), b in place()) {
            prop_assert_eq!(key_of(&a).cmp(&key_of(&b)), a.cmp(&b));
        }

        #[test]
        fn a_key_gives_back_what_it_was_made_of(place in place()) {
            let key = key_of(&place);
            let part = Part::parse(&key).expect("own keys parse");
            prop_assert_eq!((part.version, part.space, part.subkey.to_vec()), place.clone());
            prop_assert_eq!(version_of(&key), Some(place.0));
            prop_assert_eq!(&Life::new(place.0).stored_part(place.1, &place.2)[..], &key[..]);
        }

        #[test]
        fn a_cover_comes_before_all_parts_of_its_life_and_no_others(
            place in place(), other in place(), row: Vec<u8>, database in 0..crate::DATABASES
        ) {
            let key = key_of(&place);
            let (cover, end) = (cover_key(place.0), cover_end(place.0));
            prop_assert_eq!(version_of(&cover), Some(place.0));
            prop_assert!(key.starts_with(&cover) && cover[..] < key[..] && key[..] < end[..]);
            let key = key_of(&other);
            prop_assert_eq!(cover[..] < key[..] && key[..] < end[..], place.0 == other.0);
            prop_assert!(is_part(&cover) && is_part(&key) && StoredKey::new(database, &row)[..] < cover[..]);
        }

        #[test]
        fn a_space_is_a_range(place in place(), space: u8, subkey: Vec<u8>) {
            let key = key_of(&place);
            prop_assert_eq!(&key[Life::SUBKEY_AT..], &place.2[..]);
            let (from, to) = Life::new(place.0).space(space);
            prop_assert_eq!(from <= key && key < to, place.1 == space);
            let inside = Life::new(place.0).part(space, &subkey);
            prop_assert!(from <= inside && inside < to);
        }

        #[test]
        fn any_bytes_parse_or_are_refused(bytes: Vec<u8>) {
            let key = [&[REGION][..], &bytes].concat();
            for key in [&key, &bytes] {
                if let Some(part) = Part::parse(key) {
                    prop_assert_eq!(&Life::new(part.version).part(part.space, part.subkey), key);
                }
            }
        }
    }
}
