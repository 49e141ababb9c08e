//! Stored bytes: what one read brought, and the check that every block passes before anybody looks into it.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use weir_io::plant::{Plant, is_planted};
use weir_io::{AlignedBuf, Error, ErrorKind, Result};

use super::format::{Compression, RAW_LEN_BYTES, TRAILER_BYTES, block_crc};

thread_local! {
    /// zstd's tables, 160 KB that cost more to set up than a block of 4 KiB costs to decompress. Made by the first
    /// block.
    static DECOMPRESSOR: RefCell<zstd::bulk::Decompressor<'static>> =
        RefCell::new(zstd::bulk::Decompressor::new().expect("only a lack of memory can refuse a context"));
}

/// A range of the file in memory.
pub(super) struct Span {
    offset: u64,
    buf: Arc<AlignedBuf>,
}

impl Span {
    /// What a read of `len` bytes at `offset` of the file `path` brought; an error if it brought less.
    pub(super) fn new(path: &Path, offset: u64, len: u64, buf: AlignedBuf) -> Result<Self> {
        if buf.len() as u64 != len {
            let message = format!("the file ends after {} of {len} bytes", buf.len());
            return Err(Error::new(ErrorKind::UnexpectedEof, "read", path, message).at(offset));
        }
        Ok(Span { offset, buf: Arc::new(buf) })
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.buf
    }

    pub(super) fn capacity(&self) -> usize {
        self.buf.capacity()
    }

    /// Where the file's byte `offset` is in the buffer; it must be in the span.
    pub(super) fn position(&self, offset: u64) -> usize {
        (offset - self.offset) as usize
    }

    /// `len` bytes from the file's byte `offset`; all of them must be in the span.
    pub(super) fn get(&self, offset: u64, len: usize) -> &[u8] {
        let start = self.position(offset);
        &self.buf[start..start + len]
    }

    /// The buffer, if nobody shares it.
    pub(super) fn into_buf(self) -> Option<AlignedBuf> {
        Arc::into_inner(self.buf)
    }

    pub(super) fn shared(&self) -> &Arc<AlignedBuf> {
        &self.buf
    }
}

/// A block as it is stored, after its checksum has been found right.
pub(super) struct Stored<'a> {
    pub(super) compression: Compression,
    /// The content, compressed or not, without what follows it.
    pub(super) payload: &'a [u8],
    raw_len: u32,
}

impl<'a> Stored<'a> {
    /// Takes the stored bytes of a block at `offset` of table `identity` apart.
    pub(super) fn check(stored: &'a [u8], identity: u64, offset: u64) -> Result<Self, &'static str> {
        const SHORT: &str = "the block is shorter than its trailer";
        let (checked, crc) = stored.split_last_chunk::<4>().ok_or(SHORT)?;
        if block_crc(identity, offset, checked) != u32::from_le_bytes(*crc) && !is_planted(Plant::ChecksumIgnored) {
            return Err("the checksum of the block does not match");
        }
        debug_assert_eq!(TRAILER_BYTES, 1 + size_of_val(crc));
        let (&compression, payload) = checked.split_last().ok_or(SHORT)?;
        let compression = Compression::from_byte(compression).ok_or("the block's compression is unknown")?;
        if compression == Compression::None {
            return Ok(Stored { compression, payload, raw_len: 0 });
        }
        let (payload, raw_len) = payload.split_last_chunk::<RAW_LEN_BYTES>().ok_or(SHORT)?;
        Ok(Stored { compression, payload, raw_len: u32::from_le_bytes(*raw_len) })
    }

    /// The block's content, which must not be longer than `len_max` bytes.
    pub(super) fn decompress(self, len_max: u64) -> Result<Vec<u8>, &'static str> {
        if u64::from(self.raw_len) > len_max {
            return Err("the block claims to be longer than any block of its table");
        }
        let len = self.raw_len as usize;
        let content = match self.compression {
            Compression::None => self.payload.to_vec(),
            Compression::Lz4 => {
                lz4_flex::block::decompress(self.payload, len).map_err(|_| "the block's LZ4 data is malformed")?
            }
            Compression::Zstd => {
                let content = DECOMPRESSOR.with(|zstd| zstd.borrow_mut().decompress(self.payload, len));
                content.map_err(|_| "the block's zstd data is malformed")?
            }
        };
        if self.compression != Compression::None && content.len() != len {
            return Err("the decompressed length of the block is not the one that it claims");
        }
        Ok(content)
    }
}
