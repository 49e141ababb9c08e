//! Rows of a tenant that somebody watches, and how often each was changed since: for `WATCH`.
//!
//! Engines forget: the sequence number of a value goes when nothing older is left, a tombstone when it hides nothing,
//! and a key that a batch makes and deletes leaves no trace in rows kept in memory. So the changes of watched rows are
//! counted separately, where they are written: under the order lock of their partition, whatever becomes of them there.
//! A watched row takes a few hundred bytes. If no row is watched, a write looks at one number.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use weir_model::parts::is_part;
use weir_model::{Batch, StoredKey};

/// The watched rows of a tenant, with the number of changes of each.
#[derive(Default)]
pub struct WatchedRows {
    /// The number of rows in `rows`.
    len: AtomicUsize,
    rows: Mutex<BTreeMap<Box<[u8]>, WatchedRow>>,
}

#[derive(Default)]
struct WatchedRow {
    watchers: usize,
    changes: Arc<AtomicU64>,
}

impl WatchedRows {
    /// Watches the row of `key`, until the result is dropped. A writer that has found no row watched, and is about to
    /// write this one, is not counted: the caller waits for that writer before it looks at the row.
    pub fn watch(self: &Arc<Self>, key: &[u8]) -> RowWatch {
        let mut rows = self.rows.lock();
        let row = rows.entry(key.into()).or_default();
        row.watchers += 1;
        let changes = Arc::clone(&row.changes);
        self.len.store(rows.len(), Ordering::SeqCst);
        drop(rows);
        let since = changes.load(Ordering::Acquire);
        RowWatch { rows: Arc::clone(self), key: StoredKey::of(key), changes, since }
    }

    /// The rows of `batch` are being changed. The caller holds the order lock of their partition.
    #[inline]
    pub fn changed(&self, batch: &Batch) {
        if self.len.load(Ordering::SeqCst) > 0 {
            self.count(batch);
        }
    }

    /// A read has left out the newest change of the row of `key`, because it was refused. It may count all the same
    /// once the log is replaced, and for whoever has read the row it comes after that read.
    #[cold]
    pub fn may_change(&self, key: &[u8]) {
        if let Some(row) = self.rows.lock().get(key) {
            row.changes.fetch_add(1, Ordering::Release);
        }
    }

    #[cold]
    fn count(&self, batch: &Batch) {
        let rows = self.rows.lock();
        for row in batch.as_ref().iter().map(|change| change.key()).filter(|key| !is_part(key)) {
            if let Some(row) = rows.get(row) {
                row.changes.fetch_add(1, Ordering::Release);
            }
        }
    }
}

/// A row is watched while this exists.
pub struct RowWatch {
    rows: Arc<WatchedRows>,
    key: StoredKey,
    changes: Arc<AtomicU64>,
    since: u64,
}

impl RowWatch {
    /// Whether the row was changed since it has been watched, or may yet be changed by a refused write. For callers
    /// that keep others from writing to it.
    pub fn is_changed(&self) -> bool {
        self.changes.load(Ordering::Acquire) != self.since
    }
}

impl Drop for RowWatch {
    fn drop(&mut self) {
        let mut rows = self.rows.rows.lock();
        if let Some(row) = rows.get_mut(&self.key[..]) {
            row.watchers -= 1;
            if row.watchers == 0 {
                rows.remove(&self.key[..]);
            }
        }
        self.rows.len.store(rows.len(), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(rows: &WatchedRows, key: &[u8]) {
        let mut batch = Batch::new();
        batch.put(b"another", b"");
        batch.delete(key);
        rows.changed(&batch);
    }

    #[test]
    fn each_watcher_sees_what_comes_behind_it_and_nothing_is_left_in_the_end() {
        let rows = Arc::<WatchedRows>::default();
        write(&rows, b"k");
        let first = rows.watch(b"k");
        write(&rows, b"other");
        assert!(!first.is_changed(), "what it was before, and what others are");
        write(&rows, b"k");
        let second = rows.watch(b"k");
        assert!(first.is_changed() && !second.is_changed());
        drop(first);
        write(&rows, b"k");
        assert!(second.is_changed(), "it still watches");
        drop(second);
        assert!(rows.rows.lock().is_empty());
        assert_eq!(rows.len.load(Ordering::SeqCst), 0);
    }
}
