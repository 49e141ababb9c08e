//! Recovery: which records are there, and whether what is missing may be missing.
//!
//! The records of all segments form a chain of indexes. Where it breaks, at the record that should be X, one of two
//! things has happened. Either the machine was lost before X was durable (several writes are in flight, and the page
//! cache is written back in any order, so valid records may well follow): the log ends before X. Or X was durable and
//! is damaged: that is an error. The marks tell which: one behind the break that says "durable up to X or more"
//! convicts. So does the [`LogAnchor`], which is kept elsewhere: it finds out a file that is missing, cut, or an older
//! copy of itself, marks and all. And so does the [`Link`] of a segment behind the break, if the segment that it names
//! is not there: a segment's name is durable before anything is written behind it, whatever the sync mode.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::try_join_all;
use weir_io::{Class, Error, ErrorKind, Fs, Op, OpenOptions, Owner, PAGE, Result, Tag, Turn, yield_now};
use weir_model::LogIndex;

use crate::options::LogAnchor;
use crate::reader::Reader;
use crate::record::{self, Decoded, Kind, Link};
use crate::segment::{self, HEADER_PAGE};
use crate::signposts::Signposts;
use crate::state::Older;

/// How much of a segment is searched for marks at a time.
const SEARCH_BYTES: usize = 1 << 20;
/// Bytes that a mark may reach beyond the place where its search begins.
const SEARCH_OVERLAP: usize = 64;

/// What an opening found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Records given to the replay.
    pub records: u64,
    /// Their payloads, in bytes.
    pub payload_bytes: u64,
    /// The last index there is; the engine's persisted index if no record is newer.
    pub last: LogIndex,
    /// Segments read.
    pub segments: u64,
    /// Whether the log had been closed in order.
    pub clean: bool,
    /// Where the last record ends, if there is any segment.
    pub end: Option<Cut>,
    /// Of a member of a shared log: records under its number that were passed over, being another partition's.
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
    /// Segments that are part of the log, in order.
    pub older: Vec<Older>,
    pub next_segment_id: u64,
    /// No segment was ever made in this directory, as far as it can be seen: then its own name may not be durable.
    pub is_new: bool,
}

struct Candidate {
    id: u64,
    path: PathBuf,
    seed: u32,
    /// The index of its first record; `None` if there is no valid one at its beginning.
    first: Option<LogIndex>,
    /// What it says of the segment in front of it.
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
    /// The index of the next record, once a first one was seen.
    expected: Option<LogIndex>,
    turn: Turn,
}

/// What reading the segments told, before anything is changed.
struct Survey {
    found: Found,
    /// Segments in front of the log, which the engine holds.
    passed: Vec<PathBuf>,
    /// Segments between and behind those of the log, in order.
    cut_off: Vec<PathBuf>,
    /// A segment in the making was left behind.
    preparing: bool,
}

/// Reads the log in `dir`, which nobody may have open, and changes nothing: every checksum, the order of the records,
/// and that none is missing after `persisted` that `anchor` or the log itself calls durable.
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

/// As [`check`], showing every record after `persisted` to `show`.
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
    let Survey { found, passed, cut_off, preparing } = survey(fs, dir, owner, anchor, persisted, replay).await?;
    // What was replayed may be in the page cache only. It must be durable before the first new record is, or a second
    // crash could leave a hole.
    let writable = OpenOptions { write: true, create_new: false, direct: false, dsync: false };
    let sync = |path| async move { fs.open(path, writable, tag).await?.sync(tag).await };
    try_join_all(found.older.iter().map(|older| sync(&older.path))).await?;
    // And what was cut off must be gone for good before.
    let preparing = preparing.then(|| dir.join(segment::PREPARING));
    for path in passed.iter().chain(&preparing) {
        fs.remove(path, tag).await?;
    }
    // The last one first, and each for good before the next: after a crash in between none is left without the one that
    // its link names, which would look like a loss.
    for (left, path) in cut_off.iter().enumerate().rev() {
        fs.remove(path, tag).await?;
        if left > 0 {
            fs.sync_dir(dir, tag).await?;
        }
    }
    if preparing.is_some() || !passed.is_empty() || !cut_off.is_empty() {
        fs.sync_dir(dir, tag).await?;
    }
    Ok(found)
}

async fn survey(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    owner: Owner,
    anchor: LogAnchor,
    persisted: LogIndex,
    replay: &mut (dyn FnMut(LogIndex, &[u8]) -> Op<()> + Send + Sync),
) -> Result<Survey> {
    let tag = Tag::new(owner, Class::Log);
    let names = match fs.list(dir, tag).await {
        // It is made with the first segment.
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        names => names?,
    };
    let mut ids: Vec<u64> = names.iter().filter_map(|entry| segment::parse_name(&entry.name)).collect();
    ids.sort_unstable();
    let preparing = names.iter().any(|entry| entry.name == segment::PREPARING);
    let next_segment_id = ids.last().map_or(1, |id| id + 1);
    let recovery = Recovery { last: persisted, ..Recovery::default() };
    let mut recover = Recover { fs, tag, anchor, persisted, replay, recovery, expected: None, turn: Turn::new() };

    let (passed, candidates) = recover.candidates(dir, &ids).await?;
    let mut older = Vec::new();
    let cut_off = recover.walk(dir, &ids, &candidates, &mut older).await?;
    let Recover { mut recovery, expected, .. } = recover;
    recovery.last = recovery.last.max(expected.map_or(0, |expected| expected - 1));
    if recovery.last < anchor.durable {
        let message = format!(
            "records up to {} were durable, but the log ends with record {}: a file is missing, cut, damaged, or an older \
             copy of itself; bring it back, or see `weir repair`",
            anchor.durable, recovery.last
        );
        return Err(match &recovery.end {
            Some(end) => Error::corruption(&end.path, end.offset, message),
            None => Error::corruption(dir, 0, message),
        });
    }
    let found = Found { recovery, older, next_segment_id, is_new: ids.is_empty() };
    Ok(Survey { found, passed, cut_off, preparing })
}

impl Recover<'_> {
    async fn reader(&self, path: &Path) -> Result<Reader> {
        let file = self.fs.open(path, OpenOptions::read_buffered(), self.tag).await?;
        Reader::new(file, self.tag).await
    }

    /// The segments that records after `persisted` can be in, in order, and the files of those before.
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

    /// Replays the chain. Gives the files that are not part of it, in order. There are segments `ids`.
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
                    "the log begins at record {first}, but the engine holds only up to {}: segments are missing, or the engine is an \
                         older copy of itself",
                    self.persisted
                );
                return Err(Error::corruption(&candidate.path, HEADER_PAGE, message));
            }
            let (end, allocated) = self.replay_segment(candidate).await?;
            self.recovery.end = Some(Cut { path: candidate.path.clone(), offset: end.offset });
            let last = self.expected.map_or(0, |expected| expected - 1);
            let (path, used, signposts) = (candidate.path.clone(), end.offset, end.signposts);
            older.push(Older { id: candidate.id, path, segment: None, last, used, allocated, signposts });
            // A log that is opened and not written to leaves an empty segment: the chain goes on behind it.
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
                    if record.kind == Kind::Data {
                        end.signposts.note(record.index, offset);
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
                // Padding: the chain goes on with the next page, or not at all.
                _ if !offset.is_multiple_of(PAGE as u64) => offset = record::next_page(offset),
                _ => return Ok((end, reader.len())),
            }
        }
    }

    /// Looks for a mark that says the record missing at `offset` of the first of `segments` had been durable.
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
                        "record {needed} is damaged: it was durable, says the mark (up to {}) at offset {place} of segment \
                         {:016x}",
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

    /// Looks in the segments `behind` the end for a link that names a segment which is not there, although it had
    /// records that matter. One that is there may have lost them: they were not durable, or a mark would say so.
    fn search_links(&self, dir: &Path, ids: &[u64], behind: &[Candidate]) -> Result<()> {
        let needed = self.needed();
        for candidate in behind {
            let (Some(first), Some(link)) = (candidate.first, candidate.link) else { continue };
            let had_records = link.end > HEADER_PAGE;
            if first > needed && had_records && ids.binary_search(&link.previous).is_err() {
                let message = format!(
                    "missing: the segment behind it, {:016x}, says that it ended with record {} at offset {}; bring it back, \
                     or see `weir repair`",
                    candidate.id,
                    first - 1,
                    link.end
                );
                return Err(Error::corruption(dir.join(segment::name(link.previous)), 0, message));
            }
        }
        Ok(())
    }

    /// Where the record `index` should be: where the chain ended at `offset` of the first of `segments`, unless it
    /// looks as if it had been the first of the next.
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
