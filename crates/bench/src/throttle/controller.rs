//! Finds the machine's I/O controller, and knows what to write to its files.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Caps;
use super::device::Device;
use crate::Result;

/// Version of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// `blkio.throttle.*`.
    One,
    /// `io.max`.
    Two,
}

/// Where groups can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Controller {
    pub version: Version,
    /// Our group becomes a child of this one.
    pub parent: PathBuf,
}

/// Bytes that passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// Bytes read from the disk.
    pub read: u64,
    /// Bytes written to the disk.
    pub written: u64,
}

impl Controller {
    /// Finds the controller that this machine has.
    pub fn find() -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|error| format!("mountinfo: {error}"))?;
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let has_io = |mount: &Path| fs::read_to_string(mount.join("cgroup.controllers")).unwrap_or_default();
        choose(&mounts, &own, has_io).ok_or_else(|| {
            "this machine has no control groups that throttle a disk (neither blkio of version 1 nor io of version 2); \
             everything works without --cap-mbps, --cap-read-mbps and --cap-write-mbps"
                .into()
        })
    }

    /// Version 2 hands a controller to children only if told to; this setting stays.
    pub fn enable(&self) -> Result<()> {
        let file = self.parent.join("cgroup.subtree_control");
        let is_on = || fs::read_to_string(&file).is_ok_and(|text| text.split_whitespace().any(|word| word == "io"));
        if self.version == Version::One || is_on() {
            return Ok(());
        }
        fs::write(&file, "+io").map_err(|error| format!("\"+io\" to {}: {error}", file.display()).into())
    }
}

/// Chooses from `/proc/self/mountinfo`, `/proc/self/cgroup` and what a mount of version 2 has in `cgroup.controllers`.
pub(super) fn choose(mounts: &str, own: &str, controllers: impl Fn(&Path) -> String) -> Option<Controller> {
    let mut second = None;
    for line in mounts.lines() {
        // 36 35 0:30 /root /mount options [tags] - type source super-options
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let mut right = right.split(' ');
        let (kind, options) = (right.next().unwrap_or_default(), right.nth(1).unwrap_or_default());
        let Some(mount) = left.split(' ').nth(4).map(unescaped) else { continue };
        if kind == "cgroup" && options.split(',').any(|option| option == "blkio") {
            // Groups nest: ours is made below the one we are in, so that limits on us still hold.
            let below = own.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
            let own = below
                .into_iter()
                .find(|(names, _)| names.split(',').any(|name| name == "blkio"))
                .map_or("", |(_, path)| path.trim_start_matches('/'));
            return Some(Controller {
                version: Version::One,
                parent: if own.is_empty() { mount } else { mount.join(own) },
            });
        }
        if kind == "cgroup2" && controllers(&mount).split_whitespace().any(|name| name == "io") {
            // Below the root, because in version 2 a group that has processes of its own cannot have children with
            // limits.
            second = Some(Controller { version: Version::Two, parent: mount });
        }
    }
    second
}

/// `mountinfo` writes spaces and the like as `\040`.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code =
            (first == b'\\').then(|| after.get(..3)).flatten().and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    PathBuf::from(String::from_utf8_lossy(&bytes).into_owned())
}

/// The files and what to write into them.
pub(super) fn settings(version: Version, device: Device, caps: Caps) -> Vec<(&'static str, String)> {
    match version {
        // 0 takes a limit away.
        Version::One => vec![
            ("blkio.throttle.read_bps_device", format!("{device} {}", caps.read)),
            ("blkio.throttle.write_bps_device", format!("{device} {}", caps.write)),
        ],
        Version::Two => {
            let rate = |cap: u64| if cap == 0 { "max".to_owned() } else { cap.to_string() };
            vec![("io.max", format!("{device} rbps={} wbps={}", rate(caps.read), rate(caps.write)))]
        }
    }
}

/// The file with the counters.
pub(super) const fn counters(version: Version) -> &'static str {
    match version {
        Version::One => "blkio.throttle.io_service_bytes",
        Version::Two => "io.stat",
    }
}

/// What the counters say about `device`; zeros if they say nothing.
pub(super) fn moved(version: Version, device: Device, text: &str) -> Moved {
    let device = device.to_string();
    let mut moved = Moved::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if words.next() != Some(&device) {
            continue;
        }
        let number = |text: Option<&str>| text.and_then(|text| text.parse().ok()).unwrap_or(0);
        match version {
            Version::One => match words.next() {
                Some("Read") => moved.read = number(words.next()),
                Some("Write") => moved.written = number(words.next()),
                _ => {}
            },
            Version::Two => words.for_each(|word| match word.split_once('=') {
                Some(("rbytes", bytes)) => moved.read = number(Some(bytes)),
                Some(("wbytes", bytes)) => moved.written = number(Some(bytes)),
                _ => {}
            }),
        }
    }
    moved
}
