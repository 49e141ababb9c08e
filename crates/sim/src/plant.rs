//! Planted bugs: a harness that finds nothing must first be shown to find these.
//!
//! Four of them need no change in the engine: [`PlantedFs`] makes the mistakes towards the disk in the engine's place.
//! The others sit in the engine behind `weir_io::plant`, which is compiled in for tests only.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::{AlignedBuf, File, Fs, Op, OpenOptions, Tag, forward_file, forward_fs};

/// A mistake on the way to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskPlant {
    /// Files are never synced.
    SkippedSync,
    /// Directories are never synced.
    SkippedDirSync,
    /// A sync is started, and treated as done.
    AckBeforeSync,
    /// A file that is written under a temporary name is synced only after it has its final name.
    SyncAfterRename,
}

impl DiskPlant {
    /// All of them.
    pub const ALL: [DiskPlant; 4] =
        [DiskPlant::SkippedSync, DiskPlant::SkippedDirSync, DiskPlant::AckBeforeSync, DiskPlant::SyncAfterRename];
}

/// Suffix of names that are only temporary.
const TEMPORARY: &str = ".tmp";

/// Files whose sync is owed.
type Owed = Arc<Mutex<Vec<Arc<dyn File>>>>;

/// A file system that is used wrongly.
pub struct PlantedFs {
    inner: Arc<dyn Fs>,
    plant: DiskPlant,
    /// For [`DiskPlant::SyncAfterRename`].
    owed: Owed,
}

impl PlantedFs {
    /// `inner`, used with the mistake `plant`.
    pub fn new(inner: Arc<dyn Fs>, plant: DiskPlant) -> Arc<Self> {
        Arc::new(Self { inner, plant, owed: Arc::default() })
    }
}

struct PlantedFile {
    inner: Arc<dyn File>,
    plant: DiskPlant,
    /// Opened for synced writes.
    dsync: bool,
    /// Where to note an owed sync, for a file with a temporary name.
    owed: Option<Owed>,
}

impl Fs for PlantedFs {
    fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
        let temporary = path.to_string_lossy().ends_with(TEMPORARY);
        let owed = (temporary && self.plant == DiskPlant::SyncAfterRename).then(|| Arc::clone(&self.owed));
        let (plant, dsync) = (self.plant, options.dsync);
        let options = OpenOptions { dsync: dsync && plant != DiskPlant::SkippedSync, ..options };
        let wrap = move |inner| Arc::new(PlantedFile { inner, plant, dsync, owed }) as Arc<dyn File>;
        match self.inner.open(path, options, tag) {
            Op::Ready(result) => Op::Ready(result.map(|result| result.map(wrap))),
            Op::Pending(future) => Op::pending(async move { future.await.map(wrap) }),
        }
    }

    fn rename(&self, from: &Path, to: &Path, tag: Tag) -> Op<()> {
        let renamed = self.inner.rename(from, to, tag);
        let owed = std::mem::take(&mut *self.owed.lock());
        if owed.is_empty() {
            return renamed;
        }
        Op::pending(async move {
            renamed.await?;
            for file in owed {
                file.sync(tag).await?;
            }
            Ok(())
        })
    }

    fn sync_dir(&self, path: &Path, tag: Tag) -> Op<()> {
        if self.plant == DiskPlant::SkippedDirSync { Op::ready(Ok(())) } else { self.inner.sync_dir(path, tag) }
    }

    forward_fs!(inner: hard_link, remove, create_dir_all, remove_dir, list, real_path, volume, lock);
}

impl File for PlantedFile {
    fn write_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        if self.plant == DiskPlant::AckBeforeSync && self.dsync {
            let copy = AlignedBuf::copy_of(&buf);
            drop(self.inner.write_at(offset, buf, tag));
            return Op::ready(Ok(copy));
        }
        self.inner.write_at(offset, buf, tag)
    }

    fn sync(&self, tag: Tag) -> Op<()> {
        match (self.plant, &self.owed) {
            (DiskPlant::SkippedSync, _) => Op::ready(Ok(())),
            (DiskPlant::AckBeforeSync, _) => {
                drop(self.inner.sync(tag));
                Op::ready(Ok(()))
            }
            (DiskPlant::SyncAfterRename, Some(owed)) => {
                owed.lock().push(Arc::clone(&self.inner));
                Op::ready(Ok(()))
            }
            _ => self.inner.sync(tag),
        }
    }

    forward_file!(inner: read_at, allocate, reserve, set_len, len, data_end, is_direct, read_unit);
}
