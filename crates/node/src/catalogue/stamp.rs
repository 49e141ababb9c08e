//! The stamp of an edit: which one it is, so that two copies of the catalogue can be compared.

/// Identifies an edit. Two edits with the same stamp are the same edit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Number of the edit since the directory was made, from 1. An edit that failed keeps its number; 0 is "none yet".
    pub epoch: u64,
    /// Drawn anew for each edit. It distinguishes two edits with the same number: one of a directory, and one of a copy
    /// of that directory that went its own way.
    pub nonce: u64,
}
