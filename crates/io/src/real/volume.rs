//! Syncing a whole file system.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::device::Device;
use super::threads::Lane;
use crate::{Error, ErrorKind, Op, Result, Tag, Volume};

/// The first kernel whose syncfs reports that a write-back failed.
const KERNEL: (u32, u32) = (5, 8);
/// File systems of which this is known: ext4, XFS, btrfs. An overlay syncs the file system below it and does not hear
/// of its errors.
const KINDS: [u64; 3] = [0xef53, 0x5846_5342, 0x9123_683e];

/// A whole file system; see [`Volume`]. The descriptor stays open: the kernel reports to it every error since it was
/// opened.
pub(super) struct RealVolume {
    fd: Arc<OwnedFd>,
    path: PathBuf,
    device: Arc<Device>,
}

impl RealVolume {
    /// The file system that the directory `path` is on.
    pub(super) fn open(path: &Path, device: Arc<Device>) -> Result<Self> {
        let failed = |error: Errno| Error::from_std("open", path, &error.into());
        let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let fd = fd.map_err(failed)?;
        let kind = rustix::fs::fstatfs(&fd).map_err(failed)?.f_type as u64;
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        if !KINDS.contains(&kind) || version(&release).is_none_or(|version| version < KERNEL) {
            let message =
                format!("file system type {kind:x} on kernel {} may not report all write errors", release.trim_end());
            return Err(Error::new(ErrorKind::Invalid, "sync", path, message));
        }
        Ok(Self { fd: Arc::new(fd), path: path.to_path_buf(), device })
    }
}

impl Volume for RealVolume {
    fn sync(&self, tag: Tag) -> Op<()> {
        let (fd, path) = (Arc::clone(&self.fd), self.path.clone());
        self.device.call(Lane::of(tag.class), move || {
            rustix::fs::syncfs(&fd).map_err(|error| Error::from_std("sync", &path, &error.into()))
        })
    }
}

/// Major and minor number of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_says_how_old_it_is() {
        assert_eq!(version("6.8.0-45-generic\n"), Some((6, 8)));
        assert_eq!(version("5.10.0+"), Some((5, 10)));
        assert_eq!(version("unknown"), None);
    }
}
