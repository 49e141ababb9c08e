//! Leaves: a few dozen neighbouring rows, of which the newest are not in order.
//!
//! A reader looks for the first row of its range by binary search, in the order that an earlier reader found and left
//! behind. Rows that have come since are put in order anew by each reader, until they are too many.

use std::cmp::Ordering as By;
use std::ops::{Bound, Range};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use weir_model::prefetch::prefetch;

use super::Row;
use crate::atomic_arc::AtomicArc;
use crate::key::Key;

/// Rows of the largest leaf. More of them make the list of leaves shorter, and the part behind the known order longer.
pub(super) const LEAF_ROWS_MAX: usize = 64;
/// Places of the smallest leaf.
pub(super) const LEAF_ROWS_MIN: usize = 8;
/// The most rows behind the known order that each reader puts in order for itself.
const NEW_ROWS_MAX: usize = 8;
/// How many entries ahead of the next one rows are fetched into the processor's cache. For half as many, the versions
/// that they point to are fetched, too.
const AHEAD: usize = 4;

/// A row with a copy of its key: putting a leaf in order looks at keys alone.
#[derive(Clone)]
pub(crate) struct Entry {
    pub key: Key,
    pub row: Arc<Row>,
}

impl Entry {
    pub(super) fn of(row: Arc<Row>) -> Self {
        Self { key: row.key.clone(), row }
    }

    /// Whether the row has been removed.
    fn is_dead(&self) -> bool {
        self.row.newest.is_none()
    }
}

/// Places that fill up from the first to the last. Readers see each entry as soon as it is whole.
pub(super) struct Leaf {
    places: Box<[OnceLock<Entry>]>,
    /// Places taken.
    taken: AtomicUsize,
    /// Entries whose rows have been removed. Only the writer looks here.
    dead: AtomicUsize,
    /// How many of the first entries were in order when the leaf was made.
    in_order: usize,
    /// The order of more entries than these, once a reader has needed it.
    order: AtomicArc<Order>,
}

/// See [`Leaf::around`].
#[derive(Default)]
pub(super) struct Around<'l> {
    /// How many entries there are, and how many of them stand in front of the place.
    pub living: usize,
    pub in_front: usize,
    /// The keys in front of the place and behind it, and the one that has come last.
    pub below: Option<&'l Key>,
    pub above: Option<&'l Key>,
    pub newest: Option<&'l Key>,
    /// Whether there are entries of removed rows.
    pub has_dead: bool,
}

/// The order of the first entries of a leaf.
struct Order {
    len: usize,
    places: [u8; LEAF_ROWS_MAX],
}

impl Leaf {
    /// A leaf of these entries, which are in order, with room for as many again, within [`LEAF_ROWS_MAX`].
    pub fn new(entries: Vec<Entry>) -> Arc<Self> {
        let room = (2 * entries.len()).clamp(LEAF_ROWS_MIN, LEAF_ROWS_MAX);
        Self::with_room(entries, room)
    }

    /// The same, with room for as many entries as a leaf can have, for more will come.
    pub fn that_fills(entries: Vec<Entry>) -> Arc<Self> {
        Self::with_room(entries, LEAF_ROWS_MAX)
    }

    fn with_room(entries: Vec<Entry>, room: usize) -> Arc<Self> {
        debug_assert!(entries.len() <= LEAF_ROWS_MAX && entries.is_sorted_by(|a, b| a.key < b.key));
        let (taken, dead, in_order) = (AtomicUsize::new(entries.len()), AtomicUsize::new(0), entries.len());
        let mut places: Vec<OnceLock<Entry>> = Vec::with_capacity(room.max(in_order));
        places.extend(entries.into_iter().map(OnceLock::from));
        places.resize_with(room.max(in_order), OnceLock::new);
        Arc::new(Self { places: places.into(), taken, dead, in_order, order: AtomicArc::new(None) })
    }

    /// Adds an entry, or returns it if the leaf is full. For the writer.
    pub fn push(&self, entry: Entry) -> Result<(), Entry> {
        let at = self.taken.load(Ordering::Relaxed);
        let Some(place) = self.places.get(at) else { return Err(entry) };
        place.set(entry)?;
        self.taken.store(at + 1, Ordering::Release);
        Ok(())
    }

    /// Notes that one of its rows has been removed. Returns whether so many have been that the leaf should be made
    /// anew. For the writer.
    pub fn note_dead(&self) -> bool {
        let dead = self.dead.load(Ordering::Relaxed) + 1;
        self.dead.store(dead, Ordering::Relaxed);
        2 * dead > self.taken.load(Ordering::Relaxed)
    }

    /// Its entries, those of removed rows included, in the order in which they came.
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.places[..self.taken.load(Ordering::Acquire)].iter().filter_map(OnceLock::get)
    }

    /// What is around the place of `key`, which is not in the leaf, among the entries of rows that have not been
    /// removed. For the writer.
    pub fn around(&self, key: &Key) -> Around<'_> {
        let mut around = Around::default();
        for entry in self.entries() {
            if entry.is_dead() {
                around.has_dead = true;
                continue;
            }
            around.living += 1;
            around.newest = Some(&entry.key);
            if entry.key < *key {
                around.in_front += 1;
                around.below = around.below.max(Some(&entry.key));
            } else {
                around.above = Some(around.above.map_or(&entry.key, |above| above.min(&entry.key)));
            }
        }
        around
    }

    /// The entries of rows that have not been removed, in the order of their keys. For the writer.
    pub fn living(&self) -> Vec<Entry> {
        let mut living: Vec<Entry> = self.entries().filter(|entry| !entry.is_dead()).cloned().collect();
        living.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        living
    }

    /// The entries in a range, those of removed rows included, in the order of their keys.
    pub fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> InOrder<'_> {
        let taken = self.taken.load(Ordering::Acquire);
        let mut order = self.order.load();
        let mut known = order.as_ref().map_or(self.in_order, |order| order.len);
        if taken > known + NEW_ROWS_MAX {
            let found = Arc::new(self.order_of(taken));
            // Another reader may leave an older order behind: the next reader finds it anew.
            self.order.replace(Some(Arc::clone(&found)));
            (order, known) = (Some(found), taken);
        }
        let mut entries = InOrder { leaf: self, order, known: 0..known, new: 0..0, new_places: [0; NEW_ROWS_MAX] };
        let first = entries.find(known, |key| is_before_all(key, from));
        // Most ranges go on behind the leaf.
        let goes_on = known > 0 && !is_behind_all(&entries.known(known - 1).key, to);
        let end = if goes_on { known } else { entries.find(known, |key| !is_behind_all(key, to)) };
        entries.known = first..end.max(first);
        (0..AHEAD).for_each(|place| entries.prefetch(first + place));
        for place in known..taken {
            let key = &*self.at(place).key;
            if !is_before_all(key, from) && !is_behind_all(key, to) {
                entries.new_places[entries.new.end] = place as u8;
                entries.new.end += 1;
            }
        }
        entries.new_places[..entries.new.end].sort_unstable_by_key(|&place| &self.at(place.into()).key);
        entries
    }

    /// The order of the first `len` entries.
    fn order_of(&self, len: usize) -> Order {
        let mut places: [u8; LEAF_ROWS_MAX] = std::array::from_fn(|place| place as u8);
        places[..len].sort_unstable_by_key(|&place| &self.at(place.into()).key);
        Order { len, places }
    }

    /// The entry at a place that is taken.
    fn at(&self, place: usize) -> &Entry {
        self.places[place].get().expect("whoever takes a place fills it first")
    }
}

fn is_before_all(key: &[u8], from: Bound<&[u8]>) -> bool {
    match from {
        Bound::Unbounded => false,
        Bound::Included(from) => key < from,
        Bound::Excluded(from) => key <= from,
    }
}

fn is_behind_all(key: &[u8], to: Bound<&[u8]>) -> bool {
    match to {
        Bound::Unbounded => false,
        Bound::Included(to) => key > to,
        Bound::Excluded(to) => key >= to,
    }
}

/// Entries of a leaf, in order.
pub(super) struct InOrder<'l> {
    leaf: &'l Leaf,
    order: Option<Arc<Order>>,
    /// The entries left whose order is known, by their numbers in it.
    known: Range<usize>,
    /// The other entries left, by their numbers in `new_places`, which is in order.
    new: Range<usize>,
    new_places: [u8; NEW_ROWS_MAX],
}

impl<'l> InOrder<'l> {
    /// The entry with the number `at` among those of which the order is known.
    fn known(&self, at: usize) -> &'l Entry {
        self.leaf.at(self.order.as_ref().map_or(at, |order| order.places[at].into()))
    }

    /// The entry with the number `at` among the others.
    fn added(&self, at: usize) -> &'l Entry {
        self.leaf.at(self.new_places[at].into())
    }

    /// Has the processor fetch the row at `at` among the known ones that are left, and the newest version of the row
    /// that is half as far ahead.
    #[inline]
    fn prefetch(&self, at: usize) {
        if self.known.contains(&at) {
            let entry = self.known(at);
            prefetch(Arc::as_ptr(&entry.row));
            entry.key.prefetch();
        }
        let near = at.wrapping_sub(AHEAD / 2);
        if self.known.contains(&near) {
            self.known(near).row.newest.prefetch();
        }
    }

    /// How many of the first `len` entries of which the order is known have keys that are `before` something.
    fn find(&self, len: usize, before: impl Fn(&[u8]) -> bool) -> usize {
        let (mut first, mut end) = (0, len);
        while first < end {
            let middle = first.midpoint(end);
            if before(&self.known(middle).key) { first = middle + 1 } else { end = middle }
        }
        first
    }
}

impl<'l> Iterator for InOrder<'l> {
    type Item = &'l Entry;

    fn next(&mut self) -> Option<&'l Entry> {
        let takes_known = match (self.known.is_empty(), self.new.is_empty()) {
            (true, true) => return None,
            (true, false) => false,
            (false, true) => true,
            (false, false) => self.known(self.known.start).key.cmp(&self.added(self.new.start).key) == By::Less,
        };
        if !takes_known {
            return self.new.next().map(|at| self.added(at));
        }
        self.prefetch(self.known.start + AHEAD);
        self.known.next().map(|at| self.known(at))
    }
}

impl DoubleEndedIterator for InOrder<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let takes_known = match (self.known.is_empty(), self.new.is_empty()) {
            (true, true) => return None,
            (true, false) => false,
            (false, true) => true,
            (false, false) => self.known(self.known.end - 1).key.cmp(&self.added(self.new.end - 1).key) == By::Greater,
        };
        if takes_known {
            self.known.next_back().map(|at| self.known(at))
        } else {
            self.new.next_back().map(|at| self.added(at))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(number: u8) -> Entry {
        Entry::of(Arc::new(Row::new(Key::new(&[number]), None)))
    }

    fn numbers<'e>(entries: impl Iterator<Item = &'e Entry>) -> Vec<u8> {
        entries.map(|entry| entry.key[0]).collect()
    }

    proptest! {
        #[test]
        fn entries_come_in_order_whenever_somebody_asks(
            made in proptest::collection::btree_set(any::<u8>(), 0..40),
            added in proptest::collection::vec((any::<u8>(), proptest::option::of((any::<u8>(), any::<u8>()))), 0..40),
            backwards in proptest::collection::vec(any::<bool>(), 70),
        ) {
            let leaf = Leaf::new(made.iter().map(|&number| entry(number)).collect());
            let mut there = made;
            for (number, asked) in added {
                if !there.contains(&number) && leaf.push(entry(number)).is_ok() {
                    there.insert(number);
                }
                let Some((from, to)) = asked else { continue };
                prop_assert_eq!(numbers(leaf.range(Bound::Unbounded, Bound::Unbounded)),
                                there.iter().copied().collect::<Vec<u8>>());
                for (from, to) in [(Bound::Included(from), Bound::Excluded(to)), (Bound::Excluded(from), Bound::Included(to))] {
                    let is_in = |number: &u8| match (from, to) {
                        (Bound::Included(from), Bound::Excluded(to)) => from <= *number && *number < to,
                        (Bound::Excluded(from), Bound::Included(to)) => from < *number && *number <= to,
                        _ => false,
                    };
                    let wanted: Vec<u8> = there.iter().copied().filter(is_in).collect();
                    let (from, to) = (from.map(|number| [number]), to.map(|number| [number]));
                    let bounds = (from.as_ref().map(|key| &key[..]), to.as_ref().map(|key| &key[..]));
                    prop_assert_eq!(numbers(leaf.range(bounds.0, bounds.1)), wanted.clone());
                    // From both ends at once.
                    let (mut entries, mut front, mut back) = (leaf.range(bounds.0, bounds.1), vec![], vec![]);
                    for &backwards in &backwards {
                        if backwards { back.extend(entries.next_back()) } else { front.extend(entries.next()) }
                    }
                    front.extend(entries);
                    front.extend(back.into_iter().rev());
                    prop_assert_eq!(numbers(front.into_iter()), wanted);
                }
            }
        }
    }
}
