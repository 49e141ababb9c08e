//! Finds what can be kept of a damaged log: for an operator who would rather lose the rest than wait for a backup.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{Class, Error, ErrorKind, Fs, OpenOptions, Owner, PAGE, Result, Tag, yield_now};
use weir_model::LogIndex;

use crate::reader::Reader;
use crate::record::{self, Decoded, Kind};
use crate::segment::{self, HEADER_PAGE, SegmentHeader, decode_segment_header};

/// The longest undamaged beginning of a log. Nothing has been changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvage {
    /// The identity in the segments; `None` if none can be read.
    pub identity: Option<u64>,
    /// The last record that can be kept; the engine's persisted index if there is none behind it.
    pub last: LogIndex,
    /// Segments that stay as they are, in order.
    pub whole: Vec<PathBuf>,
    /// The segment behind them, which is kept up to an offset. Everything behind the offset has to go, or a mark in it
    /// might still say that more had been durable.
    pub cut: Option<(PathBuf, u64)>,
    /// Segments that cannot be kept: damaged from their first record on, or behind a gap.
    pub lost: Vec<PathBuf>,
}

/// Determines what can be kept of the log in `dir`, whose engine holds everything up to `persisted`. `identity` is the
/// one in the log's anchor, if that can be read; otherwise the first segment decides. Changes nothing.
///
/// # Errors
/// I/O.
pub async fn salvage(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    owner: Owner,
    identity: Option<u64>,
    persisted: LogIndex,
) -> Result<Salvage> {
    let tag = Tag::new(owner, Class::Maintenance);
    let names = match fs.list(dir, tag).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        names => names?,
    };
    let mut found = Salvage { identity, last: persisted, ..Salvage::default() };
    let mut expected = None;
    let mut kept: Vec<(PathBuf, u64)> = Vec::new();
    let mut is_over = false;
    for entry in names {
        let Some(id) = segment::parse_name(&entry.name) else { continue };
        let path = dir.join(&entry.name);
        let chain = match is_over {
            true => None,
            false => {
                let file = fs.open(&path, OpenOptions::read_buffered(), tag).await?;
                let mut reader = Reader::new(file, tag).await?;
                let header = decode_segment_header(reader.bytes(0, PAGE).await?).ok();
                let is_own = |header: &SegmentHeader| {
                    header.id == id && found.identity.is_none_or(|identity| identity == header.identity)
                };
                match header.filter(is_own) {
                    Some(header) => {
                        found.identity = Some(header.identity);
                        follow(&mut reader, header, expected).await?
                    }
                    None => None,
                }
            }
        };
        // Records that the engine holds may be missing in between: a log that has failed lost some of them, and so may
        // a power cut have done. As when a log is opened, the records behind them are needed all the same.
        let needed = expected.unwrap_or(0).max(persisted.saturating_add(1));
        match chain {
            Some(Chain { first, .. }) if first > needed => {
                is_over = true;
                found.lost.push(path);
            }
            Some(Chain { next, end, .. }) => {
                expected = Some(next);
                found.last = found.last.max(next - 1);
                kept.push((path, end));
            }
            // A segment without a record at its beginning is empty, or damaged there or in its header: the next
            // segments tell whether any record is missing.
            None => found.lost.push(path),
        }
    }
    found.cut = kept.pop();
    found.whole = kept.into_iter().map(|(path, _)| path).collect();
    Ok(found)
}

/// What the beginnings of a log's segments say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beginnings {
    /// The identity in the first segment of which it can be read.
    pub identity: Option<u64>,
    /// The index of the first record in each segment that has a record, in order.
    pub first_indexes: Vec<LogIndex>,
}

/// Reads the beginnings of the segments of the log in `dir`. Changes nothing.
///
/// # Errors
/// I/O.
pub async fn beginnings(fs: &Arc<dyn Fs>, dir: &Path, owner: Owner) -> Result<Beginnings> {
    let tag = Tag::new(owner, Class::Maintenance);
    let mut found = Beginnings::default();
    for entry in fs.list(dir, tag).await? {
        let Some(id) = segment::parse_name(&entry.name) else { continue };
        let file = fs.open(&dir.join(&entry.name), OpenOptions::read_buffered(), tag).await?;
        let mut reader = Reader::new(file, tag).await?;
        let Ok(header) = decode_segment_header(reader.bytes(0, PAGE).await?) else { continue };
        if header.id != id {
            continue;
        }
        found.identity.get_or_insert(header.identity);
        if let Decoded::Record(record) = reader.decode(HEADER_PAGE, record::seed(id, header.salt)).await? {
            found.first_indexes.push(record.index);
        }
    }
    Ok(found)
}

/// The valid records at the beginning of a segment.
struct Chain {
    /// The index of the first.
    first: LogIndex,
    /// The index behind the last.
    next: LogIndex,
    /// Where they end.
    end: u64,
}

/// `None` if there is no record at its beginning that may stand there.
async fn follow(reader: &mut Reader, header: SegmentHeader, expected: Option<LogIndex>) -> Result<Option<Chain>> {
    let seed = record::seed(header.id, header.salt);
    let mut chain: Option<Chain> = None;
    let mut offset = HEADER_PAGE;
    loop {
        let wanted = chain.as_ref().map(|chain| chain.next).or(expected);
        match reader.decode(offset, seed).await? {
            // The first record determines the index: the caller notices a gap.
            Decoded::Record(record) if chain.is_none() || wanted == Some(record.index) => {
                offset += record.encoded_len() as u64;
                let next = record.index + u64::from(record.kind == Kind::Data);
                let first = chain.as_ref().map_or(record.index, |chain| chain.first);
                chain = Some(Chain { first, next, end: offset });
                yield_now().await;
            }
            _ if !offset.is_multiple_of(PAGE as u64) => offset = record::next_page(offset),
            _ => return Ok(chain),
        }
    }
}

/// Copies the bytes of the segment at `path` up to `end` to a new file `to`. All of it but the name is durable.
///
/// # Errors
/// I/O.
pub async fn copy_beginning(fs: &Arc<dyn Fs>, path: &Path, to: &Path, end: u64, owner: Owner) -> Result<()> {
    let tag = Tag::new(owner, Class::Maintenance);
    let source = fs.open(path, OpenOptions::read_buffered(), tag).await?;
    let target = fs.open(to, OpenOptions::create_new_buffered(), tag).await?;
    let mut offset = 0;
    while offset < end {
        let length = (end - offset).min(1 << 20) as usize;
        let bytes = source.read_at(offset, weir_io::AlignedBuf::with_len(length), tag).await?;
        if bytes.len() < length {
            return Err(Error::new(
                ErrorKind::UnexpectedEof,
                "read",
                path,
                "the file became shorter while it was read",
            )
            .at(offset));
        }
        target.write_at(offset, bytes, tag).await?;
        offset += length as u64;
        yield_now().await;
    }
    target.sync(tag).await
}
