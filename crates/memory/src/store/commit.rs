//! What a store has on disk, and the one edit that changes it.

use std::path::PathBuf;
use std::sync::Arc;

use weir_io::{Class, Result};
use weir_journal::{Begun, Garbage, NamedFile};
use weir_model::LogIndex;

use super::Store;
use crate::manifest::Edit;
use crate::snapshot::SnapshotMeta;

/// A snapshot file that the manifest names.
pub(crate) struct SnapshotFile {
    pub meta: SnapshotMeta,
    pub file: NamedFile,
}

impl SnapshotFile {
    pub fn new(meta: SnapshotMeta, path: PathBuf, garbage: &Arc<Garbage>) -> Arc<Self> {
        Arc::new(Self { meta, file: NamedFile::new(path, Arc::clone(garbage)) })
    }
}

/// The files of a store. Guarded by `Store::files`.
pub(crate) struct Files {
    /// First file number not yet used.
    pub next_file: u64,
    /// The snapshot in force.
    pub snapshot: Option<Arc<SnapshotFile>>,
    /// Files that no manifest named when the store was opened.
    pub unnamed: Vec<PathBuf>,
}

impl Files {
    pub fn persisted(&self) -> LogIndex {
        self.snapshot.as_ref().map_or(0, |snapshot| snapshot.meta.end.persisted)
    }

    pub fn allocate(&mut self) -> u64 {
        self.next_file += 1;
        self.next_file - 1
    }
}

impl Store {
    /// Begins the next snapshot file: gives it a number and a path.
    pub(crate) fn begin_file(&self) -> (u64, PathBuf, Begun) {
        let number = self.files.lock().allocate();
        let path = self.snapshot_path(number);
        let mut begun = Begun::new(Arc::clone(&self.garbage));
        begun.add(path.clone());
        (number, path, begun)
    }

    fn snapshot_path(&self, number: u64) -> PathBuf {
        self.env.dir.join(crate::snapshot::file_name(number))
    }

    /// A fresh file number, the edit that says what is on disk (it names no owner), and the snapshot in force.
    pub(crate) fn frozen(&self) -> (u64, Edit, Option<Arc<SnapshotFile>>) {
        let mut files = self.files.lock();
        let number = files.allocate();
        let snapshot = files.snapshot.clone();
        let meta = snapshot.as_ref().map(|snapshot| snapshot.meta);
        (number, Edit { owner: None, next_file: files.next_file, snapshot: meta }, snapshot)
    }

    /// Makes the snapshot of `meta`, in the file that was `begun`, the one in force.
    pub(crate) async fn commit(&self, meta: SnapshotMeta, begun: Begun) -> Result<()> {
        self.env.fs.sync_dir(&self.env.dir, self.env.tag(Class::Flush)).await?;
        let mut manifest = self.manifest.lock().await;
        manifest.set_class(Class::Flush);
        let owner = Some(self.env.owner);
        if manifest.needs_roll() {
            let (number, edit, _) = self.frozen();
            manifest.roll(number, &Edit { owner, ..edit }, &self.garbage).await?;
        }
        let next_file = self.files.lock().next_file;
        manifest.append_naming(&Edit { owner, next_file, snapshot: Some(meta) }, begun).await?;

        let file = SnapshotFile::new(meta, self.snapshot_path(meta.number), &self.garbage);
        if let Some(before) = self.files.lock().snapshot.replace(file) {
            before.file.make_obsolete();
        }
        Ok(())
    }
}
