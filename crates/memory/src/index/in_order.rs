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
//! leaf, whatever its place in the order is, and whoever scans puts a leaf in order.
//!
//! There is one writer. A node of the list stands for the keys from its own up to that of the next node. The first one
//! is the empty key and stays. Readers take no lock:
//!
//! - A full leaf splits: first the node of its upper half is added, then the leaf is replaced by its lower half.
//! - So a reader that goes forward loads the leaf *before* it looks for the next node, and leaves out what belongs
//!   there: it sees both halves once, whether it came before, amid or after the split.
//! - A reader that goes back loads the leaf, and then makes sure that no other node has come between it and where the
//!   reader comes from.
//! - A node goes only when its leaf has no row left.

use std::ops::Bound;
use std::sync::Arc;

use crossbeam_epoch::{self as epoch, Guard};
use crossbeam_skiplist::base::{self as skip_list, SkipList};
use weir_model::prefetch::prefetch;

use super::Row;
use super::leaf::{Entry, LEAF_ROWS_MAX, Leaf};
use crate::atomic_arc::AtomicArc;
use crate::key::Key;
use crate::version::Version;

/// A full leaf with fewer rows than these, because others were removed or it was small, is made anew with more room.
const SPLIT_ROWS: usize = LEAF_ROWS_MAX / 4 * 3;

type Node<'g> = skip_list::Entry<'g, 'g, Key, AtomicArc<Leaf>>;

/// See the module.
pub(super) struct InOrder(SkipList<Key, AtomicArc<Leaf>>);

impl Default for InOrder {
    fn default() -> Self {
        let leaves = Self(SkipList::new(epoch::default_collector().clone()));
        leaves.add_node(Key::new(b""), Leaf::new(Vec::new()), &epoch::pin());
        leaves
    }
}

impl InOrder {
    fn add_node(&self, key: Key, leaf: Arc<Leaf>, guard: &Guard) {
        self.0.insert(key, AtomicArc::new(Some(leaf)), guard).release(guard);
    }

    /// The last node before or at `end`. The first node is at or before every key.
    fn last_node<'g>(&'g self, end: Bound<&[u8]>, guard: &'g Guard) -> Option<Node<'g>> {
        match end {
            Bound::Unbounded => self.0.back(guard),
            _ => self.0.upper_bound(end, guard),
        }
    }

    /// Adds a row for `key`, which has none. For the writer.
    pub fn insert(&self, key: Key, row: Arc<Row>) {
        let guard = epoch::pin();
        let node = self.last_node(Bound::Included(&key), &guard).expect("the first node stays");
        let leaf = leaf_of(&node);
        let Err(entry) = leaf.push(Entry { key, row }) else { return };

        let mut living = leaf.living();
        let splits = living.len() >= SPLIT_ROWS;
        if splits && living.last().is_some_and(|last| last.key < entry.key) {
            // Keys that come in order leave full leaves behind.
            self.add_node(entry.key.clone(), Leaf::new(vec![entry]), &guard);
            return;
        }
        let at = living.partition_point(|living| living.key < entry.key);
        living.insert(at, entry);
        if splits {
            let upper = living.split_off(living.len() / 2);
            self.add_node(upper[0].key.clone(), Leaf::new(upper), &guard);
        }
        node.value().replace(Some(Leaf::new(living)));
    }

    /// The row of `key` has been removed: it points to nothing. For the writer.
    pub fn removed(&self, key: &[u8]) {
        let guard = epoch::pin();
        let node = self.last_node(Bound::Included(key), &guard).expect("the first node stays");
        let leaf = leaf_of(&node);
        if !leaf.note_dead() {
            return;
        }
        let living = leaf.living();
        if living.is_empty() && !node.key().is_empty() {
            node.remove();
        } else {
            node.value().replace(Some(Leaf::new(living)));
        }
    }

    /// Shows rows of a range to `see`, in order or in reverse, until it says false; gives whether it saw them all. No
    /// node is freed meanwhile: keep it short.
    pub fn walk(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        see: &mut dyn FnMut(&Key, Arc<Version>) -> bool,
    ) -> bool {
        if reverse { self.walk_back(from, to, see) } else { self.walk_on(from, to, see) }
    }

    fn walk_on(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, see: &mut dyn FnMut(&Key, Arc<Version>) -> bool) -> bool {
        let guard = epoch::pin();
        let mut node = match from {
            Bound::Unbounded => self.0.front(&guard),
            Bound::Included(key) | Bound::Excluded(key) => self.last_node(Bound::Included(key), &guard),
        };
        while let Some(this) = node {
            let leaf = leaf_of(&this);
            node = this.next().filter(|next| is_before(next.key(), to));
            let end = node.as_ref().map_or(to, |next| Bound::Excluded(&**next.key()));
            if !show(sorted(&leaf, this.key(), from, end).into_iter(), see) {
                return false;
            }
        }
        true
    }

    fn walk_back(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, see: &mut dyn FnMut(&Key, Arc<Version>) -> bool) -> bool {
        let guard = epoch::pin();
        let mut end = to;
        loop {
            let Some(mut node) = self.last_node(end, &guard) else { return true };
            let mut leaf = leaf_of(&node);
            while let Some(other) = self.last_node(end, &guard).filter(|other| other.key() != node.key()) {
                node = other;
                leaf = leaf_of(&node);
            }
            if !show(sorted(&leaf, node.key(), from, end).into_iter().rev(), see) {
                return false;
            }
            if !is_behind(node.key(), from) {
                return true;
            }
            end = Bound::Excluded(node.key());
        }
    }
}

fn leaf_of(node: &Node<'_>) -> Arc<Leaf> {
    node.value().load().expect("a node has a leaf")
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

/// An entry, and eight bytes of its key, which decide about most pairs without a look at the keys.
type Headed<'l> = (u64, &'l Entry);

/// The entries of `leaf`, whose node has the key `first`, in a range that ends with the leaf, or before; in order.
fn sorted<'l>(leaf: &'l Leaf, first: &[u8], from: Bound<&[u8]>, to: Bound<&[u8]>) -> Vec<Headed<'l>> {
    let is_in_range = |entry: &&Entry| {
        let is_from = match from {
            Bound::Unbounded => true,
            Bound::Included(from) => &*entry.key >= from,
            Bound::Excluded(from) => &*entry.key > from,
        };
        is_from && is_before(&entry.key, to)
    };
    // Whatever is between two keys begins with what these have in common.
    let lower = match from {
        Bound::Included(from) | Bound::Excluded(from) if from > first => from,
        _ => first,
    };
    let skip = match to {
        Bound::Included(to) | Bound::Excluded(to) => lower.iter().zip(to).take_while(|(a, b)| a == b).count(),
        Bound::Unbounded => 0,
    };
    leaf.entries().for_each(|entry| entry.key.prefetch());
    let headed = |entry: &'l Entry| (entry.key.head(skip), entry);
    let mut entries: Vec<Headed<'l>> = leaf.entries().filter(is_in_range).map(headed).collect();
    entries.sort_unstable_by(|(a, one), (b, other)| a.cmp(b).then_with(|| one.key.cmp(&other.key)));
    entries
}

/// Rows that are fetched ahead of the one that is shown; the versions of half as many.
const AHEAD: usize = 8;

/// Shows the rows of `entries` to `see` until it says false; gives whether it saw them all.
fn show<'l>(
    entries: impl ExactSizeIterator<Item = Headed<'l>> + Clone,
    see: &mut dyn FnMut(&Key, Arc<Version>) -> bool,
) -> bool {
    let (mut rows, mut versions) = (entries.clone(), entries.clone());
    rows.by_ref().take(AHEAD).for_each(|(_, entry)| prefetch(&*entry.row));
    versions.by_ref().take(AHEAD / 2).for_each(|(_, entry)| entry.row.prefetch());
    for (_, entry) in entries {
        if let Some((_, ahead)) = rows.next() {
            prefetch(&*ahead.row);
        }
        if let Some((_, ahead)) = versions.next() {
            ahead.row.prefetch();
        }
        if let Some(version) = entry.row.load()
            && !see(&entry.key, version)
        {
            return false;
        }
    }
    true
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
        let row = Arc::new(Row::new(Some(Version::new(number, Kind::Put, 0, b"", None))));
        order.insert(Key::new(&key(number)), Arc::clone(&row));
        row
    }

    fn remove(order: &InOrder, number: u64, row: &Row) {
        row.replace(None);
        order.removed(&key(number));
    }

    fn nodes(order: &InOrder) -> usize {
        order.0.iter(&epoch::pin()).count()
    }

    #[test]
    fn keys_that_come_in_order_fill_their_leaves_and_what_is_removed_leaves_none() {
        let order = InOrder::default();
        let rows: Vec<Arc<Row>> = (0..6_400).map(|number| add(&order, number)).collect();
        assert!(nodes(&order) <= 110, "{} leaves", nodes(&order));
        rows.iter().enumerate().for_each(|(number, row)| remove(&order, number as u64, row));
        assert_eq!(nodes(&order), 1);
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
