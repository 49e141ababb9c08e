//! Many searches in step. A single search waits for memory some five times, each time for an address that it has just
//! learned. A dozen searches that take turns wait together.
//!
//! The only result is warm caches: the real search follows, and costs little then. (To give real answers in step, the
//! whole way up to the client would have to go in step, and that would save the same waits.)

use std::cmp::Ordering::Greater;
use std::sync::atomic::Ordering;

use weir_model::engine::SEQ_MAX;

use super::Memtable;
use super::leaf::Leaf;
use super::record::{Record, Target};

/// Searches that take turns: about as many cache lines as a processor fetches at once.
pub const PREFETCHED_MAX: usize = 16;
/// A smaller memtable is in the processor's cache anyway.
const BYTES_MIN: usize = 1 << 20;

/// Where a key belongs, as far as is known: an insert looks there first.
#[derive(Clone, Copy)]
pub struct Place(pub(super) Leaf);

impl Place {
    /// Nothing is known.
    pub const UNKNOWN: Place = Place(Leaf::NULL);
}

/// The places of [`PREFETCHED_MAX`] keys.
pub type Places = [Place; PREFETCHED_MAX];

/// A search under way, between two looks at memory.
struct Search<'k> {
    target: Target<'k>,
    leaf: Leaf,
    /// The leaf that ended the level above.
    bound: Leaf,
    /// The leaf behind `leaf` on `level`, which the processor was asked to fetch.
    next: Leaf,
    level: usize,
    record: Record,
}

impl Memtable {
    /// Has the processor fetch what reads of some of `keys` will touch: those whose bit is set in `wanted`, bit `i` for
    /// the i-th key, up to [`PREFETCHED_MAX`]. `hashes` are their [hashes](crate::table::filter::hash). Returns the
    /// bits of the keys that are in this memtable. That is a guess beside a running insert, and 0 for a small memtable.
    pub fn prefetch(&self, keys: &[&[u8]], hashes: &[u64], wanted: u32) -> u32 {
        if self.bytes() < BYTES_MIN {
            return 0;
        }
        let Some(index) = self.index.get() else {
            return self.search_in_step(keys, wanted, &mut [Place::UNKNOWN; PREFETCHED_MAX]);
        };
        let hashes = &hashes[..keys.len().min(PREFETCHED_MAX)];
        let wanted_hashes = || hashes.iter().enumerate().filter(|(place, _)| wanted >> place & 1 == 1);
        wanted_hashes().for_each(|(_, &hash)| index.prefetch(hash));
        let mut anchors = [Record::NULL; PREFETCHED_MAX];
        let here = wanted_hashes().fold(0, |here, (place, &hash)| {
            anchors[place] = index.guess(hash);
            anchors[place].prefetch_all();
            if anchors[place].is_null() { here } else { here | 1 << place }
        });
        prefetch_newest(&anchors);
        here
    }

    /// Has the processor fetch what inserts of the first [`PREFETCHED_MAX`] of `keys` will touch. Returns where new
    /// keys belong.
    pub fn prefetch_inserts(&self, keys: &[&[u8]], hashes: &[u64]) -> Places {
        let all = (1_u32 << keys.len().min(PREFETCHED_MAX)) - 1;
        let mut places = [Place::UNKNOWN; PREFETCHED_MAX];
        let in_run = self.find_in_run(keys, &mut places);
        if self.bytes() < BYTES_MIN {
            return places;
        }
        let here = if self.index.get().is_some() { self.prefetch(keys, hashes, all) } else { 0 };
        // A new key goes into a leaf.
        self.search_in_step(keys, all & !here & !in_run, &mut places);
        places
    }

    /// Finds those of the first [`PREFETCHED_MAX`] of `keys` that go where the last insert went. Returns their bits.
    fn find_in_run(&self, keys: &[&[u8]], places: &mut Places) -> u32 {
        let recent = self.writer.lock().recent;
        if !recent.is_run {
            return 0;
        }
        // SAFETY: a leaf of this memtable.
        let is_in = |key: &[u8]| unsafe { self.is_place_of(recent.leaf, &Target::new(key, SEQ_MAX)) };
        keys.iter().zip(places).enumerate().filter(|(_, (key, _))| is_in(key)).fold(0, |found, (at, (_, place))| {
            *place = Place(recent.leaf);
            found | 1 << at
        })
    }

    /// [`Memtable::prefetch`] by the leaves, however small the memtable is. Writes to `places` in which leaf each key
    /// belongs.
    pub(super) fn search_in_step(&self, keys: &[&[u8]], wanted: u32, places: &mut Places) -> u32 {
        if wanted == 0 {
            return 0;
        }
        let top = self.height.load(Ordering::Relaxed) - 1;
        let mut searches: [Option<Search<'_>>; PREFETCHED_MAX] = std::array::from_fn(|place| {
            let target = Target::new(keys.get(place).filter(|_| wanted >> place & 1 == 1)?, SEQ_MAX);
            // SAFETY: the head has all levels.
            let next = unsafe { self.head.next(top) };
            next.prefetch();
            Some(Search { target, leaf: self.head, bound: Leaf::NULL, next, level: top, record: Record::NULL })
        });
        let searches = &mut searches[..keys.len().min(PREFETCHED_MAX)];
        // SAFETY: all leaves and records that they come by are this memtable's, and live as long as it does.
        unsafe {
            let mut under_way = wanted & ((1_u32 << searches.len()) - 1);
            while under_way != 0 {
                for (place, search) in searches.iter_mut().enumerate() {
                    if let (true, Some(search)) = (under_way >> place & 1 == 1, search)
                        && search.step()
                    {
                        search.leaf.prefetch_heads();
                        under_way &= !(1 << place);
                    }
                }
            }
            let mut positions = [0; PREFETCHED_MAX];
            for (search, place) in searches.iter().zip(places) {
                *place = search.as_ref().map_or(*place, |search| Place(search.leaf));
            }
            for (search, position) in searches.iter().flatten().zip(&mut positions) {
                *position = search.leaf.prefetch_record(&search.target);
            }
            let mut anchors = [Record::NULL; PREFETCHED_MAX];
            for ((search, position), anchor) in searches.iter_mut().flatten().zip(positions).zip(&mut anchors) {
                search.record = search.leaf.guess(position);
                search.record.prefetch_all();
                *anchor = search.record;
            }
            prefetch_newest(&anchors);
            let is_here =
                |search: &Search<'_>| !search.record.is_null() && search.record.entry().key == search.target.key;
            let here = searches.iter().enumerate().filter(|(_, search)| search.as_ref().is_some_and(is_here));
            here.fold(0, |found, (place, _)| found | 1 << place)
        }
    }
}

/// Has the processor fetch the newest versions that hang on these anchors. The anchors are being fetched already; some
/// are null.
#[inline]
fn prefetch_newest(anchors: &[Record]) {
    for anchor in anchors.iter().filter(|anchor| !anchor.is_null()) {
        // SAFETY: an anchor of a live memtable.
        unsafe { anchor.link() }.prefetch_all();
    }
}

impl Search<'_> {
    /// Goes on until memory is needed that was not asked for yet, and asks for it; true at the end.
    ///
    /// # Safety
    /// The leaves are live, and `leaf` has more than `level` levels.
    #[inline]
    unsafe fn step(&mut self) -> bool {
        loop {
            // SAFETY: the caller's promise; `next` is not the head, and what was reached on a level has it.
            unsafe {
                if self.next != self.bound && !self.next.is_null() && self.next.compare(&self.target) != Greater {
                    self.leaf = self.next;
                } else {
                    self.bound = self.next;
                    if self.level == 0 {
                        return true;
                    }
                    self.level -= 1;
                }
                self.next = self.leaf.next(self.level);
            }
            if self.next != self.bound && !self.next.is_null() {
                self.next.prefetch();
                return false;
            }
        }
    }
}
