//! Several commands that run as one: a transaction, or a script.

use weir_io::{Result, Yield};
use weir_model::StoredKey;

use crate::draft::Draft;
use crate::rows::{Rows, Waiting};

/// Commands that run as one. The owner of the rows runs them, with no other write to these rows in between, and applies
/// their draft as one.
pub trait Transaction: Send {
    /// All rows that the commands may read or write, as engines know them.
    fn rows(&self) -> Vec<StoredKey>;

    /// Whether the run may be stopped in the middle, and repeated once the rows that it reads are in memory, so that it
    /// does not hold its rows while it waits for the device.
    fn may_begin_again(&self) -> bool {
        false
    }

    /// A run was stopped, and the next one may have to wait for rows whose commands wait for what the first one still
    /// holds: it lets that go.
    fn let_go(&mut self) {}

    /// What the last run wanted written is applied, or was lost. What was booked for it can be given back.
    fn ended(&mut self) {}

    /// How others are served while its rows are latched, if there are many.
    fn yields(&self) -> Yield {
        Yield::PLAIN
    }

    /// Members of its rows that it is known to read: the row as engines know it, and the member's name.
    fn members(&self) -> Vec<(StoredKey, &[u8])> {
        Vec::new()
    }

    /// Runs the commands; gives what they want written, [settled](Draft::settle). A run may be repeated from its
    /// beginning if nothing was applied.
    ///
    /// # Errors
    /// The rows cannot be read.
    fn run<'a>(&'a mut self, rows: &'a dyn Rows) -> Waiting<'a, Result<Draft>>;
}
