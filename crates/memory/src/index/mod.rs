//! The index: from a key to its row, by its hash and in order. Reads take no lock.
//!
//! ```text
//!   get, put ──► hash table (papaya) ──┐
//!                                      ├──► row: newest version ──► older versions
//!   scan ──────► leaves in order ──────┘
//! ```
//!
//! Each row is in both. Only scans, new rows and removed ones need the [order](in_order). Readers of either see every
//! row that was there when they began and has not been removed, and nothing that they are on is freed. There is one
//! writer at a time: the store's.

mod in_order;
mod leaf;

use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::ops::Bound;
use std::sync::Arc;

use crossbeam_epoch::{self as epoch, Guard};
use foldhash::fast::RandomState;
use papaya::Equivalent;
use weir_model::as_is::AsIs;
use weir_model::prefetch::prefetch;

use self::in_order::InOrder;
pub(crate) use self::leaf::Entry;
use crate::atomic_arc::AtomicArc;
use crate::key::Key;
use crate::version::Version;

/// Bytes of memory that a row takes besides its versions and a long key. The row itself: with its key, and two
/// counters. In a leaf: its key, a pointer and a mark, and a third of the places there, which are empty. In the hash
/// table: an allocation of 16 bytes with its hash and a pointer to the row, and a slot of nine bytes for that, of which
/// a fifth to three fifths are free, and as much again in outgrown tables that are not freed yet.
/// `examples/row_bytes.rs` measures it.
const ROW_BYTES: usize = size_of::<Row>() + size_of::<Key>() + 16 * size_of::<usize>();

/// Keys that are [prefetched](Index::prefetch) at once: about as many cache lines as a processor fetches at once.
pub(crate) const PREFETCHED_MAX: usize = 16;

/// Bytes of memory that a row takes beside its versions.
pub(crate) const fn row_bytes(key_bytes: usize) -> u64 {
    (ROW_BYTES + Key::heap_bytes(key_bytes)) as u64
}

/// What the index has for a key.
pub(crate) struct Row {
    pub key: Key,
    /// Its newest version; nothing once the row has been removed.
    pub newest: AtomicArc<Version>,
}

impl Row {
    fn new(key: Key, version: Option<Arc<Version>>) -> Self {
        Self { key, newest: AtomicArc::new(version) }
    }
}

/// A row in the hash table, with the hash of its key: a table that grows would otherwise read each row, which is
/// somewhere else in memory, and its key, which may be somewhere else again.
struct Hashed {
    hash: u64,
    row: Arc<Row>,
}

impl Hash for Hashed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl PartialEq for Hashed {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.row.key[..] == other.row.key[..]
    }
}

impl Eq for Hashed {}

/// A key that is looked for, with its hash.
struct Wanted<'k> {
    hash: u64,
    key: &'k [u8],
}

impl Hash for Wanted<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Equivalent<Hashed> for Wanted<'_> {
    fn equivalent(&self, found: &Hashed) -> bool {
        self.hash == found.hash && *self.key == found.row.key[..]
    }
}

/// The hash and the row of a key that is about to be written.
#[derive(Default)]
pub(crate) struct Place {
    hash: u64,
    pub row: Option<Arc<Row>>,
}

impl Place {
    /// Whether the two are surely not of the same key.
    pub fn differs(&self, other: &Place) -> bool {
        self.hash != other.hash
    }
}

/// All rows of a store, by hash and in order.
#[derive(Default)]
pub(crate) struct Index {
    by_hash: papaya::HashSet<Hashed, BuildHasherDefault<AsIs>>,
    /// Hashes keys; the table takes these hashes as they are.
    hasher: RandomState,
    in_order: InOrder,
}

impl Index {
    #[inline]
    fn wanted<'k>(&self, key: &'k [u8]) -> Wanted<'k> {
        Wanted { hash: self.hasher.hash_one(key), key }
    }

    /// The newest version of `key`.
    #[inline]
    pub fn newest(&self, key: &[u8]) -> Option<Arc<Version>> {
        self.by_hash.pin().get(&self.wanted(key))?.row.newest.load()
    }

    /// Shows the newest version of `key` to `see`. No reference is counted. Nothing is freed meanwhile: keep it short.
    #[inline]
    pub fn see_newest<T>(&self, key: &[u8], see: impl FnOnce(Option<&Version>) -> T) -> T {
        let (by_hash, guard) = (self.by_hash.pin(), epoch::pin());
        let found = by_hash.get(&self.wanted(key));
        see(found.and_then(|found| found.row.newest.get(&guard)))
    }

    /// Has the processor fetch what reads of `keys`, [`PREFETCHED_MAX`] at most, will touch. Each look-up waits for
    /// memory five times, for addresses that it has just learned; many in a row wait together.
    pub fn prefetch<'k>(&self, keys: impl Iterator<Item = &'k [u8]>, guard: &Guard) {
        let by_hash = self.by_hash.pin();
        let mut rows = [None; PREFETCHED_MAX];
        for (key, row) in keys.zip(&mut rows) {
            *row = by_hash.get(&self.wanted(key)).map(|found| &*found.row);
        }
        prefetch_versions(rows.iter().flatten().copied(), guard);
    }

    /// The hash of `key`, and its row if there is one.
    pub fn place(&self, key: &[u8]) -> Place {
        let wanted = self.wanted(key);
        let row = self.by_hash.pin().get(&wanted).map(|found| Arc::clone(&found.row));
        Place { hash: wanted.hash, row }
    }

    /// The places of `keys`, [`PREFETCHED_MAX`] at most, as [`Self::place`] gives them one by one. The processor
    /// fetches what writes of them will touch.
    pub fn places<'k>(&self, keys: impl Iterator<Item = &'k [u8]>, guard: &Guard) -> [Place; PREFETCHED_MAX] {
        let by_hash = self.by_hash.pin();
        let mut places: [Place; PREFETCHED_MAX] = Default::default();
        for (key, place) in keys.zip(&mut places) {
            let wanted = self.wanted(key);
            place.hash = wanted.hash;
            place.row = by_hash.get(&wanted).map(|found| Arc::clone(&found.row));
        }
        prefetch_versions(places.iter().filter_map(|place| place.row.as_deref()), guard);
        places
    }

    /// Adds a row for `key`, whose `place` has none.
    pub fn insert(&self, key: &[u8], place: &Place, version: Arc<Version>) {
        let row = Arc::new(Row::new(Key::new(key), Some(version)));
        self.in_order.insert(Arc::clone(&row));
        let is_new = self.by_hash.pin().insert(Hashed { hash: place.hash, row });
        debug_assert!(is_new, "the only writer has looked");
    }

    /// Removes the row of `key`. What the row held is freed as soon as no reader can be on it.
    pub fn remove(&self, key: &[u8]) {
        let (by_hash, wanted) = (self.by_hash.pin(), self.wanted(key));
        let Some(found) = by_hash.get(&wanted) else { return };
        found.row.newest.replace(None);
        self.in_order.removed(key);
        by_hash.remove(&wanted);
    }

    /// Shows rows of a range to `see`, each with its newest version, in order or in reverse, until it says false.
    /// Returns whether it saw them all. Nothing is freed meanwhile: keep it short.
    pub fn walk(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        reverse: bool,
        mut see: impl FnMut(&Entry, &Version) -> bool,
    ) -> bool {
        self.in_order.walk(from, to, reverse, &mut see)
    }
}

fn prefetch_versions<'r>(rows: impl Iterator<Item = &'r Row> + Clone, guard: &Guard) {
    rows.clone().for_each(|row| prefetch(row));
    rows.clone().for_each(|row| row.newest.prefetch());
    rows.filter_map(|row| row.newest.get(guard)).for_each(Version::prefetch_value);
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
                let place = index.place(&key);
                match (removes, &place.row) {
                    (true, Some(_)) => index.remove(&key),
                    (true, None) => continue,
                    (false, Some(row)) => row.newest.replace(Some(version)),
                    (false, None) => index.insert(&key, &place, version),
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
            let saw_all = index.walk(as_slice(&from), as_slice(&to), reverse, |entry, version| {
                seen.push((entry.key.to_vec(), version.seq));
                seen.len() <= limit
            });
            prop_assert_eq!((seen, saw_all), (wanted, whole));
        }
    }
}
