//! Walking a table, either way.

use std::sync::Arc;

use weir_io::{Error, Result};
use weir_model::engine::{Entry, Seq, compare};

use super::block::{Block, EntryOffsets, Raw};
use super::extent::{Extent, Way};
use super::readahead::{Caching, CursorOptions, Readahead};
use super::reader::Table;
use crate::cursor::{Cursor, Step};

/// A position in a table; see [`Table::cursor`].
pub struct TableCursor {
    table: Arc<Table>,
    options: CursorOptions,
    readahead: Readahead,
    /// The block that the cursor is in, and its number; kept when the cursor stands nowhere.
    block: Option<(usize, Arc<Block>)>,
    /// Whether the cursor stands on an entry: `raw`, with `key`.
    is_valid: bool,
    place: EntryOffsets,
    raw: Raw,
    key: Vec<u8>,
    /// What to do once the block of this number has been loaded.
    interrupted: Option<(usize, Goal)>,
    /// The target of a seek that was interrupted.
    target: (Vec<u8>, Seq),
    /// The error of a move. Moves cannot fail, so they answer `Load`, and `load` returns the error.
    failed: Option<Error>,
}

/// Where to go in a block.
#[derive(Clone, Copy, Debug)]
enum Goal {
    First,
    Last,
    /// The first entry at or after the target; if there is none, the first of the next block.
    AtOrAfter,
    /// The last entry before the target; if there is none, the last of the block before.
    Before,
}

impl Table {
    /// A cursor over the table's entries.
    pub fn cursor(self: &Arc<Self>, options: CursorOptions) -> TableCursor {
        TableCursor::new(Arc::clone(self), options)
    }
}

impl TableCursor {
    fn new(table: Arc<Table>, options: CursorOptions) -> Self {
        TableCursor {
            table,
            options,
            readahead: Readahead::default(),
            block: None,
            is_valid: false,
            place: EntryOffsets::default(),
            raw: Raw::NONE,
            key: Vec::new(),
            interrupted: None,
            target: (Vec::new(), 0),
            failed: None,
        }
    }

    /// The table it walks.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Says how much of the table is going to be read, from where the cursor stands or from the block that it misses.
    pub fn expect(&mut self, extent: Extent) {
        self.readahead.expect(extent);
    }

    /// Goes to `goal` in block `number`, or as far as blocks are in memory.
    fn enter(&mut self, number: usize, goal: Goal) -> Step {
        self.is_valid = false;
        self.interrupted = None;
        self.failed = None;
        let (mut number, mut goal) = (number, goal);
        while number < self.table.blocks() {
            let block = match self.block_in_memory(number) {
                None => {
                    self.interrupted = Some((number, goal));
                    return Step::Load;
                }
                Some(Err(error)) => return self.fail(error),
                Some(Ok(block)) => block,
            };
            if let Some((passed, _)) = self.block.replace((number, block))
                && self.options.caching == Caching::Pass
                && passed < number
            {
                self.table.cache().pass(self.table.block(passed).offset);
            }
            let found = match goal {
                Goal::First => self.first_in_block(),
                Goal::Last => self.last_in_block(),
                Goal::AtOrAfter => self.seek_in_block(),
                Goal::Before => self.before_in_block(),
            };
            match found {
                Err(message) => return self.malformed(message),
                Ok(true) => {
                    self.is_valid = true;
                    return Step::Ready;
                }
                Ok(false) => {}
            }
            (number, goal) = match goal {
                Goal::First | Goal::AtOrAfter => (number + 1, Goal::First),
                Goal::Last | Goal::Before => (number.wrapping_sub(1), Goal::Last),
            };
        }
        Step::Ready
    }

    fn block_in_memory(&self, number: usize) -> Option<Result<Arc<Block>>> {
        if let Some((here, block)) = &self.block
            && *here == number
        {
            return Some(Ok(Arc::clone(block)));
        }
        if let Some(found) = self.readahead.get(&self.table, number, &self.options) {
            return Some(found);
        }
        let offset = self.table.block(number).offset;
        let cache = self.table.cache();
        if self.options.caching.fills() { cache.get(offset).map(Ok) } else { cache.peek(offset).map(Ok) }
    }

    fn fail(&mut self, error: Error) -> Step {
        self.is_valid = false;
        self.failed = Some(error);
        Step::Load
    }

    fn malformed(&mut self, message: &'static str) -> Step {
        let number = self.block.as_ref().map_or(0, |(number, _)| *number);
        self.fail(self.table.corruption(self.table.block(number), message))
    }

    fn first_in_block(&mut self) -> Result<bool, &'static str> {
        let Some((_, block)) = &self.block else { return Ok(false) };
        let first = block.restart(0);
        self.decode_at(first)
    }

    /// Stands on the entry at `place`, if the block does not end there; `key` must hold the previous entry's key, or at
    /// a restart anything.
    #[inline]
    fn decode_at(&mut self, place: EntryOffsets) -> Result<bool, &'static str> {
        let Some((_, block)) = &self.block else { return Ok(false) };
        let Some(raw) = block.entry(place)? else { return Ok(false) };
        if raw.shared > self.key.len() {
            return Err(super::block::MALFORMED);
        }
        self.key.truncate(raw.shared);
        self.key.extend_from_slice(block.suffix(&raw));
        self.raw = raw;
        self.place = place;
        Ok(true)
    }

    /// Stands on the last entry of the run that begins at restart `number` and ends before the key at offset `end`.
    fn last_from_restart(&mut self, number: usize, end: usize) -> Result<bool, &'static str> {
        let Some((_, block)) = &self.block else { return Ok(false) };
        let mut place = block.restart(number);
        let mut found = false;
        while place.key < end && self.decode_at(place)? {
            found = true;
            place = self.raw.next;
        }
        Ok(found)
    }

    fn last_in_block(&mut self) -> Result<bool, &'static str> {
        let Some((_, block)) = &self.block else { return Ok(false) };
        let last = block.restarts() - 1;
        self.last_from_restart(last, usize::MAX)
    }

    fn seek_in_block(&mut self) -> Result<bool, &'static str> {
        let Some((_, block)) = &self.block else { return Ok(false) };
        let mut place = block.restart(block.restart_before(&self.target.0, self.target.1)?);
        while self.decode_at(place)? {
            if compare((&self.key, self.raw.seq), (&self.target.0, self.target.1)).is_ge() {
                return Ok(true);
            }
            place = self.raw.next;
        }
        Ok(false)
    }

    fn before_in_block(&mut self) -> Result<bool, &'static str> {
        // Finds the first entry that is not before the target; the entry in front of it is the answer.
        if self.seek_in_block()? { self.previous_in_block() } else { self.last_in_block() }
    }

    fn previous_in_block(&mut self) -> Result<bool, &'static str> {
        let Some((_, block)) = &self.block else { return Ok(false) };
        let here = self.place.key;
        if here == 0 {
            return Ok(false);
        }
        // The last restart in front of this entry.
        let (mut low, mut high) = (0, block.restarts() - 1);
        while low < high {
            let middle = (low + high).div_ceil(2);
            if block.restart(middle).key < here {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        self.last_from_restart(low, here)
    }

    pub(super) fn number(&self) -> usize {
        self.block.as_ref().map_or(0, |(number, _)| *number)
    }
}

impl Cursor for TableCursor {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        if !self.is_valid {
            return None;
        }
        let (_, block) = self.block.as_ref()?;
        let Raw { seq, kind, expire_at_ms, .. } = self.raw;
        Some(Entry { key: &self.key, seq, kind, expire_at_ms, value: block.value(&self.raw) })
    }

    fn seek_first(&mut self) -> Step {
        self.enter(0, Goal::First)
    }

    fn seek_last(&mut self) -> Step {
        self.enter(self.table.blocks().wrapping_sub(1), Goal::Last)
    }

    fn seek(&mut self, key: &[u8], seq: Seq) -> Step {
        self.target.0.clear();
        self.target.0.extend_from_slice(key);
        self.target.1 = seq;
        self.enter(self.table.index().find(key, seq), Goal::AtOrAfter)
    }

    fn seek_before(&mut self, key: &[u8], seq: Seq) -> Step {
        self.target.0.clear();
        self.target.0.extend_from_slice(key);
        self.target.1 = seq;
        let number = self.table.index().find(key, seq);
        if number == self.table.blocks() { self.seek_last() } else { self.enter(number, Goal::Before) }
    }

    #[inline]
    fn next(&mut self) -> Step {
        debug_assert!(self.is_valid, "next without an entry");
        match self.decode_at(self.raw.next) {
            Ok(true) => Step::Ready,
            Ok(false) => self.enter(self.number() + 1, Goal::First),
            Err(message) => self.malformed(message),
        }
    }

    fn prev(&mut self) -> Step {
        debug_assert!(self.is_valid, "prev without an entry");
        match self.previous_in_block() {
            Ok(true) => Step::Ready,
            Ok(false) => self.enter(self.number().wrapping_sub(1), Goal::Last),
            Err(message) => self.malformed(message),
        }
    }

    async fn load(&mut self) -> Result<Step> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let Some((number, goal)) = self.interrupted else { return Ok(Step::Ready) };
        let way = match goal {
            Goal::First => Way::Forward,
            Goal::Last => Way::Backward,
            Goal::AtOrAfter => Way::Jump { backward: false },
            Goal::Before => Way::Jump { backward: true },
        };
        self.readahead.fetch(&self.table, number, way, &self.options).await?;
        Ok(self.enter(number, goal))
    }
}
