//! Files and directories as the kernel holds them: the visible state, the durable state, and the changes in between.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::content::{CHUNK, Chunk, Content, SECTOR, chunk_of, parts};
use super::dirty_pages::DirtyPages;
use super::fate::{Fate, Fates, Tear};
use crate::{Nanos, Rng};

/// A file or a directory.
#[derive(Clone)]
pub(super) enum Inode {
    File(Arc<FileInode>),
    Dir(Arc<DirInode>),
}

/// Names in a directory. Sorted, so that nothing depends on where things lie in memory.
pub(super) type Names = BTreeMap<Arc<str>, Inode>;

/// A file. Its lock is only taken under the file system's, so nobody ever waits for it; it is there to make the type
/// shareable.
pub(super) struct FileInode {
    /// Unique in its file system.
    pub(super) number: u64,
    pub(super) state: Mutex<FileState>,
}

/// A directory. See [`FileInode`] about the lock.
pub(super) struct DirInode {
    pub(super) number: u64,
    pub(super) state: Mutex<DirState>,
}

#[derive(Default)]
pub(super) struct DirState {
    /// What everybody sees.
    pub(super) names: Names,
    /// The names that survive a power cut in any case. Changes in between are in the file system's list.
    pub(super) durable: Names,
}

#[derive(Default)]
pub(super) struct FileState {
    /// What everybody sees.
    content: Arc<Content>,
    /// The content that survives a power cut in any case.
    durable: Arc<Content>,
    /// The changes that lead from `durable` to `content`, in the order they were made.
    pending: Vec<Change>,
    /// The pages that a sync must first transfer.
    pub(super) dirty: DirtyPages,
    /// The file lost bytes in a sync of all files, and no sync of its own has reported that yet.
    pub(super) lost: bool,
    /// Chunks reserved by `allocate` or `reserve`, from the start of the file.
    reserved: u64,
    /// How many of these chunks survive a power cut.
    durable_reserved: u64,
    /// Names and open handles; when there are none of either, the space is free again.
    pub(super) links: u32,
    pub(super) handles: u32,
}

struct Change {
    /// The operation's number; a write of several chunks is several changes with one number.
    number: u64,
    /// When the operation is complete: a sync submitted earlier does not cover it.
    done_at: Nanos,
    what: What,
}

enum What {
    /// A whole chunk.
    Chunk(usize, Arc<Chunk>),
    /// Bytes within a chunk, from a start on.
    Part(usize, usize, Box<[u8]>),
    /// The file got at least this long.
    Extend(u64),
    /// The file got exactly this long.
    SetLen(u64),
    /// This many chunks from the start belong to the file, written or not.
    Reserve(u64),
}

impl Change {
    /// Offset and bytes, if it is data.
    fn data(&self) -> Option<(u64, &[u8])> {
        match &self.what {
            What::Chunk(index, chunk) => Some(((index * CHUNK) as u64, &chunk[..])),
            What::Part(index, start, bytes) => Some(((index * CHUNK + start) as u64, bytes)),
            What::Extend(_) | What::SetLen(_) | What::Reserve(_) => None,
        }
    }

    fn chunk_index(&self) -> Option<usize> {
        match &self.what {
            What::Chunk(index, _) | What::Part(index, _, _) => Some(*index),
            What::Extend(_) | What::SetLen(_) | What::Reserve(_) => None,
        }
    }

    /// How many chunks are reserved after this change, if `reserved` were before.
    fn reserves(&self, reserved: u64) -> u64 {
        match &self.what {
            What::SetLen(len) => reserved.min(len.div_ceil(CHUNK as u64)),
            What::Reserve(chunks) => reserved.max(*chunks),
            What::Chunk(..) | What::Part(..) | What::Extend(_) => reserved,
        }
    }

    fn apply(&self, to: &mut Content) {
        match &self.what {
            What::Chunk(index, chunk) => to.put_chunk(*index, Arc::clone(chunk)),
            What::Part(index, start, bytes) => to.put(*index, *start, bytes),
            What::Extend(len) => to.extend(*len),
            What::SetLen(len) => to.set_len(*len),
            // It changes no byte and no length: see `reserves`.
            What::Reserve(_) => {}
        }
    }

    /// Applies the sectors that `tear` keeps; `first` is the write's first sector.
    fn apply_torn(&self, to: &mut Content, first: u64, tear: &mut Tear) {
        let Some((offset, bytes)) = self.data() else { return };
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let len = ((SECTOR - at % SECTOR) as usize).min(bytes.len() - done);
            if tear.keeps(at / SECTOR - first) {
                to.put((at / CHUNK as u64) as usize, (at % CHUNK as u64) as usize, &bytes[done..done + len]);
            }
            done += len;
        }
    }
}

impl FileState {
    /// A file whose content is durable as it is, with `reserved` chunks reserved.
    pub(super) fn of(content: Arc<Content>, reserved: u64) -> Self {
        Self { durable: Arc::clone(&content), content, reserved, durable_reserved: reserved, ..Self::default() }
    }

    pub(super) fn len(&self) -> u64 {
        self.content.len()
    }

    pub(super) fn data_end(&self) -> u64 {
        self.content.data_end()
    }

    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        self.content.read(offset, buf)
    }

    /// Chunks of space that the file holds.
    pub(super) fn chunks_held(&self) -> u64 {
        self.reserved + self.content.backed_from(self.reserved as usize)
    }

    /// How many more chunks the file holds once its first `len` bytes are reserved.
    pub(super) fn reserving(&self, len: u64) -> u64 {
        let reserved = self.reserved.max(len.div_ceil(CHUNK as u64));
        reserved + self.content.backed_from(reserved as usize) - self.chunks_held()
    }

    /// How many of `len` bytes at `offset` fit into `free` chunks, and how many chunks they take.
    pub(super) fn fitting(&self, offset: u64, len: usize, free: u64) -> (usize, u64) {
        let (mut fits, mut taken) = (0, 0);
        for (index, _, range) in parts(offset, len) {
            if (index as u64) >= self.reserved && !self.content.is_backed(index) {
                if taken == free {
                    break;
                }
                taken += 1;
            }
            fits = range.end;
        }
        (fits, taken)
    }

    /// Writes `bytes`; visible at once, durable later.
    pub(super) fn write(&mut self, number: u64, done_at: Nanos, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let content = Arc::make_mut(&mut self.content);
        for (index, start, range) in parts(offset, bytes.len()) {
            let bytes = &bytes[range];
            let what = if bytes.len() == CHUNK {
                let chunk = chunk_of(bytes);
                content.put_chunk(index, Arc::clone(&chunk));
                What::Chunk(index, chunk)
            } else {
                content.put(index, start, bytes);
                What::Part(index, start, bytes.into())
            };
            self.pending.push(Change { number, done_at, what });
        }
        self.extend(number, done_at, offset + bytes.len() as u64);
    }

    /// Writes those sectors of `bytes` that `tear` keeps: a write that failed half-way.
    pub(super) fn write_torn(&mut self, number: u64, done_at: Nanos, offset: u64, bytes: &[u8], tear: &mut Tear) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let end = (done + (SECTOR - at % SECTOR) as usize).min(bytes.len());
            if tear.keeps(at / SECTOR - offset / SECTOR) {
                self.write(number, done_at, at, &bytes[done..end]);
            }
            done = end;
        }
    }

    /// Makes the file at least `len` long.
    fn extend(&mut self, number: u64, done_at: Nanos, len: u64) {
        // A length beyond the durable one counts too: the change that made the file this long may not be covered by the
        // sync that covers this write.
        if len > self.content.len() || len > self.durable.len() {
            Arc::make_mut(&mut self.content).extend(len);
            self.pending.push(Change { number, done_at, what: What::Extend(len) });
        }
    }

    pub(super) fn set_len(&mut self, number: u64, done_at: Nanos, len: u64) {
        Arc::make_mut(&mut self.content).set_len(len);
        self.reserved = self.reserved.min(len.div_ceil(CHUNK as u64));
        self.pending.push(Change { number, done_at, what: What::SetLen(len) });
    }

    /// Reserves the first `len` bytes, and makes the file that long.
    pub(super) fn allocate(&mut self, number: u64, done_at: Nanos, len: u64) {
        self.reserve(number, done_at, len);
        self.extend(number, done_at, len);
    }

    /// Reserves the first `len` bytes.
    pub(super) fn reserve(&mut self, number: u64, done_at: Nanos, len: u64) {
        let reserved = len.div_ceil(CHUNK as u64);
        if reserved > self.reserved {
            self.reserved = reserved;
            self.pending.push(Change { number, done_at, what: What::Reserve(reserved) });
        }
    }

    /// Completes a sync that was submitted at `submitted` as operation `number`: changes complete by then are durable.
    pub(super) fn land_sync(&mut self, number: u64, submitted: Nanos) {
        self.promote(|change| change.number < number && change.done_at <= submitted);
    }

    /// Completes the synced write `number`, which is durable now. Older pending changes below it become durable first:
    /// the disk must not bring back what a durable write has replaced.
    pub(super) fn land_write(&mut self, number: u64) {
        let touched = self.pending.iter().filter(|change| change.number == number).filter_map(Change::chunk_index);
        let (low, high) = touched.fold((usize::MAX, 0), |(low, high), index| (low.min(index), high.max(index)));
        self.promote(|change| {
            let below = change.chunk_index().is_some_and(|index| (low..=high).contains(&index));
            change.number == number || (change.number < number && below)
        });
    }

    fn promote(&mut self, covered: impl Fn(&Change) -> bool) {
        let (durable, reserved) = (Arc::make_mut(&mut self.durable), &mut self.durable_reserved);
        self.pending.retain(|change| {
            let covered = covered(change);
            if covered {
                change.apply(durable);
                *reserved = change.reserves(*reserved);
            }
            !covered
        });
    }

    /// The sync with operation number `number` failed: of each write it covered, some sectors are durable and the rest
    /// is forgotten, so that the next sync knows nothing of it. `revert` makes readers see the bytes on the medium, as
    /// if the kernel had thrown the pages away too.
    pub(super) fn fail_sync(&mut self, number: u64, submitted: Nanos, revert: bool, rng: &mut Rng) {
        let durable = Arc::make_mut(&mut self.durable);
        self.pending.retain(|change| {
            let forgotten = change.number < number && change.done_at <= submitted && change.data().is_some();
            if forgotten && let Some((offset, bytes)) = change.data() {
                let sectors = sectors_of(offset, bytes.len());
                change.apply_torn(durable, offset / SECTOR, &mut Tear::draw(rng, sectors));
            }
            !forgotten
        });
        if revert {
            let mut content = Content::clone(&self.durable);
            for change in &self.pending {
                change.apply(&mut content);
            }
            // Changes of length stay pending, so the file is as long as before, whatever its bytes are.
            self.content = Arc::new(content);
        }
    }

    /// The numbers of the changes not yet durable: smallest and largest.
    pub(super) fn pending_range(&self) -> Option<(u64, u64)> {
        let numbers = || self.pending.iter().map(|change| change.number);
        Some((numbers().min()?, numbers().max()?))
    }

    /// The content that a power cut now leaves, and how many of its chunks are still reserved.
    pub(super) fn crash(&self, fates: &mut Fates<'_>) -> (Arc<Content>, u64) {
        let mut reserved = self.durable_reserved;
        if self.pending.is_empty() {
            return (Arc::clone(&self.durable), reserved);
        }
        let mut content = Content::clone(&self.durable);
        for write in self.pending.chunk_by(|a, b| a.number == b.number) {
            let number = write[0].number;
            let extent = write.iter().filter_map(Change::data).fold(None, |extent, (offset, bytes)| {
                let (start, end) = extent.unwrap_or((offset, offset));
                Some((start.min(offset), end.max(offset + bytes.len() as u64)))
            });
            let mut fate = Fate::Kept;
            let mut first = 0;
            if let Some((start, end)) = extent {
                first = start / SECTOR;
                fate = fates.write(number, sectors_of(start, (end - start) as usize));
            }
            for change in write {
                match (&change.what, &mut fate) {
                    (What::Extend(_) | What::SetLen(_) | What::Reserve(_), _) => {
                        if fates.metadata(number) {
                            reserved = change.reserves(reserved);
                            change.apply(&mut content);
                        }
                    }
                    (_, Fate::Kept) => change.apply(&mut content),
                    (_, Fate::Torn(tear)) => change.apply_torn(&mut content, first, tear),
                    (_, Fate::Lost) => {}
                }
            }
        }
        content.trim();
        (Arc::new(content), reserved)
    }

    /// Flips one bit on the medium and in the visible content. False if there is no such byte.
    pub(super) fn flip_bit(&mut self, offset: u64, bit: u8) -> bool {
        Arc::make_mut(&mut self.durable).flip_bit(offset, bit);
        Arc::make_mut(&mut self.content).flip_bit(offset, bit)
    }
}

fn sectors_of(offset: u64, len: usize) -> u64 {
    (offset + len as u64).div_ceil(SECTOR) - offset / SECTOR
}
