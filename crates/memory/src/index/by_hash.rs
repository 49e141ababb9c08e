//! Rows by the hashes of their keys: a table that grows by one bucket at a time.
//!
//! Linear hashing (Litwin, 1980): a table of `n` buckets, where `n` lies between two powers of two, has split its first
//! buckets by one more bit of the hash, and has yet to split the others. Some new rows split the next one. So no write
//! ever moves more than the rows of one bucket, and none waits for a table to be made anew.
//!
//! A bucket is a cache line: six rows, a byte of the hash of each, and more buckets where these are not enough. Rows
//! are found by their keys, so the bytes of hashes only save looks at others.
//!
//! There is one writer. Readers take no lock: they enter an epoch, and nothing is freed that they are on.
//!
//! - A row comes into a free place, its byte of the hash first.
//! - A split adds the rows that move to their new bucket, *then* says that there is one bucket more, and then takes
//!   them out of the old one. A reader that finds nothing looks whether its key's bucket is still the same one; if not,
//!   it goes to the new one. It sees a row twice, or in either place, and never in none.

use std::hash::BuildHasher;
use std::iter::successors;
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crossbeam_epoch::{self as epoch, Guard};
use foldhash::fast::RandomState;
use weir_model::prefetch::prefetch;

use super::{PREFETCHED_MAX, Row};

/// Places of a bucket: with their bytes of hashes and a pointer they fill a cache line.
const PLACES: usize = 6;
/// Rows for each bucket, in halves, above which one is split: few buckets then have more rows than places.
const HALF_ROWS_PER_BUCKET: usize = 5;
/// Buckets of an empty table: a power of two.
const BUCKETS_MIN: usize = 16;
/// Each piece of memory has as many buckets as all before it together.
const PIECES: usize = (usize::BITS - BUCKETS_MIN.ilog2()) as usize;

const LOW_BITS: u64 = u64::from_le_bytes([0x01; 8]);
const HIGH_BITS: u64 = u64::from_le_bytes([0x80; 8]);

/// A cache line of rows. All zeros are an empty one.
#[derive(Default)]
#[repr(align(64))]
struct Bucket {
    /// A byte of the hash of each row.
    tags: AtomicU64,
    /// Null, or what `Arc::into_raw` gave: one count of it belongs to the table.
    rows: [AtomicPtr<Row>; PLACES],
    /// Null, or what `Box::into_raw` gave. It stays as long as the table.
    more: AtomicPtr<Bucket>,
}

const _: () = assert!(size_of::<Bucket>() == 64, "a cache line");

/// The byte of a hash that a bucket keeps. None of its bits tells buckets apart, but in a table that no memory holds.
fn tag_of(hash: u64) -> u8 {
    (hash >> (u64::BITS - u8::BITS)) as u8
}

impl Bucket {
    /// Itself and all that have more of its rows.
    fn chain(&self) -> impl Iterator<Item = &Self> {
        // SAFETY: what `more` points to came from `Box::into_raw` and stays as long as the table, which is borrowed.
        successors(Some(self), |bucket| unsafe { bucket.more.load(Ordering::Acquire).as_ref() })
    }

    /// The places of this bucket alone whose rows may have a hash with `tag`: those that have, and seldom another.
    fn places_with(&self, tag: u8) -> impl Iterator<Item = usize> + use<> {
        let unequal = self.tags.load(Ordering::Acquire) ^ (LOW_BITS * u64::from(tag));
        // The lowest byte that is zero is found exactly; one above it may be taken for one.
        let equal = unequal.wrapping_sub(LOW_BITS) & !unequal & HIGH_BITS;
        let mut left = equal & (u64::MAX >> (u8::BITS as usize * (8 - PLACES)));
        std::iter::from_fn(move || {
            let place = (left != 0).then(|| (left.trailing_zeros() / u8::BITS) as usize)?;
            left &= left - 1;
            Some(place)
        })
    }

    /// The row of `key`, whose hash has `tag`, and its place in this chain.
    #[inline]
    fn find<'g>(&'g self, tag: u8, key: &[u8], _guard: &'g Guard) -> Option<(&'g AtomicPtr<Row>, *const Row)> {
        for bucket in self.chain() {
            for place in bucket.places_with(tag) {
                let place = &bucket.rows[place];
                let row = place.load(Ordering::Acquire);
                // SAFETY: the row's count was there when this thread had entered the epoch, so that `remove` does not
                // give it up before the thread leaves.
                if unsafe { row.as_ref() }.is_some_and(|row| *row.key == *key) {
                    return Some((place, row));
                }
            }
        }
        None
    }

    /// Puts a row into a free place of this chain. For the writer.
    fn add(&self, tag: u8, row: *mut Row) {
        let mut last = self;
        for bucket in self.chain() {
            if let Some(place) = bucket.rows.iter().position(|row| row.load(Ordering::Relaxed).is_null()) {
                let shift = place * u8::BITS as usize;
                let others = bucket.tags.load(Ordering::Relaxed) & !(0xff << shift);
                bucket.tags.store(others | u64::from(tag) << shift, Ordering::Release);
                bucket.rows[place].store(row, Ordering::Release);
                return;
            }
            last = bucket;
        }
        let more = Box::<Self>::default();
        more.add(tag, row);
        last.more.store(Box::into_raw(more), Ordering::Release);
    }

    fn prefetch_rows(&self) {
        self.rows.iter().for_each(|row| prefetch(row.load(Ordering::Relaxed)));
    }
}

/// What was found of a key.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sought<'g> {
    hash: u64,
    /// From `Arc::into_raw`: the table's count of it is there as long as the guard.
    row: Option<*const Row>,
    _guard: PhantomData<&'g Guard>,
}

impl<'g> Sought<'g> {
    /// Its row.
    #[inline]
    pub fn row(&self) -> Option<&'g Row> {
        // SAFETY: it was there when this thread had entered the epoch of the guard, which it has not left.
        self.row.map(|row| unsafe { &*row })
    }

    /// Its row, for as long as somebody holds it.
    pub fn to_row(self) -> Option<Arc<Row>> {
        // SAFETY: as above; so the table's count has not been given up.
        self.row.map(|row| unsafe {
            Arc::increment_strong_count(row);
            Arc::from_raw(row)
        })
    }
}

/// See the module.
pub(super) struct ByHash {
    hasher: RandomState,
    pieces: [OnceLock<Box<[Bucket]>>; PIECES],
    buckets: AtomicUsize,
    /// Only the writer looks here.
    rows: AtomicUsize,
}

impl Default for ByHash {
    fn default() -> Self {
        let pieces = [const { OnceLock::new() }; PIECES];
        let table = Self {
            hasher: RandomState::default(),
            pieces,
            buckets: AtomicUsize::new(BUCKETS_MIN),
            rows: AtomicUsize::new(0),
        };
        table.make_piece_of(0);
        table
    }
}

/// The number of the bucket of `hash`, where there are so many.
fn bucket_of(hash: u64, buckets: usize) -> usize {
    let bits = buckets.next_power_of_two() - 1;
    let bucket = hash as usize & bits;
    // Not split yet.
    if bucket < buckets { bucket } else { bucket & (bits >> 1) }
}

/// The piece that has bucket number `bucket`, and where in it that is.
fn place_of(bucket: usize) -> (usize, usize) {
    match (bucket / BUCKETS_MIN).checked_ilog2() {
        None => (0, bucket),
        Some(power) => (power as usize + 1, bucket - (BUCKETS_MIN << power)),
    }
}

impl ByHash {
    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    fn make_piece_of(&self, bucket: usize) {
        let piece = place_of(bucket).0;
        self.pieces[piece].get_or_init(|| {
            let buckets = if piece == 0 { BUCKETS_MIN } else { BUCKETS_MIN << (piece - 1) };
            // SAFETY: all zeros are an empty bucket: a number, and pointers that are null.
            unsafe { Box::new_zeroed_slice(buckets).assume_init() }
        });
    }

    /// One of the buckets that there are.
    #[inline]
    fn bucket(&self, bucket: usize) -> &Bucket {
        let (piece, at) = place_of(bucket);
        &self.pieces[piece].get().expect("what has buckets was made")[at]
    }

    /// The row of `key`.
    #[inline]
    pub fn get<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Option<&'g Row> {
        self.sought(key, guard).row()
    }

    #[inline]
    fn find<'g>(&'g self, hash: u64, key: &[u8], guard: &'g Guard) -> Option<(&'g AtomicPtr<Row>, *const Row)> {
        let mut bucket = bucket_of(hash, self.buckets.load(Ordering::Acquire));
        loop {
            if let found @ Some(_) = self.bucket(bucket).find(tag_of(hash), key, guard) {
                return found;
            }
            let now = bucket_of(hash, self.buckets.load(Ordering::Acquire));
            if now == bucket {
                return None;
            }
            bucket = now;
        }
    }

    /// Has the processor fetch the buckets of `keys`, and then the rows that may be theirs; gives what is found.
    pub fn prefetch<'g, 'k>(
        &'g self,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        guard: &'g Guard,
    ) -> [Sought<'g>; PREFETCHED_MAX] {
        let mut hashes = [0; PREFETCHED_MAX];
        let buckets = self.buckets.load(Ordering::Acquire);
        let bucket = |hash| self.bucket(bucket_of(hash, buckets));
        for (key, hash) in keys.clone().zip(&mut hashes) {
            *hash = self.hash(key);
            prefetch(bucket(*hash));
        }
        for (_, &hash) in keys.clone().zip(&hashes) {
            let bucket = bucket(hash);
            bucket.places_with(tag_of(hash)).for_each(|place| prefetch(bucket.rows[place].load(Ordering::Relaxed)));
        }
        let mut found = [Sought::default(); PREFETCHED_MAX];
        for ((key, hash), found) in keys.zip(hashes).zip(&mut found) {
            *found = self.seek(hash, key, guard);
        }
        found
    }

    /// What is found of `key`.
    pub fn sought<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Sought<'g> {
        self.seek(self.hash(key), key, guard)
    }

    /// The same again.
    pub fn sought_again<'g>(&'g self, before: Sought<'_>, key: &[u8], guard: &'g Guard) -> Sought<'g> {
        self.seek(before.hash, key, guard)
    }

    fn seek<'g>(&'g self, hash: u64, key: &[u8], guard: &'g Guard) -> Sought<'g> {
        let row = self.find(hash, key, guard).map(|(_, row)| row);
        Sought { hash, row, _guard: PhantomData }
    }

    /// Adds `row`, whose key, as it was `sought`, has none. For the writer.
    pub fn insert(&self, sought: Sought<'_>, row: Arc<Row>) {
        let hash = sought.hash;
        let rows = self.rows.load(Ordering::Relaxed) + 1;
        self.rows.store(rows, Ordering::Relaxed);
        if 2 * rows > HALF_ROWS_PER_BUCKET * self.buckets.load(Ordering::Relaxed) {
            self.split();
        }
        let bucket = bucket_of(hash, self.buckets.load(Ordering::Relaxed));
        self.bucket(bucket).add(tag_of(hash), Arc::into_raw(row).cast_mut());
    }

    /// Splits the next bucket. For the writer.
    fn split(&self) {
        let buckets = self.buckets.load(Ordering::Relaxed);
        let from = buckets - (1 << buckets.ilog2());
        self.make_piece_of(buckets);
        let (old, new) = (self.bucket(from), self.bucket(buckets));
        let rows = || old.chain().flat_map(|bucket| &bucket.rows);
        let mut moved: Vec<&AtomicPtr<Row>> = Vec::new();
        for place in rows() {
            let pointer = place.load(Ordering::Relaxed);
            // SAFETY: the table has a count of each of its rows, and this is the writer, who alone gives it up.
            let Some(row) = (unsafe { pointer.as_ref() }) else { continue };
            let hash = self.hash(&row.key);
            if bucket_of(hash, buckets + 1) == buckets {
                new.add(tag_of(hash), pointer);
                moved.push(place);
            }
        }
        self.buckets.store(buckets + 1, Ordering::Release);
        // Its count has gone to the new place.
        moved.iter().for_each(|place| place.store(null_mut(), Ordering::Release));
        // Whoever splits the next one waits for memory otherwise, twice.
        let next = buckets + 1 - (1 << (buckets + 1).ilog2());
        self.bucket(next).prefetch_rows();
        prefetch(self.bucket(next + 1));
    }

    /// Takes the row of `key` out, and gives it. For the writer.
    pub fn remove(&self, key: &[u8]) -> Option<Arc<Row>> {
        let guard = epoch::pin();
        let (place, row) = self.find(self.hash(key), key, &guard)?;
        place.store(null_mut(), Ordering::Release);
        self.rows.store(self.rows.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        // SAFETY: it came from `Arc::into_raw`, and its count was the table's until here: that goes when nobody is in
        // an epoch any more who can have found it. It is sent to another thread: rows may be.
        unsafe {
            let row = Arc::from_raw(row);
            let gone = Arc::clone(&row);
            guard.defer_unchecked(move || drop(gone));
            Some(row)
        }
    }
}

impl Drop for ByHash {
    fn drop(&mut self) {
        for bucket in self.pieces.iter().filter_map(OnceLock::get).flatten() {
            for bucket in bucket.chain() {
                for row in bucket.rows.iter().map(|row| row.load(Ordering::Relaxed)).filter(|row| !row.is_null()) {
                    // SAFETY: it came from `Arc::into_raw`, and its count is the table's, which nobody uses any more.
                    drop(unsafe { Arc::from_raw(row) });
                }
            }
            let mut more = bucket.more.load(Ordering::Relaxed);
            while !more.is_null() {
                // SAFETY: it came from `Box::into_raw`, once, and nobody uses the table any more.
                let bucket = unsafe { Box::from_raw(more) };
                more = bucket.more.load(Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::key::Key;

    fn row(number: u64) -> Arc<Row> {
        Arc::new(Row::new(Key::new(&number.to_be_bytes()), None))
    }

    fn insert(table: &ByHash, row: Arc<Row>) {
        let guard = epoch::pin();
        table.insert(table.sought(&row.key, &guard), Arc::clone(&row));
    }

    fn has(table: &ByHash, number: u64) -> bool {
        table.get(&number.to_be_bytes(), &epoch::pin()).is_some()
    }

    #[test]
    fn every_hash_has_a_bucket_that_is_there_and_moves_to_the_newest_or_not_at_all() {
        let hashes: Vec<u64> = (0..500_u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        for buckets in BUCKETS_MIN..40 * BUCKETS_MIN {
            for &hash in &hashes {
                let (before, now) = (bucket_of(hash, buckets), bucket_of(hash, buckets + 1));
                assert!(before < buckets && (now == before || now == buckets), "{hash}: {before} of {buckets}, {now}");
                assert!(now != buckets || before == buckets - (1 << buckets.ilog2()), "it comes from the one split");
            }
        }
    }

    #[test]
    fn pieces_have_every_bucket_once() {
        let mut next = BTreeMap::<usize, usize>::new();
        for bucket in 0..100 * BUCKETS_MIN {
            let (piece, at) = place_of(bucket);
            let next = next.entry(piece).or_default();
            assert_eq!(at, *next);
            *next += 1;
        }
        let table = ByHash::default();
        for (piece, len) in next.into_iter().filter(|(piece, _)| *piece < 6) {
            let first = if piece == 0 { 0 } else { BUCKETS_MIN << (piece - 1) };
            table.make_piece_of(first);
            assert_eq!(table.pieces[piece].get().map(|piece| piece.len()), Some(len));
        }
    }

    #[test]
    fn tags_are_found_among_all_others() {
        let bucket = Bucket::default();
        let tags = [0, 1, 0x80, 0xff, 1, 0x7f, 1, 1];
        bucket.tags.store(u64::from_le_bytes(tags), Ordering::Relaxed);
        for tag in 0..=u8::MAX {
            let found: Vec<usize> = bucket.places_with(tag).collect();
            let wanted: Vec<usize> = (0..PLACES).filter(|&place| tags[place] == tag).collect();
            assert!(wanted.iter().all(|place| found.contains(place)), "{tag}: {found:?}");
            assert_eq!(found.first(), wanted.first(), "{tag}");
            assert!(found.iter().all(|&place| place < PLACES));
        }
    }

    #[test]
    fn the_table_counts_its_rows_once_and_lets_them_go() {
        let (table, kept) = (ByHash::default(), row(5));
        (0..1000).filter(|&number| number != 5).for_each(|number| insert(&table, row(number)));
        insert(&table, Arc::clone(&kept));
        (1000..3000).for_each(|number| insert(&table, row(number)));
        assert_eq!(Arc::strong_count(&kept), 2);
        let removed = table.remove(&5_u64.to_be_bytes()).expect("it is there");
        assert!(Arc::ptr_eq(&removed, &kept) && !has(&table, 5));
        assert!(table.remove(&5_u64.to_be_bytes()).is_none());
        drop(removed);
        insert(&table, Arc::clone(&kept));
        assert!((0..3000).all(|number| has(&table, number)) && !has(&table, 3000));
        drop(table);
        // What was put off when it was removed may be left.
        assert!(Arc::strong_count(&kept) <= 2);
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "it is about threads")]
    fn readers_see_every_row_that_stays_while_the_table_grows_and_others_come_and_go() {
        const STAYING: u64 = 1_000;
        const COMING: u64 = 200_000;
        let (table, is_done) = (ByHash::default(), AtomicBool::new(false));
        (0..STAYING).for_each(|number| insert(&table, row(number)));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_done.load(Ordering::Relaxed) {
                        (0..STAYING).for_each(|number| assert!(has(&table, number), "{number}"));
                    }
                });
            }
            for number in STAYING..COMING {
                insert(&table, row(number));
                if number % 3 == 0 {
                    assert!(table.remove(&number.to_be_bytes()).is_some());
                }
            }
            is_done.store(true, Ordering::Relaxed);
        });
        assert!((STAYING..COMING).all(|number| has(&table, number) == (number % 3 != 0)));
    }
}
