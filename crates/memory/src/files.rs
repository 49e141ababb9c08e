//! The files of a store: the removal of what is left over, and checkpoints.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{Class, Fs, Result, Tag, Waiting};
use weir_model::LogIndex;
use weir_model::engine::{Checkpoint, Files};

use crate::manifest::{self, Edit, Manifest};
use crate::store::{SnapshotFile, Store};

impl Files for Store {
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
            if !self.files.lock().unnamed.is_empty() {
                self.confirm().await?;
                self.garbage.add(self.files.lock().unnamed.drain(..));
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
        let (number, edit, file) = self.frozen();
        Box::new(Held { store: self.shared(), file, number, edit })
    }
}

/// The snapshot of one moment. While this is held its file stays.
struct Held {
    store: Arc<Store>,
    file: Option<Arc<SnapshotFile>>,
    /// Number of the manifest that names it.
    number: u64,
    edit: Edit,
}

impl Checkpoint for Held {
    fn dir(&self) -> &Path {
        &self.store.env.dir
    }

    fn fs(&self) -> &Arc<dyn Fs> {
        &self.store.env.fs
    }

    fn tag(&self) -> Tag {
        self.store.env.tag(Class::Maintenance)
    }

    /// None before the first snapshot.
    fn files(&self) -> Vec<String> {
        self.file.iter().map(|file| crate::snapshot::file_name(file.meta.number)).collect()
    }

    fn persisted(&self) -> LogIndex {
        self.edit.snapshot.map_or(0, |meta| meta.end.persisted)
    }

    fn write_manifest<'a>(&'a self, dir: &'a Path) -> Waiting<'a, Result<()>> {
        Box::pin(async move {
            Manifest::create(self.fs(), dir, self.tag(), self.store.env.salt, self.number, &self.edit).await.map(drop)
        })
    }
}
