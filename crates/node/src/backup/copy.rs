//! Copying files with a checksum, a piece at a time.

use std::path::Path;
use std::sync::Arc;

use weir_io::{AlignedBuf, Fs, OpenOptions, Result, Tag};

/// Bytes that are read and written at a time: as many as a compaction reads ahead, and few enough for any gate.
const PIECE: usize = 256 << 10;

/// The length and checksum of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// Its length.
    pub bytes: u64,
    /// Its CRC-32C.
    pub crc: u32,
}

/// Reads all of `path`.
pub async fn content(fs: &Arc<dyn Fs>, path: &Path, tag: Tag) -> Result<Content> {
    walk(fs, path, None, tag).await
}

/// Copies `from` to `to`, which must not exist, and makes the bytes (not the name) durable. Gives what has been read.
pub async fn copy(fs: &Arc<dyn Fs>, from: &Path, to: &Path, tag: Tag) -> Result<Content> {
    walk(fs, from, Some(to), tag).await
}

async fn walk(fs: &Arc<dyn Fs>, from: &Path, to: Option<&Path>, tag: Tag) -> Result<Content> {
    let source = fs.open(from, OpenOptions::read(), tag).await?;
    let target = match to {
        Some(to) => Some(fs.open(to, OpenOptions::create_new(), tag).await?),
        None => None,
    };
    let mut found = Content { bytes: 0, crc: 0 };
    loop {
        let mut piece = source.read_at(found.bytes, AlignedBuf::with_len(PIECE), tag).await?;
        let (len, at) = (piece.len(), found.bytes);
        found.crc = crc32c::crc32c_append(found.crc, &piece);
        found.bytes += len as u64;
        if let Some(target) = target.as_ref().filter(|_| len > 0) {
            // Direct writes are in whole pages; the excess is cut off at the end.
            piece.pad_to_page();
            target.write_at(at, piece, tag).await?;
        }
        if len < PIECE {
            break;
        }
    }
    if let Some(target) = target {
        target.set_len(found.bytes, tag).await?;
        target.sync(tag).await?;
    }
    Ok(found)
}
