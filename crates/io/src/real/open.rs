//! Opening a file of the machine.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use super::transfer::Handle;
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
