//! Leaves: a few dozen neighbouring rows, of which the newest are not in order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::Row;
use crate::key::Key;

/// Rows of the largest leaf. More of them make the list of leaves shorter, and scans that begin or end within a leaf
/// dearer: they sort it.
pub(super) const LEAF_ROWS_MAX: usize = 64;
/// Places of the smallest leaf.
pub(super) const LEAF_ROWS_MIN: usize = 8;

/// A row with its key.
#[derive(Clone)]
pub(super) struct Entry {
    pub key: Key,
    pub row: Arc<Row>,
}

impl Entry {
    /// Whether the row has been removed.
    fn is_dead(&self) -> bool {
        self.row.is_none()
    }
}

/// Places that fill up from the first to the last. Readers see each entry as soon as it is whole.
pub(super) struct Leaf {
    places: Box<[OnceLock<Entry>]>,
    /// Places taken. Only the writer looks here; readers go on to the first empty place.
    taken: AtomicUsize,
    /// Entries whose rows have been removed. Only the writer looks here.
    dead: AtomicUsize,
}

impl Leaf {
    /// A leaf of these entries, with room for as many again but for [`LEAF_ROWS_MAX`] at most.
    pub fn new(entries: Vec<Entry>) -> Arc<Self> {
        let (taken, dead) = (AtomicUsize::new(entries.len()), AtomicUsize::new(0));
        let room = (2 * entries.len()).clamp(LEAF_ROWS_MIN, LEAF_ROWS_MAX).max(entries.len());
        let mut places: Vec<OnceLock<Entry>> = entries.into_iter().map(OnceLock::from).collect();
        places.resize_with(room, OnceLock::new);
        Arc::new(Self { places: places.into(), taken, dead })
    }

    /// Adds an entry, or gives it back if the leaf is full. For the writer.
    pub fn push(&self, entry: Entry) -> Result<(), Entry> {
        let at = self.taken.load(Ordering::Relaxed);
        let Some(place) = self.places.get(at) else { return Err(entry) };
        place.set(entry)?;
        self.taken.store(at + 1, Ordering::Relaxed);
        Ok(())
    }

    /// Notes that a row of it has been removed; gives whether so many have been that the leaf should be made anew. For
    /// the writer.
    pub fn note_dead(&self) -> bool {
        let dead = self.dead.load(Ordering::Relaxed) + 1;
        self.dead.store(dead, Ordering::Relaxed);
        2 * dead > self.taken.load(Ordering::Relaxed)
    }

    /// Its entries, those of removed rows included, in the order in which they came.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.places.iter().map_while(OnceLock::get)
    }

    /// The entries of rows that have not been removed, in the order of their keys. For the writer.
    pub fn living(&self) -> Vec<Entry> {
        let mut living: Vec<Entry> = self.entries().filter(|entry| !entry.is_dead()).cloned().collect();
        living.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        living
    }
}
