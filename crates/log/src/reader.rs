//! Reads a segment from front to back: first a small read, then large ones, with some reads ahead. Most segments end
//! soon, and the space behind their end was never written: it is not read.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_io::{AlignedBuf, File, Op, PAGE, Result, Tag};
use weir_model::LogIndex;

use crate::record::{self, Decoded};

/// Bytes of the first read, and of the largest; each read is twice as long as the one before.
const FIRST_READ_BYTES: u64 = 64 << 10;
const READ_BYTES_MAX: u64 = 1 << 20;
/// Reads in flight, once they are large.
const READS_AHEAD: usize = 3;

/// A window that moves over a file.
pub(crate) struct Reader {
    file: Arc<dyn File>,
    tag: Tag,
    len: u64,
    /// From here to `len` the file is zeros.
    data_end: u64,
    /// Bytes of the file from `start` on.
    window: Vec<u8>,
    start: u64,
    /// Reads in flight, in order; the first one continues the window.
    ahead: VecDeque<Op<AlignedBuf>>,
    /// Where the next read begins, and how long it is.
    next_read: u64,
    read_bytes: u64,
    /// A buffer for the next read. It has the right length already, so that it need not be zeroed.
    spare: Option<AlignedBuf>,
}

impl Reader {
    /// A reader of `file` from its beginning.
    pub async fn new(file: Arc<dyn File>, tag: Tag) -> Result<Self> {
        let len = file.len().await?;
        let data_end = file.data_end(tag).await?.min(len);
        Ok(Self {
            file,
            tag,
            len,
            data_end,
            window: Vec::new(),
            start: 0,
            ahead: VecDeque::new(),
            next_read: 0,
            read_bytes: FIRST_READ_BYTES,
            spare: None,
        })
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// From this offset on everything is zero.
    pub fn data_end(&self) -> u64 {
        self.data_end
    }

    /// The bytes from `offset` on: `wanted` or more, fewer only at the end of the file. Offsets must not go back.
    pub async fn bytes(&mut self, offset: u64, wanted: usize) -> Result<&[u8]> {
        let end = offset.saturating_add(wanted as u64).min(self.len);
        while self.start + (self.window.len() as u64) < end {
            let passed = (offset.saturating_sub(self.start) as usize).min(self.window.len());
            self.window.drain(..passed);
            self.start += passed as u64;
            if self.window.is_empty() && self.ahead.is_empty() && offset > self.next_read {
                // Nobody asks for the bytes in between.
                self.start = offset - offset % PAGE as u64;
                self.next_read = self.start;
            }
            self.read_ahead();
            let Some(read) = self.ahead.pop_front() else {
                // The space that was never written.
                self.window.resize(end.saturating_sub(self.start) as usize, 0);
                break;
            };
            let chunk = read.await?;
            if chunk.is_empty() {
                break;
            }
            self.window.extend_from_slice(&chunk);
            self.spare = Some(chunk);
        }
        let passed = (offset.saturating_sub(self.start) as usize).min(self.window.len());
        Ok(&self.window[passed..])
    }

    /// While reads are small, only one is started: a caller that looks only at the beginning of a file reads only that.
    fn read_ahead(&mut self) {
        let at_once = if self.read_bytes < READ_BYTES_MAX { 1 } else { READS_AHEAD };
        while self.ahead.len() < at_once && self.next_read < self.data_end {
            let length = (self.data_end - self.next_read).min(self.read_bytes).next_multiple_of(PAGE as u64);
            let mut buf = self.spare.take().unwrap_or_default();
            buf.resize(length as usize, 0);
            self.ahead.push_back(self.file.read_at(self.next_read, buf, self.tag));
            self.next_read += length;
            self.read_bytes = (2 * self.read_bytes).min(READ_BYTES_MAX);
        }
    }

    /// Decodes the record at `offset`. A record that would end behind the end of the file is invalid.
    pub async fn decode(&mut self, offset: u64, seed: u32) -> Result<Decoded<'_>> {
        let needed = record::needed(self.bytes(offset, record::HEADER_BYTES).await?);
        match needed {
            Some(needed) if offset + needed as u64 <= self.len => {
                Ok(record::decode(self.bytes(offset, needed).await?, seed))
            }
            _ => Ok(Decoded::Invalid),
        }
    }

    /// Whether the bytes at `offset` look like the record `index`, valid or not.
    pub async fn resembles(&mut self, offset: u64, index: LogIndex) -> Result<bool> {
        Ok(record::plausible_index(self.bytes(offset, record::HEADER_BYTES).await?) == Some(index))
    }
}
