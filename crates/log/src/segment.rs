//! A segment: one file of the log, its name, its header page, and how it is made.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::try_join;
use weir_io::{AlignedBuf, Class, Error, ErrorKind, File, Fs, OpenOptions, PAGE, Result, Tag};

use crate::options::{LogOptions, SyncMode};
use crate::record;

/// Where records begin.
pub(crate) const HEADER_PAGE: u64 = PAGE as u64;

const MAGIC: &[u8; 8] = b"WEIRLOG\0";
/// The version that is written. The version before, whose segments begin without a [`record::Link`], is also read.
const VERSION: u32 = 3;
const VERSION_BEFORE: u32 = 2;
/// Bytes of the header page that the checksum covers; the checksum follows them, then zeros.
const HEADER_FIELDS: usize = 40;
/// How many bytes one write fills with zeros.
const ZERO_BYTES: usize = 1 << 20;

const SUFFIX: &str = ".log";
/// The largest number of a segment. Segments are numbered one by one, so none gets a larger number. A file whose name
/// has one is a stranger, and the numbers behind it would soon run out.
const NUMBER_MAX: u64 = u64::MAX >> 1;
/// The name of a segment that is being made. A file that has this name after a crash is removed.
pub(crate) const PREPARING: &str = "preparing.tmp";

/// The file name of segment `id`.
pub(crate) fn name(id: u64) -> String {
    format!("{id:016x}{SUFFIX}")
}

/// The number of the segment with this file name.
pub(crate) fn parse_name(file_name: &str) -> Option<u64> {
    let digits = file_name.strip_suffix(SUFFIX)?;
    let lowercase = digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let number = (digits.len() == 16 && lowercase).then(|| u64::from_str_radix(digits, 16).ok()).flatten();
    number.filter(|&number| number <= NUMBER_MAX)
}

/// An open segment.
pub(crate) struct Segment {
    pub id: u64,
    pub seed: u32,
    pub path: PathBuf,
    pub file: Arc<dyn File>,
    /// The size at which it is left for the next one.
    pub capacity: u64,
    /// Bytes that can be written without asking the file system for more space.
    pub allocated: u64,
}

/// The header page of a segment, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The segment's number, as in its name.
    pub id: u64,
    /// Drawn at random when the log was opened.
    pub salt: u64,
    /// The [`crate::LogAnchor::identity`] of the log.
    pub identity: u64,
}

fn encode_header(header: SegmentHeader) -> AlignedBuf {
    let SegmentHeader { id, salt, identity } = header;
    let mut page = AlignedBuf::with_len(PAGE);
    page[..8].copy_from_slice(MAGIC);
    page[8..12].copy_from_slice(&VERSION.to_le_bytes());
    page[16..24].copy_from_slice(&id.to_le_bytes());
    page[24..32].copy_from_slice(&salt.to_le_bytes());
    page[32..40].copy_from_slice(&identity.to_le_bytes());
    let crc = crc32c::crc32c(&page[..HEADER_FIELDS]);
    page[HEADER_FIELDS..HEADER_FIELDS + 4].copy_from_slice(&crc.to_le_bytes());
    page
}

/// Reads a header page, which may be any bytes.
///
/// # Errors
/// What is wrong with the page.
pub fn decode_segment_header(page: &[u8]) -> Result<SegmentHeader, &'static str> {
    let word =
        |at: usize| page.get(at..at + 8).and_then(|bytes| bytes.first_chunk::<8>()).map(|b| u64::from_le_bytes(*b));
    let (Some(id), Some(salt), Some(identity), Some(crc)) = (word(16), word(24), word(32), word(HEADER_FIELDS)) else {
        return Err("the header is cut off");
    };
    if &page[..8] != MAGIC {
        return Err("this is not a log segment: the magic number is missing");
    }
    if crc32c::crc32c(&page[..HEADER_FIELDS]) != crc as u32 {
        return Err("the header's checksum does not match");
    }
    if page[8..12] != VERSION.to_le_bytes() && page[8..12] != VERSION_BEFORE.to_le_bytes() {
        return Err(
            "the segment has a format version that this program does not know: run the version of Weir that wrote it",
        );
    }
    Ok(SegmentHeader { id, salt, identity })
}

/// Checks the header page of segment `id` of the log with that `identity`, and returns the segment's seed.
pub(crate) fn check_header(path: &Path, id: u64, identity: u64, page: &[u8]) -> Result<u32> {
    let header = decode_segment_header(page).map_err(|wrong| Error::corruption(path, 0, wrong))?;
    if header.id != id {
        let message =
            format!("the header says segment {:016x}: the file of another segment is in this one's place", header.id);
        return Err(Error::corruption(path, 0, message));
    }
    if header.identity != identity {
        return Err(Error::corruption(path, 0, "the segment belongs to another log: the identities differ"));
    }
    Ok(record::seed(id, header.salt))
}

/// A segment that is to be made.
pub(crate) struct Wanted {
    pub id: u64,
    /// The size at which it is left for the next one.
    pub capacity: u64,
    /// An old segment to make it of, if there is one.
    pub recycled: Option<PathBuf>,
    /// The class of the zeros that fill it (mode `Always`). All other I/O is of [`Class::Log`].
    pub class: Class,
    /// Set while it is filled in the background. Then the making can be dropped: it has only data writes under way, to
    /// a file that the next making removes.
    pub is_filling: Arc<AtomicBool>,
    /// Whether the name of the log's directory has to be made durable, too.
    pub names_dir: bool,
}

/// Makes a segment. On return its header, its name and (mode `Always`) all its blocks are durable, so the file's first
/// record needs no special care: a segment with a bad header means corruption, not a crash.
pub(crate) async fn prepare(fs: Arc<dyn Fs>, dir: PathBuf, options: LogOptions, wanted: Wanted) -> Result<Segment> {
    let (temporary, path) = (dir.join(PREPARING), dir.join(name(wanted.id)));
    let tag = Tag::new(options.owner, Class::Log);
    let made = try_prepare(&fs, &dir, &temporary, options, wanted).await;
    if made.is_err() {
        // A half-made segment may take up the very space whose lack was the error. It has its own name by now if one of
        // the last steps has failed, and attempts, each with another name, must not pile up. It does not matter if this
        // fails: the next opening removes it, too.
        for left in [&temporary, &path] {
            let _ = fs.remove(left, tag).await;
        }
    }
    made
}

async fn try_prepare(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    temporary: &Path,
    options: LogOptions,
    wanted: Wanted,
) -> Result<Segment> {
    let Wanted { id, capacity, recycled, class, is_filling, names_dir } = wanted;
    let tag = Tag::new(options.owner, Class::Log);
    let always = options.sync == SyncMode::Always;
    if names_dir {
        fs.create_dir_all(dir, tag).await?;
    }
    // O_DSYNC is set later: the zeros need one sync, not one for each write.
    let plain = OpenOptions { write: true, create_new: recycled.is_none(), direct: always, dsync: false };
    if let Some(old) = &recycled {
        // The old name must be gone for good before the header has the new one.
        fs.rename(old, temporary, tag).await?;
        fs.sync_dir(dir, tag).await?;
    } else {
        match fs.remove(temporary, tag).await {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let file = fs.open(temporary, plain, tag).await?;
    if recycled.is_none() {
        file.allocate(capacity, tag).await?;
        if always {
            // A synced write into blocks never written costs a commit of the file system's journal each (4x on ext4).
            is_filling.store(!class.is_foreground(), Ordering::Relaxed);
            let mut zeros = AlignedBuf::with_len(ZERO_BYTES);
            let mut offset = 0;
            while offset < capacity {
                zeros.truncate((capacity - offset).min(ZERO_BYTES as u64) as usize);
                let length = zeros.len() as u64;
                zeros = file.write_at(offset, zeros, Tag::new(options.owner, class)).await?;
                offset += length;
            }
            is_filling.store(false, Ordering::Relaxed);
        }
    }
    let header = SegmentHeader { id, salt: options.salt, identity: options.anchor.identity };
    file.write_at(0, encode_header(header), tag).await?;
    match dir.parent().filter(|_| names_dir) {
        // The device does both in one go.
        Some(parent) => try_join(file.sync(tag), fs.sync_dir(parent, tag)).await.map(drop)?,
        None => file.sync(tag).await?,
    }
    let allocated = file.len().await?;
    let path = dir.join(name(id));
    fs.rename(temporary, &path, tag).await?;
    fs.sync_dir(dir, tag).await?;
    let file = if always {
        fs.open(&path, OpenOptions { write: true, create_new: false, direct: true, dsync: true }, tag).await?
    } else {
        file
    };
    Ok(Segment { id, seed: record::seed(id, options.salt), path, file, capacity, allocated })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back_and_strangers_do_not() {
        assert_eq!(parse_name(&name(0x1f)), Some(0x1f));
        assert_eq!(parse_name(&name(NUMBER_MAX)), Some(NUMBER_MAX));
        let strangers = ["1f.log", "000000000000001F.log", "preparing.tmp", "000000000000001f", "+00000000000001f.log"];
        for stranger in strangers.map(String::from).into_iter().chain([NUMBER_MAX + 1, u64::MAX].map(name)) {
            assert_eq!(parse_name(&stranger), None, "{stranger}");
        }
    }

    #[test]
    fn a_header_of_the_version_before_is_read_and_no_other() {
        let header = SegmentHeader { id: 3, salt: 9, identity: 27 };
        for version in 0..6_u32 {
            let mut page = encode_header(header);
            page[8..12].copy_from_slice(&version.to_le_bytes());
            let crc = crc32c::crc32c(&page[..HEADER_FIELDS]);
            page[HEADER_FIELDS..HEADER_FIELDS + 4].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(decode_segment_header(&page).is_ok(), [2, 3].contains(&version), "version {version}");
        }
    }

    #[test]
    fn every_flipped_bit_of_the_header_is_noticed() {
        let header = SegmentHeader { id: 3, salt: 9, identity: 27 };
        let page = encode_header(header);
        assert_eq!(decode_segment_header(&page), Ok(header));
        for bit in 0..(HEADER_FIELDS + 4) * 8 {
            let mut flipped = AlignedBuf::copy_of(&page);
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_segment_header(&flipped).is_err(), "bit {bit}");
        }
        for cut in 0..HEADER_FIELDS + 8 {
            assert!(decode_segment_header(&page[..cut]).is_err());
        }
    }
}
