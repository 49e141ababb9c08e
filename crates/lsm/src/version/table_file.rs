//! A table that some version names, and what happens to its file when none does.

use std::path::PathBuf;
use std::sync::Arc;

use weir_journal::{Garbage, NamedFile};

use super::TableMeta;
use crate::table::Table;

/// An open table with its facts.
pub struct TableFile {
    /// What the manifest says of it.
    pub meta: TableMeta,
    /// The open table.
    pub table: Arc<Table>,
    /// The table's file, which is removed once no version names the table any more.
    pub file: NamedFile,
}

impl TableFile {
    /// A live table at `path`.
    pub fn new(meta: TableMeta, table: Arc<Table>, path: PathBuf, garbage: Arc<Garbage>) -> Arc<Self> {
        Arc::new(Self { meta, table, file: NamedFile::new(path, garbage) })
    }
}
