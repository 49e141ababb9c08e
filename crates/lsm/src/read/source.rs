//! The sources of a merge.

use weir_io::Result;
use weir_model::engine::{Entry, Seq};

use super::expected::Expected;
use super::level::LevelCursor;
use crate::cursor::{Cursor, Step};
use crate::memtable::MemtableCursor;
use crate::table::TableCursor;

/// A memtable, a level-0 table, or a whole deeper level. An enum and not a trait object: `load` is an async function,
/// and the branch predicts better than the virtual call.
pub enum Source {
    /// An active or sealed memtable.
    Memtable(MemtableCursor),
    /// A table of level 0.
    Table(TableCursor),
    /// A deeper level, or some of its tables.
    Level(LevelCursor),
}

macro_rules! each {
    ($source:expr, $cursor:ident => $call:expr) => {
        match $source {
            Source::Memtable($cursor) => $call,
            Source::Table($cursor) => $call,
            Source::Level($cursor) => $call,
        }
    };
}

impl Source {
    /// See [`Expected`].
    pub fn expect(&mut self, expected: &Expected) {
        match self {
            Source::Memtable(_) => {}
            Source::Table(cursor) => cursor.expect(expected.of(cursor.table().summary().bytes)),
            Source::Level(cursor) => cursor.expect(expected),
        }
    }
}

impl Cursor for Source {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        each!(self, cursor => cursor.entry())
    }

    fn seek_first(&mut self) -> Step {
        each!(self, cursor => cursor.seek_first())
    }

    fn seek_last(&mut self) -> Step {
        each!(self, cursor => cursor.seek_last())
    }

    fn seek(&mut self, key: &[u8], seq: Seq) -> Step {
        each!(self, cursor => cursor.seek(key, seq))
    }

    fn seek_before(&mut self, key: &[u8], seq: Seq) -> Step {
        each!(self, cursor => cursor.seek_before(key, seq))
    }

    #[inline]
    fn next(&mut self) -> Step {
        each!(self, cursor => cursor.next())
    }

    #[inline]
    fn prev(&mut self) -> Step {
        each!(self, cursor => cursor.prev())
    }

    async fn load(&mut self) -> Result<Step> {
        each!(self, cursor => cursor.load().await)
    }
}
