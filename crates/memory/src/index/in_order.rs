//! Rows in the order of their keys: leaves of rows, and a skip list of the leaves.
//!
//! ```text
//!   skip list    "" ─────────────► "k" ──────────────────► "t" ─────►
//!                 │                 │                       │
//!   leaves       [b a f ...]       [k m o | l n ...]       [t]
//! ```
//!
//! A skip list of single rows came first. A new row waited for memory at each of its twenty levels: 2 us of a `SET`.
//! The list of leaves is a fortieth as long and stays in the processor's cache; a new row goes behind the others of its
//! leaf, whatever its place in the order is, and scans put leaves in order.
//!
//! There is one writer. A node of the list stands for the keys from its own up to that of the next node. The first node
//! has the empty key, and stays. Readers take no lock:
//!
//! - A full leaf splits: first the nodes of its upper parts are added, from the last on, then the leaf is replaced by
//!   its lower part. (Or a new node behind takes the leaf as it is, and a new leaf is put in its place.)
//! - So a reader that goes forward loads the leaf *before* it looks for the next node, and leaves out what belongs
//!   there: it sees both halves once, whether it came before, amid or after the split.
//! - A reader that goes back loads the leaf, and then makes sure that no other node has come between it and where the
//!   reader comes from.
//! - A node is removed only when its leaf has no row left.
//!
//! Keys often come and go in order: those of a list, of a stream. Where two in a row go into the same leaf, or leave
//! it, the writer learns which keys that leaf is for, and looks for the place of the next one there first.

use std::ops::Bound;
use std::sync::Arc;

use crossbeam_epoch::{self as epoch, Guard};
use crossbeam_skiplist::base::{self as skip_list, SkipList};
use parking_lot::Mutex;

use super::Row;
use super::leaf::{Entry, LEAF_ROWS_MAX, Leaf};
use crate::atomic_arc::AtomicArc;
use crate::key::Key;
use crate::version::Version;

/// A full leaf with fewer rows than this, because others were removed or it was small, is made anew with more room.
const SPLIT_ROWS: usize = LEAF_ROWS_MAX / 4 * 3;

type Node<'g> = skip_list::Entry<'g, 'g, Key, AtomicArc<Leaf>>;

/// A leaf that was changed last.
struct Recent {
    leaf: Arc<Leaf>,
    /// The first key that belongs to it, and the first one that belongs to the next leaf, if there is one. They are
    /// known once it was changed twice in a row.
    keys: Option<(Key, Option<Key>)>,
}

impl Recent {
    fn has(&self, key: &[u8]) -> bool {
        self.keys.as_ref().is_some_and(|(from, to)| *key >= from[..] && to.as_ref().is_none_or(|to| *key < to[..]))
    }

    /// Notes in `recent` that `leaf`, the leaf of `node`, was changed.
    fn note(recent: &mut Option<Self>, leaf: Arc<Leaf>, node: &Node<'_>) {
        let is_again = recent.as_ref().is_some_and(|recent| Arc::ptr_eq(&recent.leaf, &leaf));
        let keys = is_again.then(|| (node.key().clone(), node.next().map(|next| next.key().clone())));
        *recent = Some(Self { leaf, keys });
    }
}

/// Each is `None` where leaves have been replaced since.
#[derive(Default)]
struct Recents {
    /// The leaf that the last new row has gone into.
    added: Option<Recent>,
    /// The leaf from which the last row was removed.
    removed: Option<Recent>,
}

/// Rows in the order of their keys.
pub(super) struct InOrder {
    leaves: SkipList<Key, AtomicArc<Leaf>>,
    /// Only the writer looks here.
    recents: Mutex<Recents>,
}

impl Default for InOrder {
    fn default() -> Self {
        let leaves = SkipList::new(epoch::default_collector().clone());
        let order = Self { leaves, recents: Mutex::default() };
        order.add_node(Key::new(b""), Leaf::new(Vec::new()), &epoch::pin());
        order
    }
}

impl InOrder {
    /// Adds a leaf for the keys from `key` on, which need not be a row's.
    fn add_node(&self, key: Key, leaf: Arc<Leaf>, guard: &Guard) {
        self.leaves.insert(key, AtomicArc::new(Some(leaf)), guard).release(guard);
    }

    /// The last node before or at `end`. The first node is at or before every key.
    fn last_node<'g>(&'g self, end: Bound<&[u8]>, guard: &'g Guard) -> Option<Node<'g>> {
        match end {
            Bound::Unbounded => self.leaves.back(guard),
            _ => self.leaves.upper_bound(end, guard),
        }
    }

    /// Adds a row, whose key has none. For the writer.
    pub fn insert(&self, row: Arc<Row>) {
        let (mut entry, mut recents) = (Entry::of(row), self.recents.lock());
        if let Some(recent) = recents.added.as_ref().filter(|recent| recent.has(&entry.key)) {
            match recent.leaf.push(entry) {
                Ok(()) => return,
                Err(full) => entry = full,
            }
        }
        let guard = epoch::pin();
        let node = self.last_node(Bound::Included(&entry.key), &guard).expect("the first node stays");
        let leaf = node.value().load().expect("a node has a leaf");
        if let Err(entry) = leaf.push(entry) {
            self.make_room(&node, &leaf, entry, &guard);
            *recents = Recents::default();
            return;
        }
        Recent::note(&mut recents.added, leaf, &node);
    }

    /// Adds `entry`, for which the leaf of `node` has no room.
    fn make_room(&self, node: &Node<'_>, leaf: &Arc<Leaf>, entry: Entry, guard: &Guard) {
        let around = leaf.around(&entry.key);
        let (at, splits) = (around.in_front, around.living >= SPLIT_ROWS);
        // Keys that come in order leave full leaves behind.
        if let Some(below) = around.below.filter(|_| splits && around.above.is_none()) {
            self.add_node(separator(below, &entry.key), Leaf::that_fills(vec![entry]), guard);
            return;
        }
        // And so do those that come in reverse: the leaf becomes that of the node behind.
        if let Some(above) = around.above.filter(|_| splits && around.below.is_none() && !around.has_dead) {
            self.add_node(separator(&entry.key, above), Arc::clone(leaf), guard);
            node.value().replace(Some(Leaf::that_fills(vec![entry])));
            return;
        }
        let is_beside_newest = around.newest.is_some() && [around.below, around.above].contains(&around.newest);
        let mut living = leaf.living();
        if splits && is_beside_newest {
            // The same for keys among others: the others stay where they are, on both sides.
            let upper = living.split_off(at);
            if let Some(first) = upper.first() {
                self.add_node(separator(&entry.key, &first.key), Leaf::new(upper), guard);
            }
            let Some(last) = living.last() else {
                node.value().replace(Some(Leaf::that_fills(vec![entry])));
                return;
            };
            self.add_node(separator(&last.key, &entry.key), Leaf::that_fills(vec![entry]), guard);
            node.value().replace(Some(Leaf::new(living)));
            return;
        }
        living.insert(at, entry);
        if splits {
            let upper = living.split_off(living.len() / 2);
            let key = separator(&living[living.len() - 1].key, &upper[0].key);
            self.add_node(key, Leaf::new(upper), guard);
        }
        node.value().replace(Some(Leaf::new(living)));
    }

    /// Notes that the row of `key` has been removed: it points to nothing. For the writer.
    pub fn removed(&self, key: &[u8]) {
        let mut recents = self.recents.lock();
        let recent = recents.removed.as_ref().filter(|recent| recent.has(key));
        let has_many_dead = recent.map(|recent| recent.leaf.note_dead());
        if has_many_dead == Some(false) {
            return;
        }
        let guard = epoch::pin();
        let node = self.last_node(Bound::Included(key), &guard).expect("the first node stays");
        let leaf = node.value().load().expect("a node has a leaf");
        if !has_many_dead.unwrap_or_else(|| leaf.note_dead()) {
            Recent::note(&mut recents.removed, leaf, &node);
            return;
        }
        *recents = Recents::default();
        let living = leaf.living();
        if living.is_empty() && !node.key().is_empty() {
            node.remove();
        } else {
            node.value().replace(Some(Leaf::new(living)));
        }
    }

    /// Shows rows of a range to `see`, each with its newest version, in order or in reverse, until it says false.
    /// Returns whether it saw them all. Nothing is freed meanwhile: keep it short.
    pub fn walk(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        see: &mut dyn FnMut(&Entry, &Version) -> bool,
    ) -> bool {
        if reverse { self.walk_back(from, to, see) } else { self.walk_on(from, to, see) }
    }

    fn walk_on(&self, mut from: Bound<&[u8]>, to: Bound<&[u8]>, see: &mut dyn FnMut(&Entry, &Version) -> bool) -> bool {
        let guard = epoch::pin();
        let mut node = match from {
            Bound::Unbounded => self.leaves.front(&guard),
            Bound::Included(key) | Bound::Excluded(key) => self.last_node(Bound::Included(key), &guard),
        };
        while let Some(this) = node {
            let leaf = leaf_of(&this, &guard);
            node = this.next().filter(|next| is_before(next.key(), to));
            let end = node.as_ref().map_or(to, |next| Bound::Excluded(&**next.key()));
            if !leaf.range(from, end).all(|entry| show(entry, &guard, see)) {
                return false;
            }
            // All that follows is behind where it began.
            from = Bound::Unbounded;
        }
        true
    }

    fn walk_back(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, see: &mut dyn FnMut(&Entry, &Version) -> bool) -> bool {
        let guard = epoch::pin();
        let mut end = to;
        loop {
            let Some(mut node) = self.last_node(end, &guard) else { return true };
            let mut leaf = leaf_of(&node, &guard);
            while let Some(other) = self.last_node(end, &guard).filter(|other| other.key() != node.key()) {
                node = other;
                leaf = leaf_of(&node, &guard);
            }
            if !leaf.range(from, end).rev().all(|entry| show(entry, &guard, see)) {
                return false;
            }
            if !is_behind(node.key(), from) {
                return true;
            }
            end = Bound::Excluded(node.key());
        }
    }
}

/// A short key behind `first` that is not behind `second`, which is behind `first`. It is nearer to the first: keys
/// that come in reverse behind a full leaf, as those of a list do, go where the first of them has gone. Short keys are
/// also compared faster.
fn separator(first: &[u8], second: &[u8]) -> Key {
    let common = first.iter().zip(second).take_while(|(a, b)| a == b).count();
    let next = first.get(common).map_or(0, |byte| byte + 1);
    Key::new(&[&second[..common], &[next]].concat())
}

/// Shows a row to `see`, if it has not been removed.
fn show(entry: &Entry, guard: &Guard, see: &mut dyn FnMut(&Entry, &Version) -> bool) -> bool {
    entry.row.newest.get(guard).is_none_or(|newest| see(entry, newest))
}

/// The leaf of `node` as it is now.
fn leaf_of<'g>(node: &Node<'g>, guard: &'g Guard) -> &'g Leaf {
    node.value().get(guard).expect("a node has a leaf")
}

fn is_behind(key: &[u8], from: Bound<&[u8]>) -> bool {
    match from {
        Bound::Unbounded => !key.is_empty(),
        Bound::Included(from) | Bound::Excluded(from) => key > from,
    }
}

fn is_before(key: &[u8], to: Bound<&[u8]>) -> bool {
    match to {
        Bound::Unbounded => true,
        Bound::Included(to) => key <= to,
        Bound::Excluded(to) => key < to,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicBool, Ordering};

    use weir_model::engine::Kind;

    use super::*;

    fn key(number: u64) -> [u8; 8] {
        number.to_be_bytes()
    }

    fn add(order: &InOrder, number: u64) -> Arc<Row> {
        let version = Version::new(number, Kind::Put, 0, b"", None);
        let row = Arc::new(Row::new(Key::new(&key(number)), Some(version)));
        order.insert(Arc::clone(&row));
        row
    }

    fn remove(order: &InOrder, number: u64, row: &Row) {
        row.newest.replace(None);
        order.removed(&key(number));
    }

    fn nodes(order: &InOrder) -> usize {
        order.leaves.iter(&epoch::pin()).count()
    }

    #[test]
    fn separators_are_behind_the_first_and_not_behind_the_second() {
        let keys: Vec<Vec<u8>> = (0..3_u8)
            .flat_map(|a| [vec![a], vec![a, 0], vec![a, 255], vec![a, 7, 0], vec![a, 7, 1, 9], vec![255, a]])
            .chain([vec![]])
            .collect();
        for first in &keys {
            for second in keys.iter().filter(|second| *second > first) {
                let key = separator(first, second);
                assert!(key[..] > first[..] && key[..] <= second[..], "{first:?} {second:?} {:?}", &key[..]);
            }
        }
    }

    #[test]
    fn keys_that_come_in_order_or_in_reverse_among_others_fill_their_leaves() {
        for others in [1, 30, 64] {
            let order = InOrder::default();
            (0..others).for_each(|number| drop(add(&order, number)));
            (1_000..7_400).rev().for_each(|number| drop(add(&order, number)));
            assert!(nodes(&order) <= 120, "{} leaves", nodes(&order));
            (10_000..10_000 + others).for_each(|number| drop(add(&order, number)));
            (7_400..10_000).for_each(|number| drop(add(&order, number)));
            assert!(nodes(&order) <= 170, "{} leaves", nodes(&order));
        }
    }

    #[test]
    fn keys_that_come_in_order_fill_their_leaves_and_what_is_removed_leaves_none() {
        let order = InOrder::default();
        let rows: Vec<Arc<Row>> = (0..6_400).map(|number| add(&order, number)).collect();
        assert!(nodes(&order) <= 110, "{} leaves", nodes(&order));
        rows.iter().enumerate().for_each(|(number, row)| remove(&order, number as u64, row));
        assert_eq!(nodes(&order), 1);
        // The same from the last to the first, and among others.
        (0..6_400).rev().for_each(|number| drop(add(&order, number)));
        assert!(nodes(&order) <= 110, "{} leaves", nodes(&order));
    }

    #[test]
    fn rows_that_go_in_order_from_both_ends_while_others_come_leave_the_right_ones() {
        let order = InOrder::default();
        let mut rows: BTreeMap<u64, Arc<Row>> = (0..2_000).map(|number| (number, add(&order, number))).collect();
        for number in 0..2_500 {
            let first = rows.pop_first().expect("there are more");
            remove(&order, first.0, &first.1);
            if number % 3 == 0 {
                let last = rows.pop_last().expect("there are more");
                remove(&order, last.0, &last.1);
            }
            // Behind all others, and among those that have just gone.
            for new in [10_000 + number, number / 2].into_iter().filter(|new| number % 2 == 0 || *new >= 10_000) {
                rows.entry(new).or_insert_with(|| add(&order, new));
            }
            if number % 50 == 0 {
                let mut seen = Vec::new();
                order.walk(Bound::Unbounded, Bound::Unbounded, false, &mut |_, version| {
                    seen.push(version.seq);
                    true
                });
                assert!(seen.iter().eq(rows.keys()), "after {number}");
            }
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "it is about threads")]
    fn readers_see_every_row_that_stays_once_and_in_order_while_others_come_and_go() {
        const STAYING: u64 = 2_000;
        let (order, is_done) = (InOrder::default(), AtomicBool::new(false));
        (0..STAYING).for_each(|number| drop(add(&order, number * 64)));
        std::thread::scope(|scope| {
            for reverse in [false, true] {
                let (order, is_done) = (&order, &is_done);
                scope.spawn(move || {
                    while !is_done.load(Ordering::Relaxed) {
                        let mut seen = Vec::new();
                        let (from, to) = (key(64 * 100), key(64 * 1_900));
                        let (from, to) = (Bound::Excluded(&from[..]), Bound::Included(&to[..]));
                        order.walk(from, to, reverse, &mut |_, version| {
                            seen.push(version.seq);
                            true
                        });
                        assert!(seen.windows(2).all(|two| (two[0] < two[1]) != reverse && two[0] != two[1]));
                        assert_eq!(seen.iter().filter(|number| *number % 64 == 0).count(), 1_800);
                    }
                });
            }
            let mut rng = weir_io::Rng::new(1);
            let mut there: BTreeMap<u64, Arc<Row>> = BTreeMap::new();
            for _ in 0..100_000 {
                let number = 64 * rng.below(STAYING) + 1 + rng.below(63);
                match there.remove(&number) {
                    Some(row) => remove(&order, number, &row),
                    None => drop(there.insert(number, add(&order, number))),
                }
            }
            is_done.store(true, Ordering::Relaxed);
        });
    }
}
