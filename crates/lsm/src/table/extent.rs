//! How much of a table a scan is going to read, as far as that is known when it begins. That much is read at once.

use std::ops::{Bound, Range as Span};
use std::sync::Arc;

use weir_model::engine::{Range, SEQ_MAX};

use super::reader::Table;

/// How the cursor came to the missing block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By a seek.
    Jump {
        /// To the last entry in front of a key.
        backward: bool,
    },
    /// From the block before it.
    Forward,
    /// From the block behind it.
    Backward,
}

/// The part of a table that a scan is going to read.
#[derive(Clone, Debug)]
pub struct Extent {
    /// What is scanned.
    pub range: Arc<Range>,
    /// About this many bytes of the table are read from where the scan begins, or all up to the end of the range.
    pub bytes: u64,
}

impl Extent {
    /// The blocks to read at once if block `number` is the first that a scan misses: that block and those behind it, or
    /// in front of it where the scan goes back. They are taken as far as they are likely to be wanted, and no more than
    /// `bytes_max` together. If the cursor came there against the direction of the range, that block alone is read.
    ///
    /// Where in a block a seek leads to is not known, and counts as the middle. So the block behind is read, too, where
    /// it is more likely to be wanted than not.
    pub(super) fn blocks(&self, table: &Table, number: usize, way: Way, bytes_max: u64) -> Span<usize> {
        let (mut start, mut end) = (number, number + 1);
        let (is_seek, backward) = match way {
            Way::Jump { backward } => (true, backward),
            Way::Forward => (false, false),
            Way::Backward => (false, true),
        };
        if self.range.reverse != backward {
            return start..end;
        }
        let first = table.block(number);
        let passed = if is_seek { u64::from(first.len) / 2 } else { 0 };
        let wanted = passed.saturating_add(self.bytes);
        let bytes = |start: usize, end: usize| table.block(end - 1).end() - table.block(start).offset;
        let last = self.last_block(table);
        if backward {
            let from = first.end().saturating_sub(wanted);
            while start > last && table.block(start).offset > from && bytes(start - 1, end) <= bytes_max {
                start -= 1;
            }
            while start < number && table.cache().contains(table.block(start).offset) {
                start += 1;
            }
        } else {
            let to = first.offset.saturating_add(wanted);
            while end <= last && table.block(end).offset < to && bytes(start, end + 1) <= bytes_max {
                end += 1;
            }
            while end > number + 1 && table.cache().contains(table.block(end - 1).offset) {
                end -= 1;
            }
        }
        start..end
    }

    /// The last block that a scan of the range comes to.
    fn last_block(&self, table: &Table) -> usize {
        let (bound, unbounded) = match self.range.reverse {
            false => (&self.range.to, table.blocks()),
            true => (&self.range.from, 0),
        };
        // Behind all versions of the key, or in front of them.
        let seq = match (bound, self.range.reverse) {
            (Bound::Included(_), false) | (Bound::Excluded(_), true) => 0,
            _ => SEQ_MAX,
        };
        let number = match bound {
            Bound::Included(key) | Bound::Excluded(key) => table.index().find(key, seq),
            Bound::Unbounded => unbounded,
        };
        number.min(table.blocks() - 1)
    }
}
