//! Reading a segment from front to back: large reads, one ahead of the other.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_io::{AlignedBuf, File, Op, PAGE, Result, Tag};
use weir_model::LogIndex;

use crate::record::{self, Decoded};

/// Bytes of one read, and how many are under way.
const READ_BYTES: u64 = 1 << 20;
const READS_AHEAD: usize = 3;

/// A window that moves over a file.
pub(crate) struct Reader {
    file: Arc<dyn File>,
    tag: Tag,
    len: u64,
    /// Bytes of the file from `start` on.
    window: Vec<u8>,
    start: u64,
    /// Reads under way, in order; the first continues the window.
    ahead: VecDeque<Op<AlignedBuf>>,
    /// Where the next read begins.
    next_read: u64,
}

impl Reader {
    /// A reader of `file` that begins at `offset`, a multiple of a page.
    pub async fn new(file: Arc<dyn File>, offset: u64, tag: Tag) -> Result<Self> {
        let len = file.len().await?;
        Ok(Self { file, tag, len, window: Vec::new(), start: offset, ahead: VecDeque::new(), next_read: offset })
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// The bytes from `offset` on: `wanted` or more, fewer only at the end of the file. Offsets never go back.
    pub async fn bytes(&mut self, offset: u64, wanted: usize) -> Result<&[u8]> {
        let end = offset.saturating_add(wanted as u64).min(self.len);
        while self.start + (self.window.len() as u64) < end {
            let passed = (offset.saturating_sub(self.start) as usize).min(self.window.len());
            self.window.drain(..passed);
            self.start += passed as u64;
            while self.ahead.len() < READS_AHEAD && self.next_read < self.len {
                let length = (self.len - self.next_read).min(READ_BYTES).next_multiple_of(PAGE as u64);
                let buf = AlignedBuf::with_len(length as usize);
                self.ahead.push_back(self.file.read_at(self.next_read, buf, self.tag));
                self.next_read += length;
            }
            let Some(read) = self.ahead.pop_front() else { break };
            let chunk = read.await?;
            if chunk.is_empty() {
                break;
            }
            self.window.extend_from_slice(&chunk);
        }
        let passed = (offset.saturating_sub(self.start) as usize).min(self.window.len());
        Ok(&self.window[passed..])
    }

    /// What stands at `offset`. A record that would end behind the file is none.
    pub async fn decode(&mut self, offset: u64, seed: u32) -> Result<Decoded<'_>> {
        let needed = record::needed(self.bytes(offset, record::HEADER_BYTES).await?);
        match needed {
            Some(needed) if offset + needed as u64 <= self.len => {
                Ok(record::decode(self.bytes(offset, needed).await?, seed))
            }
            _ => Ok(Decoded::Invalid),
        }
    }

    /// Whether what stands at `offset` looks like the record `index`, valid or not.
    pub async fn resembles(&mut self, offset: u64, index: LogIndex) -> Result<bool> {
        Ok(record::plausible_index(self.bytes(offset, record::HEADER_BYTES).await?) == Some(index))
    }
}
