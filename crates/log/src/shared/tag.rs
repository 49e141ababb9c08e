//! The tag in front of every record of a shared log: whose record it is. Bytes in `docs/format/shared-log.md`.

use weir_model::LogIndex;

/// A member of a shared log: the number of its partition, which no other partition of the node ever gets.
pub type MemberId = u32;

/// Bytes of a tag, at the front of a data record's payload.
pub const TAG_BYTES: usize = 16;

const VERSION: u8 = 1;

/// Whose record it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordTag {
    /// The member that appended it.
    pub member: MemberId,
    /// Its index among the records of that member; the first is 1.
    pub index: LogIndex,
}

impl RecordTag {
    /// The bytes.
    pub fn encode(&self) -> [u8; TAG_BYTES] {
        let mut bytes = [0; TAG_BYTES];
        bytes[0] = VERSION;
        bytes[4..8].copy_from_slice(&self.member.to_le_bytes());
        bytes[8..].copy_from_slice(&self.index.to_le_bytes());
        bytes
    }

    /// Splits a data record's payload, which may be any bytes, into its tag and what the member appended.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(payload: &[u8]) -> Result<(Self, &[u8]), &'static str> {
        let (tag, appended) = payload.split_first_chunk::<TAG_BYTES>().ok_or("a record without a whole tag")?;
        let [version, zeros @ .., m0, m1, m2, m3, i0, i1, i2, i3, i4, i5, i6, i7] = *tag;
        if version != VERSION {
            return Err("a record's tag of a format version that this program does not know");
        }
        let index = LogIndex::from_le_bytes([i0, i1, i2, i3, i4, i5, i6, i7]);
        if zeros != [0; 3] || index == 0 {
            return Err("a record's tag that no member writes");
        }
        Ok((Self { member: MemberId::from_le_bytes([m0, m1, m2, m3]), index }, appended))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_tag_decodes_to_itself_and_leaves_the_rest(member: u32, index in 1_u64.., rest: Vec<u8>) {
            let tag = RecordTag { member, index };
            let payload = [&tag.encode()[..], &rest].concat();
            prop_assert_eq!(RecordTag::decode(&payload), Ok((tag, &rest[..])));
        }

        #[test]
        fn what_decodes_is_what_a_member_would_write(payload: Vec<u8>) {
            if let Ok((tag, rest)) = RecordTag::decode(&payload) {
                prop_assert_eq!([&tag.encode()[..], rest].concat(), payload);
            }
        }
    }

    #[test]
    fn other_versions_and_strange_bytes_are_refused() {
        let good = RecordTag { member: 7, index: 1 }.encode();
        assert!(RecordTag::decode(&good).is_ok());
        assert!(RecordTag::decode(&good[..15]).is_err());
        for (at, byte) in [(0, 0), (0, 2), (1, 1), (3, 9), (8, 0)] {
            let mut bytes = good;
            bytes[at] = byte;
            assert!(RecordTag::decode(&bytes).is_err(), "byte {at} is {byte}");
        }
    }
}
