//! How much the machine's functions may gather in memory that the machine's own limit does not see.

use crate::raised::{ended, no_memory};
use crate::shared::Shared;

/// How much work is done between two checks whether the script has to end, in bytes that are copied.
const WORK: usize = 1 << 20;
/// The work for a piece, beside that for its bytes.
const PIECE_WORK: usize = 64;

/// What a collected value counts as: it is in one list and perhaps copied to another one, and lists have spare room.
const VALUE_BYTES: usize = 64;

/// The bytes that one call of a function may still gather: as many as the run may use in the machine.
pub(crate) struct Budget<'s> {
    shared: &'s Shared,
    left: usize,
    /// The work since it was checked whether the script has to end.
    work: usize,
}

impl<'s> Budget<'s> {
    /// The budget of a call in the current run.
    pub(crate) fn of(shared: &'s Shared) -> Self {
        Self { shared, left: shared.memory_bytes(), work: 0 }
    }

    /// Takes `bytes`, which are to be gathered then.
    ///
    /// # Errors
    /// There are not as many left, or the script has to end.
    pub(crate) fn take(&mut self, bytes: usize) -> mlua::Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or_else(no_memory)?;
        self.work += PIECE_WORK + bytes;
        if self.work >= WORK {
            self.work = 0;
            if self.shared.has_to_end() {
                return Err(ended());
            }
        }
        Ok(())
    }

    /// Takes what a value in a list needs.
    ///
    /// # Errors
    /// There is not as much left, or the script has to end.
    pub(crate) fn take_value(&mut self) -> mlua::Result<()> {
        self.take(VALUE_BYTES)
    }
}
