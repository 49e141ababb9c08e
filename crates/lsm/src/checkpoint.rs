//! Checkpoints: a second directory with the same tables, by hard links within milliseconds, or copied by whoever holds
//! them.

use std::path::Path;
use std::sync::Arc;

use weir_io::{Class, Fs, Result, Tag};
use weir_model::LogIndex;

use crate::tree::Tree;
use crate::version::manifest::Manifest;
use crate::version::{Edit, TableMeta, Version};

/// The tables of one moment. While it is held their files stay, whatever compactions do.
pub struct Held<'a> {
    tree: &'a Tree,
    version: Arc<Version>,
    /// Number of the manifest that describes them.
    number: u64,
    edit: Edit,
}

impl Held<'_> {
    /// Where the files are.
    pub fn dir(&self) -> &Path {
        &self.tree.env.dir
    }

    /// How to read them.
    pub fn fs(&self) -> &Arc<dyn Fs> {
        &self.tree.env.fs
    }

    /// As what.
    pub fn tag(&self) -> Tag {
        self.tree.env.tag(Class::Maintenance)
    }

    /// Names of the files.
    pub fn tables(&self) -> Vec<String> {
        self.version.tables().map(|(_, table)| TableMeta::file_name(table.meta.id)).collect()
    }

    /// Every log record up to here is in them.
    pub fn persisted(&self) -> LogIndex {
        self.edit.persisted.unwrap_or(0)
    }

    /// Makes a tree of `dir`, where all [`Held::tables`] are by now: writes the manifest that names them.
    pub async fn write_manifest(&self, dir: &Path) -> Result<()> {
        Manifest::create(self.fs(), dir, self.tag(), self.number, &self.edit).await.map(drop)
    }
}

impl Tree {
    /// Holds all that is in tables now. What is only in memtables is not in it: seal and flush first if it must be.
    pub fn hold(&self) -> Held<'_> {
        let (number, edit, version) = self.frozen();
        Held { tree: self, version, number, edit }
    }

    /// Makes `dir` (new, on the same file system) a tree with all that is in tables now, and returns the log index up
    /// to which that is.
    pub async fn checkpoint(&self, dir: &Path) -> Result<LogIndex> {
        let held = self.hold();
        let (fs, tag) = (held.fs(), held.tag());
        fs.create_dir_all(dir, tag).await?;
        if let Some(parent) = dir.parent() {
            fs.sync_dir(parent, tag).await?;
        }
        for name in held.tables() {
            fs.hard_link(&held.dir().join(&name), &dir.join(&name), tag).await?;
        }
        held.write_manifest(dir).await?;
        Ok(held.persisted())
    }
}
