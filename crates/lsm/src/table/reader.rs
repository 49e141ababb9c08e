//! Reading a table: open it once, then point reads that touch one block.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{AlignedBuf, Class, Error, File, Fs, Op, OpenOptions, Owner, PAGE, Result, Tag};
use weir_model::engine::{Found, Seq};

use super::block::Block;
use super::filter::Filter;
use super::format::{BlockAddress, Compression, FOOTER_BYTES, Footer, Section, TableSummary};
use super::index::Index;
use super::span::{Span, Stored};
use crate::cache::{BlockCache, Charge, TableCache};

/// Opening reads one part in this many of the file at once, at its end, where footer, index and filter usually are.
const TAIL_SHARE: u64 = 48;
/// Bounds of that first read, in bytes.
const TAIL_BYTES_MIN: u64 = 4 * PAGE as u64;
const TAIL_BYTES_MAX: u64 = 1 << 20;

/// An open table: file, filter and index in memory. Shared by all versions of the tree that contain it.
pub struct Table {
    file: Arc<dyn File>,
    path: PathBuf,
    owner: Owner,
    index: Index,
    filter: Option<Filter>,
    summary: TableSummary,
    cache: TableCache,
    /// Charges filter, index and covers against the cache's capacity as long as the table is open.
    _charge: Charge,
}

/// What is known of a table that was just written. By default nothing.
#[derive(Default)]
pub struct Fresh {
    /// The door to the block cache through which its blocks have already gone in.
    pub(super) cache: Option<TableCache>,
    /// The file's end, with filter, index, properties and footer.
    pub(super) tail: Option<Span>,
}

/// The answer to a point read.
#[derive(Debug)]
pub enum TableGet {
    /// No version of the key that the read may see is in this table.
    Absent,
    /// The newest one in this table.
    Found(Found),
    /// Only this block can tell: await [`Table::load`], then ask [`Table::get_in`].
    Load(BlockAddress),
}

impl Table {
    /// Opens the table at `path`: one read, or two if filter and index are unusually large.
    pub async fn open(
        fs: &Arc<dyn Fs>,
        path: &Path,
        owner: Owner,
        cache: &Arc<BlockCache>,
        tag: Tag,
    ) -> Result<Arc<Table>> {
        Self::open_fresh(fs, path, owner, cache, Fresh::default(), tag).await
    }

    /// Like [`Table::open`], for a table that was just written, from what its writer has kept. A flush would otherwise
    /// end with a read, which would wait behind the reads of clients, and these may take all that the device can read.
    pub async fn open_fresh(
        fs: &Arc<dyn Fs>,
        path: &Path,
        owner: Owner,
        cache: &Arc<BlockCache>,
        fresh: Fresh,
        tag: Tag,
    ) -> Result<Arc<Table>> {
        let file = fs.open(path, OpenOptions::read(), tag).await?;
        let len = file.len().await?;
        let corrupt = |offset: u64, message: &str| Error::corruption(path, offset, message);
        if len < FOOTER_BYTES as u64 || !len.is_multiple_of(PAGE as u64) {
            return Err(corrupt(len, "the file's length is not that of a table: it may have been truncated"));
        }
        let tail = match fresh.tail.filter(|tail| tail.offset() + tail.bytes().len() as u64 == len) {
            Some(tail) => tail,
            None => {
                let guess = (len / TAIL_SHARE).clamp(TAIL_BYTES_MIN, TAIL_BYTES_MAX).next_multiple_of(PAGE as u64);
                let tail_len = guess.min(len);
                let read_tail = file.read_at(len - tail_len, AlignedBuf::with_len(tail_len as usize), tag);
                Span::new(path, len - tail_len, tail_len, read_tail.await?)?
            }
        };
        let footer_offset = len - FOOTER_BYTES as u64;
        let footer = tail.get(footer_offset, FOOTER_BYTES).first_chunk().expect("that is the length of a footer");
        let footer = Footer::decode(footer, footer_offset).map_err(|message| corrupt(footer_offset, message))?;
        let meta = if footer.filter.offset >= tail.offset() {
            tail
        } else {
            let meta_offset = footer.filter.offset / PAGE as u64 * PAGE as u64;
            let head_len = tail.offset() - meta_offset;
            let mut head = file.read_at(meta_offset, AlignedBuf::with_len(head_len as usize), tag).await?;
            head.extend_from_slice(tail.bytes());
            Span::new(path, meta_offset, head_len + tail.bytes().len() as u64, head)?
        };
        let section = |section: Section, name: &str| -> Result<&[u8]> {
            let bytes = meta.get(section.offset, section.len as usize);
            if crc32c::crc32c(bytes) != section.crc {
                return Err(corrupt(section.offset, &format!("the checksum of the {name} does not match")));
            }
            Ok(bytes)
        };
        let summary = TableSummary::decode(section(footer.properties, "properties")?, len, &footer)
            .ok_or_else(|| corrupt(footer.properties.offset, "the properties are malformed"))?;
        let index = Index::decode(section(footer.index, "index")?, footer.filter.offset, summary.raw_bytes)
            .map_err(|message| corrupt(footer.index.offset, message))?;
        let filter_bytes = section(footer.filter, "filter")?;
        let filter = if filter_bytes.is_empty() {
            None
        } else {
            let filter = Filter::decode(filter_bytes);
            Some(filter.ok_or_else(|| corrupt(footer.filter.offset, "the filter is malformed"))?)
        };
        let covers_bytes = size_of_val(&summary.covers[..]);
        let charge = cache.charge(index.bytes() + filter.as_ref().map_or(0, Filter::bytes) + covers_bytes);
        Ok(Arc::new(Table {
            path: path.to_path_buf(),
            owner,
            index,
            filter,
            summary,
            cache: fresh.cache.unwrap_or_else(|| cache.table(owner)),
            _charge: charge,
            file,
        }))
    }

    /// Whether there are heads or covers in it.
    #[inline]
    pub fn holds_heads(&self) -> bool {
        self.summary.holds_heads
    }

    /// The facts of its content.
    pub fn summary(&self) -> &TableSummary {
        &self.summary
    }

    /// The path of its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.index.len()
    }

    /// Where block `number` is; it must be less than [`Table::blocks`].
    pub fn block(&self, number: usize) -> BlockAddress {
        self.index.address(number)
    }

    /// False means that no key with this [`super::filter::hash`] is in the table.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_contain(hash))
    }

    /// Asks the processor to fetch what [`Table::may_contain`] looks at.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if let Some(filter) = &self.filter {
            filter.prefetch(hash);
        }
    }

    /// The newest version of `key` with a sequence number of at most `at`; it may be a tombstone. `hash` is the key's
    /// [`super::filter::hash`].
    #[inline]
    pub fn get(&self, key: &[u8], hash: u64, at: Seq) -> Result<TableGet> {
        if !self.may_contain(hash) {
            return Ok(TableGet::Absent);
        }
        let number = self.index.find(key, at);
        if number == self.index.len() {
            return Ok(TableGet::Absent);
        }
        let address = self.index.address(number);
        let Some(block) = self.cache.get(address.offset) else { return Ok(TableGet::Load(address)) };
        Ok(self.get_in(&block, address, key, at)?.map_or(TableGet::Absent, TableGet::Found))
    }

    /// Like [`Table::get`], in the block at `address`, which `get` named and [`Table::load`] fetched.
    #[inline]
    pub fn get_in(&self, block: &Arc<Block>, address: BlockAddress, key: &[u8], at: Seq) -> Result<Option<Found>> {
        block.get(key, at).map_err(|message| self.corruption(address, message))
    }

    /// Reads the block at `address`, checks it, decompresses it, and puts it into the cache, pinned if `pin`. The read
    /// is submitted when this returns, unless it is long: a long one is submitted when it is polled and there is memory
    /// for it.
    pub fn load(
        self: &Arc<Self>,
        address: BlockAddress,
        class: Class,
        pin: bool,
    ) -> impl Future<Output = Result<Arc<Block>>> + Send + use<> {
        let table = Arc::clone(self);
        let (start, len) = self.read_units(address.offset..address.end());
        let read = self.read(start, len, class);
        async move {
            let span = Span::new(&table.path, start, len, read.await?)?;
            let block = Arc::new(table.decode_read(address, span)?);
            table.cache.insert(address.offset, &block, pin);
            Ok(block)
        }
    }

    /// The range that has to be read for these `bytes`, in whole units of the file: where it begins, and how many bytes
    /// it has. If units were pages, a block of three items of a kilobyte would cost two pages; with sectors of 512
    /// bytes it costs half of that.
    pub(super) fn read_units(&self, bytes: Range<u64>) -> (u64, u64) {
        let unit = self.file.read_unit() as u64;
        let start = bytes.start / unit * unit;
        (start, bytes.end.next_multiple_of(unit) - start)
    }

    /// Submits a read of [whole units](Table::read_units); a long one when it is polled and there is memory for it.
    pub(super) fn read(&self, start: u64, len: u64, class: Class) -> Op<AlignedBuf> {
        self.file.read_new(start, len as usize, Tag::new(self.owner, class))
    }

    /// The block at `address` out of `span`, which was read for it alone.
    fn decode_read(&self, address: BlockAddress, span: Span) -> Result<Block> {
        let stored = self.check(address, &span)?;
        let whole = stored.payload.len() >= span.capacity() - span.capacity() / 8;
        if stored.compression != Compression::None || !whole {
            return self.decode(address, stored);
        }
        let (start, len) = (span.position(address.offset), stored.payload.len());
        let page = span.into_buf().expect("the span was read for this block alone");
        Block::from_page(page, start, len).map_err(|message| self.corruption(address, message))
    }

    /// The block at `address` out of `span`, in memory of its own.
    pub(super) fn decode_copy(&self, address: BlockAddress, span: &Span) -> Result<Block> {
        let stored = self.check(address, span)?;
        self.decode(address, stored)
    }

    /// The block at `address` out of `span`, in the span's memory if it is not compressed.
    pub(super) fn decode_shared(&self, address: BlockAddress, span: &Span) -> Result<Block> {
        let stored = self.check(address, span)?;
        if stored.compression != Compression::None {
            return self.decode(address, stored);
        }
        let (start, len) = (span.position(address.offset), stored.payload.len());
        Block::from_chunk(span.shared(), start, len).map_err(|message| self.corruption(address, message))
    }

    fn check<'a>(&self, address: BlockAddress, span: &'a Span) -> Result<Stored<'a>> {
        let bytes = span.get(address.offset, address.len as usize);
        Stored::check(bytes, self.summary.identity, address.offset).map_err(|message| self.corruption(address, message))
    }

    fn decode(&self, address: BlockAddress, stored: Stored<'_>) -> Result<Block> {
        let content = stored.decompress(self.summary.block_bytes_max);
        content.and_then(Block::from_vec).map_err(|message| self.corruption(address, message))
    }

    pub(super) fn corruption(&self, address: BlockAddress, message: impl Into<String>) -> Error {
        Error::corruption(&self.path, address.offset, message)
    }

    /// For a table that has been moved out of the upper levels: blocks that are kept because it was there are not kept
    /// any more.
    pub fn leave_upper(&self) {
        self.cache.unpin();
        // A load of data in the order of keys moves every table. Each has thousands of blocks, and the cache, being
        // full, has none of them.
        let blocks = if self.cache.took_offers() { self.index.len() } else { 0 };
        for number in 0..blocks {
            self.cache.leave_upper(self.index.address(number).offset);
        }
    }

    /// Takes those of the table's blocks that are there out of the cache: for a table that has been removed from the
    /// tree.
    pub fn evict(&self) {
        for number in 0..self.index.len() {
            self.cache.evict(self.index.address(number).offset);
        }
    }

    pub(super) fn index(&self) -> &Index {
        &self.index
    }

    pub(super) fn cache(&self) -> &TableCache {
        &self.cache
    }
}
