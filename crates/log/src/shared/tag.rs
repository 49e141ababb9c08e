//! The tag in front of every record of a shared log: it says whose record it is. Its bytes are in
//! `docs/format/shared-log.md`.

use weir_model::LogIndex;

use crate::record::{self, HEADER_BYTES, INDEX_MAX};

/// A member of a shared log: the number of its partition. The node never gives out a number twice, unless an older
/// catalogue is restored. So the identity is needed, too, to tell whose records they are.
pub type MemberId = u32;

/// Bytes of a tag, at the front of a data record's payload.
pub const TAG_BYTES: usize = 24;
/// Bytes of a tag of version 1, which has no identity.
const TAG_BYTES_1: usize = 16;

const VERSION: u8 = 2;

/// The tag of a record: it says whose record it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordTag {
    /// The member that appended it.
    pub member: MemberId,
    /// The identity of the partition, drawn when that was made, as its anchor has it. `None` in a tag of version 1.
    pub identity: Option<u64>,
    /// The record's index among the records of that member; the first is 1.
    pub index: LogIndex,
}

impl RecordTag {
    /// The bytes of the tag that a member with that `identity` writes.
    pub fn encode(member: MemberId, identity: u64, index: LogIndex) -> [u8; TAG_BYTES] {
        let mut bytes = [0; TAG_BYTES];
        bytes[0] = VERSION;
        bytes[4..8].copy_from_slice(&member.to_le_bytes());
        bytes[8..16].copy_from_slice(&index.to_le_bytes());
        bytes[16..].copy_from_slice(&identity.to_le_bytes());
        bytes
    }

    /// Splits a data record's payload, which may be any bytes, into its tag and the payload that the member appended.
    ///
    /// # Errors
    /// What is wrong with the payload.
    pub fn decode(payload: &[u8]) -> Result<(Self, &[u8]), &'static str> {
        let (tag, rest) = payload.split_first_chunk::<TAG_BYTES_1>().ok_or("the record is too short for its tag")?;
        let [version, zeros @ .., m0, m1, m2, m3, i0, i1, i2, i3, i4, i5, i6, i7] = *tag;
        let (identity, appended) = match version {
            1 => (None, rest),
            VERSION => {
                let (identity, appended) =
                    rest.split_first_chunk::<8>().ok_or("the record is too short for its tag")?;
                (Some(u64::from_le_bytes(*identity)), appended)
            }
            _ => return Err("the record's tag has a format version that this program does not know"),
        };
        let index = LogIndex::from_le_bytes([i0, i1, i2, i3, i4, i5, i6, i7]);
        if zeros != [0; 3] || !(1..=INDEX_MAX).contains(&index) {
            return Err("the record's tag is malformed");
        }
        Ok((Self { member: MemberId::from_le_bytes([m0, m1, m2, m3]), identity, index }, appended))
    }
}

/// The members whose records a write to a shared log contains, in the order of the records, each with the bytes that
/// the record takes. Marks, links and padding belong to no member. `buf` may be any bytes; checksums are not checked.
pub fn bytes_by_member(buf: &[u8]) -> impl Iterator<Item = (MemberId, u64)> {
    let mut rest = buf;
    std::iter::from_fn(move || {
        loop {
            let length = record::needed(rest)?;
            let (this, behind) = rest.split_at_checked(length)?;
            rest = behind;
            // Only the tags of data records are decoded. Marks and links are skipped by the lengths in their headers.
            if record::is_data(this)
                && let Ok((tag, _)) = RecordTag::decode(&this[HEADER_BYTES..])
            {
                return Some((tag.member, length as u64));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_io::AlignedBuf;

    use super::*;
    use crate::record::{Kind, Link, Mark};

    proptest! {
        #[test]
        fn a_tag_decodes_to_itself_and_leaves_the_rest(member: u32, identity: u64, index in 1..=INDEX_MAX, rest: Vec<u8>) {
            let payload = [&RecordTag::encode(member, identity, index)[..], &rest].concat();
            let tag = RecordTag { member, identity: Some(identity), index };
            prop_assert_eq!(RecordTag::decode(&payload), Ok((tag, &rest[..])));
        }

        #[test]
        fn what_decodes_is_what_a_member_would_write(payload: Vec<u8>) {
            match RecordTag::decode(&payload) {
                Ok((RecordTag { member, identity: Some(identity), index }, rest)) => {
                    prop_assert_eq!([&RecordTag::encode(member, identity, index)[..], rest].concat(), payload);
                }
                Ok((RecordTag { identity: None, .. }, rest)) => {
                    prop_assert_eq!((payload[0], payload.len() - rest.len()), (1, TAG_BYTES_1));
                }
                Err(_) => {}
            }
        }

        #[test]
        fn any_bytes_are_looked_through_for_members(bytes: Vec<u8>) {
            let sum: u64 = bytes_by_member(&bytes).map(|(_, bytes)| bytes).sum();
            prop_assert!(sum <= bytes.len() as u64);
        }
    }

    #[test]
    fn a_tag_of_version_1_has_no_identity() {
        let bytes = [1, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, b'x'];
        let tag = RecordTag { member: 7, identity: None, index: 9 };
        assert_eq!(RecordTag::decode(&bytes), Ok((tag, &b"x"[..])));
    }

    #[test]
    fn other_versions_and_strange_bytes_are_refused() {
        let good = RecordTag::encode(7, 0x0807_0605_0403_0201, 1);
        assert!(RecordTag::decode(&good).is_ok());
        assert!(RecordTag::decode(&good[..23]).is_err());
        for (at, byte) in [(0, 0), (0, 3), (1, 1), (3, 9), (8, 0), (15, 1)] {
            let mut bytes = good;
            bytes[at] = byte;
            assert!(RecordTag::decode(&bytes).is_err(), "byte {at} is {byte}");
        }
    }

    #[test]
    fn a_write_is_told_apart_by_members_and_the_rest_is_nobodys() {
        let mut buf = AlignedBuf::new();
        record::push_link(&mut buf, 1, Link { previous: 1, end: 4096 });
        for (place, member) in (1..).zip([3, 5, 3]) {
            record::push_tagged(&mut buf, Kind::Data, place, &RecordTag::encode(member, 0, place), &[7; 60]);
        }
        record::push_mark(&mut buf, Kind::Mark, 4, Mark { durable: 1, term: 0 });
        buf.pad_to_page();
        let found: Vec<(MemberId, u64)> = bytes_by_member(&buf).collect();
        assert_eq!(found, [(3, 100), (5, 100), (3, 100)]);
    }
}
