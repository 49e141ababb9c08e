//! Reading ahead: how a cursor turns many small wishes into few large reads.
//!
//! The first miss reads one block, or as much as is known to be wanted ([`Extent`]). Each miss on the way from there
//! doubles the window, up to the limit; so a point seek costs one page, and a long scan one large read per window. A
//! cursor that bypasses the cache (compaction) knows that it will read on: it begins with the whole window, and has the
//! next one under way while the current one is being used.

use std::ops::Range;
use std::sync::Arc;

use weir_io::{AlignedBuf, Class, Op, PAGE, Result};

use super::block::Block;
use super::extent::{Extent, Way};
use super::reader::Table;
use super::span::Span;

/// A longer block is not read ahead: its transfer takes much longer than the latency that would be saved, and a merge
/// of many sources would hold two of each.
const AHEAD_BYTES_MAX: u64 = 1 << 20;

/// How a cursor reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorOptions {
    /// The cause its reads are booked under.
    pub class: Class,
    /// Most bytes of one read, when it goes on sequentially. 0 = never more than the one block needed.
    pub readahead_bytes: usize,
    /// What it does with the block cache.
    pub caching: Caching,
}

/// What a cursor does with the block cache. It asks the cache for blocks in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// For clients: blocks are put into the cache, and the window that is read at once grows with use.
    Fill,
    /// For jobs that read everything once: the cache is left alone, the window is at its limit from the start, and the
    /// next window is fetched in advance.
    Leave,
    /// The same for merges, which write everything anew, front to back: blocks behind the cursor may go to make room
    /// for the blocks that were made of them ([`TableCache::pass`](crate::cache::TableCache::pass)).
    Pass,
}

impl Caching {
    /// Whether blocks are put into the cache, as for clients.
    #[inline]
    pub(super) fn fills(self) -> bool {
        self == Caching::Fill
    }
}

#[derive(Default)]
pub(super) struct Readahead {
    current: Option<Chunk>,
    /// A read under way; only `fetch` awaits it.
    coming: Option<Coming>,
    window_bytes: u64,
    extent: Option<Extent>,
}

/// Blocks that were read together.
struct Chunk {
    blocks: Range<usize>,
    span: Span,
}

struct Coming {
    blocks: Range<usize>,
    offset: u64,
    len: u64,
    read: Op<AlignedBuf>,
}

impl Readahead {
    /// Says how much of the table is going to be read from the next miss on.
    pub(super) fn expect(&mut self, extent: Extent) {
        self.extent = Some(extent);
    }

    /// Block `number`, if the last chunk has it.
    pub(super) fn get(&self, table: &Table, number: usize, options: &CursorOptions) -> Option<Result<Arc<Block>>> {
        let chunk = self.current.as_ref().filter(|chunk| chunk.blocks.contains(&number))?;
        let address = table.block(number);
        Some(if options.caching.fills() {
            table.decode_copy(address, &chunk.span).map(|block| {
                let block = Arc::new(block);
                table.cache().insert(address.offset, &block, false);
                block
            })
        } else {
            table.decode_shared(address, &chunk.span).map(Arc::new)
        })
    }

    /// Reads a chunk with block `number` in it, for [`Readahead::get`]. Dropping the future loses nothing but time.
    pub(super) async fn fetch(
        &mut self,
        table: &Table,
        number: usize,
        way: Way,
        options: &CursorOptions,
    ) -> Result<()> {
        if self.coming.as_ref().is_none_or(|coming| !coming.blocks.contains(&number)) {
            let blocks = self.plan(table, number, way, options);
            self.coming = Some(submit(table, blocks, options));
        }
        let coming = self.coming.as_mut().expect("set above");
        let result = (&mut coming.read).await;
        let coming = self.coming.take().expect("set above");
        let span = Span::new(table.path(), coming.offset, coming.len, result?)?;
        let next = coming.blocks.end;
        self.current = Some(Chunk { blocks: coming.blocks, span });
        if !options.caching.fills() && next < table.blocks() && !table.cache().contains(table.block(next).offset) {
            let blocks = forward(table, next, self.window_bytes);
            if pages(table, &blocks).1 <= self.window_bytes.max(AHEAD_BYTES_MAX) {
                self.coming = Some(submit(table, blocks, options));
            }
        }
        Ok(())
    }

    /// Which blocks to read when `number` is missing; adapts the window.
    fn plan(&mut self, table: &Table, number: usize, way: Way, options: &CursorOptions) -> Range<usize> {
        let limit = options.readahead_bytes as u64;
        if let Some(extent) = self.extent.take() {
            let blocks = extent.blocks(table, number, way, limit);
            // If that was not enough, a little more mostly is, unless it was as much as may be read at once.
            let was_cut = pages(table, &blocks).1 + 2 * PAGE as u64 > limit;
            self.window_bytes = if was_cut { limit } else { 0 };
            return blocks;
        }
        self.window_bytes = match way {
            _ if !options.caching.fills() => limit,
            Way::Jump { .. } => 0,
            Way::Forward | Way::Backward => (self.window_bytes * 2).max(2 * PAGE as u64).min(limit),
        };
        match way {
            Way::Backward => backward(table, number, self.window_bytes),
            Way::Jump { .. } | Way::Forward => forward(table, number, self.window_bytes),
        }
    }
}

/// The blocks from `first` on that begin within `window_bytes`; at least one.
fn forward(table: &Table, first: usize, window_bytes: u64) -> Range<usize> {
    let limit = table.block(first).offset / PAGE as u64 * PAGE as u64 + window_bytes;
    let mut end = first + 1;
    while end < table.blocks() && table.block(end).end() <= limit {
        end += 1;
    }
    first..end
}

/// The blocks up to `last` that end within `window_bytes` before its end; at least one.
fn backward(table: &Table, last: usize, window_bytes: u64) -> Range<usize> {
    let limit = table.block(last).end().next_multiple_of(PAGE as u64);
    let mut start = last;
    while start > 0 && table.block(start - 1).offset + window_bytes >= limit {
        start -= 1;
    }
    start..last + 1
}

/// Where the pages with `blocks` begin, and how many bytes they are.
fn pages(table: &Table, blocks: &Range<usize>) -> (u64, u64) {
    let offset = table.block(blocks.start).offset / PAGE as u64 * PAGE as u64;
    (offset, table.block(blocks.end - 1).end().next_multiple_of(PAGE as u64) - offset)
}

/// A client's reads go by the sector, as point reads do: its first windows are a few pages, and half a page at either
/// end would be a third of them. The windows of a job that reads everything once are so large that this is next to
/// nothing.
fn submit(table: &Table, blocks: Range<usize>, options: &CursorOptions) -> Coming {
    let (offset, len) = match options.caching.fills() {
        true => table.read_units(table.block(blocks.start).offset..table.block(blocks.end - 1).end()),
        false => pages(table, &blocks),
    };
    let read = table.read(offset, len, options.class);
    Coming { blocks, offset, len, read }
}
