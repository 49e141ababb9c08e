//! Going through the values of a list page by page.

use std::ops::Range;

/// About how many values are read between two turns.
pub(super) const PAGE_VALUES: usize = 1000;

/// How many parts are read for the first page, if some of them may be chunks. Full chunks have more values than belong
/// on a page; those that are too many are read again.
const FIRST_PARTS: usize = 32;

/// The values of a list that somebody has yet to read, page by page. The list does not change meanwhile.
#[derive(Clone, Debug)]
pub struct Walk {
    /// Their numbers.
    pub(super) left: Range<u64>,
    /// The last value comes first.
    pub(super) reverse: bool,
    /// The next value is the first one of its part, as the walk meets them.
    pub(super) is_at_part: bool,
    /// In how many parts a page of values is, by what the last page was like.
    pub(super) parts: usize,
}

impl Walk {
    /// The values with the numbers in `range`; from the last to the first in `reverse` order.
    pub fn new(range: Range<u64>, reverse: bool) -> Self {
        Self { left: range, reverse, is_at_part: false, parts: FIRST_PARTS }
    }

    /// Whether all values were read.
    pub fn is_done(&self) -> bool {
        self.left.is_empty()
    }

    /// The numbers of the values, in the order of the walk.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + use<> {
        let (Range { start, end }, reverse) = (self.left.clone(), self.reverse);
        (start..end).map(move |number| if reverse { start + (end - 1 - number) } else { number })
    }

    /// Goes past `values` values, at least one, which were all of `parts` parts that are wanted.
    pub(super) fn pass(&mut self, values: usize, parts: usize) {
        match self.reverse {
            true => self.left.end -= values as u64,
            false => self.left.start += values as u64,
        }
        self.is_at_part = true;
        self.parts = (PAGE_VALUES * parts).div_ceil(values);
    }
}
