//! A file system whose data passes the gates.

use std::path::Path;
use std::sync::Arc;

use weir_io::{AlignedBuf, Class, File, Fs, Op, OpenOptions, Owner, Result, Tag, forward_file, forward_fs};

use crate::dirty::DirtyPages;
use crate::door::{Door, Held, Pass};
use crate::gate::Gate;
use crate::ledger::Ledger;
use crate::limits::Direction;
use crate::partition::PartitionGate;

/// An [`Fs`] for one owner. Data and syncs pass the partition gate, then the node gate, and are booked when they are
/// issued to the disk (U-29: device bytes, after every cache); names and lengths pass freely.
///
/// A write through the page cache costs the pages that it makes dirty, which is what the device gets, and a read that the page
/// cache answered at once nothing.
///
/// Everything that passes is the owner's, whatever owner the tag says: a partition cannot spend in another's name.
/// A sync costs one operation and no bytes. Background I/O larger than a grant is issued in pieces, two at a time, so
/// that nothing urgent waits behind it; a failed or dropped one may have been done in part, like any other I/O.
///
/// An I/O that must wait is issued when its future is polled after the grant. One that is dropped before gives its
/// place and its tokens back.
pub struct GatedFs {
    inner: Arc<dyn Fs>,
    door: Arc<Door>,
}

impl GatedFs {
    /// The file system of a partition: both gates.
    pub fn partition(inner: Arc<dyn Fs>, partition: Arc<PartitionGate>, node: Arc<Gate>, ledger: &Ledger) -> Arc<Self> {
        let owner = partition.owner();
        let door = Arc::new(Door::new(owner, Some(partition), node, ledger.account(owner)));
        Arc::new(Self { inner, door })
    }

    /// The file system of the node's own work (catalogue, checks): the node gate only.
    pub fn node(inner: Arc<dyn Fs>, owner: Owner, node: Arc<Gate>, ledger: &Ledger) -> Arc<Self> {
        let door = Arc::new(Door::new(owner, None, node, ledger.account(owner)));
        Arc::new(Self { inner, door })
    }
}

impl Fs for GatedFs {
    fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
        let door = Arc::clone(&self.door);
        let gated = move |inner: Arc<dyn File>| -> Arc<dyn File> {
            let dirty = (!inner.is_direct() && !options.dsync).then(Arc::<DirtyPages>::default);
            Arc::new(GatedFile { inner, door, dirty })
        };
        match self.inner.open(path, options, tag) {
            Op::Ready(result) => Op::Ready(result.map(|result| result.map(gated))),
            pending => Op::pending(async move { pending.await.map(gated) }),
        }
    }

    fn sync_dir(&self, path: &Path, tag: Tag) -> Op<()> {
        let path = path.to_path_buf();
        sync(&self.inner, &self.door, tag, move |fs| fs.sync_dir(&path, tag))
    }

    forward_fs!(inner: rename, hard_link, remove, create_dir_all, remove_dir, list, lock);
}

/// An open file behind the gates.
struct GatedFile {
    inner: Arc<dyn File>,
    door: Arc<Door>,
    /// Of a file behind the page cache.
    dirty: Option<Arc<DirtyPages>>,
}

impl File for GatedFile {
    fn read_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        let piece = self.door.piece_bytes(tag.class, Direction::Read);
        if buf.len() as u64 > piece {
            return read_in_pieces(self, offset, buf, tag, piece as usize);
        }
        self.read(offset, buf, tag)
    }

    fn write_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        let piece = self.door.piece_bytes(tag.class, Direction::Write);
        if buf.len() as u64 > piece {
            return write_in_pieces(self, offset, buf, tag, piece as usize);
        }
        self.write(offset, buf, tag)
    }

    fn sync(&self, tag: Tag) -> Op<()> {
        let dirty = self.dirty.clone();
        sync(&self.inner, &self.door, tag, move |file| {
            if let Some(dirty) = dirty {
                dirty.clean();
            }
            file.sync(tag)
        })
    }

    forward_file!(inner: allocate, set_len, len, is_direct);
}

/// One operation on its way: what it is booked as.
#[derive(Clone, Copy)]
struct Entry {
    class: Class,
    direction: Direction,
    bytes: u64,
}

/// How many bytes a finished I/O really moved, if that can be fewer than it asked for.
struct Moved<T> {
    of: fn(&T) -> u64,
    /// Whether the file is behind the page cache: an answer without waiting then came from there.
    cached: bool,
}

impl<T> Clone for Moved<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Moved<T> {}

/// Passes the gates, books, and does `io`, at once if nothing waits.
fn issue<T: Unpin + Send + 'static, I: ?Sized + Send + Sync + 'static>(
    inner: &Arc<I>,
    door: &Arc<Door>,
    entry: Entry,
    moved: Option<Moved<T>>,
    io: impl FnOnce(&I) -> Op<T> + Send + 'static,
) -> Op<T> {
    let Entry { class, direction, bytes } = entry;
    let held = match door.pass(class, direction, bytes) {
        Pass::Ready(held) => held,
        Pass::Waiting(pass) => {
            let (inner, door) = (Arc::clone(inner), Arc::clone(door));
            return Op::pending(async move {
                let held = pass.await;
                door.account().book(class, direction, bytes);
                match io(&*inner) {
                    Op::Ready(Some(result)) => {
                        drop(held);
                        correct(&door, entry, moved, &result, true);
                        result
                    }
                    op => finish(op, &door, entry, moved, held).await,
                }
            });
        }
    };
    // Booked when issued: the device may do it even if nobody waits for the end.
    door.account().book(class, direction, bytes);
    match io(&**inner) {
        Op::Ready(Some(result)) => {
            correct(door, entry, moved, &result, true);
            Op::ready(result)
        }
        // Nothing to do at the end: the device's own future will do.
        op if moved.is_none() && held.is_free() => op,
        op => {
            let door = Arc::clone(door);
            Op::pending(async move { finish(op, &door, entry, moved, held).await })
        }
    }
}

/// Keeps `held` until `op` is over, and sets the books right.
async fn finish<T: Unpin>(op: Op<T>, door: &Door, entry: Entry, moved: Option<Moved<T>>, held: Held) -> Result<T> {
    let result = op.await;
    drop(held);
    correct(door, entry, moved, &result, false);
    result
}

fn correct<T>(door: &Door, entry: Entry, moved: Option<Moved<T>>, result: &Result<T>, at_once: bool) {
    if let (Some(moved), Ok(value)) = (moved, result) {
        let done = if moved.cached && at_once { 0 } else { (moved.of)(value) };
        let less = entry.bytes.saturating_sub(done);
        if less > 0 {
            door.account().correct(entry.class, entry.direction, less);
        }
    }
}

impl GatedFile {
    /// Another handle on the same open file, for what goes on after the call.
    fn again(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), door: Arc::clone(&self.door), dirty: self.dirty.clone() }
    }

    /// One read, uncut. Across the end of the file it moves less than it asked for.
    fn read(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        let entry = Entry { class: tag.class, direction: Direction::Read, bytes: buf.len() as u64 };
        let cached = self.dirty.is_some();
        let moved = Some(Moved { of: |got: &AlignedBuf| got.len() as u64, cached });
        issue(&self.inner, &self.door, entry, moved, move |file| file.read_at(offset, buf, tag))
    }

    /// One write, uncut.
    fn write(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        let len = buf.len() as u64;
        let bytes = self.dirty.as_ref().map_or(len, |dirty| dirty.touch(offset, len));
        let entry = Entry { class: tag.class, direction: Direction::Write, bytes };
        issue(&self.inner, &self.door, entry, None, move |file| file.write_at(offset, buf, tag))
    }
}

/// A sync: one operation, no bytes of its own.
fn sync<I: ?Sized + Send + Sync + 'static>(
    inner: &Arc<I>,
    door: &Arc<Door>,
    tag: Tag,
    io: impl FnOnce(&I) -> Op<()> + Send + 'static,
) -> Op<()> {
    issue(inner, door, Entry { class: tag.class, direction: Direction::Write, bytes: 0 }, None, io)
}

/// Reads `buf.len()` bytes in pieces, the next one issued before the last one is awaited.
fn read_in_pieces(file: &GatedFile, offset: u64, mut buf: AlignedBuf, tag: Tag, piece: usize) -> Op<AlignedBuf> {
    let file = file.again();
    let start = move |at: usize, end: usize| {
        (at < end).then(|| {
            let len = piece.min(end - at);
            (at, len, file.read(offset + at as u64, AlignedBuf::with_len(len), tag))
        })
    };
    let mut next = start(0, buf.len());
    Op::pending(async move {
        let mut filled = 0;
        let mut ended = false;
        while let Some((at, len, op)) = next.take() {
            // Past the end of the file nothing more is asked for, but what was asked for is awaited.
            next = if ended { None } else { start(at + len, buf.len()) };
            let part = op.await?;
            if !ended {
                buf[at..at + part.len()].copy_from_slice(&part);
                filled = at + part.len();
            }
            ended |= part.len() < len;
        }
        buf.truncate(filled);
        Ok(buf)
    })
}

/// Writes `buf` in pieces, the next one issued before the last one is awaited.
fn write_in_pieces(file: &GatedFile, offset: u64, buf: AlignedBuf, tag: Tag, piece: usize) -> Op<AlignedBuf> {
    let file = file.again();
    let start = move |at: usize, buf: &AlignedBuf| {
        (at < buf.len()).then(|| {
            let end = buf.len().min(at + piece);
            (end, file.write(offset + at as u64, AlignedBuf::copy_of(&buf[at..end]), tag))
        })
    };
    let mut next = start(0, &buf);
    Op::pending(async move {
        while let Some((end, op)) = next.take() {
            next = start(end, &buf);
            let written: Result<AlignedBuf> = op.await;
            written?;
        }
        Ok(buf)
    })
}
