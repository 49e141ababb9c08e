//! The tree's files: the removal of what is left over, and checkpoints. A checkpoint is a second directory with the
//! same tables. They get there by hard links, within milliseconds, or the holder of the checkpoint copies them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{Class, Fs, Result, Tag, Waiting};
use weir_model::LogIndex;
use weir_model::engine::{Checkpoint, Files};

use crate::tree::Tree;
use crate::version::manifest::{self, Manifest};
use crate::version::{Edit, TableMeta, Version};

impl Files for Tree {
    fn manifest_path(&self) -> Waiting<'_, PathBuf> {
        Box::pin(async {
            let number = self.manifest.lock().await.number();
            self.env.dir.join(manifest::file_name(number))
        })
    }

    fn confirm(&self) -> Waiting<'_, Result<()>> {
        Box::pin(async { self.manifest.lock().await.confirm().await })
    }

    fn discard_unnamed(&self) -> Waiting<'_, Result<()>> {
        Box::pin(async {
            if !self.unnamed.lock().is_empty() {
                self.confirm().await?;
                self.garbage.add(self.unnamed.lock().drain(..));
            }
            self.tidy().await
        })
    }

    fn has_garbage(&self) -> bool {
        !self.garbage.is_empty()
    }

    fn tidy(&self) -> Waiting<'_, Result<()>> {
        Box::pin(self.garbage.remove(&self.env.fs, self.env.tag(Class::Maintenance)))
    }

    fn hold(&self) -> Box<dyn Checkpoint> {
        Box::new(Held::new(self.shared()))
    }
}

/// The tables of a tree at one moment. While this is held their files stay, whatever compactions do.
pub(crate) struct Held {
    tree: Arc<Tree>,
    version: Arc<Version>,
    /// Number of the manifest that describes them.
    number: u64,
    edit: Edit,
}

impl Held {
    /// Holds all tables that `tree` has now.
    pub fn new(tree: Arc<Tree>) -> Self {
        let (number, edit, version) = tree.frozen();
        Self { tree, version, number, edit }
    }
}

impl Checkpoint for Held {
    fn dir(&self) -> &Path {
        &self.tree.env.dir
    }

    fn fs(&self) -> &Arc<dyn Fs> {
        &self.tree.env.fs
    }

    fn tag(&self) -> Tag {
        self.tree.env.tag(Class::Maintenance)
    }

    fn files(&self) -> Vec<String> {
        self.version.tables().map(|(_, table)| TableMeta::file_name(table.meta.id)).collect()
    }

    fn persisted(&self) -> LogIndex {
        self.edit.persisted.unwrap_or(0)
    }

    fn write_manifest<'a>(&'a self, dir: &'a Path) -> Waiting<'a, Result<()>> {
        Box::pin(async move {
            Manifest::create(self.fs(), dir, self.tag(), self.tree.env.salt, self.number, &self.edit).await.map(drop)
        })
    }
}

impl Tree {
    /// Makes `dir` (new, on the same file system) a tree with all tables of this one. Returns the log index up to which
    /// records are in those tables.
    pub async fn checkpoint(&self, dir: &Path) -> Result<LogIndex> {
        let held = Held::new(self.shared());
        let (fs, tag) = (held.fs(), held.tag());
        fs.create_dir_all(dir, tag).await?;
        if let Some(parent) = dir.parent() {
            fs.sync_dir(parent, tag).await?;
        }
        for name in held.files() {
            fs.hard_link(&held.dir().join(&name), &dir.join(&name), tag).await?;
        }
        held.write_manifest(dir).await?;
        Ok(held.persisted())
    }
}
