//! How long the machine's functions may work at a time, and how much they may gather in memory that the machine's own
//! limit does not see.

use crate::raised::{ended, no_memory};
use crate::shared::Shared;

/// How much work is done between two checks whether the script has to end, in bytes that are copied. It is little,
/// because a piece may take longer than its copy: a script may choose texts that Lua's table of all texts finds slowly.
const WORK: usize = 64 << 10;
/// The work for a piece, beside that for its bytes.
const PIECE_WORK: usize = 64;

/// The work for a table, beside that for its elements: several of its fields are looked up.
pub(crate) const TABLE_WORK: usize = 1 << 10;

/// What a collected value counts as: it is in one list and perhaps copied to another one, and lists have spare room.
const VALUE_BYTES: usize = 64;

/// The work of one call of a function, which no instruction of the script interrupts.
pub(crate) struct Work<'s> {
    shared: &'s Shared,
    /// The work since it was checked whether the script has to end.
    done: usize,
}

impl<'s> Work<'s> {
    /// The work of a call in the current run.
    pub(crate) fn of(shared: &'s Shared) -> Self {
        Self { shared, done: 0 }
    }

    /// Adds the work for a piece of `bytes`.
    ///
    /// # Errors
    /// The script has to end.
    pub(crate) fn add(&mut self, bytes: usize) -> mlua::Result<()> {
        self.done = self.done.saturating_add(PIECE_WORK + bytes);
        if self.done >= WORK {
            self.done = 0;
            if self.shared.has_to_end() {
                return Err(ended());
            }
        }
        Ok(())
    }
}

/// The bytes that one call of a function may still gather: as many as the run may use in the machine.
pub(crate) struct Budget<'s> {
    left: usize,
    work: Work<'s>,
}

impl<'s> Budget<'s> {
    /// The budget of a call in the current run.
    pub(crate) fn of(shared: &'s Shared) -> Self {
        Self { left: shared.memory_bytes(), work: Work::of(shared) }
    }

    /// Takes `bytes`, which are to be gathered then.
    ///
    /// # Errors
    /// There are not as many left, or the script has to end.
    pub(crate) fn take(&mut self, bytes: usize) -> mlua::Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or_else(no_memory)?;
        self.work.add(bytes)
    }

    /// Does the work for a piece that is only looked at.
    ///
    /// # Errors
    /// The script has to end.
    pub(crate) fn step(&mut self) -> mlua::Result<()> {
        self.work(0)
    }

    /// Does the work for a piece of `bytes`, none of which are taken from the budget.
    ///
    /// # Errors
    /// The script has to end.
    pub(crate) fn work(&mut self, bytes: usize) -> mlua::Result<()> {
        self.work.add(bytes)
    }

    /// Takes what a value in a list needs.
    ///
    /// # Errors
    /// There is not as much left, or the script has to end.
    pub(crate) fn take_value(&mut self) -> mlua::Result<()> {
        self.take(VALUE_BYTES)
    }
}
