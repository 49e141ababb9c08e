//! The chunk of a list that a command has read or written, kept for the commands after it.
//!
//! Commands that run as one group and push to an end of a list, or pop from it, are mostly about the same chunk, one
//! value each. Only the first of them has to look for it, to count its values and to copy it. The others have it in
//! hand, and a push appends to the bytes that the one in front of it has left. What they write is the same as if each
//! had read the chunk.

use weir_model::parts::Life;

/// A chunk of a list, as a read would find it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkInHand {
    /// The list's life.
    pub life: Life,
    /// The position of the chunk's first value.
    pub anchor: i64,
    /// The chunk's values, encoded. These are a copy: the store's memory is not held for the next command.
    pub bytes: Vec<u8>,
    /// How many values there are.
    pub values: usize,
}
