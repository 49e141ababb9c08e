//! The manifest: the [journal](weir_journal) of what a store has on disk. Bytes in `docs/format/memory.md`.

use weir_io::Owner;
use weir_journal::{Broken, Entry, Journal};
use weir_model::varint;

use crate::snapshot::SnapshotMeta;

/// What a manifest begins with.
pub(crate) const MAGIC: &[u8; 8] = b"WEIRMEMO";

const OWNER: u8 = 1;
const NEXT_FILE: u8 = 2;
const SNAPSHOT: u8 = 3;

/// The manifest being written.
pub(crate) type Manifest = Journal<Edit>;

/// What recovery found.
pub(crate) type Recovered = weir_journal::Recovered<Edit>;

/// All that is on disk from now on: an edit replaces the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// Whose store it is. A copy that is made for another owner does not say: a backup, or a store restored from one.
    pub owner: Option<Owner>,
    /// First file number not yet used.
    pub next_file: u64,
    /// The snapshot in force; `None` before the first.
    pub snapshot: Option<SnapshotMeta>,
}

impl Entry for Edit {
    const MAGIC: &[u8; 8] = MAGIC;
    const PREFIX: &str = "MANIFEST-";

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(Owner { tenant, partition }) = self.owner {
            out.push(OWNER);
            varint::put(&mut out, u64::from(tenant));
            varint::put(&mut out, u64::from(partition));
        }
        out.push(NEXT_FILE);
        varint::put(&mut out, self.next_file);
        if let Some(snapshot) = &self.snapshot {
            out.push(SNAPSHOT);
            snapshot.encode(&mut out);
        }
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, usize> {
        let mut edit = Self::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let offset = bytes.len() - rest.len();
            edit.take_field(&mut rest).ok_or(offset)?;
        }
        Ok(edit)
    }
}

impl Edit {
    fn take_field(&mut self, rest: &mut &[u8]) -> Option<()> {
        let (&tag, behind) = rest.split_first()?;
        *rest = behind;
        let small = |rest: &mut &[u8]| varint::take(rest).and_then(|number| u32::try_from(number).ok());
        match tag {
            OWNER => self.owner = Some(Owner { tenant: small(rest)?, partition: small(rest)? }),
            NEXT_FILE => self.next_file = varint::take(rest)?,
            SNAPSHOT => self.snapshot = Some(SnapshotMeta::decode(rest)?),
            _ => return None,
        }
        Some(())
    }
}

/// The file name of manifest `number`.
pub(crate) fn file_name(number: u64) -> String {
    weir_journal::file_name::<Edit>(number)
}

/// The number in the name of a manifest; `None` for other files.
pub(crate) fn file_number(name: &str) -> Option<u64> {
    weir_journal::file_number::<Edit>(name)
}

/// Decodes the bytes of a manifest into its edits and the offset of a torn tail.
///
/// # Errors
/// Where, and what disagrees.
pub fn decode(bytes: &[u8]) -> Result<(Vec<Edit>, Option<u64>), Broken> {
    weir_journal::decode::<Edit>(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::End;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn decoding_gives_back_what_was_encoded(
            owner: Option<[u32; 2]>, next_file: u64, snapshot: Option<[u64; 6]>, digest: u32,
        ) {
            let owner = owner.map(|[tenant, partition]| Owner { tenant, partition });
            let snapshot = snapshot.map(|[number, file_bytes, rows, bytes, seq, persisted]| {
                SnapshotMeta { number, file_bytes, digest, end: End { rows, bytes, seq, persisted } }
            });
            let edit = Edit { owner, next_file, snapshot };
            prop_assert_eq!(Edit::decode(&edit.encode()), Ok(edit));
        }

        #[test]
        fn arbitrary_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
            if let Ok(edit) = Edit::decode(&bytes) {
                prop_assert_eq!(Edit::decode(&edit.encode()), Ok(edit));
            }
        }
    }
}
