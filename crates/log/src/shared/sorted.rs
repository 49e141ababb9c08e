//! The records that an opening found, sorted by member: each member is given its own without reading the log once more.
//! So reading all members takes time linear in the length of the log, whatever their order.
//!
//! As much as fits is kept in memory. Whenever the memory is full, all of it is appended as a *run* to a file beside
//! the segments. In a run the records of each member stand together. The file is of no use after this life: it is not
//! synced, and it is removed at the next opening or when the last member was given its records. If it cannot be written
//! (a full disk), records are read from the log again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use weir_io::{AlignedBuf, Class, Error, ErrorKind, Fs, Op, OpenOptions, Owner, Result, Tag};
use weir_model::LogIndex;

use super::tag::{MemberId, RecordTag};
use super::unflushed::{Place, Unflushed};

/// Bytes in front of each record: its place, its index, and the number of bytes that follow, each a u64.
const FRONT_BYTES: usize = 24;
/// Bytes written at a time.
const WRITE_BYTES: usize = 1 << 20;

/// The records of one member in a run.
struct Piece {
    offset: u64,
    length: usize,
    crc: u32,
}

/// The records that an opening found, by member.
pub(super) struct Sorted {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    tag: Tag,
    /// Most bytes that are kept in memory.
    memory_max: usize,
    kept: BTreeMap<MemberId, Vec<u8>>,
    kept_bytes: usize,
    /// The pieces of each member, in the order of the runs.
    pieces: BTreeMap<MemberId, Vec<Piece>>,
    /// The number of members that have records in the file and were not given them yet.
    readers: Arc<AtomicUsize>,
    /// Where the next run will begin.
    end: u64,
    /// Whether the file could not be written: then the records here are not complete.
    has_failed: Arc<AtomicBool>,
}

impl Sorted {
    /// An empty collection for the log whose segments are in `segments`. Removes a file that an earlier life has left.
    pub async fn new(fs: &Arc<dyn Fs>, segments: &Path, owner: Owner, memory_max: u64) -> Result<Self> {
        let (path, tag) = (segments.with_file_name("sorted.tmp"), Tag::new(owner, Class::Maintenance));
        remove(fs, &path, tag).await?;
        let (kept, kept_bytes, pieces, readers, end, has_failed) = Default::default();
        let memory_max = usize::try_from(memory_max).unwrap_or(usize::MAX);
        Ok(Self { fs: Arc::clone(fs), path, tag, memory_max, kept, kept_bytes, pieces, readers, end, has_failed })
    }

    /// Adds a record that was found at `place`. Await the result before adding the next record.
    pub fn push(&mut self, tag: &RecordTag, place: Place, payload: &[u8]) -> Op<()> {
        let bytes = self.kept.entry(tag.member).or_default();
        for word in [place, tag.index, payload.len() as u64] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(payload);
        self.kept_bytes += FRONT_BYTES + payload.len();
        if self.kept_bytes < self.memory_max { Op::ready(Ok(())) } else { self.write_run() }
    }

    fn write_run(&mut self) -> Op<()> {
        self.kept_bytes = 0;
        let (kept, begin) = (std::mem::take(&mut self.kept), self.end);
        if self.has_failed.load(Ordering::Relaxed) {
            return Op::ready(Ok(()));
        }
        for (&member, bytes) in &kept {
            let piece = Piece { offset: self.end, length: bytes.len(), crc: crc32c::crc32c(bytes) };
            let pieces = self.pieces.entry(member).or_default();
            self.readers.fetch_add(usize::from(pieces.is_empty()), Ordering::SeqCst);
            pieces.push(piece);
            self.end += bytes.len() as u64;
        }
        let (fs, path, tag, has_failed) =
            (Arc::clone(&self.fs), self.path.clone(), self.tag, Arc::clone(&self.has_failed));
        Op::pending(async move {
            if write(&fs, &path, tag, kept, begin).await.is_err() {
                // Whatever the error was, the records are still in the log. The file may take up the last free space.
                has_failed.store(true, Ordering::Relaxed);
                let _left_for_the_next_opening = remove(&fs, &path, tag).await;
            }
            Ok(())
        })
    }

    /// Takes the records of `member` out; `None` if they may not be complete.
    pub fn take(&mut self, member: MemberId) -> Option<Taken> {
        let (kept, pieces) = (self.kept.remove(&member), self.pieces.remove(&member).unwrap_or_default());
        let reader = (!pieces.is_empty()).then(|| Reader(Arc::clone(&self.readers)));
        self.kept_bytes -= kept.as_ref().map_or(0, Vec::len).min(self.kept_bytes);
        if self.has_failed.load(Ordering::Relaxed) {
            return None;
        }
        Some(Taken { fs: Arc::clone(&self.fs), path: self.path.clone(), tag: self.tag, kept, pieces, reader })
    }
}

async fn remove(fs: &Arc<dyn Fs>, path: &Path, tag: Tag) -> Result<()> {
    match fs.remove(path, tag).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

async fn write(
    fs: &Arc<dyn Fs>,
    path: &Path,
    tag: Tag,
    kept: BTreeMap<MemberId, Vec<u8>>,
    mut offset: u64,
) -> Result<()> {
    let options = OpenOptions { write: true, create_new: offset == 0, direct: false, dsync: false };
    let file = fs.open(path, options, tag).await?;
    let mut buf = AlignedBuf::new();
    for bytes in kept.into_values() {
        for part in bytes.chunks(WRITE_BYTES) {
            buf.extend_from_slice(part);
            if buf.len() >= WRITE_BYTES {
                let length = buf.len() as u64;
                buf = file.write_at(offset, buf, tag).await?;
                buf.clear();
                offset += length;
            }
        }
    }
    if !buf.is_empty() {
        file.write_at(offset, buf, tag).await?;
    }
    Ok(())
}

/// The records of one member.
pub(super) struct Taken {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    tag: Tag,
    kept: Option<Vec<u8>>,
    pieces: Vec<Piece>,
    reader: Option<Reader>,
}

/// Counts a member that has records in the file, until it is dropped.
struct Reader(Arc<AtomicUsize>);

impl Reader {
    /// Drops it; returns whether it was the last one.
    fn ends(self) -> bool {
        let readers = Arc::clone(&self.0);
        drop(self);
        readers.load(Ordering::SeqCst) == 0
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Taken {
    /// Discards the records, which nobody needs.
    pub async fn discard(self) {
        if self.reader.is_some_and(Reader::ends) {
            let _left_for_the_next_opening = remove(&self.fs, &self.path, self.tag).await;
        }
    }

    /// Passes the `unflushed` records among them to `apply` in order, as far as the file can be read. Returns the index
    /// behind the last one passed.
    ///
    /// # Errors
    /// The errors of `apply`.
    pub async fn read(
        self,
        unflushed: &Unflushed,
        apply: &mut (dyn FnMut(LogIndex, &[u8]) -> Op<()> + Send + Sync),
    ) -> Result<LogIndex> {
        let mut next = unflushed.first_index().unwrap_or(0);
        let given = self.give_all(unflushed, &mut next, apply).await;
        self.discard().await;
        given.map(|()| next)
    }

    async fn give_all(
        &self,
        unflushed: &Unflushed,
        next: &mut LogIndex,
        apply: &mut (dyn FnMut(LogIndex, &[u8]) -> Op<()> + Send + Sync),
    ) -> Result<()> {
        for piece in &self.pieces {
            // Whatever is wrong with the file, the records are still in the log.
            let Ok(bytes) = self.read_piece(piece).await else { return Ok(()) };
            give(&bytes, unflushed, next, apply).await?;
        }
        give(self.kept.as_deref().unwrap_or_default(), unflushed, next, apply).await
    }

    async fn read_piece(&self, piece: &Piece) -> Result<AlignedBuf> {
        let file = self.fs.open(&self.path, OpenOptions::read_buffered(), self.tag).await?;
        let bytes = file.read_at(piece.offset, AlignedBuf::with_len(piece.length), self.tag).await?;
        match crc32c::crc32c(&bytes) == piece.crc {
            true => Ok(bytes),
            false => {
                Err(Error::corruption(&self.path, piece.offset, "the checksum of what was written here does not match"))
            }
        }
    }
}

async fn give(
    mut bytes: &[u8],
    unflushed: &Unflushed,
    next: &mut LogIndex,
    apply: &mut (dyn FnMut(LogIndex, &[u8]) -> Op<()> + Send + Sync),
) -> Result<()> {
    while let Some((front, rest)) = bytes.split_first_chunk::<FRONT_BYTES>() {
        let word = |at: usize| u64::from_le_bytes(front[at..at + 8].try_into().expect("eight bytes"));
        let (place, index) = (word(0), word(8));
        let Some((payload, behind)) = usize::try_from(word(16)).ok().and_then(|length| rest.split_at_checked(length))
        else {
            break;
        };
        bytes = behind;
        if index == *next && unflushed.place_of(index) == Some(place) {
            apply(index, payload).await?;
            *next += 1;
        }
    }
    Ok(())
}
