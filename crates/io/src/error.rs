//! Errors of the door: what happened, to which file, at which offset.

use std::fmt;
use std::path::{Path, PathBuf};

/// `Result` with the door's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of trouble, as the caller sees it: it decides what to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The file or directory is not there.
    NotFound,
    /// The file exists already, and the caller asked for a new one.
    AlreadyExists,
    /// No space left: retry later, nothing else is wrong.
    NoSpace,
    /// The memory that the caller may use is full; nothing was done.
    OutOfMemory,
    /// Another process holds the lock.
    Locked,
    /// The file ends before the bytes asked for.
    UnexpectedEof,
    /// The stored bytes are not the bytes that were written; the message says what disagreed.
    Corruption,
    /// The target of the call is being closed, or is closed already; nothing was done. A caller that knows what
    /// replaces the target can ask there.
    Closed,
    /// The caller asked for something impossible (alignment, read-only file).
    Invalid,
    /// Any other answer of the system (EIO and the like): the operation may or may not have happened.
    Device,
}

/// An error with its file, offset and cause. Cheap to clone, so that every waiter of a group commit can have it.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    action: &'static str,
    path: PathBuf,
    offset: Option<u64>,
    message: String,
}

impl Error {
    /// An error of `kind` while doing `action` ("read", "sync", "rename") on `path`.
    pub fn new(kind: ErrorKind, action: &'static str, path: impl AsRef<Path>, message: impl Into<String>) -> Self {
        Error(Box::new(Inner {
            kind,
            action,
            path: path.as_ref().to_path_buf(),
            offset: None,
            message: message.into(),
        }))
    }

    /// The bytes stored at `offset` of `path` are not the bytes that were written.
    pub fn corruption(path: impl AsRef<Path>, offset: u64, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corruption, "decode", path, message).at(offset)
    }

    /// An error that the operating system reported.
    pub fn from_std(action: &'static str, path: impl AsRef<Path>, error: &std::io::Error) -> Self {
        use std::io::ErrorKind as K;
        let kind = match error.kind() {
            K::NotFound => ErrorKind::NotFound,
            K::AlreadyExists => ErrorKind::AlreadyExists,
            K::StorageFull | K::QuotaExceeded => ErrorKind::NoSpace,
            K::WouldBlock => ErrorKind::Locked,
            K::UnexpectedEof => ErrorKind::UnexpectedEof,
            K::InvalidInput => ErrorKind::Invalid,
            _ => ErrorKind::Device,
        };
        Self::new(kind, action, path, error.to_string())
    }

    /// The same error, at `offset` bytes into the file.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.0.offset = Some(offset);
        self
    }

    /// The kind of trouble.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The file or directory concerned.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The byte offset concerned, where there is one.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        write!(f, "cannot {} {}", inner.action, inner.path.display())?;
        if let Some(offset) = inner.offset {
            write!(f, " at offset {offset}")?;
        }
        write!(f, ": {}", inner.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {}
