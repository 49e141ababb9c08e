//! The file system of the machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::choose::{Choice, measure};
use super::device::Device;
use super::file::RealFile;
use super::lock::lock;
use super::open::open;
use super::options::{Backend, RealFsOptions};
use super::threads::Lane;
use super::uring::Uring;
use super::volume::RealVolume;
use crate::{Class, DirEntry, Error, ErrorKind, File, Fs, FsLock, Op, OpenOptions, Result, Tag, Volume};

/// The file system of the machine; see [`Fs`].
pub struct RealFs {
    device: Arc<Device>,
    choice: Choice,
}

impl RealFs {
    /// The file system of the machine, driven as `options` say. Where the kernel refuses io_uring, worker threads do
    /// everything, and [`RealFs::backend`] says so.
    pub fn new(options: RealFsOptions) -> Arc<Self> {
        let (device, choice) = driven(&options);
        Arc::new(Self { device: Arc::new(device), choice })
    }

    /// Which backend drives the disk, and why.
    pub fn backend(&self) -> &Choice {
        &self.choice
    }

    /// The first file for which the file system refused O_DIRECT, if any. The bytes of this file, and of every other
    /// such file, go through the page cache, where they cost memory and are metered before they reach the device.
    pub fn direct_refused(&self) -> Option<&Path> {
        self.device.direct_refused.get().map(PathBuf::as_path)
    }

    /// Runs a call on one path.
    fn call<T: Send + 'static>(
        &self,
        action: &'static str,
        path: &Path,
        tag: Tag,
        call: impl FnOnce(&Path) -> std::io::Result<T> + Send + 'static,
    ) -> Op<T> {
        let path = path.to_path_buf();
        let lane = Lane::of(tag.class);
        self.device.call(lane, move || call(&path).map_err(|error| Error::from_std(action, &path, &error)))
    }

    /// Runs a call that gives a file another name.
    fn call_two(
        &self,
        action: &'static str,
        [from, to]: [&Path; 2],
        tag: Tag,
        call: impl FnOnce(&Path, &Path) -> std::io::Result<()> + Send + 'static,
    ) -> Op<()> {
        let [from, to] = [from.to_path_buf(), to.to_path_buf()];
        self.device.call(Lane::of(tag.class), move || {
            call(&from, &to).map_err(|error| {
                let said = Error::from_std(action, &from, &error);
                Error::new(said.kind(), action, &from, format!("as {}: {error}", to.display()))
            })
        })
    }
}

impl Fs for RealFs {
    fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
        let path = path.to_path_buf();
        // Weak would do, but an open in flight is as good a reason as an open file to keep the workers.
        let device = Arc::clone(&self.device);
        self.device.call(Lane::of(tag.class), move || {
            let handle = open(&path, options).map_err(|error| Error::from_std("open", &path, &error.into()))?;
            if options.direct && !handle.direct {
                // Only the first path is kept.
                let _ = device.direct_refused.set(path);
            }
            Ok(Arc::new(RealFile { handle: Arc::new(handle), device }) as Arc<dyn File>)
        })
    }

    fn volume(&self, path: &Path, tag: Tag) -> Op<Arc<dyn Volume>> {
        let (path, device) = (path.to_path_buf(), Arc::clone(&self.device));
        self.device.call(Lane::of(tag.class), move || {
            RealVolume::open(&path, device).map(|volume| Arc::new(volume) as Arc<dyn Volume>)
        })
    }

    fn rename(&self, from: &Path, to: &Path, tag: Tag) -> Op<()> {
        self.call_two("rename", [from, to], tag, |from, to| std::fs::rename(from, to))
    }

    fn hard_link(&self, from: &Path, to: &Path, tag: Tag) -> Op<()> {
        self.call_two("link", [from, to], tag, |from, to| std::fs::hard_link(from, to))
    }

    fn remove(&self, path: &Path, tag: Tag) -> Op<()> {
        self.call("remove", path, tag, |path| std::fs::remove_file(path))
    }

    fn create_dir_all(&self, path: &Path, tag: Tag) -> Op<()> {
        self.call("create directory", path, tag, |path| std::fs::create_dir_all(path))
    }

    fn remove_dir(&self, path: &Path, tag: Tag) -> Op<()> {
        self.call("remove directory", path, tag, |path| std::fs::remove_dir(path))
    }

    fn list(&self, path: &Path, tag: Tag) -> Op<Vec<DirEntry>> {
        let path = path.to_path_buf();
        self.device.call(Lane::of(tag.class), move || list(&path))
    }

    fn real_path(&self, path: &Path, tag: Tag) -> Op<PathBuf> {
        self.call("find", path, tag, real_path)
    }

    fn sync_dir(&self, path: &Path, tag: Tag) -> Op<()> {
        // The parent of a relative name of one part, for `Path::parent`: the working directory.
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        self.call("sync directory", path, tag, |path| std::fs::File::open(path)?.sync_all())
    }

    fn lock(&self, path: &Path) -> Op<Box<dyn FsLock>> {
        let path = path.to_path_buf();
        self.device.call(Lane::of(Class::Maintenance), move || lock(&path))
    }
}

/// The real path: the deepest part of `path` that exists, without links, followed by the rest of `path`.
fn real_path(path: &Path) -> std::io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    for known in path.ancestors() {
        match known.canonicalize() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(real) => {
                let missing = path.components().skip(known.components().count());
                return Ok(missing.fold(real, |real, part| real.join(part)));
            }
        }
    }
    Ok(path)
}

/// The device, and the reason for the backend that drives it.
fn driven(options: &RealFsOptions) -> (Device, Choice) {
    let chosen = |backend, reason: String| Choice { backend, reason };
    let threads = || Device::new(options, None);
    if options.backend == Backend::Threads {
        return (threads(), chosen(Backend::Threads, "it was asked for".into()));
    }
    let ring = match Uring::new(options.queue_max) {
        Ok(ring) => Device::new(options, Some(ring)),
        Err(error) => return (threads(), chosen(Backend::Threads, format!("io_uring is not available: {error}"))),
    };
    match (&options.probe_dir, options.backend) {
        (Some(dir), Backend::Auto) => {
            let threads = threads();
            match measure(dir, &threads, &ring) {
                Ok(choice) if choice.backend == Backend::Threads => (threads, choice),
                Ok(choice) => (ring, choice),
                Err(error) => (ring, chosen(Backend::Uring, format!("the backends could not be measured: {error}"))),
            }
        }
        (None, Backend::Auto) => (ring, chosen(Backend::Uring, "the backends were not measured".into())),
        (_, Backend::Threads | Backend::Uring) => (ring, chosen(Backend::Uring, "it was asked for".into())),
    }
}

fn list(path: &Path) -> Result<Vec<DirEntry>> {
    let failed = |error: std::io::Error| Error::from_std("list", path, &error);
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().into_string().map_err(|name| {
            let message = format!("it contains a file whose name is not UTF-8: {}", name.display());
            Error::new(ErrorKind::Invalid, "list", path, message)
        })?;
        match entry.metadata() {
            Ok(facts) => {
                let len = if facts.is_dir() { 0 } else { facts.len() };
                entries.push(DirEntry { name, is_dir: facts.is_dir(), len });
            }
            // The entry was removed after the directory was read.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
    }
    entries.sort();
    Ok(entries)
}
