//! `Fs` and `File`: the door itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{AlignedBuf, Error, ErrorKind, Op, Tag};

/// How to open a file. Start from [`OpenOptions::read`] or [`OpenOptions::create_new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Open for writing too.
    pub write: bool,
    /// Create the file; it is an error if it exists.
    pub create_new: bool,
    /// Bypass the page cache (O_DIRECT): buffers, and offsets and lengths of writes, are multiples of [`crate::PAGE`];
    /// those of reads are multiples of [`File::read_unit`].
    pub direct: bool,
    /// Every write is on the device when it completes (O_DSYNC).
    pub dsync: bool,
}

impl OpenOptions {
    /// Open an existing file for direct reads.
    pub const fn read() -> Self {
        Self { write: false, create_new: false, direct: true, dsync: false }
    }

    /// Create a file for direct writes (and reads).
    pub const fn create_new() -> Self {
        Self { write: true, create_new: true, direct: true, dsync: false }
    }

    /// Create a file for writes through the page cache.
    pub const fn create_new_buffered() -> Self {
        Self { write: true, create_new: true, direct: false, dsync: false }
    }

    /// Open an existing file for reads through the page cache.
    pub const fn read_buffered() -> Self {
        Self { write: false, create_new: false, direct: false, dsync: false }
    }
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// The last component of the path.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Length in bytes; 0 for a directory.
    pub len: u64,
}

/// An exclusive lock, held until dropped or until the process ends.
pub trait FsLock: Send + Sync {}

/// A file system: the only way to files. Durability follows POSIX at its least generous, as the simulated disk models
/// it: file data and length are durable after [`File::sync`], names (create, rename, link, remove) after
/// [`Fs::sync_dir`] of their directory.
pub trait Fs: Send + Sync + 'static {
    /// Opens or creates a file.
    fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>>;
    /// Renames a file over whatever `to` is; atomic.
    fn rename(&self, from: &Path, to: &Path, tag: Tag) -> Op<()>;
    /// Makes `to` another name of the file `from`.
    fn hard_link(&self, from: &Path, to: &Path, tag: Tag) -> Op<()>;
    /// Removes a name of a file. Open files stay readable.
    fn remove(&self, path: &Path, tag: Tag) -> Op<()>;
    /// Creates a directory and its missing parents; not an error if it exists.
    fn create_dir_all(&self, path: &Path, tag: Tag) -> Op<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path, tag: Tag) -> Op<()>;
    /// The names in a directory, sorted.
    fn list(&self, path: &Path, tag: Tag) -> Op<Vec<DirEntry>>;
    /// Makes the names in a directory durable. An empty path is the working directory, as for [`Path::parent`].
    fn sync_dir(&self, path: &Path, tag: Tag) -> Op<()>;
    /// The real location of `path`: absolute, with every symbolic link followed. Components that do not exist yet stay
    /// as they are. A file system without links and without a working directory has nothing to follow.
    fn real_path(&self, path: &Path, _tag: Tag) -> Op<PathBuf> {
        Op::ready(Ok(path.to_path_buf()))
    }
    /// The whole file system that `path` is on. Open it before writing anything that its [`Volume::sync`] is to cover:
    /// it reports only errors since it was opened.
    ///
    /// # Errors
    /// `Invalid` where the file system cannot be synced as a whole, or would not report every error. Then sync file by
    /// file.
    fn volume(&self, path: &Path, _tag: Tag) -> Op<Arc<dyn Volume>> {
        Op::ready(Err(Error::new(
            ErrorKind::Invalid,
            "sync",
            path,
            "this kind of file system cannot be synced as a whole",
        )))
    }
    /// Locks `path` (created if missing) against other processes; [`crate::ErrorKind::Locked`] if somebody has it.
    fn lock(&self, path: &Path) -> Op<Box<dyn FsLock>>;
}

/// A file system as a whole.
pub trait Volume: Send + Sync {
    /// Makes data and length of all its files durable, by one call (syncfs). Names need [`Fs::sync_dir`].
    ///
    /// After an error some file has lost unsynced bytes. The error does not say which file; the next [`File::sync`] of
    /// that file fails.
    fn sync(&self, tag: Tag) -> Op<()>;
}

/// An open file. Operations at different offsets may run at the same time.
#[expect(clippy::len_without_is_empty, reason = "`len` is an I/O that can fail, not a collection's")]
pub trait File: Send + Sync {
    /// Reads into `buf` from `offset` until `buf.len()` bytes are there or the file ends. The buffer comes back with
    /// its length cut to what was read. Set the length first: `AlignedBuf::with_len`.
    fn read_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf>;
    /// Reads `len` bytes from `offset`, or up to the end of the file. The buffer is allocated only when it is the
    /// read's turn. Where the memory of reads in flight is limited, the read asks for its share of memory when it is
    /// polled, waits without holding any, and is submitted by the poll that gets the share.
    fn read_new(&self, offset: u64, len: usize, tag: Tag) -> Op<AlignedBuf> {
        self.read_at(offset, AlignedBuf::with_len(len), tag)
    }
    /// Writes all of `buf` at `offset` and gives the buffer back.
    fn write_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf>;
    /// Makes data and length durable (fdatasync). After an error the caller may assume nothing about any unsynced byte.
    fn sync(&self, tag: Tag) -> Op<()>;
    /// Called when a [`Volume::sync`] that covers this file begins: for wrappers that count unsynced bytes.
    fn sync_begins(&self) {}
    /// Reserves space up to `len` and sets the length to it; new bytes read as zero.
    fn allocate(&self, len: u64, tag: Tag) -> Op<()>;
    /// Reserves space for the first `len` bytes and leaves the length as it is. Later writes to these bytes need no
    /// free space.
    ///
    /// # Errors
    /// `NoSpace`: nothing was reserved. `Invalid` where the file system cannot reserve.
    fn reserve(&self, _len: u64, _tag: Tag) -> Op<()> {
        Op::ready(Err(Error::new(
            ErrorKind::Invalid,
            "reserve space for",
            "a file",
            "this kind of file cannot reserve space",
        )))
    }
    /// Cuts or extends the file to `len`.
    fn set_len(&self, len: u64, tag: Tag) -> Op<()>;
    /// The present length in bytes.
    fn len(&self) -> Op<u64>;
    /// A length behind which everything is known to be zero without being read, rounded up to whole blocks: space that
    /// was allocated and never written lies behind it. [`File::len`] where that is not known.
    fn data_end(&self, _tag: Tag) -> Op<u64> {
        self.len()
    }
    /// Whether the file was opened with [`OpenOptions::direct`] and the device honours it.
    fn is_direct(&self) -> bool;
    /// Offsets and lengths of reads should be multiples of this, in bytes, and in a direct file they must be. It is a
    /// sector, where the device can read single sectors, else [`crate::PAGE`]. It divides a page, so whole pages may be
    /// read as well.
    fn read_unit(&self) -> usize;
}
