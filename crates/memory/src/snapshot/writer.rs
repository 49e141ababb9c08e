//! Writing a snapshot file: a stream goes in, whole blocks go out in large writes.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use weir_io::{AlignedBuf, File, Fs, Op, OpenOptions, Result, Tag};
use weir_model::LogIndex;
use weir_model::engine::{Kind, Seq};

use super::block::{self, BLOCK_BYTES, BlockId, PAYLOAD_BYTES_MAX};
use super::meta::{Digest, SnapshotMeta};
use super::record::{self, End};

/// Most writes under way: one that the device works on, one queued behind it.
const WRITES_IN_FLIGHT_MAX: usize = 2;

/// Writes one file. A writer that is dropped unfinished leaves a file without an end, for the caller to remove.
pub(crate) struct Writer {
    file: Arc<dyn File>,
    tag: Tag,
    place: BlockId,
    digest: Digest,
    end: End,
    /// The payload of the block that is being filled.
    payload: Vec<u8>,
    /// Blocks that wait for their write.
    out: AlignedBuf,
    write_bytes: usize,
    /// Where `out` will be written.
    offset: u64,
    in_flight: VecDeque<Op<AlignedBuf>>,
    head: Vec<u8>,
}

impl Writer {
    /// Creates the file `path`, which must not exist. Writes are of about `write_bytes`.
    pub async fn create(fs: &Arc<dyn Fs>, path: &Path, number: u64, write_bytes: usize, tag: Tag) -> Result<Self> {
        let file = fs.open(path, OpenOptions::create_new(), tag).await?;
        Ok(Self {
            file,
            tag,
            place: BlockId { file: number, block: 0 },
            digest: Digest::default(),
            end: End::default(),
            payload: Vec::with_capacity(PAYLOAD_BYTES_MAX),
            out: AlignedBuf::new(),
            write_bytes: write_bytes.next_multiple_of(BLOCK_BYTES),
            offset: 0,
            in_flight: VecDeque::new(),
            head: Vec::new(),
        })
    }

    /// Bytes written or about to be.
    pub fn file_bytes(&self) -> u64 {
        self.offset + self.out.len() as u64
    }

    /// Adds a row, whose key is behind that of the last one.
    pub async fn add(&mut self, kind: Kind, key: &[u8], expire_at_ms: u64, value: &[u8]) -> Result<()> {
        self.end.rows += 1;
        self.end.bytes += (key.len() + value.len()) as u64;
        let mut head = std::mem::take(&mut self.head);
        record::put_head(&mut head, kind, key, expire_at_ms, value.len());
        self.push(&head).await?;
        head.clear();
        self.head = head;
        self.push(value).await
    }

    async fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PAYLOAD_BYTES_MAX - self.payload.len()));
            self.payload.extend_from_slice(now);
            bytes = later;
            if self.payload.len() == PAYLOAD_BYTES_MAX {
                self.cut();
                if self.out.len() >= self.write_bytes {
                    self.submit().await?;
                }
            }
        }
        Ok(())
    }

    fn cut(&mut self) {
        self.digest.add(block::append(&mut self.out, self.place, &self.payload));
        self.place.block += 1;
        self.payload.clear();
    }

    async fn submit(&mut self) -> Result<()> {
        let mut next = AlignedBuf::new();
        if self.in_flight.len() >= WRITES_IN_FLIGHT_MAX
            && let Some(oldest) = self.in_flight.pop_front()
        {
            next = oldest.await?;
            next.clear();
        }
        let offset = self.offset;
        self.offset += self.out.len() as u64;
        self.in_flight.push_back(self.file.write_at(offset, std::mem::replace(&mut self.out, next), self.tag));
        Ok(())
    }

    /// Ends the file and makes it durable (the caller does so for its name). The rows are as of `seq`, and every log
    /// record up to `persisted` is in them.
    pub async fn finish(mut self, seq: Seq, persisted: LogIndex) -> Result<SnapshotMeta> {
        let end = End { seq, persisted, ..self.end };
        let mut bytes = Vec::new();
        end.encode(&mut bytes);
        self.push(&bytes).await?;
        if !self.payload.is_empty() {
            self.cut();
        }
        self.submit().await?;
        for write in std::mem::take(&mut self.in_flight) {
            write.await?;
        }
        self.file.sync(self.tag).await?;
        let (number, file_bytes, digest) = (self.place.file, self.offset, self.digest.value());
        Ok(SnapshotMeta { number, file_bytes, digest, end })
    }
}
