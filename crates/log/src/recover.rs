//! Recovery: which records there are, and whether the missing ones may be missing.
//!
//! The records of all segments form a chain of indexes. Where it breaks, at the record that should be X, one of two
//! things has happened. Either the machine was lost before X was durable: the log ends before X. Valid records may well
//! follow, because several writes are in flight, and the page cache is written back in any order. Or X was durable and
//! is damaged: that is an error. The marks tell which: a mark behind the break that says "durable up to X or more"
//! proves the damage. So does the [`LogAnchor`], which is kept elsewhere: it exposes a file that is missing, cut, or an
//! older copy of itself, marks and all. And so does the [`Link`] of a segment behind the break, if the segment that it
//! names does not exist: a segment's name is durable before anything is written behind it, whatever the sync mode.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::try_join_all;
use weir_io::{
    AlignedBuf, Class, Error, ErrorKind, File, Fs, Op, OpenOptions, Owner, PAGE, Result, Tag, Turn, yield_now,
};
use weir_model::LogIndex;

use crate::options::LogAnchor;
use crate::reader::Reader;
use crate::record::{self, Decoded, INDEX_MAX, Kind, Link};
use crate::segment::{self, HEADER_PAGE};
use crate::signposts::Signposts;
use crate::state::Older;

/// How many bytes of a segment are searched for marks at a time.
const SEARCH_BYTES: usize = 1 << 20;
/// How many bytes of a segment are written again at a time.
const COPY_BYTES: u64 = 1 << 20;
/// Bytes that a mark may extend beyond the part in which its search begins.
const SEARCH_OVERLAP: usize = 64;

/// The findings of an opening.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// How many records were replayed.
    pub records: u64,
    /// Their payloads, in bytes.
    pub payload_bytes: u64,
    /// The last index in the log; the engine's persisted index if no record is newer.
    pub last: LogIndex,
    /// Segments read.
    pub segments: u64,
    /// Whether the log had been closed properly.
    pub clean: bool,
    /// Where the last record ends, if there is any segment.
    pub end: Option<Cut>,
    /// For a member of a shared log: records under its number that were passed over, because they are another
    /// partition's.
    pub foreign: u64,
}

/// A place in a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The segment's file.
    pub path: PathBuf,
    /// Bytes from its beginning.
    pub offset: u64,
}

pub(crate) struct Found {
    pub recovery: Recovery,
    /// Segments that belong to the log, in order.
    pub older: Vec<Older>,
    /// Segments in front of the log that nobody needs and that could not be removed, the oldest first.
    pub unremoved: Vec<PathBuf>,
    pub next_segment_id: u64,
    /// As far as can be seen, no segment was ever made in this directory: then its own name may not be durable.
    pub is_new: bool,
}

struct Candidate {
    id: u64,
    path: PathBuf,
    seed: u32,
    /// The index of its first record; `None` if there is no valid one at its beginning.
    first: Option<LogIndex>,
    /// The link at its beginning, which describes the segment in front of it.
    link: Option<Link>,
}

/// Where a segment's chain of records ended.
struct End {
    offset: u64,
    closed: bool,
    signposts: Signposts,
}

struct Recover<'a> {
    fs: &'a Arc<dyn Fs>,
    tag: Tag,
    anchor: LogAnchor,
    persisted: LogIndex,
    replay: &'a mut (dyn FnMut(LogIndex, &[u8]) -> Op<()> + Send + Sync),
    recovery: Recovery,
    /// The index of the next record, once a first one has been read.
    expected: Option<LogIndex>,
    /// Every record up to this one was on the device, as the anchor or a mark says.
    durable: LogIndex,
    turn: Turn,
}

/// The findings of reading the segments, before anything is changed.
struct Survey {
    found: Found,
    /// Every record up to this one was on the device.
    durable: LogIndex,
    /// Segments in front of the log, whose records the engine holds.
    passed: Vec<PathBuf>,
    /// Segments between and behind those of the log, in order.
    cut_off: Vec<PathBuf>,
    /// Whether an unfinished segment was left behind.
    preparing: bool,
}

/// Reads the log in `dir`, which must not be open, and changes nothing. It checks every checksum, the order of the
/// records, and that no record after `persisted` is missing that `anchor` or the log itself calls durable.
///
/// # Errors
/// `Corruption` for a damaged record that had been durable, naming file and offset.
pub async fn check(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    owner: Owner,
    anchor: LogAnchor,
    persisted: LogIndex,
) -> Result<Recovery> {
    look(fs, dir, owner, anchor, persisted, &mut |_, _| Op::ready(Ok(()))).await
}

/// As [`check`], but passes every record after `persisted` to `show`.
pub(crate) async fn look(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    owner: Owner,
    anchor: LogAnchor,
    persisted: LogIndex,
    show: &mut (dyn FnMut(LogIndex, &[u8]) -> Op<()> + Send + Sync),
) -> Result<Recovery> {
    let survey = survey(fs, dir, owner, anchor, persisted, show).await?;
    Ok(survey.found.recovery)
}

pub(crate) async fn recover(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    owner: Owner,
    anchor: LogAnchor,
    persisted: LogIndex,
    replay: &mut (dyn FnMut(LogIndex, &[u8]) -> Op<()> + Send + Sync),
) -> Result<Found> {
    let tag = Tag::new(owner, Class::Log);
    let Survey { mut found, durable, passed, cut_off, preparing } =
        survey(fs, dir, owner, anchor, persisted, replay).await?;
    // Replayed records may be in the page cache only. They must be durable before the first new record is, or a second
    // crash could leave a hole. Where an earlier sync has failed, the page cache takes them for clean, and another sync
    // would not write them: so they are written again. A log that was closed is durable.
    let is_clean = found.recovery.clean;
    let writable = OpenOptions { write: true, create_new: false, direct: false, dsync: false };
    let make_durable = |older: &Older| {
        let doubtful = doubtful(older, durable).filter(|_| !is_clean);
        let (path, used) = (older.path.clone(), older.used);
        async move {
            let file = fs.open(&path, writable, tag).await?;
            if let Some(from) = doubtful {
                write_again(&file, from, used, tag).await?;
            }
            file.sync(tag).await
        }
    };
    try_join_all(found.older.iter().map(make_durable)).await?;
    // Files that nobody needs keep nobody from opening the log.
    for path in passed {
        if fs.remove(&path, tag).await.is_err() {
            found.unremoved.push(path);
        }
    }
    if preparing {
        let _left_for_the_next_segment = fs.remove(&dir.join(segment::PREPARING), tag).await;
    }
    // But the segments that were cut off must be gone for good before a new record is durable. The last one goes first,
    // for good before the next is removed: otherwise a crash in between could leave a segment without the one that its
    // link names, which would look like a loss.
    for (left, path) in cut_off.iter().enumerate().rev() {
        fs.remove(path, tag).await?;
        if left > 0 {
            fs.sync_dir(dir, tag).await?;
        }
    }
    if !cut_off.is_empty() {
        fs.sync_dir(dir, tag).await?;
    }
    Ok(found)
}

/// Refuses an engine that holds records up to `persisted`, if no log has so many.
pub(crate) fn check_persisted(dir: &Path, persisted: LogIndex) -> Result<()> {
    if persisted < INDEX_MAX {
        return Ok(());
    }
    let message = format!("the engine holds records up to {persisted}, as it says, but no log has so many");
    Err(Error::corruption(dir, 0, message))
}

/// Where the records behind record `durable` begin in the segment, or a little before; `None` if there are none.
fn doubtful(segment: &Older, durable: LogIndex) -> Option<u64> {
    let from = || segment.signposts.before(durable + 1).map_or(HEADER_PAGE, |(_, offset)| offset);
    (segment.last > durable).then(from)
}

/// Writes the bytes `from..to` of the file to where they are. They take no space, and if some of them get lost on the
/// way, the same bytes are there already.
async fn write_again(file: &Arc<dyn File>, from: u64, to: u64, tag: Tag) -> Result<()> {
    let mut offset = from;
    while offset < to {
        let length = (to - offset).min(COPY_BYTES);
        let bytes = file.read_at(offset, AlignedBuf::with_len(length as usize), tag).await?;
        file.write_at(offset, bytes, tag).await?;
        offset += length;
    }
    Ok(())
}

async fn survey(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    owner: Owner,
    anchor: LogAnchor,
    persisted: LogIndex,
    replay: &mut (dyn FnMut(LogIndex, &[u8]) -> Op<()> + Send + Sync),
) -> Result<Survey> {
    check_persisted(dir, persisted)?;
    let tag = Tag::new(owner, Class::Log);
    let names = match fs.list(dir, tag).await {
        // The directory is made with the first segment.
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        names => names?,
    };
    let mut ids: Vec<u64> = names.iter().filter_map(|entry| segment::parse_name(&entry.name)).collect();
    ids.sort_unstable();
    let preparing = names.iter().any(|entry| entry.name == segment::PREPARING);
    let next_segment_id = ids.last().map_or(1, |id| id + 1);
    let recovery = Recovery { last: persisted, ..Recovery::default() };
    let durable = anchor.durable;
    let mut recover =
        Recover { fs, tag, anchor, persisted, replay, recovery, expected: None, durable, turn: Turn::new() };

    let (passed, candidates) = recover.candidates(dir, &ids).await?;
    let mut older = Vec::new();
    let cut_off = recover.walk(dir, &ids, &candidates, &mut older).await?;
    let Recover { mut recovery, expected, durable, .. } = recover;
    recovery.last = recovery.last.max(expected.map_or(0, |expected| expected - 1));
    if recovery.last < anchor.durable {
        let message = format!(
            "records up to {} were durable, but the log ends with record {}: a file is missing, truncated, damaged, \
             or was replaced by an older copy. Put the right file back, or see `weir repair`",
            anchor.durable, recovery.last
        );
        return Err(match &recovery.end {
            Some(end) => Error::corruption(&end.path, end.offset, message),
            None => Error::corruption(dir, 0, message),
        });
    }
    let (unremoved, is_new) = (Vec::new(), ids.is_empty());
    let found = Found { recovery, older, unremoved, next_segment_id, is_new };
    Ok(Survey { found, durable, passed, cut_off, preparing })
}

impl Recover<'_> {
    async fn reader(&self, path: &Path) -> Result<Reader> {
        let file = self.fs.open(path, OpenOptions::read_buffered(), self.tag).await?;
        Reader::new(file, self.tag).await
    }

    /// The segments that can contain records after `persisted`, in order, and the files of the segments before them.
    async fn candidates(&self, dir: &Path, ids: &[u64]) -> Result<(Vec<PathBuf>, Vec<Candidate>)> {
        let mut candidates = Vec::new();
        let mut remaining = ids.iter();
        for &id in remaining.by_ref().rev() {
            let path = dir.join(segment::name(id));
            let mut reader = self.reader(&path).await?;
            let seed = segment::check_header(&path, id, self.anchor.identity, reader.bytes(0, PAGE).await?)?;
            let (first, link) = match reader.decode(HEADER_PAGE, seed).await? {
                Decoded::Record(record) => (Some(record.index), record.link()),
                _ => (None, None),
            };
            candidates.push(Candidate { id, path, seed, first, link });
            if first.is_some_and(|first| first <= self.persisted + 1) {
                break;
            }
        }
        candidates.reverse();
        let passed = remaining.map(|&id| dir.join(segment::name(id))).collect();
        Ok((passed, candidates))
    }

    /// Replays the chain. Returns the files that are not part of it, in order. `ids` are the segments that exist.
    async fn walk(
        &mut self,
        dir: &Path,
        ids: &[u64],
        candidates: &[Candidate],
        older: &mut Vec<Older>,
    ) -> Result<Vec<PathBuf>> {
        let mut strangers = Vec::new();
        let mut position = 0;
        while let Some(candidate) = candidates.get(position) {
            if let Some(first) = candidate.first
                && first > self.expected.unwrap_or(self.persisted + 1)
            {
                let message = format!(
                    "the log begins at record {first}, but the engine holds records only up to {}: segments are \
                     missing, or the engine's files were replaced by an older copy",
                    self.persisted
                );
                return Err(Error::corruption(&candidate.path, HEADER_PAGE, message));
            }
            let (end, allocated) = self.replay_segment(candidate).await?;
            self.recovery.end = Some(Cut { path: candidate.path.clone(), offset: end.offset });
            let last = self.expected.map_or(0, |expected| expected - 1);
            let (path, used, signposts) = (candidate.path.clone(), end.offset, end.signposts);
            older.push(Older { id: candidate.id, path, segment: None, last, used, allocated, signposts });
            // A log that is opened and not written to leaves an empty segment: the chain goes on in the next one.
            let rest = &candidates[position + 1..];
            let empty = rest.iter().take_while(|candidate| candidate.first.is_none()).count();
            let goes_on = rest.get(empty).is_some_and(|next| next.first == self.expected);
            if !goes_on {
                self.recovery.clean = end.closed && rest.is_empty();
                if !self.recovery.clean {
                    self.search_marks(&candidates[position..], end.offset).await?;
                    self.search_links(dir, ids, rest)?;
                }
                strangers.extend(rest.iter().map(|candidate| candidate.path.clone()));
                break;
            }
            strangers.extend(rest[..empty].iter().map(|candidate| candidate.path.clone()));
            position += 1 + empty;
        }
        Ok(strangers)
    }

    /// The first index whose loss matters.
    fn needed(&self) -> LogIndex {
        self.expected.unwrap_or(0).max(self.persisted + 1)
    }

    async fn replay_segment(&mut self, candidate: &Candidate) -> Result<(End, u64)> {
        let mut reader = self.reader(&candidate.path).await?;
        self.recovery.segments += 1;
        let mut end = End { offset: HEADER_PAGE, closed: false, signposts: Signposts::default() };
        let mut offset = HEADER_PAGE;
        loop {
            match reader.decode(offset, candidate.seed).await? {
                Decoded::Record(record) if self.expected.is_none_or(|expected| record.index == expected) => {
                    match record.mark() {
                        Some(mark) => self.durable = self.durable.max(mark.durable),
                        None if record.kind == Kind::Data => end.signposts.note(record.index, offset),
                        None => {}
                    }
                    offset += record.encoded_len() as u64;
                    (end.offset, end.closed) = (offset, record.kind == Kind::Close);
                    self.expected = Some(record.index + u64::from(record.kind == Kind::Data));
                    if record.kind == Kind::Data && record.index > self.persisted {
                        (self.replay)(record.index, record.payload).await?;
                        self.recovery.records += 1;
                        self.recovery.payload_bytes += record.payload.len() as u64;
                    }
                    if self.turn.spend(record.encoded_len()) {
                        yield_now().await;
                    }
                }
                // This is padding: the chain goes on at the next page, or not at all.
                _ if !offset.is_multiple_of(PAGE as u64) => offset = record::next_page(offset),
                _ => return Ok((end, reader.len())),
            }
        }
    }

    /// Looks for a mark that proves that the record missing at `offset` of the first of `segments` had been durable.
    async fn search_marks(&mut self, segments: &[Candidate], offset: u64) -> Result<()> {
        let needed = self.needed();
        let mut start = offset;
        for segment in segments {
            let mut reader = self.reader(&segment.path).await?;
            while start < reader.data_end() {
                let bytes = reader.bytes(start, SEARCH_BYTES + SEARCH_OVERLAP).await?;
                if let Some((at, mark)) = record::find_mark(bytes, SEARCH_BYTES, segment.seed, needed) {
                    let place = start + at as u64;
                    let message = format!(
                        "record {needed} is damaged, although it was durable: the mark (up to record {}) at offset \
                         {place} of segment {:016x} says so",
                        mark.durable, segment.id
                    );
                    let (path, offset) = self.place_of(needed, segments, offset).await?;
                    return Err(Error::corruption(path, offset, message));
                }
                start += SEARCH_BYTES as u64;
                yield_now().await;
            }
            start = HEADER_PAGE;
        }
        Ok(())
    }

    /// Looks in the segments `behind` the end for a link to a segment that does not exist although it had records that
    /// matter. A segment that exists may have lost its records: they were not durable, or a mark would say so.
    fn search_links(&self, dir: &Path, ids: &[u64], behind: &[Candidate]) -> Result<()> {
        let needed = self.needed();
        for candidate in behind {
            let (Some(first), Some(link)) = (candidate.first, candidate.link) else { continue };
            let had_records = link.end > HEADER_PAGE;
            if first > needed && had_records && ids.binary_search(&link.previous).is_err() {
                let message = format!(
                    "the segment is missing: the next one, {:016x}, says that it ended with record {} at offset {}. \
                     Put the file back, or see `weir repair`",
                    candidate.id,
                    first - 1,
                    link.end
                );
                return Err(Error::corruption(dir.join(segment::name(link.previous)), 0, message));
            }
        }
        Ok(())
    }

    /// The place where the record `index` should be. That is where the chain ended, at `offset` of the first of
    /// `segments`, unless the record looks as if it had been the first of the next segment.
    async fn place_of<'c>(&self, index: LogIndex, segments: &'c [Candidate], offset: u64) -> Result<(&'c Path, u64)> {
        let here = &segments[0].path;
        let mut reader = self.reader(here).await?;
        if reader.resembles(offset, index).await? || reader.resembles(record::next_page(offset), index).await? {
            return Ok((here, offset));
        }
        match segments.get(1) {
            Some(next) if self.reader(&next.path).await?.resembles(HEADER_PAGE, index).await? => {
                Ok((&next.path, HEADER_PAGE))
            }
            _ => Ok((here, offset)),
        }
    }
}
