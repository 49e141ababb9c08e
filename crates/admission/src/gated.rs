//! A file system whose data passes the gates.

use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use weir_io::{
    AlignedBuf, Class, File, Fs, Op, OpenOptions, Owner, Result, Spawn, Tag, Volume, forward_file, forward_fs,
};

use crate::dirty::DirtyPages;
use crate::door::{Door, Held, Pass};
use crate::gate::Gate;
use crate::ledger::{Account, Ledger};
use crate::limits::Direction;
use crate::partition::PartitionGate;
use crate::spawned::spawn_op;
use crate::waits;

/// An [`Fs`] for one owner. Data and syncs pass the partition gate, then the node gate, and are booked when they are
/// issued to the disk (U-29: device bytes, after every cache); names and lengths pass freely.
///
/// A write through the page cache costs the pages that it makes dirty, and one operation for a run of them, because
/// that is what the device gets. A read that the page cache answered at once costs nothing.
///
/// Everything that passes is booked to the owner, whatever owner the tag says: a partition cannot spend in another's
/// name. A sync costs one operation and no bytes. Background I/O larger than a grant is issued in pieces, two at a
/// time, so that nothing urgent waits behind it. If such an I/O fails or is dropped, it may have been done in part,
/// like any other I/O.
///
/// An I/O that must wait is issued when its future is polled after the grant; background I/O of a partition is issued
/// whether or not anybody polls it. An I/O that is dropped before that gives its place and its tokens back.
pub struct GatedFs {
    inner: Arc<dyn Fs>,
    door: Arc<Door>,
    /// Says whose the writes are, where several owners have a file in common.
    sharers: Option<Arc<dyn Sharers>>,
    /// The executor on which background I/O that must wait runs.
    spawn: Option<Arc<dyn Spawn>>,
}

impl GatedFs {
    /// The file system of a partition: both gates. Background I/O that must wait runs on `spawn`.
    pub fn partition(
        inner: Arc<dyn Fs>,
        partition: Arc<PartitionGate>,
        node: Arc<Gate>,
        ledger: &Ledger,
        spawn: Arc<dyn Spawn>,
    ) -> Arc<Self> {
        let owner = partition.owner();
        let door = Arc::new(Door::new(owner, Some(partition), node, ledger.account(owner)));
        Arc::new(Self { inner, door, sharers: None, spawn: Some(spawn) })
    }

    /// The file system of work that is no partition's yet (restores): the node gate only.
    pub fn node(inner: Arc<dyn Fs>, owner: Owner, node: Arc<Gate>, ledger: &Ledger) -> Arc<Self> {
        let door = Arc::new(Door::new(owner, None, node, ledger.account(owner)));
        Arc::new(Self { inner, door, sharers: None, spawn: None })
    }

    /// The file system of the node's own books (catalogue, bill, directories): the node gate only, which everything
    /// passes as foreground but what is of class [`Class::Flush`]. It is little, and a client or an operator waits for
    /// most of it. Behind the strict foreground of others they would wait until these are silent.
    pub fn urgent(inner: Arc<dyn Fs>, owner: Owner, node: Arc<Gate>, ledger: &Ledger) -> Arc<Self> {
        let door = Arc::new(Door::new(owner, None, node, ledger.account(owner)).urgent());
        Arc::new(Self { inner, door, sharers: None, spawn: None })
    }

    /// The file system of the node for files that several owners have in common: the node gate only. Writes of class
    /// [`Class::Log`] are booked to the owners of what is written. Each of these has to pass its own gate with its part
    /// before ([`OwnGate`](crate::OwnGate)). What passes as foreground is as in [`GatedFs::urgent`].
    pub fn shared(
        inner: Arc<dyn Fs>,
        owner: Owner,
        node: Arc<Gate>,
        ledger: &Ledger,
        sharers: Arc<dyn Sharers>,
    ) -> Arc<Self> {
        let door = Arc::new(Door::new(owner, None, node, ledger.account(owner)).urgent());
        Arc::new(Self { inner, door, sharers: Some(sharers), spawn: None })
    }
}

/// Says which owners have parts of what is written to a file that several owners have in common.
pub trait Sharers: Send + Sync + 'static {
    /// The accounts of the owners that have something in `buf`, each with its number of bytes. Bytes that belong to
    /// nobody (such as padding) are booked to them in the same proportion. Empty if all of `buf` belongs to nobody.
    fn parts(&self, buf: &[u8]) -> Parts;
}

/// Accounts, each with a number of bytes.
pub type Parts = Vec<(Arc<Account>, u64)>;

impl Fs for GatedFs {
    fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
        let (door, sharers, spawn) = (Arc::clone(&self.door), self.sharers.clone(), self.spawn.clone());
        let gated = move |inner: Arc<dyn File>| -> Arc<dyn File> {
            let dirty = (!inner.is_direct() && !options.dsync).then(Arc::<DirtyPages>::default);
            let sharers = sharers.map(|sharers| Shared { sharers, unbooked: Arc::default() });
            Arc::new(GatedFile { inner, door, dirty, sharers, spawn })
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

    fn volume(&self, path: &Path, tag: Tag) -> Op<Arc<dyn Volume>> {
        let door = Arc::clone(&self.door);
        let opened = self.inner.volume(path, tag);
        Op::pending(async move { Ok(Arc::new(GatedVolume { inner: opened.await?, door }) as Arc<dyn Volume>) })
    }

    forward_fs!(inner: rename, hard_link, remove, create_dir_all, remove_dir, list, real_path, lock);
}

/// The whole file system behind the gates.
struct GatedVolume {
    inner: Arc<dyn Volume>,
    door: Arc<Door>,
}

impl Volume for GatedVolume {
    fn sync(&self, tag: Tag) -> Op<()> {
        sync(&self.inner, &self.door, tag, move |volume| volume.sync(tag))
    }
}

/// An open file behind the gates.
struct GatedFile {
    inner: Arc<dyn File>,
    door: Arc<Door>,
    /// The dirty pages of a file behind the page cache.
    dirty: Option<Arc<DirtyPages>>,
    /// See [`GatedFs`].
    sharers: Option<Shared>,
    /// See [`GatedFs`].
    spawn: Option<Arc<dyn Spawn>>,
}

impl File for GatedFile {
    fn read_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        let piece = self.door.piece_bytes(tag.class, Direction::Read);
        let op = match buf.len() as u64 > piece {
            true => read_in_pieces(self, offset, buf, tag, piece as usize),
            false => self.read(offset, buf, tag),
        };
        self.spawned(op, tag)
    }

    fn read_new(&self, offset: u64, len: usize, tag: Tag) -> Op<AlignedBuf> {
        if len as u64 > self.door.piece_bytes(tag.class, Direction::Read) {
            return self.read_at(offset, AlignedBuf::with_len(len), tag);
        }
        let op = self.issue_read(len, tag, move |file| file.read_new(offset, len, tag));
        self.spawned(op, tag)
    }

    fn write_at(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        let piece = self.door.piece_bytes(tag.class, Direction::Write);
        let op = match buf.len() as u64 > piece {
            true => write_in_pieces(self, offset, buf, tag, piece as usize),
            false => self.write(offset, buf, tag),
        };
        self.spawned(op, tag)
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

    fn sync_begins(&self) {
        if let Some(dirty) = &self.dirty {
            dirty.clean();
        }
    }

    forward_file!(inner: allocate, reserve, set_len, len, data_end, is_direct, read_unit);
}

/// The owners of the writes to a file.
#[derive(Clone)]
struct Shared {
    sharers: Arc<dyn Sharers>,
    /// Parts that went into pages that were dirty already. They are booked with the next page that becomes dirty.
    unbooked: Arc<Mutex<Parts>>,
}

impl Shared {
    /// The accounts to which a write of `buf` is booked that makes `bytes` bytes dirty.
    fn parts(&self, buf: &[u8], bytes: u64) -> Parts {
        let mut unbooked = self.unbooked.lock();
        for (account, bytes) in self.sharers.parts(buf) {
            match unbooked.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &account)) {
                Some((_, before)) => *before += bytes,
                None => unbooked.push((account, bytes)),
            }
        }
        if bytes > 0 { std::mem::take(&mut *unbooked) } else { Parts::new() }
    }
}

/// How an operation on its way is booked.
#[derive(Clone, Copy)]
struct Entry {
    class: Class,
    direction: Direction,
    bytes: u64,
    /// Set if the operation moves nothing yet: how many operations the device gets because of it.
    buffered: Option<u64>,
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

/// Books what is issued now: to the accounts of its `parts`, or else to the owner of the door.
fn book(door: &Door, entry: Entry, parts: &Parts) {
    let Entry { class, direction, bytes, buffered } = entry;
    let sum: u64 = parts.iter().map(|(_, part)| part).sum();
    let (mut left, mut behind) = (bytes, sum);
    for (account, part) in parts {
        // A part of what is left, so that the last account gets all of the rest.
        let share = (u128::from(left) * u128::from(*part) / u128::from(behind.max(1))) as u64;
        account.book(class, direction, share, 0);
        (left, behind) = (left - share, behind - part);
    }
    door.account().book(class, direction, left, buffered.unwrap_or(1));
}

/// Passes the gates, books, and does `io`, at once if nothing waits.
fn issue<T: Unpin + Send + 'static, I: ?Sized + Send + Sync + 'static>(
    inner: &Arc<I>,
    door: &Arc<Door>,
    (entry, parts): (Entry, Parts),
    moved: Option<Moved<T>>,
    io: impl FnOnce(&I) -> Op<T> + Send + 'static,
) -> Op<T> {
    let Entry { class, direction, bytes, buffered } = entry;
    let held = match door.pass(class, direction, bytes, buffered) {
        Pass::Ready(held) => held,
        Pass::Waiting(pass) => {
            let (inner, door) = (Arc::clone(inner), Arc::clone(door));
            return Op::pending(async move {
                let held = pass.await;
                book(&door, entry, &parts);
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
    // Booked when issued: the device may do the I/O even if nobody waits for its end.
    book(door, entry, &parts);
    match io(&**inner) {
        Op::Ready(Some(result)) => {
            correct(door, entry, moved, &result, true);
            Op::ready(result)
        }
        // There is nothing to do at the end, so the device's own future is enough.
        op if moved.is_none() && held.is_free() => op,
        op => {
            let door = Arc::clone(door);
            Op::pending(async move { finish(op, &door, entry, moved, held).await })
        }
    }
}

/// Keeps `held` until `op` is over, and corrects the books.
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
    /// Another handle on the same open file, for work that goes on after the call.
    fn again(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            door: Arc::clone(&self.door),
            dirty: self.dirty.clone(),
            sharers: self.sharers.clone(),
            spawn: None,
        }
    }

    /// Runs `op` on a task of its own if it is background and under way.
    fn spawned<T: Unpin + Send + 'static>(&self, op: Op<T>, tag: Tag) -> Op<T> {
        match (&self.spawn, &op) {
            (Some(spawn), Op::Pending(_)) if !tag.class.is_foreground() && self.door.may_wait() => spawn_op(op, spawn),
            _ => op,
        }
    }

    /// One read, in one piece.
    fn read(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        self.issue_read(buf.len(), tag, move |file| file.read_at(offset, buf, tag))
    }

    /// One read of `len` bytes, in one piece. Across the end of the file it moves less than it asked for.
    fn issue_read(
        &self,
        len: usize,
        tag: Tag,
        read: impl FnOnce(&(dyn File + 'static)) -> Op<AlignedBuf> + Send + 'static,
    ) -> Op<AlignedBuf> {
        if tag.class == Class::Read {
            waits::book_device_read(len as u64);
        }
        let entry = Entry { class: tag.class, direction: Direction::Read, bytes: len as u64, buffered: None };
        let cached = self.dirty.is_some();
        let moved = Some(Moved { of: |got: &AlignedBuf| got.len() as u64, cached });
        issue(&self.inner, &self.door, (entry, Parts::new()), moved, read)
    }

    /// One write, in one piece.
    fn write(&self, offset: u64, buf: AlignedBuf, tag: Tag) -> Op<AlignedBuf> {
        let len = buf.len() as u64;
        let dirtied = self.dirty.as_ref().map(|dirty| dirty.touch(offset, len));
        let (bytes, buffered) = (dirtied.map_or(len, |dirtied| dirtied.bytes), dirtied.map(|dirtied| dirtied.runs));
        let entry = Entry { class: tag.class, direction: Direction::Write, bytes, buffered };
        let sharers = self.sharers.as_ref().filter(|_| tag.class == Class::Log);
        let parts = sharers.map_or_else(Parts::new, |sharers| sharers.parts(&buf, bytes));
        issue(&self.inner, &self.door, (entry, parts), None, move |file| file.write_at(offset, buf, tag))
    }
}

/// A sync: one operation, no bytes of its own.
fn sync<I: ?Sized + Send + Sync + 'static>(
    inner: &Arc<I>,
    door: &Arc<Door>,
    tag: Tag,
    io: impl FnOnce(&I) -> Op<()> + Send + 'static,
) -> Op<()> {
    let entry = Entry { class: tag.class, direction: Direction::Write, bytes: 0, buffered: None };
    issue(inner, door, (entry, Parts::new()), None, io)
}

/// A piece of an I/O, which may be done before its turn comes.
struct Piece {
    op: Op<AlignedBuf>,
    done: Option<Result<AlignedBuf>>,
}

impl Piece {
    fn new(op: Op<AlignedBuf>) -> Self {
        Self { op, done: None }
    }

    fn poll(&mut self, cx: &mut Context<'_>) {
        if self.done.is_none()
            && let Poll::Ready(result) = Pin::new(&mut self.op).poll(cx)
        {
            self.done = Some(result);
        }
    }

    /// Awaits the end of this piece. Meanwhile the `next` piece goes on, too: granted but not polled, it would hold the
    /// device time that this one waits for.
    async fn end(mut self, mut next: Option<&mut Piece>) -> Result<AlignedBuf> {
        poll_fn(|cx| {
            self.poll(cx);
            if let Some(result) = self.done.take() {
                return Poll::Ready(result);
            }
            if let Some(next) = &mut next {
                next.poll(cx);
            }
            Poll::Pending
        })
        .await
    }
}

/// Reads `buf.len()` bytes in pieces, the next one issued before the last one is awaited.
fn read_in_pieces(file: &GatedFile, offset: u64, mut buf: AlignedBuf, tag: Tag, piece: usize) -> Op<AlignedBuf> {
    let file = file.again();
    let start = move |at: usize, end: usize| {
        (at < end).then(|| {
            let len = piece.min(end - at);
            (at, len, Piece::new(file.read(offset + at as u64, AlignedBuf::with_len(len), tag)))
        })
    };
    let mut next = start(0, buf.len());
    Op::pending(async move {
        let mut filled = 0;
        let mut ended = false;
        while let Some((at, len, piece)) = next.take() {
            // Past the end of the file no more reads are issued, but those that were issued are awaited.
            next = if ended { None } else { start(at + len, buf.len()) };
            let part = piece.end(next.as_mut().map(|(_, _, next)| next)).await?;
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
            (end, Piece::new(file.write(offset + at as u64, AlignedBuf::copy_of(&buf[at..end]), tag)))
        })
    };
    let mut next = start(0, &buf);
    Op::pending(async move {
        while let Some((end, piece)) = next.take() {
            next = start(end, &buf);
            piece.end(next.as_mut().map(|(_, next)| next)).await?;
        }
        Ok(buf)
    })
}
