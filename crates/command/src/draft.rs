//! What commands want written, and what of it their reads see.
//!
//! Several commands may write into one draft, one after the other, and each may write thousands of parts: so what has
//! become of a key is looked up, and not searched for, as soon as there is more than a few changes.

use std::collections::BTreeMap;
use std::ops::Range;

use weir_model::{Batch, BatchMark, BatchRef, Change};

use crate::events::{Classes, KeyEvent};

/// Changes that are searched one by one.
const FEW: usize = 8;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    batch: Batch,
    /// The last change of each key, of those in front of `indexed`.
    last: BTreeMap<Box<[u8]>, BatchMark>,
    indexed: BatchMark,
    /// What is to be told when it is applied.
    pub(crate) events: Vec<KeyEvent>,
}

impl From<Batch> for Draft {
    fn from(batch: Batch) -> Self {
        Self { batch, ..Self::default() }
    }
}

impl Draft {
    /// All changes.
    pub fn into_batch(self) -> Batch {
        self.batch
    }

    /// All changes, and what is to be told when they are applied.
    pub fn into_parts(self) -> (Batch, Vec<KeyEvent>) {
        (self.batch, self.events)
    }

    /// How much is to be told when the changes are applied.
    pub fn events_len(&self) -> usize {
        self.events.len()
    }

    /// The connection `by` reads `key` behind what is told so far, and keeps its value.
    pub fn keep(&mut self, key: &[u8], by: u64) {
        self.events.push(KeyEvent { class: Classes::KEPT, name: "", database: 0, key: key.into(), by });
    }

    /// What is behind the first `len` is not told.
    pub fn forget_events(&mut self, len: usize) {
        self.events.truncate(len);
    }

    /// All changes.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Whether there is no change.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Adds a change of a stored key.
    #[inline]
    pub(crate) fn push(&mut self, change: Change<'_>) {
        self.batch.push(change);
    }

    /// Adds a change of a row of `database`.
    #[inline]
    pub(crate) fn push_row(&mut self, database: u8, change: Change<'_>) {
        self.batch.push_row(database, change);
    }

    /// Where the next change goes.
    pub fn mark(&self) -> BatchMark {
        self.batch.mark()
    }

    pub(crate) fn since(&self, mark: BatchMark) -> BatchRef<'_> {
        self.batch.since(mark)
    }

    /// Forgets the changes behind `mark`.
    pub fn rewind(&mut self, mark: BatchMark) {
        self.batch.rewind(mark);
        if self.indexed > mark {
            self.last.clear();
            self.indexed = BatchMark::default();
        }
    }

    /// The last change of the stored key `key`.
    pub(crate) fn last_of(&mut self, key: &[u8]) -> Option<Change<'_>> {
        if self.batch.len() <= FEW {
            return self.batch.as_ref().iter().filter(|change| change.key() == key).last();
        }
        self.index();
        self.last.get(key).map(|&mark| self.batch.at(mark))
    }

    /// The last change of each stored key in `keys`, by key.
    pub(crate) fn last_in(&mut self, keys: Range<&[u8]>) -> impl DoubleEndedIterator<Item = Change<'_>> {
        self.index();
        let keys = (keys.start < keys.end).then_some(keys);
        let found = keys.map(|keys| {
            self.last.range::<[u8], _>((std::ops::Bound::Included(keys.start), std::ops::Bound::Excluded(keys.end)))
        });
        found.into_iter().flatten().map(|(_, &mark)| self.batch.at(mark))
    }

    fn index(&mut self) {
        for (mark, change) in self.batch.marked_since(self.indexed) {
            self.last.insert(change.key().into(), mark);
        }
        self.indexed = self.batch.mark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_last_change_of_a_key_is_found_whatever_was_taken_back(
            changes in proptest::collection::vec((0..6_u8, 0..9_u8), 0..40)
        ) {
            let (mut draft, mut model, mut marks) = (Draft::default(), Vec::new(), Vec::new());
            for (key, value) in changes {
                if value == 0 && let Some((mark, len)) = marks.pop() {
                    draft.rewind(mark);
                    model.truncate(len);
                    marks.retain(|(_, before)| *before <= len);
                }
                marks.push((draft.mark(), model.len()));
                draft.push(Change::Put { key: &[key], value: &[value], expire_at_ms: None });
                model.push((key, value));
                for asked in 0..6_u8 {
                    let found = draft.last_of(&[asked]).map(|change| match change {
                        Change::Put { value, .. } => value[0],
                        _ => unreachable!("only puts"),
                    });
                    prop_assert_eq!(found, model.iter().rev().find(|(key, _)| *key == asked).map(|(_, value)| *value));
                }
                let keys: Vec<u8> = draft.last_in(&[1][..]..&[4][..]).map(|change| change.key()[0]).collect();
                let expected: Vec<u8> = (1..4).filter(|key| model.iter().any(|(other, _)| other == key)).collect();
                prop_assert_eq!(keys, expected);
            }
        }
    }
}
