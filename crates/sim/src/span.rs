//! A range of keys, in one of two directions.

use std::ops::Bound;

/// What to scan.
#[derive(Clone, Debug)]
pub struct Span {
    /// Where the keys begin.
    pub from: Bound<Vec<u8>>,
    /// Where the keys end.
    pub to: Bound<Vec<u8>>,
    /// Whether the largest key comes first.
    pub reverse: bool,
    /// How many keys are wanted at most.
    pub limit: usize,
}

impl Span {
    /// Every key.
    pub fn all(reverse: bool) -> Self {
        Self { from: Bound::Unbounded, to: Bound::Unbounded, reverse, limit: usize::MAX }
    }

    /// Whether there can be no key between the bounds.
    pub fn is_empty(&self) -> bool {
        match (&self.from, &self.to) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => from >= to,
            _ => false,
        }
    }
}
