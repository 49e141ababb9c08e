//! An open file of the real file system.

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

use super::blocking::may_block;
use super::device::Device;
use super::threads::Lane;
use super::transfer::{Handle, Transfer, Verb};
use crate::{AlignedBuf, Error, ErrorKind, File, Op, PAGE, Result, Tag};

/// An open file of the machine; see [`File`].
pub(super) struct RealFile {
    pub(super) handle: Arc<Handle>,
    pub(super) device: Arc<Device>,
}

impl RealFile {
    fn transfer(&self, verb: Verb, offset: u64, buf: AlignedBuf) -> Transfer {
        Transfer::new(Arc::clone(&self.handle), verb, offset, buf)
    }

    /// Refuses whatever direct I/O cannot do, even where the file system does not support direct I/O: a caller that
    /// works there must work everywhere.
    fn checked(&self, verb: Verb, offset: u64, buf: AlignedBuf) -> Result<Transfer> {
        let len = buf.len();
        let transfer = self.transfer(verb, offset, buf);
        if verb == Verb::Write && !self.handle.write {
            return Err(transfer.refuse(ErrorKind::Invalid, "the file is open for reading only"));
        }
        let unit = if verb == Verb::Read { self.handle.read_unit } else { PAGE };
        if self.handle.aligned && !(offset.is_multiple_of(unit as u64) && len.is_multiple_of(unit)) {
            let message = format!("direct I/O of {len} bytes: offset and length must be multiples of {unit}");
            return Err(transfer.refuse(ErrorKind::Invalid, &message));
        }
        Ok(transfer)
    }

    /// Runs a call that concerns this file's length, on a thread that may block.
    fn call(
        &self,
        action: &'static str,
        tag: Tag,
        call: impl Fn(&Handle) -> Result<(), Errno> + Send + 'static,
    ) -> Op<()> {
        let handle = Arc::clone(&self.handle);
        self.device.call(Lane::of(tag.class), move || {
            loop {
                match call(&handle) {
                    Ok(()) => return Ok(()),
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(Error::from_std(action, &handle.path, &error.into())),
                }
            }
        })
    }
}

/// The end of the last extent that was written. Blocks that are only allocated count as a hole, unless the page cache
/// holds data for them. Moves the descriptor's offset, which nothing else uses.
fn data_end(fd: &impl AsFd) -> Result<u64, Errno> {
    let mut end = 0;
    loop {
        match rustix::fs::seek(fd, SeekFrom::Data(end)) {
            Ok(data) => end = rustix::fs::seek(fd, SeekFrom::Hole(data))?,
            // No data behind `end`.
            Err(Errno::NXIO) => return Ok(end),
            // A file system without holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return rustix::fs::fstat(fd).map(|stat| stat.st_size as u64),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

impl File for RealFile {
    fn read_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        let transfer = match self.checked(Verb::Read, offset, buf) {
            Ok(transfer) => transfer,
            Err(error) => return Op::ready(Err(error)),
        };
        if may_block() {
            return Op::ready(transfer.run());
        }
        if self.handle.direct {
            return self.device.submit(Lane::of(tag.class), transfer);
        }
        match transfer.run_cached() {
            Ok(result) => Op::ready(result),
            Err(rest) => self.device.submit(Lane::of(tag.class), rest),
        }
    }

    fn write_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        let transfer = match self.checked(Verb::Write, offset, buf) {
            Ok(transfer) => transfer,
            Err(error) => return Op::ready(Err(error)),
        };
        let into_cache = !self.handle.direct && !self.handle.dsync;
        if into_cache || may_block() {
            return Op::ready(transfer.run());
        }
        self.device.submit(Lane::of(tag.class), transfer)
    }

    fn sync(&self, tag: Tag) -> Op<()> {
        let transfer = self.transfer(Verb::Sync, 0, AlignedBuf::new());
        if may_block() {
            return Op::ready(transfer.run().map(drop));
        }
        let synced = self.device.submit(Lane::of(tag.class), transfer);
        Op::pending(async move { synced.await.map(drop) })
    }

    fn allocate(&self, len: u64, tag: Tag) -> Op<()> {
        self.call("allocate", tag, move |handle| {
            let present = rustix::fs::fstat(&handle.fd)?.st_size as u64;
            // fallocate does not accept a length of 0, and never shortens.
            if len > present {
                match rustix::fs::fallocate(&handle.fd, FallocateFlags::empty(), 0, len) {
                    // Setting the length will do: reserving space is up to the file system.
                    Err(Errno::OPNOTSUPP) => {}
                    result => return result,
                }
            }
            rustix::fs::ftruncate(&handle.fd, len)
        })
    }

    fn reserve(&self, len: u64, tag: Tag) -> Op<()> {
        let handle = Arc::clone(&self.handle);
        self.device.call(Lane::of(tag.class), move || {
            loop {
                match rustix::fs::fallocate(&handle.fd, FallocateFlags::KEEP_SIZE, 0, len) {
                    Ok(()) => return Ok(()),
                    Err(Errno::INTR) => {}
                    Err(Errno::OPNOTSUPP) => {
                        let message = "this file system cannot reserve space";
                        return Err(Error::new(ErrorKind::Invalid, "reserve space for", &handle.path, message));
                    }
                    Err(error) => return Err(Error::from_std("reserve space for", &handle.path, &error.into())),
                }
            }
        })
    }

    fn set_len(&self, len: u64, tag: Tag) -> Op<()> {
        self.call("resize", tag, move |handle| rustix::fs::ftruncate(&handle.fd, len))
    }

    fn len(&self) -> Op<u64> {
        let stat = rustix::fs::fstat(&self.handle.fd);
        Op::ready(
            stat.map(|stat| stat.st_size as u64)
                .map_err(|error| Error::from_std("inspect", &self.handle.path, &error.into())),
        )
    }

    fn data_end(&self, tag: Tag) -> Op<u64> {
        let handle = Arc::clone(&self.handle);
        self.device.call(Lane::of(tag.class), move || {
            data_end(&handle.fd).map_err(|error| Error::from_std("inspect", &handle.path, &error.into()))
        })
    }

    fn is_direct(&self) -> bool {
        self.handle.direct
    }

    fn read_unit(&self) -> usize {
        self.handle.read_unit
    }
}
