//! The disk below a directory, as the kernel numbers it.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::Result;

/// A whole disk: limits are set on disks and not on their partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub major: u32,
    pub minor: u32,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl Device {
    /// The disk that `dir` is on.
    pub fn below(dir: &Path) -> Result<Self> {
        let dev = fs::metadata(dir).map_err(|error| format!("{}: {error}", dir.display()))?.dev();
        let device = Self { major: rustix::fs::major(dev), minor: rustix::fs::minor(dev) };
        let no_disk = || {
            format!(
                "{} is on device {device}, which is no disk that the kernel can throttle (an overlay, a network or a memory file \
                 system?); choose another --dir, or leave out the caps",
                dir.display()
            )
        };
        // File systems without a disk of their own make up numbers with major 0.
        let node = Path::new("/sys/dev/block").join(device.to_string());
        if device.major == 0 || !node.exists() {
            return Err(no_disk().into());
        }
        if !node.join("partition").exists() {
            return Ok(device);
        }
        // The link names the partition's directory, which is inside its disk's.
        let disk = fs::canonicalize(&node)?.parent().ok_or_else(no_disk)?.join("dev");
        let text = fs::read_to_string(&disk).map_err(|error| format!("{}: {error}", disk.display()))?;
        parse(&text).ok_or_else(|| no_disk().into())
    }
}

/// Parses `254:0`, with a line end or without.
pub(super) fn parse(text: &str) -> Option<Device> {
    let (major, minor) = text.trim().split_once(':')?;
    Some(Device { major: major.parse().ok()?, minor: minor.parse().ok()? })
}
