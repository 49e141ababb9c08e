//! The kernel's block throttle around a child process: the disk becomes as slow as we say, but only for this child.
//!
//! A control group of ours is made for one run and removed after it: with version 1 of the `blkio` controller if that
//! is mounted, else with `io` of version 2. Limits hold for reads and for writes separately, in bytes per second on the
//! whole disk below the directory. Writes from the page cache are charged when they are written back: to the process
//! that syncs, or to nobody that we know of. So contestants read and write tables directly, and sync their logs
//! themselves.

mod controller;
mod device;
mod pool;
mod watch;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::controller::Moved;
use self::controller::{Controller, Version};
use self::device::Device;
pub(crate) use self::pool::Pool;
use crate::Result;

/// The beginning of our groups' names; the number of the process that made the group follows.
const PREFIX: &str = "weir-bench-";
/// A group can be removed a moment after its last process has ended.
const REMOVE_TRIES: u32 = 50;
const REMOVE_PAUSE: Duration = Duration::from_millis(20);

/// Bytes per second in each direction; 0 = not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caps {
    /// Limit of reads from the disk.
    pub read: u64,
    /// Limit of writes to the disk.
    pub write: u64,
    /// Whether both are one pool, of which each direction gets what it asks for; see [`Pool`].
    #[serde(default)]
    pub shared: bool,
}

impl Caps {
    /// No limit.
    pub const NONE: Caps = Caps { read: 0, write: 0, shared: false };

    /// Caps from decimal megabytes per second, as the command line has them.
    pub fn from_mbps(read: Option<f64>, write: Option<f64>) -> Self {
        let bytes = |mbps: Option<f64>| (mbps.unwrap_or(0.0).max(0.0) * 1e6) as u64;
        Self { read: bytes(read), write: bytes(write), shared: false }
    }

    /// A pool of `bytes` a second for reads and writes together, divided evenly to begin with.
    pub fn pool(bytes: u64) -> Self {
        Self { read: bytes / 2, write: bytes - bytes / 2, shared: true }
    }

    /// The sum of both, if both are limited.
    pub fn all(self) -> Option<u64> {
        (self.read > 0 && self.write > 0).then_some(self.read + self.write)
    }

    /// Whether nothing is limited.
    pub fn is_none(self) -> bool {
        self.read == 0 && self.write == 0
    }
}

/// A control group of ours; removed when dropped, and when this process is asked to end.
#[derive(Debug)]
pub struct Throttle {
    version: Version,
    group: PathBuf,
    device: Device,
}

impl Throttle {
    /// Makes a group for the disk that `dir` is on. It limits nothing yet.
    ///
    /// # Errors
    /// The error says in words for the person at the terminal what is missing: we are not root, or there is no such
    /// controller, or no disk below the directory.
    pub fn create(dir: &Path) -> Result<Self> {
        let device = Device::below(dir)?;
        let controller = Controller::find()?;
        sweep(&controller.parent);
        let version = controller.version;
        let group = controller.parent.join(format!("{PREFIX}{}", std::process::id()));
        controller.enable()?;
        match fs::create_dir(&group) {
            // We have one group at a time: an earlier one of this process is about to be removed.
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(format!(
                    "no control group can be made in {}: {error}; the caps need root, without them everything else works",
                    controller.parent.display()
                )
                .into());
            }
            _ => {}
        }
        watch::remove_on_signals(&group);
        let throttle = Self { version, group, device };
        throttle.cap(Caps::NONE)?;
        Ok(throttle)
    }

    /// Puts a process, with all its threads, under the throttle.
    pub fn admit(&self, process: u32) -> Result<()> {
        self.write("cgroup.procs", &process.to_string())
    }

    /// Limits to `caps` from now on.
    pub fn cap(&self, caps: Caps) -> Result<()> {
        controller::settings(self.version, self.device, caps).iter().try_for_each(|(file, text)| self.write(file, text))
    }

    /// What the group has read and written on this disk since it was made, by the kernel's count.
    pub fn moved(&self) -> Result<Moved> {
        let path = self.group.join(controller::counters(self.version));
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(controller::moved(self.version, self.device, &text))
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.group.join(file);
        fs::write(&path, text).map_err(|error| format!("{text:?} to {}: {error}", path.display()).into())
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // Processes that are still inside end at full speed. If the removal fails, the group stays, and the next run
        // sweeps it away.
        let _ = self.cap(Caps::NONE);
        for _ in 0..REMOVE_TRIES {
            match fs::remove_dir(&self.group) {
                Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => thread::sleep(REMOVE_PAUSE),
                _ => break,
            }
        }
        watch::forget();
    }
}

/// Removes groups of ours whose makers were killed.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if is_left_over(&entry.file_name().to_string_lossy(), |process| Path::new("/proc").join(process).exists()) {
            // A process may still be in it, or another run sweeps as well.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn is_left_over(name: &str, is_alive: impl Fn(&str) -> bool) -> bool {
    let process = name.strip_prefix(PREFIX).filter(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()));
    process.is_some_and(|process| !is_alive(process))
}

#[cfg(test)]
mod tests;
