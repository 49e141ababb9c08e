//! The manifest: the [journal](weir_journal) of a tree's edits. Bytes in `docs/format/manifest.md`.

use weir_journal::{Broken, Entry, Journal};

use super::Edit;

/// The manifest being written.
pub type Manifest = Journal<Edit>;

/// What recovery found.
pub type Recovered = weir_journal::Recovered<Edit>;

impl Entry for Edit {
    const MAGIC: &[u8; 8] = b"WEIRMANI";
    const PREFIX: &str = "MANIFEST-";

    fn encode(&self) -> Vec<u8> {
        Edit::encode(self)
    }

    fn decode(bytes: &[u8]) -> Result<Self, usize> {
        Edit::decode(bytes)
    }
}

/// The file name of manifest `number`.
pub fn file_name(number: u64) -> String {
    weir_journal::file_name::<Edit>(number)
}

/// The manifest number in the bytes of a `CURRENT` file.
pub fn decode_current(bytes: &[u8]) -> Option<u64> {
    weir_journal::decode_current::<Edit>(bytes)
}

/// Decodes the bytes of a manifest into its edits and the offset of a torn tail.
pub fn decode(bytes: &[u8]) -> Result<(Vec<Edit>, Option<u64>), Broken> {
    weir_journal::decode::<Edit>(bytes)
}
