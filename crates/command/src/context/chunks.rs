//! Chunks of lists that one command of a group leaves to the next one.

use weir_model::parts::Life;

use super::{Asked, Context};
use crate::chunk_in_hand::ChunkInHand;

impl Context<'_> {
    /// Takes the chunk at `anchor` of the list of `key`, whose `life` it is, if a command in front of this one has left
    /// it and no part was changed since. It counts and costs a look, as a part that such a command has written.
    pub(crate) fn take_chunk(&mut self, key: &[u8], life: Life, anchor: i64) -> Option<ChunkInHand> {
        let chunk = self.draft.take_chunk(life, anchor)?;
        self.is_in_hand = true;
        self.met_bytes(Asked::Part(key, &[]), Some(chunk.bytes.len()));
        Some(chunk)
    }

    /// Leaves a chunk to the next command, if there may be one. Called behind the change that has written the chunk, or
    /// the read that has found it.
    pub(crate) fn keep_chunk(&mut self, chunk: impl FnOnce() -> ChunkInHand) {
        self.draft.keep_chunk(chunk);
    }
}
