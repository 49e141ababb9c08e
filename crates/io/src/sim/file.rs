//! An open file of the simulated disk.

use std::path::PathBuf;
use std::sync::Arc;

use super::content::{CHUNK, LEN_MAX};
use super::counters::OpKind;
use super::device::Direction;
use super::disk::{Begun, Land, Outcome, Request, Shared};
use super::fate::Tear;
use super::fault::Fault;
use super::inode::FileInode;
use crate::{AlignedBuf, ErrorKind, File, Op, OpenOptions, PAGE, Result, Tag, Volume};

pub(super) struct SimFile {
    shared: Arc<Shared>,
    inode: Arc<FileInode>,
    options: OpenOptions,
    path: PathBuf,
    path_hash: u64,
}

impl SimFile {
    /// A handle; the caller has counted it in the inode.
    pub(super) fn new(shared: Arc<Shared>, inode: Arc<FileInode>, options: OpenOptions, request: &Request<'_>) -> Self {
        let path = request.path.to_path_buf();
        *shared.handles.lock().entry(path.clone()).or_default() += 1;
        Self { shared, inode, options, path, path_hash: request.path_hash }
    }

    fn request(&self, kind: OpKind, offset: u64, len: u64, tag: Tag) -> Request<'_> {
        Request { kind, tag, path: &self.path, path_hash: self.path_hash, offset, len }
    }

    /// Checks for requests that the kernel would refuse before it asks the disk.
    fn check(&self, request: &Request<'_>) -> Result<()> {
        let Request { kind, offset, len, .. } = *request;
        if kind != OpKind::Read && kind != OpKind::Sync && !self.options.write {
            return Err(request.error(ErrorKind::Invalid, "the file is open for reading only"));
        }
        if offset.checked_add(len).is_none_or(|end| end > LEN_MAX) {
            return Err(request.error(ErrorKind::Invalid, "beyond the largest file of the simulated disk (1 TiB)"));
        }
        let unit = if kind == OpKind::Read { self.read_unit() } else { PAGE } as u64;
        let aligned = offset.is_multiple_of(unit) && len.is_multiple_of(unit);
        if self.options.direct && matches!(kind, OpKind::Read | OpKind::Write) && !aligned {
            return Err(request.error(ErrorKind::Invalid, format!("{len} bytes are not aligned for direct I/O")));
        }
        Ok(())
    }

    fn begin(&self, request: &Request<'_>) -> Result<Begun<'_>> {
        self.check(request)?;
        self.shared.begin(request)
    }

    /// Does a write whose fault, if any, is known. Returns the bytes written and the result for the caller.
    fn write(&self, request: &Request<'_>, begun: &mut Begun<'_>, done_at: u64, bytes: &[u8]) -> (u64, Result<()>) {
        let number = begun.number;
        let mut file = self.inode.state.lock();
        let state = &mut *begun.state;
        let (offset, mut len) = (request.offset, bytes.len());
        let mut result = Ok(());
        if begun.fault == Some(Fault::NoSpace) {
            (len, result) = (0, Err(request.no_space()));
        } else if state.free_chunks != u64::MAX {
            let (fits, taken) = file.fitting(offset, len, state.free_chunks);
            state.take_space(taken);
            if fits < len {
                (len, result) = (fits, Err(request.no_space()));
            }
        }
        let sectors = (len as u64).div_ceil(super::content::SECTOR);
        match begun.fault {
            Some(Fault::Error) => {
                let mut tear = Tear::draw(state.faults.rng(), sectors);
                file.write_torn(number, done_at, offset, &bytes[..len], &mut tear);
                result = Err(request.io_error());
            }
            Some(Fault::ShortWrite) => {
                len = (state.faults.rng().below(sectors) * super::content::SECTOR) as usize;
                file.write(number, done_at, offset, &bytes[..len]);
                let message = format!("{len} of {} bytes written (simulated)", bytes.len());
                result = Err(request.error(ErrorKind::Device, message));
            }
            _ => file.write(number, done_at, offset, &bytes[..len]),
        }
        if !self.options.direct && !self.options.dsync {
            file.dirty.touch(offset, len as u64);
        }
        (len as u64, result)
    }

    /// Reserves the first `len` bytes. If `sets_length`, also makes the file that long.
    fn take_space(&self, len: u64, sets_length: bool, tag: Tag) -> Op<()> {
        let request = self.request(OpKind::Allocate, 0, len, tag);
        let mut begun = match self.begin(&request) {
            Ok(begun) => begun,
            Err(error) => return Op::ready(Err(error)),
        };
        let done_at = begun.state.device.metadata(begun.now);
        let mut file = self.inode.state.lock();
        let (number, free) = (begun.number, begun.state.free_chunks);
        let wanted = if free == u64::MAX { 0 } else { file.reserving(len) };
        let result = match begun.fault {
            Some(Fault::Error) => Err(request.io_error()),
            Some(_) => Err(request.no_space()),
            None if wanted > free => Err(request.no_space()),
            None => {
                begun.state.take_space(wanted);
                match sets_length {
                    true => file.allocate(number, done_at, len),
                    false => file.reserve(number, done_at, len),
                }
                Ok(())
            }
        };
        drop(file);
        self.shared.finish(&request, begun, Outcome { result, done_at, bytes: 0, land: None })
    }
}

impl File for SimFile {
    fn read_at(&self, offset: u64, mut buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        let request = self.request(OpKind::Read, offset, buf.len() as u64, tag);
        let mut begun = match self.begin(&request) {
            Ok(begun) => begun,
            Err(error) => return Op::ready(Err(error)),
        };
        let read = self.inode.state.lock().read(offset, &mut buf);
        buf.truncate(read);
        let done_at = begun.state.device.transfer(begun.now, Direction::Read, read as u64, false);
        let (result, bytes) = match begun.fault {
            None => (Ok(buf), read),
            Some(Fault::FlipBit) => {
                if read > 0 {
                    let bit = begun.state.faults.rng().below(read as u64 * 8);
                    buf[(bit / 8) as usize] ^= 1 << (bit % 8);
                }
                (Ok(buf), read)
            }
            Some(_) => (Err(request.io_error()), 0),
        };
        self.shared.finish(&request, begun, Outcome { result, done_at, bytes: bytes as u64, land: None })
    }

    fn write_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        let request = self.request(OpKind::Write, offset, buf.len() as u64, tag);
        let mut begun = match self.begin(&request) {
            Ok(begun) => begun,
            Err(error) => return Op::ready(Err(error)),
        };
        let OpenOptions { direct, dsync, .. } = self.options;
        // A write through the page cache costs the device nothing until the sync.
        let now = begun.now;
        let through = direct || dsync;
        let done_at =
            if through { begun.state.device.transfer(now, Direction::Write, buf.len() as u64, dsync) } else { now };
        let (bytes, result) = self.write(&request, &mut begun, done_at, &buf);
        let land = (dsync && result.is_ok()).then(|| Land::Write(Arc::clone(&self.inode)));
        self.shared.finish(&request, begun, Outcome { result: result.map(|()| buf), done_at, bytes, land })
    }

    fn sync(&self, tag: Tag) -> Op<()> {
        let request = self.request(OpKind::Sync, 0, 0, tag);
        let mut begun = match self.begin(&request) {
            Ok(begun) => begun,
            Err(error) => return Op::ready(Err(error)),
        };
        let (now, number) = (begun.now, begun.number);
        let (dirty, lost) = {
            let mut file = self.inode.state.lock();
            (file.dirty.clean(), std::mem::take(&mut file.lost))
        };
        let done_at = begun.state.device.transfer(now, Direction::Write, dirty, true);
        let (result, land) = if lost {
            (Err(request.io_error()), None)
        } else if begun.fault.is_some() {
            begun.state.shrinking(&self.inode, |file, faults| {
                let revert = faults.rng().chance(0.5);
                file.fail_sync(number, now, revert, faults.rng());
            });
            (Err(request.io_error()), None)
        } else {
            (Ok(()), Some(Land::Sync(Arc::clone(&self.inode))))
        };
        self.shared.finish(&request, begun, Outcome { result, done_at, bytes: 0, land })
    }

    fn allocate(&self, len: u64, tag: Tag) -> Op<()> {
        self.take_space(len, true, tag)
    }

    fn reserve(&self, len: u64, tag: Tag) -> Op<()> {
        self.take_space(len, false, tag)
    }

    fn set_len(&self, len: u64, tag: Tag) -> Op<()> {
        let request = self.request(OpKind::SetLen, 0, len, tag);
        let mut begun = match self.begin(&request) {
            Ok(begun) => begun,
            Err(error) => return Op::ready(Err(error)),
        };
        let number = begun.number;
        let done_at = begun.state.device.metadata(begun.now);
        let happens = begun.fault.is_none() || begun.state.faults.rng().chance(0.5);
        if happens {
            begun.state.shrinking(&self.inode, |file, _| file.set_len(number, done_at, len));
        }
        let result = begun.fault.map_or(Ok(()), |_| Err(request.io_error()));
        self.shared.finish(&request, begun, Outcome { result, done_at, bytes: 0, land: None })
    }

    fn len(&self) -> Op<u64> {
        Op::ready(Ok(self.inode.state.lock().len()))
    }

    fn data_end(&self, _tag: Tag) -> Op<u64> {
        Op::ready(Ok(self.inode.state.lock().data_end()))
    }

    fn is_direct(&self) -> bool {
        self.options.direct
    }

    fn read_unit(&self) -> usize {
        if self.options.direct { self.shared.sector_bytes } else { PAGE }
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        {
            let mut handles = self.shared.handles.lock();
            if let Some(open) = handles.get_mut(&self.path).filter(|open| **open > 1) {
                *open -= 1;
            } else {
                handles.remove(&self.path);
            }
        }
        let mut state = self.shared.lock();
        self.inode.state.lock().handles -= 1;
        state.release(&self.inode);
    }
}

/// The whole disk as a [`Volume`].
pub(super) struct SimVolume {
    pub(super) shared: Arc<Shared>,
    pub(super) path: PathBuf,
}

impl Volume for SimVolume {
    fn sync(&self, tag: Tag) -> Op<()> {
        let request = Request::on(OpKind::SyncAll, &self.path, tag);
        let mut begun = match self.shared.begin(&request) {
            Ok(begun) => begun,
            Err(error) => return Op::ready(Err(error)),
        };
        let (now, number) = (begun.now, begun.number);
        let files = begun.state.files();
        let dirty = files.iter().map(|file| file.state.lock().dirty.clean()).sum();
        let done_at = begun.state.device.transfer(now, Direction::Write, dirty, true);
        let (result, land) = if begun.fault.is_some() {
            for file in files {
                begun.state.shrinking(&file, |file, faults| {
                    if file.pending_range().is_some() && faults.rng().chance(0.5) {
                        let revert = faults.rng().chance(0.5);
                        file.fail_sync(number, now, revert, faults.rng());
                        file.lost = true;
                    }
                });
            }
            (Err(request.io_error()), None)
        } else {
            (Ok(()), Some(Land::SyncAll))
        };
        self.shared.finish(&request, begun, Outcome { result, done_at, bytes: 0, land })
    }
}

/// Chunks and pages are the same size, so that an aligned write never copies.
const _: () = assert!(CHUNK == PAGE);
