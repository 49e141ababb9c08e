//! The places of the members of a large hash, set or sorted set: members are ordered by a hash of each.
//!
//! So a random place has a random member behind it, and a scan can go on from a number, without any memory of where it
//! was. The hash is seeded by the row's version, so nobody can choose members that crowd at one place.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::fields::{DEADLINE_BYTES, DEADLINE_SPACE, MORTAL_SPACE};
use super::{ELEMENT_SPACE, Life, RowType};
use crate::StoredKey;

/// Bytes of a place, in front of the member.
pub const PLACE_BYTES: usize = 4;

/// Whether the elements of a `kind` are placed.
pub fn is_placed(kind: RowType) -> bool {
    matches!(kind, RowType::Hash | RowType::Set | RowType::SortedSet)
}

/// The place of `member` in the life `version`.
pub fn place_of(version: u64, member: &[u8]) -> u32 {
    (xxh3_64_with_seed(member, version) >> 32) as u32
}

/// The subkey of `member` in the life `version`: its place, followed by the member.
pub fn placed(version: u64, member: &[u8]) -> Vec<u8> {
    let mut subkey = Vec::with_capacity(PLACE_BYTES + member.len());
    subkey.extend_from_slice(&place_of(version, member).to_be_bytes());
    subkey.extend_from_slice(member);
    subkey
}

impl Life {
    /// The bytes in front of `member` in the key of its part in `space`, where members are placed.
    pub fn placed_front(self, space: u8, member: &[u8]) -> [u8; Self::SUBKEY_AT + PLACE_BYTES] {
        let mut front = [0; Self::SUBKEY_AT + PLACE_BYTES];
        front[..Self::SUBKEY_AT].copy_from_slice(&self.front(space));
        front[Self::SUBKEY_AT..].copy_from_slice(&place_of(self.version, member).to_be_bytes());
        front
    }

    /// The key of the part of `member` in `space`, where members are placed.
    pub fn stored_member(self, space: u8, member: &[u8]) -> StoredKey {
        StoredKey::joined([&self.placed_front(space, member), member])
    }
}

/// The subkey `subkey` in `space` of a row of type `kind`, moved to the life `version`: the version decides the places
/// of members.
pub fn moved_subkey(kind: RowType, space: u8, mut subkey: Vec<u8>, version: u64) -> Vec<u8> {
    let at = match (kind, space) {
        (RowType::Hash, MORTAL_SPACE) => 0,
        (RowType::Hash, DEADLINE_SPACE) => DEADLINE_BYTES,
        (_, ELEMENT_SPACE) if is_placed(kind) => 0,
        _ => return subkey,
    };
    let member = at + PLACE_BYTES;
    if let Some(name) = subkey.get(member..) {
        let place = place_of(version, name);
        subkey[at..member].copy_from_slice(&place.to_be_bytes());
    }
    subkey
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_the_same_for_ever_and_differ_by_version() {
        // Places are stored in files, so they must not change.
        assert_eq!(placed(7, b"member"), [&place_of(7, b"member").to_be_bytes()[..], b"member"].concat());
        assert_eq!(Life::new(7).stored_member(3, b"member")[..], Life::new(7).part(3, &placed(7, b"member")));
        let moved = |space, subkey: Vec<u8>| moved_subkey(RowType::Hash, space, subkey, 7);
        for space in [0, MORTAL_SPACE] {
            assert_eq!(moved(space, placed(3, b"member")), placed(7, b"member"));
        }
        let deadline = |version| [&[9; 8][..], &placed(version, b"member")].concat();
        assert_eq!(moved(DEADLINE_SPACE, deadline(3)), deadline(7));
        assert_eq!(moved_subkey(RowType::List, 0, deadline(3), 7), deadline(3));
        assert_eq!((place_of(1, b"member"), place_of(2, b"member")), (500_204_249, 2_588_402_558));
    }
}
