//! Writing a table: entries come in in ascending order, and blocks go out in large writes while the next are being
//! built.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{AlignedBuf, File, Fs, Op, OpenOptions, PAGE, Result, Tag};
use weir_model::engine::{Counter, Entry, Seq};

use super::block::{Block, BlockBuilder};
use super::covers::CoverCounter;
use super::filter::{self, Filter};
use super::format::{
    BLOCK_BYTES_MAX, Compression, FOOTER_BYTES, Footer, PADDING_SHARE, RAW_LEN_BYTES, Section, TRAILER_BYTES,
    TableOptions, TableSummary, block_crc,
};
use super::index::{CutBlock, IndexBuilder, common_prefix, separator};
use super::reader::Fresh;
use super::span::Span;
use crate::cache::TableCache;

/// Most writes under way: one that the device works on, one queued behind it.
const WRITES_IN_FLIGHT_MAX: usize = 2;
/// Compression that saves less than 1/8 is not worth decompressing.
const SAVING_SHARE: usize = 8;
/// zstd's fast levels are the negative ones; on small blocks higher ones cost time and hardly save space.
const ZSTD_LEVEL: i32 = -1;

/// Writes one table. A writer that is dropped unfinished leaves a file without a footer, for the caller to remove.
pub struct TableWriter {
    file: Arc<dyn File>,
    path: PathBuf,
    tag: Tag,
    options: TableOptions,
    out: Output,
    block: BlockBuilder,
    /// The last entry added; the separator of the block just cut is only known with the next entry.
    last_key: Vec<u8>,
    last_seq: Seq,
    /// The block that waits for its separator.
    cut: Option<CutBlock>,
    index: IndexBuilder,
    hashes: Vec<u64>,
    summary: TableSummary,
    /// The time of the wall clock when the table was begun; 0 if nobody has said it.
    written_at_ms: u64,
    deadlines: Counter,
    covers: CoverCounter,
    compressor: Option<zstd::bulk::Compressor<'static>>,
    compressed: Vec<u8>,
    /// The cache that blocks are offered to, see [`TableWriter::warming`].
    cache: Option<TableCache>,
}

impl TableWriter {
    /// Creates the file `path`, which must not exist. Every write is tagged with `tag`.
    pub async fn create(fs: &Arc<dyn Fs>, path: &Path, options: TableOptions, tag: Tag) -> Result<TableWriter> {
        let file = fs.open(path, OpenOptions::create_new(), tag).await?;
        let compressor = match options.compression {
            Compression::Zstd => {
                let new = zstd::bulk::Compressor::new(ZSTD_LEVEL);
                Some(new.map_err(|error| weir_io::Error::from_std("set up zstd for", path, &error))?)
            }
            Compression::None | Compression::Lz4 => None,
        };
        let options = TableOptions { block_bytes: options.block_bytes.clamp(64, BLOCK_BYTES_MAX), ..options };
        Ok(TableWriter {
            file,
            path: path.to_path_buf(),
            tag,
            options,
            out: Output::new(options.write_bytes.next_multiple_of(PAGE).max(PAGE)),
            block: BlockBuilder::new(),
            last_key: Vec::new(),
            last_seq: 0,
            cut: None,
            index: IndexBuilder::default(),
            hashes: Vec::new(),
            summary: TableSummary::default(),
            written_at_ms: 0,
            deadlines: Counter::default(),
            covers: CoverCounter::default(),
            compressor,
            compressed: Vec::new(),
            cache: None,
        })
    }

    /// Offers every block to `cache` as it is written. [`TableWriter::finish_warm`] returns it, for
    /// [`super::Table::open_fresh`].
    #[must_use]
    pub fn warming(mut self, cache: Option<TableCache>) -> Self {
        self.cache = cache;
        self
    }

    /// Says what the wall clock shows. Times of expiry are noted most finely near it, and correctly without it. It is
    /// part of the table's identity.
    #[must_use]
    pub fn written_at(mut self, now_ms: u64) -> Self {
        self.written_at_ms = now_ms;
        self.deadlines = Counter::new(now_ms);
        self
    }

    /// Says that nobody will add a part that is dead by a cover up to `seq`.
    #[must_use]
    pub fn having_met_covers(mut self, seq: Seq) -> Self {
        self.summary.covers_met = seq;
        self
    }

    /// Adds an entry. Only computes: call [`TableWriter::drain`] when [`TableWriter::pending_bytes`] says so.
    ///
    /// # Errors
    /// What is wrong, if the entry is not behind the last one in the tree's order. Nothing is added then.
    pub fn add(&mut self, entry: Entry<'_>) -> std::result::Result<(), &'static str> {
        const NOT_ASCENDING: &str = "the entries do not ascend";
        let mut shared = 0;
        let mut is_new_key = true;
        if self.summary.entries > 0 {
            shared = common_prefix(&self.last_key, entry.key);
            is_new_key = match (self.last_key.get(shared), entry.key.get(shared)) {
                (None, Some(_)) => true,
                (Some(last), Some(new)) if last < new => true,
                (None, None) if entry.seq < self.last_seq => false,
                _ => return Err(NOT_ASCENDING),
            };
        }
        if !self.block.is_empty() && self.must_cut(self.block.len_with(&entry, shared)) {
            self.cut_block();
        }
        self.place_separator(&entry, is_new_key);
        let shared_in_block = if self.block.is_empty() { 0 } else { shared };
        self.block.add(&entry, shared_in_block);
        self.book(&entry, is_new_key);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&entry.key[shared..]);
        self.last_seq = entry.seq;
        Ok(())
    }

    /// Bytes that wait to be written; 0 until there is a whole write's worth.
    pub fn pending_bytes(&self) -> usize {
        self.out.ready.iter().map(|buf| buf.len()).sum()
    }

    /// Starts the writes that are ready. Waits only while [`WRITES_IN_FLIGHT_MAX`] are under way, so that computing and
    /// writing overlap.
    pub async fn drain(&mut self) -> Result<()> {
        while !self.out.ready.is_empty() {
            if self.out.in_flight.len() >= WRITES_IN_FLIGHT_MAX {
                self.out.await_oldest().await?;
            }
            self.out.submit(&*self.file, self.tag);
        }
        Ok(())
    }

    /// Length of the file so far, in bytes, the block that is being filled included; filter and index come on top.
    pub fn file_bytes(&self) -> u64 {
        self.out.offset + self.block.len() as u64
    }

    /// Writes what is left, filter, index, properties and footer, and makes the file durable (the caller does so for
    /// its name).
    pub async fn finish(self) -> Result<TableSummary> {
        Ok(self.finish_warm().await?.0)
    }

    /// Like [`TableWriter::finish`]; also returns what helps to open the table.
    pub async fn finish_warm(mut self) -> Result<(TableSummary, Fresh)> {
        if !self.block.is_empty() {
            self.cut_block();
        }
        if let Some(cut) = self.cut.take() {
            self.index.add(cut, &self.last_key, 0);
        }
        self.summary.largest_key = std::mem::take(&mut self.last_key);
        self.summary.deadlines = self.deadlines.finish();
        self.summary.covers = self.covers.finish();
        if !self.summary.holds_parts {
            self.summary.covers_met = 0;
        }
        self.drain().await?;
        self.out.keep();
        let mut encoded = Vec::new();
        if self.options.filter_bits_per_key > 0 {
            Filter::build(&self.hashes, self.options.filter_bits_per_key).encode(&mut encoded);
        }
        let filter = self.section(&encoded);
        let index = std::mem::take(&mut self.index).finish();
        let index = self.section(&index);
        encoded.clear();
        self.summary.encode(&mut encoded);
        let properties = self.section(&encoded);
        let TableSummary { holds_heads, holds_parts, .. } = self.summary;
        // The footer ends the file, and the file ends on a page boundary.
        let footer_end = (self.out.offset + FOOTER_BYTES as u64).next_multiple_of(PAGE as u64);
        self.out.pad((footer_end - FOOTER_BYTES as u64 - self.out.offset) as usize);
        let footer = Footer { filter, index, properties, holds_heads, holds_parts };
        self.out.push(&footer.encode());
        self.out.seal();
        self.drain().await?;
        while !self.out.in_flight.is_empty() {
            self.out.await_oldest().await?;
        }
        self.file.sync(self.tag).await?;
        self.summary.bytes = footer_end;
        self.summary.digest = footer.digest();
        let tail = self.out.kept.map(|(offset, tail)| Span::new(&self.path, offset, footer_end - offset, tail));
        Ok((self.summary, Fresh { cache: self.cache, tail: tail.transpose()? }))
    }

    /// The path that was given to [`TableWriter::create`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the block must end here, if one more entry made its content `len_with` bytes long.
    fn must_cut(&self, len_with: usize) -> bool {
        let target = self.options.block_bytes;
        if len_with + TRAILER_BYTES > target {
            return true;
        }
        if self.options.compression != Compression::None {
            return false; // Where it will end is not known yet.
        }
        // A block that began in the middle of a page comes back to the boundary here, if that wastes little.
        let len = self.block.len() + TRAILER_BYTES;
        let end = self.out.offset + len as u64;
        let crosses = self.out.offset + (len_with + TRAILER_BYTES) as u64 > end.next_multiple_of(PAGE as u64);
        crosses && len >= target / 2 && padding(end, len) > 0
    }

    fn cut_block(&mut self) {
        let offset = self.out.offset;
        let content = self.block.finish();
        if offset == 0 {
            self.summary.identity = identity(&self.path, self.tag, self.written_at_ms, content);
        }
        self.summary.block_bytes_max = self.summary.block_bytes_max.max(content.len() as u64);
        if let Some(cache) = &self.cache {
            let bytes = content.len() + Block::OVERHEAD_BYTES;
            cache.offer(offset, bytes, || Block::from_vec(content.clone()).ok());
        }
        let compressed = &mut self.compressed;
        compressed.clear();
        let mut compression = self.options.compression;
        match compression {
            Compression::None => {}
            Compression::Lz4 => {
                compressed.resize(lz4_flex::block::get_maximum_output_size(content.len()), 0);
                let len = lz4_flex::block::compress_into(content, compressed).expect("the buffer has the maximum size");
                compressed.truncate(len);
            }
            Compression::Zstd => {
                let compressor = self.compressor.as_mut().expect("created with the writer");
                compressed.reserve(zstd::zstd_safe::compress_bound(content.len()));
                // A block that does not compress is stored as it is, whatever the reason.
                if compressor.compress_to_buffer(content, compressed).is_err() {
                    compression = Compression::None;
                }
            }
        }
        let stored = if compression != Compression::None
            && compressed.len() + RAW_LEN_BYTES <= content.len() - content.len() / SAVING_SHARE
        {
            compressed.extend_from_slice(&(content.len() as u32).to_le_bytes());
            compressed
        } else {
            compression = Compression::None;
            content
        };
        stored.push(compression as u8);
        let crc = block_crc(self.summary.identity, offset, stored);
        stored.extend_from_slice(&crc.to_le_bytes());
        let len = stored.len();
        self.out.push(stored);
        self.out.pad(padding(self.out.offset, len));
        let len = u32::try_from(len).expect("an entry is less than 4 GiB");
        self.cut = Some(CutBlock { offset, len });
        self.block.clear();
    }

    /// Puts the block that was cut before `next` into the index.
    fn place_separator(&mut self, next: &Entry<'_>, is_new_key: bool) {
        let Some(cut) = self.cut.take() else { return };
        if is_new_key {
            let mut scratch = Vec::new();
            self.index.add(cut, separator(&self.last_key, next.key, &mut scratch), 0);
        } else {
            self.index.add(cut, &self.last_key, self.last_seq);
        }
    }

    fn book(&mut self, entry: &Entry<'_>, is_new_key: bool) {
        self.covers.note(entry);
        if let Some(bytes) = self.summary.count(entry) {
            self.deadlines.add(entry.expire_at_ms, bytes);
        }
        if is_new_key && self.options.filter_bits_per_key > 0 {
            self.hashes.push(filter::hash(entry.key));
        }
    }

    fn section(&mut self, bytes: &[u8]) -> Section {
        let offset = self.out.offset;
        self.out.push(bytes);
        let len = u32::try_from(bytes.len()).expect("filter and index are less than 4 GiB");
        Section { offset, len, crc: crc32c::crc32c(bytes) }
    }
}

/// The identity of a table whose first block is `first`: made from where, for whom and when it was written.
fn identity(path: &Path, tag: Tag, written_at_ms: u64, first: &[u8]) -> u64 {
    let name = path.file_name().map(std::ffi::OsStr::as_encoded_bytes).unwrap_or_default();
    let [tenant, partition] = [tag.owner.tenant, tag.owner.partition].map(u32::to_le_bytes);
    let begin = filter::hash(first).to_le_bytes();
    filter::hash(&[name, &tenant, &partition, &written_at_ms.to_le_bytes(), &begin].concat())
}

/// How many bytes to skip behind a block of `len` bytes that ends at `end`, so that the next one begins a page.
fn padding(end: u64, len: usize) -> usize {
    let rest = (end.next_multiple_of(PAGE as u64) - end) as usize;
    if rest <= len / PADDING_SHARE { rest } else { 0 }
}

/// The file's bytes on their way out, in writes of equal length.
struct Output {
    write_bytes: usize,
    /// Bytes pushed so far: the file offset of the next one.
    offset: u64,
    current: AlignedBuf,
    ready: VecDeque<AlignedBuf>,
    in_flight: VecDeque<Op<AlignedBuf>>,
    /// File offset of the next write.
    submitted: u64,
    /// A written buffer, to be filled again.
    spare: Option<AlignedBuf>,
    /// A copy of what was pushed since [`Output::keep`], and where that begins in the file.
    kept: Option<(u64, AlignedBuf)>,
}

impl Output {
    fn new(write_bytes: usize) -> Self {
        Output {
            write_bytes,
            offset: 0,
            current: AlignedBuf::with_capacity(write_bytes),
            ready: VecDeque::new(),
            in_flight: VecDeque::new(),
            submitted: 0,
            spare: None,
            kept: None,
        }
    }

    /// Keeps a copy of all that is pushed from now on.
    fn keep(&mut self) {
        self.kept = Some((self.offset, AlignedBuf::with_capacity(PAGE)));
    }

    fn push(&mut self, mut bytes: &[u8]) {
        if let Some((_, kept)) = &mut self.kept {
            kept.extend_from_slice(bytes);
        }
        self.offset += bytes.len() as u64;
        while !bytes.is_empty() {
            let room = self.write_bytes - self.current.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.current.extend_from_slice(now);
            bytes = later;
            if self.current.len() == self.write_bytes {
                self.seal();
            }
        }
    }

    fn pad(&mut self, bytes: usize) {
        const ZEROS: [u8; PAGE] = [0; PAGE];
        debug_assert!(bytes < PAGE);
        self.push(&ZEROS[..bytes]);
    }

    /// Makes the bytes pushed so far ready to be written.
    fn seal(&mut self) {
        if self.current.is_empty() {
            return;
        }
        let next = self.spare.take().unwrap_or_else(|| AlignedBuf::with_capacity(self.write_bytes));
        self.ready.push_back(std::mem::replace(&mut self.current, next));
    }

    fn submit(&mut self, file: &dyn File, tag: Tag) {
        let Some(buf) = self.ready.pop_front() else { return };
        let offset = self.submitted;
        self.submitted += buf.len() as u64;
        self.in_flight.push_back(file.write_at(offset, buf, tag));
    }

    async fn await_oldest(&mut self) -> Result<()> {
        let Some(oldest) = self.in_flight.front_mut() else { return Ok(()) };
        // Taken out only when done: a caller that drops this future has lost nothing.
        let result = oldest.await;
        self.in_flight.pop_front();
        let mut buf = result?;
        buf.clear();
        self.spare = Some(buf);
        Ok(())
    }
}
