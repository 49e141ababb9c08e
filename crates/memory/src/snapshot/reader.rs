//! Reading a snapshot file: large reads, one ahead of what is being decoded.

use std::path::Path;
use std::sync::Arc;

use weir_io::{AlignedBuf, Error, ErrorKind, Fs, OpenOptions, Result, Tag, Turn, yield_now};
use weir_model::engine::Kind;

use super::block::{self, BLOCK_BYTES, BlockId};
use super::meta::{Digest, SnapshotMeta};
use super::record::Decoder;

/// Reads the file `path` and hands its rows to `take`: kind, key, time of expiry (0 = never), value.
///
/// # Errors
/// `Corruption`, with file and offset, also where it is missing or not the one that `meta` describes; I/O.
pub(crate) async fn read(
    fs: &Arc<dyn Fs>,
    path: &Path,
    meta: &SnapshotMeta,
    read_bytes: usize,
    tag: Tag,
    mut take: impl FnMut(Kind, &[u8], u64, &[u8]) + Send,
) -> Result<()> {
    let file = fs.open(path, OpenOptions::read(), tag).await.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::corruption(path, 0, "the manifest names this snapshot, but it is missing"),
        _ => error,
    })?;
    let found = file.len().await?;
    if found != meta.file_bytes {
        let message = format!("the file has {found} bytes, but the manifest says {}", meta.file_bytes);
        return Err(Error::corruption(path, 0, message));
    }
    let read_bytes = read_bytes.next_multiple_of(BLOCK_BYTES) as u64;
    let ask = |offset: u64| {
        let len = read_bytes.min(found - offset);
        file.read_at(offset, AlignedBuf::with_len(len as usize), tag)
    };
    let (mut decoder, mut digest, mut turn) = (Decoder::default(), Digest::default(), Turn::new());
    let (mut place, mut offset) = (BlockId { file: meta.number, block: 0 }, 0);
    let mut next = (found > 0).then(|| ask(0));
    while let Some(read) = next.take() {
        let bytes = read.await?;
        let behind = offset + bytes.len() as u64;
        if behind < found && !bytes.is_empty() {
            next = Some(ask(behind));
        }
        for block in bytes.chunks(BLOCK_BYTES) {
            let corrupt = |message: &str| Error::corruption(path, offset, message);
            let (payload, crc) = block::decode(block, place).map_err(corrupt)?;
            digest.add(crc);
            decoder.feed(payload, &mut take).map_err(corrupt)?;
            place.block += 1;
            offset += block.len() as u64;
            if turn.spend(block.len()) {
                yield_now().await;
            }
        }
    }
    let end = decoder.finish().map_err(|message| Error::corruption(path, offset, message))?;
    if (end, digest.value()) != (meta.end, meta.digest) {
        let message =
            "the snapshot is sound, but it is not the one that the manifest names: another file is in its place";
        return Err(Error::corruption(path, 0, message));
    }
    Ok(())
}
