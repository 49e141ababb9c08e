//! Reading.

use weir_io::Class;
use weir_model::engine::{Lookup, Range, Reads, Records, Scan, Seq, Snapshot};

use super::Tree;
use crate::memtable::PREFETCHED_MAX;
use crate::read::get;
use crate::read::scan::TreeWalk;
use crate::table::{Caching, CursorOptions};

/// The most bytes that a scan reads ahead. One device round trip brings some 60 rows of 1 KB.
const SCAN_READAHEAD_BYTES: usize = 64 << 10;

impl Tree {
    /// Calls `at` for the sequence number only once the view is loaded.
    fn scan_at(&self, range: Range, class: Class, at: impl FnOnce() -> Seq) -> Scan {
        let view = self.view.load_full();
        let options = CursorOptions { class, readahead_bytes: SCAN_READAHEAD_BYTES, caching: Caching::Fill };
        Scan::new(TreeWalk::new(&view, range, at(), self.env.clock.unix_ms(), options))
    }
}

impl Reads for Tree {
    fn get(&self, key: &[u8], snapshot: Option<&Snapshot>) -> Lookup {
        let view = self.view.load();
        let at = snapshot.map_or_else(|| self.published(), Snapshot::seq);
        get::get(&view, key, at)
    }

    fn get_latest(&self, key: &[u8]) -> Lookup {
        let view = self.view.load();
        get::get_version(&view, key, self.applied_seq())
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Vec<Lookup> {
        let view = self.view.load_full();
        let at = self.published();
        // A few at a time: cache lines fetched for a thousand keys would be evicted again before they are read.
        let reads = keys.chunks(PREFETCHED_MAX).flat_map(|keys| {
            get::prefetch(&view, keys);
            keys.iter().map(|key| get::get(&view, key, at))
        });
        reads.collect()
    }

    fn prefetch(&self, keys: &[&[u8]]) {
        get::prefetch(&self.view.load(), keys);
    }

    fn scan(&self, range: Range, snapshot: Option<&Snapshot>) -> Scan {
        self.scan_at(range, Class::Read, || snapshot.map_or_else(|| self.published(), Snapshot::seq))
    }

    fn scan_in_background(&self, range: Range) -> Scan {
        self.scan_at(range, Class::Maintenance, || self.published())
    }

    fn scan_latest(&self, range: Range) -> Scan {
        self.scan_at(range, Class::Read, || self.applied_seq())
    }

    fn holds_heads(&self) -> bool {
        get::holds_heads(&self.view.load())
    }

    fn may_hold_head(&self, key: &[u8]) -> bool {
        get::may_hold_head(&self.view.load(), key)
    }

    fn snapshot(&self) -> Snapshot {
        self.snapshots.take(|| self.published())
    }
}
