//! Opening a file on the machine.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use super::transfer::{Handle, SECTOR};
use crate::{OpenOptions, PAGE};

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
    let handle = |fd, read_unit: Option<usize>| Handle {
        fd,
        path: path.to_path_buf(),
        direct: read_unit.is_some(),
        aligned: options.direct,
        write: options.write,
        dsync: options.dsync,
        read_unit: read_unit.unwrap_or(PAGE),
    };
    if options.direct {
        match opened(flags | OFlags::DIRECT) {
            Ok(fd) => {
                if let Some(unit) = direct_unit(&fd) {
                    return Ok(handle(fd, Some(unit)));
                }
                let flags = rustix::fs::fcntl_getfl(&fd)?;
                rustix::fs::fcntl_setfl(&fd, flags - OFlags::DIRECT)?;
                return Ok(handle(fd, None));
            }
            // The kernel creates the file before it refuses the flag, so a new file exists by now: had it existed
            // before, the answer would have been another.
            Err(Errno::INVAL) => flags.remove(OFlags::EXCL),
            Err(error) => return Err(error),
        }
    }
    opened(flags).map(|fd| handle(fd, None))
}

/// The unit of direct reads of this file, in bytes; `None` if direct I/O does not work on it in units of a page. Some
/// file systems accept the flag and use the page cache all the same (a journal of data, encryption), and some devices
/// need larger units. Kernels before 6.1 do not say; then we assume that it works, by the page.
fn direct_unit(fd: &OwnedFd) -> Option<usize> {
    match rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) {
        Ok(facts) if facts.stx_mask & StatxFlags::DIOALIGN.bits() != 0 => {
            let fits = |align: u32| align != 0 && align <= PAGE as u32;
            let works = fits(facts.stx_dio_offset_align) && fits(facts.stx_dio_mem_align);
            works.then(|| (facts.stx_dio_offset_align as usize).next_power_of_two().max(SECTOR))
        }
        _ => Some(PAGE),
    }
}
