//! What a store has on disk, and the one edit that changes it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use weir_io::{Class, Result};
use weir_model::LogIndex;

use super::Store;
use crate::manifest::Edit;
use crate::snapshot::SnapshotMeta;

/// Paths of files to remove. Whoever lets go of a file last may be a reader: it only notes the path.
pub(crate) type Garbage = Mutex<Vec<PathBuf>>;

/// A snapshot file that the manifest names. While somebody has it, it stays.
pub(crate) struct SnapshotFile {
    pub meta: SnapshotMeta,
    pub path: PathBuf,
    garbage: Arc<Garbage>,
    is_obsolete: AtomicBool,
}

impl SnapshotFile {
    pub fn new(meta: SnapshotMeta, path: PathBuf, garbage: Arc<Garbage>) -> Arc<Self> {
        Arc::new(Self { meta, path, garbage, is_obsolete: AtomicBool::new(false) })
    }
}

impl Drop for SnapshotFile {
    fn drop(&mut self) {
        if *self.is_obsolete.get_mut() {
            self.garbage.lock().push(std::mem::take(&mut self.path));
        }
    }
}

/// Guarded by `Store::files`.
pub(crate) struct Files {
    /// First file number not yet used.
    pub next_file: u64,
    /// The snapshot in force.
    pub snapshot: Option<Arc<SnapshotFile>>,
    /// What no manifest named at the opening.
    pub unnamed: Vec<PathBuf>,
    pub garbage: Arc<Garbage>,
    /// Files that an edit names which may or may not be in the manifest: they may go once it has been rolled.
    pub doubtful: Vec<PathBuf>,
}

impl Files {
    pub fn persisted(&self) -> LogIndex {
        self.snapshot.as_ref().map_or(0, |snapshot| snapshot.meta.end.persisted)
    }

    pub fn allocate(&mut self) -> u64 {
        self.next_file += 1;
        self.next_file - 1
    }

    pub fn has_garbage(&self) -> bool {
        !self.garbage.lock().is_empty()
    }

    pub fn take_garbage(&self) -> Vec<PathBuf> {
        std::mem::take(&mut self.garbage.lock())
    }

    pub fn add_garbage(&self, paths: impl IntoIterator<Item = PathBuf>) {
        self.garbage.lock().extend(paths);
    }

    pub fn discard_unnamed(&mut self) {
        let unnamed = std::mem::take(&mut self.unnamed);
        self.add_garbage(unnamed);
    }
}

/// A file begun by a job that has not ended. Dropping it (an error, a cancelled job) makes it garbage.
pub(crate) struct Begun {
    path: Option<PathBuf>,
    garbage: Arc<Garbage>,
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.garbage.lock().extend(self.path.take());
    }
}

impl Store {
    /// Names the next snapshot file.
    pub(crate) fn begin_file(&self) -> (u64, PathBuf, Begun) {
        let mut files = self.files.lock();
        let number = files.allocate();
        let path = self.env.dir.join(crate::snapshot::file_name(number));
        let begun = Begun { path: Some(path.clone()), garbage: Arc::clone(&files.garbage) };
        (number, path, begun)
    }

    /// A fresh file number, and the edit that says what there is, whoever's it is.
    pub(crate) fn frozen(&self) -> (u64, Edit, Option<Arc<SnapshotFile>>) {
        let mut files = self.files.lock();
        let number = files.allocate();
        let snapshot = files.snapshot.clone();
        let meta = snapshot.as_ref().map(|snapshot| snapshot.meta);
        (number, Edit { owner: None, next_file: files.next_file, snapshot: meta }, snapshot)
    }

    /// Makes the snapshot of `meta`, in the file that was `begun`, the one in force. Once this has begun, the file
    /// belongs to the store: whatever happens, it is removed only when the manifest surely does not name it.
    pub(crate) async fn commit(&self, meta: SnapshotMeta, mut begun: Begun) -> Result<()> {
        self.env.fs.sync_dir(&self.env.dir, self.env.tag(Class::Flush)).await?;
        let mut manifest = self.manifest.lock().await;
        manifest.set_class(Class::Flush);
        let owner = Some(self.env.owner);
        if manifest.needs_roll() {
            let (number, edit, _) = self.frozen();
            let old = manifest.roll(number, &Edit { owner, ..edit }).await?;
            let mut files = self.files.lock();
            let doubtful = std::mem::take(&mut files.doubtful);
            files.add_garbage(doubtful.into_iter().chain([old]));
        }
        let Some(path) = begun.path.take() else { unreachable!("it is committed once") };
        let next_file = {
            let mut files = self.files.lock();
            files.doubtful.push(path.clone());
            files.next_file
        };
        manifest.append(&Edit { owner, next_file, snapshot: Some(meta) }).await?;

        let mut files = self.files.lock();
        files.doubtful.retain(|doubtful| *doubtful != path);
        let file = SnapshotFile::new(meta, path, Arc::clone(&files.garbage));
        if let Some(before) = files.snapshot.replace(file) {
            before.is_obsolete.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}
