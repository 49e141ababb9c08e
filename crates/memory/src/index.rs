//! The index: from a key to its row, in order. Reads take no lock.
//!
//! It is a concurrent skip list (`crossbeam-skiplist`): readers enter an epoch, walk nodes that nobody frees meanwhile,
//! and see every row that was there when they began and has not been removed. There is one writer at a time: the
//! store's.
//!
//! `scc::TreeIndex` finds a row among a million in two thirds of the time and takes a third more memory. Its reverse
//! iterator (3.8.8) ends early where all rows of the last leaf were removed, so it is not used.

use std::ops::Bound;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use crossbeam_epoch as epoch;
use crossbeam_skiplist::base::SkipList;

use crate::key::Key;
use crate::version::Version;

/// Bytes of memory that a row takes beside its versions and a long key: its node, with the key, a pointer to the newest
/// version, two counters, and a tower of two links on average. `examples/row_bytes.rs` measures it.
const ROW_BYTES: usize = size_of::<Key>() + 5 * size_of::<usize>();

/// The newest version of a row; `None` once the row has been removed.
type Newest = ArcSwapOption<Version>;

/// Bytes of memory that a row takes beside its versions.
pub(crate) const fn row_bytes(key_bytes: usize) -> u64 {
    (ROW_BYTES + Key::heap_bytes(key_bytes)) as u64
}

/// See the module.
pub(crate) struct Index(SkipList<Key, Newest>);

impl Default for Index {
    fn default() -> Self {
        Self(SkipList::new(epoch::default_collector().clone()))
    }
}

impl Index {
    /// The newest version of `key`.
    #[inline]
    pub fn newest(&self, key: &[u8]) -> Option<Arc<Version>> {
        let guard = epoch::pin();
        self.0.get(key, &guard)?.value().load_full()
    }

    /// Makes `version` the newest of `key`, which has a row.
    pub fn replace(&self, key: &[u8], version: Arc<Version>) {
        let guard = epoch::pin();
        let row = self.0.get(key, &guard);
        debug_assert!(row.is_some(), "the only writer has looked");
        row.iter().for_each(|row| row.value().store(Some(Arc::clone(&version))));
    }

    /// Adds a row for `key`, which has none.
    pub fn insert(&self, key: &[u8], version: Arc<Version>) {
        let guard = epoch::pin();
        self.0.insert(Key::new(key), Newest::new(Some(version)), &guard).release(&guard);
    }

    /// Removes the row of `key`. Its node stays until no reader can be on it; what it held goes now.
    pub fn remove(&self, key: &[u8]) {
        let guard = epoch::pin();
        if let Some(row) = self.0.remove(key, &guard) {
            row.value().store(None);
            row.release(&guard);
        }
    }

    /// Shows rows of a range to `see`, in order or in reverse, until it says false; gives whether it saw them all. No
    /// node is freed meanwhile: keep it short.
    pub fn walk(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        mut see: impl FnMut(&Key, Arc<Version>) -> bool,
    ) -> bool {
        let guard = epoch::pin();
        let mut rows = self.0.range::<[u8], _>((from, to), &guard);
        while let Some(row) = if reverse { rows.next_back() } else { rows.next() } {
            if let Some(version) = row.value().load_full()
                && !see(row.key(), version)
            {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use weir_model::engine::Kind;

    use super::*;

    fn key(number: u16) -> Vec<u8> {
        format!("{number:0width$}", width = 1 + usize::from(number % 40)).into_bytes()
    }

    fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
        bound.as_ref().map(|key| &key[..])
    }

    /// Whether no key is between the two.
    fn is_empty(from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
        match (from, to) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => from >= to,
        }
    }

    proptest! {
        #[test]
        fn it_is_an_ordered_map(
            changes in proptest::collection::vec((0_u16..500, any::<bool>()), 0..3_000),
            (from, to) in (any::<(u8, u16)>(), any::<(u8, u16)>()),
            reverse: bool,
            limit in 1_usize..600,
        ) {
            let (index, mut model) = (Index::default(), BTreeMap::new());
            for (seq, (number, removes)) in changes.into_iter().enumerate() {
                let (key, version) = (key(number), Version::new(seq as u64, Kind::Put, 0, b"", None));
                match (removes, model.contains_key(&key)) {
                    (true, true) => index.remove(&key),
                    (true, false) => continue,
                    (false, true) => index.replace(&key, version),
                    (false, false) => index.insert(&key, version),
                }
                if removes { model.remove(&key) } else { model.insert(key, seq as u64) };
            }
            for number in 0..500 {
                let seq = index.newest(&key(number)).map(|version| version.seq);
                prop_assert_eq!(seq.as_ref(), model.get(&key(number)));
            }
            let bound = |(kind, number): (u8, u16)| match kind % 3 {
                0 => Bound::Unbounded,
                1 => Bound::Included(key(number % 500)),
                _ => Bound::Excluded(key(number % 500)),
            };
            let (from, to) = (bound(from), bound(to));
            let mut wanted: Vec<(Vec<u8>, u64)> = Vec::new();
            if !is_empty(as_slice(&from), as_slice(&to)) {
                wanted.extend(model.range((from.clone(), to.clone())).map(|(key, &seq)| (key.clone(), seq)));
            }
            if reverse {
                wanted.reverse();
            }
            let whole = wanted.len() <= limit;
            wanted.truncate(limit + 1);
            let mut seen = Vec::new();
            let saw_all = index.walk(as_slice(&from), as_slice(&to), reverse, |key, version| {
                seen.push((key.to_vec(), version.seq));
                seen.len() <= limit
            });
            prop_assert_eq!((seen, saw_all), (wanted, whole));
        }
    }
}
