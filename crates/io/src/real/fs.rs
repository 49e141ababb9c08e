//! The file system of the machine.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use super::choose::{Choice, measure};
use super::device::{Backend, Device};
use super::file::RealFile;
use super::lock::lock;
use super::threads::Lane;
use super::transfer::Handle;
use super::uring::Uring;
use super::volume::RealVolume;
use crate::{Class, DirEntry, Error, ErrorKind, File, Fs, FsLock, Op, OpenOptions, PAGE, Result, Tag, Volume};

/// How the machine's disk is driven. Start from `RealFsOptions::default()`.
#[derive(Clone, Debug)]
pub struct RealFsOptions {
    /// Who moves the bytes.
    pub backend: Backend,
    /// Where [`Backend::Auto`] measures, some 60 ms, on a file of its own of 1 MiB. Without it, io_uring is taken
    /// unmeasured wherever the kernel allows it.
    pub probe_dir: Option<PathBuf>,
    /// Most worker threads for what clients wait for.
    pub foreground_threads: usize,
    /// Most worker threads for flush, compaction and maintenance.
    pub background_threads: usize,
    /// Most operations waiting for a worker, per lane. Beyond it, the submitting thread does the work itself.
    pub queue_max: usize,
}

impl Default for RealFsOptions {
    fn default() -> Self {
        Self { backend: Backend::Auto, probe_dir: None, foreground_threads: 32, background_threads: 8, queue_max: 4096 }
    }
}

/// The file system of the machine; see [`Fs`].
pub struct RealFs {
    device: Arc<Device>,
    choice: Choice,
}

impl RealFs {
    /// The file system of the machine, driven as `options` say; where the kernel refuses io_uring, worker threads do
    /// it all, and [`RealFs::backend`] says so.
    pub fn new(options: RealFsOptions) -> Arc<Self> {
        let (device, choice) = driven(&options);
        Arc::new(Self { device: Arc::new(device), choice })
    }

    /// Which backend drives the disk, and why.
    pub fn backend(&self) -> &Choice {
        &self.choice
    }

    /// The first file for which the file system refused O_DIRECT, if any: its bytes, and those of every other such
    /// file, go through the page cache, where they cost memory and are metered before they reach the device.
    pub fn direct_refused(&self) -> Option<&Path> {
        self.device.direct_refused.get().map(PathBuf::as_path)
    }

    /// Runs a call on one name.
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
        // Weak would do, but an open under way is as good a reason as an open file to keep the workers.
        let device = Arc::clone(&self.device);
        self.device.call(Lane::of(tag.class), move || {
            let handle = open(&path, options).map_err(|error| Error::from_std("open", &path, &error.into()))?;
            if options.direct && !handle.direct {
                // Only the first is kept.
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
        self.call("sync directory", path, tag, |path| std::fs::File::open(path)?.sync_all())
    }

    fn lock(&self, path: &Path) -> Op<Box<dyn FsLock>> {
        let path = path.to_path_buf();
        self.device.call(Lane::of(Class::Maintenance), move || lock(&path))
    }
}

/// The deepest part of `path` that is there, without links, and what is behind it.
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

/// The device, and why it is driven that way.
fn driven(options: &RealFsOptions) -> (Device, Choice) {
    let chosen = |backend, reason: String| Choice { backend, reason };
    let threads = || Device::new(options, None);
    if options.backend == Backend::Threads {
        return (threads(), chosen(Backend::Threads, "asked for".into()));
    }
    let ring = match Uring::new(options.queue_max) {
        Ok(ring) => Device::new(options, Some(ring)),
        Err(error) => return (threads(), chosen(Backend::Threads, format!("there is no io_uring here: {error}"))),
    };
    match (&options.probe_dir, options.backend) {
        (Some(dir), Backend::Auto) => {
            let threads = threads();
            match measure(dir, &threads, &ring) {
                Ok(choice) if choice.backend == Backend::Threads => (threads, choice),
                Ok(choice) => (ring, choice),
                Err(error) => (ring, chosen(Backend::Uring, format!("could not measure: {error}"))),
            }
        }
        (None, Backend::Auto) => (ring, chosen(Backend::Uring, "not measured".into())),
        (_, Backend::Threads | Backend::Uring) => (ring, chosen(Backend::Uring, "asked for".into())),
    }
}

/// Opens `path`, through the page cache if the file system refuses direct I/O.
pub(super) fn open(path: &Path, options: OpenOptions) -> Result<Handle, Errno> {
    let mut flags = OFlags::CLOEXEC | if options.write { OFlags::RDWR } else { OFlags::RDONLY };
    flags.set(OFlags::CREATE | OFlags::EXCL, options.create_new);
    flags.set(OFlags::DSYNC, options.dsync);
    let opened = |flags| {
        loop {
            match rustix::fs::open(path, flags, Mode::from_raw_mode(0o640)) {
                Err(Errno::INTR) => {}
                result => return result,
            }
        }
    };
    let handle = |fd, direct| Handle {
        fd,
        path: path.to_path_buf(),
        direct,
        aligned: options.direct,
        write: options.write,
        dsync: options.dsync,
    };
    if options.direct {
        match opened(flags | OFlags::DIRECT) {
            Ok(fd) if honours_direct(&fd) => return Ok(handle(fd, true)),
            Ok(fd) => {
                let flags = rustix::fs::fcntl_getfl(&fd)?;
                rustix::fs::fcntl_setfl(&fd, flags - OFlags::DIRECT)?;
                return Ok(handle(fd, false));
            }
            // The kernel creates the file before it refuses the flag, so a new file exists by now: had it existed
            // before, the answer would have been another.
            Err(Errno::INVAL) => flags.remove(OFlags::EXCL),
            Err(error) => return Err(error),
        }
    }
    opened(flags).map(|fd| handle(fd, false))
}

/// Whether direct I/O in units of a page works on this file. Some file systems take the flag and use the page cache all
/// the same (a journal of data, encryption), and some devices want larger units. Kernels before 6.1 do not say: then it
/// is believed.
fn honours_direct(fd: &OwnedFd) -> bool {
    match rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(facts) if facts.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => {
            let fits = |align: u32| align != 0 && align <= PAGE as u32;
            fits(facts.stx_dio_offset_align) && fits(facts.stx_dio_mem_align)
        }
        _ => true,
    }
}

fn list(path: &Path) -> Result<Vec<DirEntry>> {
    let failed = |error: std::io::Error| Error::from_std("list", path, &error);
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().into_string().map_err(|name| {
            let message = format!("it holds a name that is not UTF-8: {}", name.display());
            Error::new(ErrorKind::Invalid, "list", path, message)
        })?;
        match entry.metadata() {
            Ok(facts) => {
                let len = if facts.is_dir() { 0 } else { facts.len() };
                entries.push(DirEntry { name, is_dir: facts.is_dir(), len });
            }
            // Removed since the directory was read.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
    }
    entries.sort();
    Ok(entries)
}
