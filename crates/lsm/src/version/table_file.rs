//! A table that some version names, and what happens to its file when none does.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::TableMeta;
use crate::table::Table;

/// Files to remove. Dropping a table happens on the thread of whichever reader was last, and must not do I/O there: the
/// path is only noted, and the next job removes it ([`tidy`](weir_model::engine::Files::tidy)).
#[derive(Default)]
pub struct Garbage(Mutex<Vec<PathBuf>>);

impl Garbage {
    /// Notes a file that nothing needs any more.
    pub fn add(&self, path: PathBuf) {
        self.0.lock().push(path);
    }

    /// Whether nothing was noted.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Takes all that was noted.
    pub fn take(&self) -> Vec<PathBuf> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// An open table with its facts.
pub struct TableFile {
    /// What the manifest says of it.
    pub meta: TableMeta,
    /// The open table.
    pub table: Arc<Table>,
    path: PathBuf,
    garbage: Arc<Garbage>,
    obsolete: AtomicBool,
}

impl TableFile {
    /// A live table at `path`.
    pub fn new(meta: TableMeta, table: Arc<Table>, path: PathBuf, garbage: Arc<Garbage>) -> Arc<Self> {
        Arc::new(Self { meta, table, path, garbage, obsolete: AtomicBool::new(false) })
    }

    /// Says that a durable edit removed the table: its file goes when the last reader does.
    pub fn make_obsolete(&self) {
        self.obsolete.store(true, Ordering::Relaxed);
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        if *self.obsolete.get_mut() {
            self.garbage.add(std::mem::take(&mut self.path));
        }
    }
}
