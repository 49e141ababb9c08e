//! Several commands that are run as one: a transaction, or a script.

use weir_io::Result;
use weir_model::StoredKey;

use crate::draft::Draft;
use crate::rows::{Rows, Waiting};

/// See the module. Whoever has the rows runs it, with no other write to them in between, and applies its draft as one.
pub trait Transaction: Send {
    /// All rows that it may read or write, as engines know them.
    fn rows(&self) -> Vec<StoredKey>;

    /// Whether it may be stopped in the middle and run again, when what it reads is in memory, rather than hold its
    /// rows while it waits for the device.
    fn may_begin_again(&self) -> bool {
        false
    }

    /// Members of its rows that it is known to read: the row as engines know it, and the name.
    fn members(&self) -> Vec<(StoredKey, &[u8])> {
        Vec::new()
    }

    /// Runs it; gives what it wants written, [settled](Draft::settle). It may be run again from its beginning, where
    /// nothing was applied.
    ///
    /// # Errors
    /// The rows cannot be read.
    fn run<'a>(&'a mut self, rows: &'a dyn Rows) -> Waiting<'a, Result<Draft>>;
}
