//! Members that came to sorted sets or left them, and are not [counted](crate::collection) yet.
//!
//! Commands that run as one often change the same set. Each of them would read the tallies that the previous one has
//! written, and write them anew. So they only note where members came and went. Their caller has all of that counted
//! before somebody asks for a rank, or when all of them have run. A tally is then read and written once for all of
//! them.

use weir_model::BatchMark;
use weir_model::parts::Life;

/// A place where members came or went, and how many more there are now.
pub type CountChange = (Vec<u8>, i64);

/// The changes that are not counted yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uncounted {
    /// One entry for each life of a row.
    rows: Vec<UncountedRow>,
    /// Bytes of all notes since there were none.
    bytes: usize,
}

/// Uncounted changes of one life of a row.
#[derive(Clone, Debug)]
struct UncountedRow {
    /// The name of the database that the key is in.
    database: u8,
    key: Box<[u8]>,
    life: Life,
    /// The changes, in the order in which they were made.
    notes: Vec<Note>,
}

#[derive(Clone, Debug)]
struct Note {
    /// The mark behind the change of the order by score.
    at: BatchMark,
    place: Vec<u8>,
    more: i64,
}

impl Uncounted {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Bytes of memory that the notes take; some more once a part of them was taken.
    pub fn bytes(&self) -> usize {
        if self.is_empty() { 0 } else { self.bytes }
    }

    /// Whether there are uncounted changes of the row of `key` in `database`.
    pub fn has(&self, database: u8, key: &[u8]) -> bool {
        self.rows.iter().any(|row| row.database == database && *row.key == *key)
    }

    /// Notes that there are `more` members at `place` in the order of the row of `key` in `database`, whose `life` it
    /// is, behind the changes up to `at`.
    pub fn note(&mut self, (database, key, life): (u8, &[u8], Life), at: BatchMark, place: Vec<u8>, more: i64) {
        self.bytes = self.bytes() + size_of::<Note>() + place.len();
        let note = Note { at, place, more };
        // Mostly it is the same row as last time. A version is given out once, so it also identifies the row.
        match self.rows.iter_mut().rev().find(|row| row.life == life) {
            Some(row) => row.notes.push(note),
            None => self.rows.push(UncountedRow { database, key: key.into(), life, notes: vec![note] }),
        }
    }

    /// Forgets the notes of changes behind `mark`.
    pub fn rewind(&mut self, mark: BatchMark) {
        self.rows.retain_mut(|row| {
            let kept = row.notes.partition_point(|note| note.at <= mark);
            row.notes.truncate(kept);
            kept > 0
        });
    }

    /// Takes the changes of the row whose `life` it is.
    pub fn take(&mut self, life: Life) -> Vec<CountChange> {
        let found = self.rows.iter().position(|row| row.life == life);
        found.map_or_else(Vec::new, |at| self.rows.swap_remove(at).into_changes())
    }

    /// Some row that has uncounted changes: the name of its database, its key and its life.
    pub fn any(&self) -> Option<(u8, Box<[u8]>, Life)> {
        self.rows.first().map(|row| (row.database, row.key.clone(), row.life))
    }
}

impl UncountedRow {
    /// The changes in the order of their places. Each place appears once, and not at all if as many members left it as
    /// came.
    fn into_changes(self) -> Vec<CountChange> {
        let mut changes: Vec<CountChange> = self.notes.into_iter().map(|note| (note.place, note.more)).collect();
        changes.sort_by(|a, b| a.0.cmp(&b.0));
        changes.dedup_by(|again, first| {
            let is_same = again.0 == first.0;
            first.1 += if is_same { again.1 } else { 0 };
            is_same
        });
        changes.retain(|(_, more)| *more != 0);
        changes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use weir_model::{Batch, Change};

    use super::*;

    proptest! {
        #[test]
        fn what_is_noted_adds_up_and_goes_with_what_is_taken_back(
            steps in proptest::collection::vec((1..3_u64, 0..4_u8, any::<bool>(), 0..6_u8), 0..40)
        ) {
            let (mut batch, mut uncounted, mut marks) = (Batch::new(), Uncounted::default(), Vec::new());
            let mut model: Vec<(u64, u8, i64)> = Vec::new();
            for (version, place, comes, what) in steps {
                if what == 0 && let Some((mark, len)) = marks.pop() {
                    batch.rewind(mark);
                    uncounted.rewind(mark);
                    model.truncate(len);
                    marks.retain(|(_, before)| *before <= len);
                }
                marks.push((batch.mark(), model.len()));
                batch.push(Change::Delete { key: &[place] });
                let more = if comes { 1 } else { -1 };
                uncounted.note((0, &[version as u8], Life::new(version)), batch.mark(), vec![place], more);
                model.push((version, place, more));
            }
            prop_assert_eq!(uncounted.is_empty(), model.is_empty());
            prop_assert!(uncounted.bytes() >= model.len() * (size_of::<Note>() + 1));
            for version in 1..3 {
                let here = || model.iter().filter(|(of, ..)| *of == version);
                prop_assert_eq!(uncounted.has(0, &[version as u8]), here().count() > 0);
                prop_assert!(!uncounted.has(1, &[version as u8]));
                let mut sums: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
                here().for_each(|(_, place, more)| *sums.entry(vec![*place]).or_default() += more);
                let wanted: Vec<CountChange> = sums.into_iter().filter(|(_, more)| *more != 0).collect();
                prop_assert_eq!(uncounted.take(Life::new(version)), wanted);
            }
            prop_assert!(uncounted.any().is_none());
        }
    }
}
