//! Checkpoints: a second directory with the same tables, made in milliseconds by hard links.

use std::path::Path;

use weir_io::{Class, Result};
use weir_model::LogIndex;

use crate::tree::Tree;
use crate::version::TableMeta;
use crate::version::manifest::Manifest;

impl Tree {
    /// Makes `dir` (new, on the same file system) a tree with all that is in tables now, and returns the log index up to
    /// which that is. What is only in memtables is not in it: seal and flush first if it must be.
    pub async fn checkpoint(&self, dir: &Path) -> Result<LogIndex> {
        let fs = &self.env.fs;
        let tag = self.env.tag(Class::Maintenance);
        fs.create_dir_all(dir, tag).await?;
        if let Some(parent) = dir.parent() {
            fs.sync_dir(parent, tag).await?;
        }
        // Holding the version keeps its files from being removed while they are linked.
        let (number, edit, version) = self.frozen();
        for (_, table) in version.tables() {
            let name = TableMeta::file_name(table.meta.id);
            fs.hard_link(&self.env.dir.join(&name), &dir.join(&name), tag).await?;
        }
        let persisted = edit.persisted.unwrap_or(0);
        Manifest::create(fs, dir, tag, number, &edit).await?;
        Ok(persisted)
    }
}
