//! Files beside a journal that nobody needs any more, and those that may become so.
//!
//! The last holder of a file may be a reader, which must not do I/O to let go of it. So its path is only noted, and
//! [`Garbage::remove`] removes the file later.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use weir_io::{DirEntry, Fs, Result, Tag};

use crate::codec::NUMBER_MAX;
use crate::files::remove_if_there;

/// Paths of files to remove.
#[derive(Default)]
pub struct Garbage(Mutex<Vec<PathBuf>>);

impl Garbage {
    /// Notes files that nothing needs any more.
    pub fn add(&self, paths: impl IntoIterator<Item = PathBuf>) {
        self.0.lock().extend(paths);
    }

    /// Whether nothing was noted.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Removes the files. One that cannot be removed does not keep the others from it.
    ///
    /// # Errors
    /// I/O: the first error. What was not removed stays noted, as it does if this is dropped half-way.
    pub async fn remove(&self, fs: &Arc<dyn Fs>, tag: Tag) -> Result<()> {
        let paths = std::mem::take(&mut *self.0.lock()).into();
        let (mut left, mut outcome) = (Left { paths, stuck: Vec::new(), garbage: self }, Ok(()));
        while let Some(path) = left.paths.front() {
            let removed = remove_if_there(fs, path, tag).await;
            let path = left.paths.pop_front();
            if removed.is_err() {
                left.stuck.extend(path);
                outcome = outcome.and(removed);
            }
        }
        outcome
    }
}

/// Files that [`Garbage::remove`] has taken and not removed yet. Dropping this notes them again.
struct Left<'a> {
    paths: VecDeque<PathBuf>,
    /// Those that could not be removed.
    stuck: Vec<PathBuf>,
    garbage: &'a Garbage,
}

impl Drop for Left<'_> {
    fn drop(&mut self) {
        self.garbage.add(self.paths.drain(..).chain(self.stuck.drain(..)));
    }
}

/// A file that the journal names. Once an edit has given it up, it is removed when the last holder drops this.
pub struct NamedFile {
    path: PathBuf,
    garbage: Arc<Garbage>,
    is_obsolete: AtomicBool,
}

impl NamedFile {
    /// The file at `path`.
    pub fn new(path: PathBuf, garbage: Arc<Garbage>) -> Self {
        Self { path, garbage, is_obsolete: AtomicBool::new(false) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Says that a durable edit has given the file up.
    pub fn make_obsolete(&self) {
        self.is_obsolete.store(true, Ordering::Relaxed);
    }
}

impl Drop for NamedFile {
    fn drop(&mut self) {
        if *self.is_obsolete.get_mut() {
            self.garbage.add([std::mem::take(&mut self.path)]);
        }
    }
}

/// Files that a job has begun and that no edit names yet. Dropping this (an error, a cancelled job) makes them garbage.
pub struct Begun {
    paths: Vec<PathBuf>,
    garbage: Arc<Garbage>,
}

impl Begun {
    /// No files yet.
    pub fn new(garbage: Arc<Garbage>) -> Self {
        Self { paths: Vec::new(), garbage }
    }

    /// Adds another file.
    pub fn add(&mut self, path: PathBuf) {
        self.paths.push(path);
    }

    /// Whether there is no file.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    pub(crate) fn take(mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.paths)
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.garbage.add(self.paths.drain(..));
    }
}

/// Those of `files`, in `dir`, that have a number and are not live: they are left over from jobs that did not end.
///
/// A number must not be used twice, not even that of a file that is about to go: so `next` is moved behind all of them.
/// Files with a number above [`NUMBER_MAX`] are left alone: they are strangers.
pub fn left_over(
    dir: &Path,
    files: &[DirEntry],
    number_of: impl Fn(&str) -> Option<u64>,
    is_live: impl Fn(&str) -> bool,
    next: &mut u64,
) -> Vec<PathBuf> {
    let mut left = Vec::new();
    for entry in files.iter().filter(|entry| !entry.is_dir) {
        if let Some(number) = number_of(&entry.name).filter(|&number| number <= NUMBER_MAX) {
            *next = (*next).max(number + 1);
            if !is_live(&entry.name) {
                left.push(dir.join(&entry.name));
            }
        }
    }
    left
}
