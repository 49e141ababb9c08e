//! A level (1 or deeper) as one sorted sequence: its tables one after the other, at most one of them open for reading.

use std::sync::Arc;

use weir_io::Result;
use weir_model::engine::{Entry, Seq};

use super::expected::Expected;
use crate::cursor::{Cursor, Step};
use crate::table::{CursorOptions, TableCursor};
use crate::version::{TableFile, Version};

/// Disjoint tables in key order.
enum Tables {
    /// A whole level of a version: nothing of it is copied, however many tables it has.
    Level(Arc<Version>, usize),
    /// The tables that a job takes.
    Chosen(Vec<Arc<TableFile>>),
}

impl Tables {
    fn as_slice(&self) -> &[Arc<TableFile>] {
        match self {
            Tables::Level(version, level) => version.level(*level),
            Tables::Chosen(tables) => tables,
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Tables::Level(version, level) => version.size(*level).bytes,
            Tables::Chosen(tables) => tables.iter().map(|table| table.meta.bytes).sum(),
        }
    }
}

/// A cursor over disjoint tables in key order.
pub struct LevelCursor {
    tables: Tables,
    options: CursorOptions,
    /// The table under the cursor and the position in it; `None` past either end.
    current: Option<(usize, TableCursor)>,
    forward: bool,
}

impl LevelCursor {
    /// A cursor over `tables`, which must be disjoint and in key order.
    pub fn new(tables: Vec<Arc<TableFile>>, options: CursorOptions) -> Self {
        Self::over(Tables::Chosen(tables), options)
    }

    /// A cursor over `level` (1 or deeper) of `version`.
    pub fn of_level(version: &Arc<Version>, level: usize, options: CursorOptions) -> Self {
        Self::over(Tables::Level(Arc::clone(version), level), options)
    }

    fn over(tables: Tables, options: CursorOptions) -> Self {
        Self { tables, options, current: None, forward: true }
    }

    /// See [`Expected`]. It applies to the table that the cursor has been sent to, as far as that is not in memory.
    pub fn expect(&mut self, expected: &Expected) {
        let bytes = self.tables.bytes();
        if let Some((_, cursor)) = &mut self.current {
            cursor.expect(expected.of(bytes));
        }
    }

    /// A cursor over the table at `index`, if there is one.
    fn open(&self, index: usize) -> Option<TableCursor> {
        Some(self.tables.as_slice().get(index)?.table.cursor(self.options))
    }

    fn start(&mut self, index: Option<usize>, forward: bool, seek: impl FnOnce(&mut TableCursor) -> Step) -> Step {
        self.forward = forward;
        self.current = index.and_then(|index| Some((index, self.open(index)?)));
        let step = self.current.as_mut().map_or(Step::Ready, |(_, cursor)| seek(cursor));
        self.settle(step)
    }

    /// Goes on to the next table while the present one is exhausted.
    fn settle(&mut self, mut step: Step) -> Step {
        while let Some((index, cursor)) = &mut self.current {
            if step == Step::Load || cursor.entry().is_some() {
                return step;
            }
            let neighbour = if self.forward { Some(*index + 1) } else { index.checked_sub(1) };
            self.current = neighbour.and_then(|index| Some((index, self.open(index)?)));
            let Some((_, cursor)) = &mut self.current else { return Step::Ready };
            step = if self.forward { cursor.seek_first() } else { cursor.seek_last() };
        }
        Step::Ready
    }
}

impl Cursor for LevelCursor {
    fn entry(&self) -> Option<Entry<'_>> {
        self.current.as_ref()?.1.entry()
    }

    fn seek_first(&mut self) -> Step {
        self.start(Some(0), true, TableCursor::seek_first)
    }

    fn seek_last(&mut self) -> Step {
        self.start(self.tables.as_slice().len().checked_sub(1), false, TableCursor::seek_last)
    }

    fn seek(&mut self, key: &[u8], seq: Seq) -> Step {
        let index = self.tables.as_slice().partition_point(|table| &*table.meta.largest < key);
        self.start(Some(index), true, |cursor| cursor.seek(key, seq))
    }

    fn seek_before(&mut self, key: &[u8], seq: Seq) -> Step {
        let index = self.tables.as_slice().partition_point(|table| &*table.meta.smallest <= key);
        self.start(index.checked_sub(1), false, |cursor| cursor.seek_before(key, seq))
    }

    fn next(&mut self) -> Step {
        self.forward = true;
        let step = self.current.as_mut().map_or(Step::Ready, |(_, cursor)| cursor.next());
        self.settle(step)
    }

    fn prev(&mut self) -> Step {
        self.forward = false;
        let step = self.current.as_mut().map_or(Step::Ready, |(_, cursor)| cursor.prev());
        self.settle(step)
    }

    async fn load(&mut self) -> Result<Step> {
        let Some((_, cursor)) = &mut self.current else { return Ok(Step::Ready) };
        let step = cursor.load().await?;
        Ok(self.settle(step))
    }
}
