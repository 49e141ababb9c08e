//! The keys of parts, and of the cover in front of them.
//!
//! ```text
//! part  := region | row | 00 01 | version u64 big-endian | space u8 | subkey
//! cover := region | row | 00 01
//! ```
//!
//! `region` is the number of the database with the highest bit set, `row` the user's key with every 00 as 00 FF. So the
//! keys of parts are ordered as (database, row, version, space, subkey) are, a cover comes directly before all parts of
//! its row, and both lie behind all heads.

use crate::{DATABASES, KEY_BYTES_MAX};

/// Set in the first byte of the keys of parts and covers, and of no other.
const REGION: u8 = 0x80;
const ZERO: [u8; 2] = [0, 0xff];
const END: [u8; 2] = [0, 1];
const VERSION_BYTES: usize = 8;

/// The longest key of a part: a row's key of zeros, each of which takes two bytes, and a subkey as long as a key.
pub const PART_KEY_BYTES_MAX: usize = 1 + 2 * KEY_BYTES_MAX + END.len() + VERSION_BYTES + 1 + KEY_BYTES_MAX;

/// Bytes of a cover's value.
pub const COVER_BYTES: usize = VERSION_BYTES;

/// Appends `bytes`, which may be any, so that what follows does not disturb their order.
pub(super) fn escape(out: &mut Vec<u8>, bytes: &[u8]) {
    for piece in bytes.split_inclusive(|&byte| byte == 0) {
        match piece.split_last() {
            Some((0, rest)) => {
                out.extend_from_slice(rest);
                out.extend_from_slice(&ZERO);
            }
            _ => out.extend_from_slice(piece),
        }
    }
    out.extend_from_slice(&END);
}

/// Bytes that [`escape`] has taken for what `bytes` begin with, the end included; `None` if they do not begin so.
pub(super) fn escaped_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += bytes[at..].iter().position(|&byte| byte == 0)?;
        match *bytes.get(at + 1)? {
            1 => return Some(at + END.len()),
            0xff => at += ZERO.len(),
            _ => return None,
        }
    }
}

/// What was escaped; `escaped` is as [`escaped_len`] finds it.
pub(super) fn unescape(escaped: &[u8]) -> Vec<u8> {
    let content = &escaped[..escaped.len() - END.len()];
    let mut bytes = Vec::with_capacity(content.len());
    let mut rest = content.iter();
    while let Some(&byte) = rest.next() {
        bytes.push(byte);
        if byte == 0 {
            // The second byte of a zero.
            rest.next();
        }
    }
    bytes
}

/// Whether `stored` is in the region of parts and covers: no key of a head is.
#[inline]
pub fn is_part(stored: &[u8]) -> bool {
    stored.first().is_some_and(|&first| first & REGION != 0)
}

/// The key of the cover of a row: what the keys of all its parts, in all its lives, begin with. The row's key is as
/// engines know it ([`crate::StoredKey`]): behind the number of its database.
///
/// # Panics
/// If `head` is no such key.
pub fn cover_key(head: &[u8]) -> Vec<u8> {
    let (&database, key) = head.split_first().expect("a stored key has a database");
    assert!(database < DATABASES, "database {database}");
    let mut out = Vec::with_capacity(head.len() + END.len() + VERSION_BYTES + 16);
    out.push(database | REGION);
    escape(&mut out, key);
    out
}

/// The cover's key that the stored key `key`, of a part or a cover, begins with; `None` for any other key.
pub fn prefix_of(key: &[u8]) -> Option<&[u8]> {
    let (&region, rest) = key.split_first()?;
    if region & REGION == 0 || region & !REGION >= DATABASES {
        return None;
    }
    Some(&key[..1 + escaped_len(rest)?])
}

/// The first key behind all parts of the row whose cover has the key `prefix`.
///
/// # Panics
/// If `prefix` is empty.
pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    *end.last_mut().expect("a cover's key") += 1;
    end
}

/// The value of a cover: parts of versions less than `below` are dead.
pub const fn cover_value(below: u64) -> [u8; COVER_BYTES] {
    below.to_be_bytes()
}

/// What the value of a cover says; `None` if it is none.
pub fn below(cover_value: &[u8]) -> Option<u64> {
    cover_value.try_into().ok().map(u64::from_be_bytes)
}

/// One life of a row: where its parts are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life(Vec<u8>);

impl Life {
    /// Of the row that engines know by the key `head`, in the life `version`.
    ///
    /// # Panics
    /// If `head` is no stored key of a row.
    pub fn new(head: &[u8], version: u64) -> Self {
        let mut prefix = cover_key(head);
        prefix.extend_from_slice(&version.to_be_bytes());
        Self(prefix)
    }

    /// The key of a part.
    pub fn part(&self, space: u8, subkey: &[u8]) -> Vec<u8> {
        [&self.0, &[space][..], subkey].concat()
    }

    /// Where `space` is: its parts have keys from the first one on and before the second, ordered by subkey.
    pub fn space(&self, space: u8) -> (Vec<u8>, Vec<u8>) {
        let from = self.part(space, &[]);
        let mut to = from.clone();
        // The cover's key in front does not end so: something is left.
        while to.last() == Some(&u8::MAX) {
            to.pop();
        }
        (from, prefix_end(&to))
    }

    /// What the keys of its parts in `space` begin with takes so many bytes: the subkey is what follows.
    pub fn subkey_at(&self) -> usize {
        self.0.len() + 1
    }
}

/// The key of a part, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// The number of the database.
    pub database: u8,
    /// The row's key, escaped.
    row: &'a [u8],
    /// The life that it belongs to.
    pub version: u64,
    /// The order of its row that it stands in.
    pub space: u8,
    /// Where in that order.
    pub subkey: &'a [u8],
}

impl<'a> Part<'a> {
    /// Takes `key` apart; `None` if it is not the key of a part.
    pub fn parse(key: &'a [u8]) -> Option<Self> {
        let (row, rest) = key.split_at(prefix_of(key)?.len());
        let (version, rest) = rest.split_first_chunk::<VERSION_BYTES>()?;
        let (&space, subkey) = rest.split_first()?;
        let version = u64::from_be_bytes(*version);
        Some(Self { database: row[0] & !REGION, row: &row[1..], version, space, subkey })
    }

    /// The row's key as its users know it.
    pub fn row(&self) -> Vec<u8> {
        unescape(self.row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoredKey;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Bytes of which many are those that escaping is about.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        vec(prop_oneof![Just(0), Just(1), Just(0xff), any::<u8>()], 0..6)
    }

    type Place = (u8, Vec<u8>, u64, u8, Vec<u8>);

    fn place() -> impl Strategy<Value = Place> {
        (0..2_u8, bytes(), 0..3_u64, 0..3_u8, bytes())
    }

    fn key_of((database, row, version, space, subkey): &Place) -> Vec<u8> {
        Life::new(&StoredKey::new(*database, row), *version).part(*space, subkey)
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
            prop_assert_eq!((part.database, part.row(), part.version, part.space, part.subkey.to_vec()), place);
        }

        #[test]
        fn a_cover_comes_before_all_parts_of_its_row_and_no_others(place in place(), other in place()) {
            let key = key_of(&place);
            let cover = cover_key(&StoredKey::new(place.0, &place.1));
            prop_assert_eq!(prefix_of(&key), Some(&cover[..]));
            prop_assert_eq!(prefix_of(&cover), Some(&cover[..]));
            let end = prefix_end(&cover);
            prop_assert!(cover < key && key < end);
            let key = key_of(&other);
            prop_assert_eq!(cover < key && key < end, (place.0, &place.1) == (other.0, &other.1));
            prop_assert!(is_part(&cover) && is_part(&key) && StoredKey::new(other.0, &other.1)[..] < cover[..]);
        }

        #[test]
        fn a_space_is_a_range(place in place(), space: u8, subkey in bytes()) {
            let life = Life::new(&StoredKey::new(place.0, &place.1), place.2);
            let key = life.part(place.3, &place.4);
            prop_assert_eq!(&key[life.subkey_at()..], &place.4[..]);
            let (from, to) = life.space(space);
            prop_assert_eq!(from <= key && key < to, place.3 == space);
            let inside = life.part(space, &subkey);
            prop_assert!(from <= inside && inside < to);
        }

        #[test]
        fn any_bytes_parse_or_are_refused(bytes in bytes()) {
            let key = [&[REGION][..], &bytes].concat();
            for key in [&key, &bytes] {
                if let Some(part) = Part::parse(key) {
                    let head = StoredKey::new(part.database, &part.row());
                    prop_assert_eq!(&Life::new(&head, part.version).part(part.space, part.subkey), key);
                }
                if let Some(prefix) = prefix_of(key) {
                    prop_assert!(key.starts_with(prefix));
                }
            }
        }
    }

    #[test]
    fn a_key_of_zeros_is_the_longest() {
        let head = StoredKey::new(15, &[0; KEY_BYTES_MAX]);
        assert_eq!(Life::new(&head, 1).part(0, &[7; KEY_BYTES_MAX]).len(), PART_KEY_BYTES_MAX);
    }

    #[test]
    fn a_cover_says_below_which_version_parts_are_dead() {
        assert_eq!(below(&cover_value(0x0102)), Some(0x0102));
        assert_eq!((below(b""), below(&[0; 9])), (None, None));
    }
}
