//! The lock of a data directory: one process at a time.

use std::io::{Read, Seek, Write};
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::{Error, ErrorKind, FsLock, Result};

/// A lock that is held until it is dropped.
pub(super) struct FileLock {
    pub(super) file: std::fs::File,
}

impl FsLock for FileLock {}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing the descriptor is not enough: a process that another thread is starting has a copy of it until it
        // runs its program, and the lock lasts as long as any copy. Unlocking ends it for all of them.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

/// Takes the lock and writes our process id into the file, for the process that comes second.
pub(super) fn lock(path: &Path) -> Result<Box<dyn FsLock>> {
    Ok(Box::new(take(path)?))
}

pub(super) fn take(path: &Path) -> Result<FileLock> {
    let failed = |error: &std::io::Error| Error::from_std("lock", path, error);
    let mut file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(|error| failed(&error))?;
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return Err(Error::new(ErrorKind::Locked, "lock", path, holder(&mut file))),
            Err(error) => return Err(failed(&error.into())),
        }
    }
    let line = format!("{}\n", std::process::id());
    // The id is written over the old content, and the file is cut afterwards: on a full disk a block that was given
    // back may be gone. If it cannot be written at all, only the message for the process that comes second suffers.
    let _ = file.rewind().and_then(|()| file.write_all(line.as_bytes())).and_then(|()| file.set_len(line.len() as u64));
    Ok(FileLock { file })
}

/// The process that holds the lock, as far as the file says.
fn holder(file: &mut std::fs::File) -> String {
    let mut text = String::new();
    // If this cannot be read, only the message suffers; 32 bytes hold any process id.
    let _ = file.take(32).read_to_string(&mut text);
    match text.trim().parse::<u32>() {
        Ok(pid) => format!("another process holds it (pid {pid})"),
        Err(_) => "another process holds it".into(),
    }
}
