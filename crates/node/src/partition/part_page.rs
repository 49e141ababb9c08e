//! A page of the parts of a row, taken from memory as far as possible: whoever holds the order lock releases it before
//! the device is asked for the rest.

use std::ops::Bound;

use weir_admission::Direction;
use weir_command::{PartCount, PartPage, PartRange, StoredParts};
use weir_io::Result;
use weir_model::engine::{Range, Scan, ScanStep, Seq};

use super::Partition;

/// Entries that a page looks at for each part that it may hold, as for a page of keys.
const LOOKS_PER_PART: usize = 10;
/// Entries that a page looks at, however few parts it is for: beginning a scan takes as long as looking at a dozen.
const LOOKS_MIN: usize = 128;
/// Parts that a page has room for from the beginning; it grows if there are more.
const ROOM_PARTS: usize = 64;
/// Bytes of entries after which a page ends.
const BYTES_MAX: u64 = 256 << 10;

/// The range of keys that a scan of the parts in `range` goes over.
pub(super) fn scan_range(range: &PartRange) -> Range {
    Range { from: Bound::Included(range.from.clone()), to: Bound::Excluded(range.to.clone()), reverse: range.reverse }
}

/// A page that is being filled.
pub(super) struct PageUnderWay {
    scan: Scan,
    range: PartRange,
    limit: usize,
    parts: StoredParts,
    /// How many parts it has met; if they are only counted, they are not among the parts.
    count: usize,
    only_counts: bool,
    bytes: u64,
    newest: Seq,
    /// Where the page ends, once it has as many parts as it may have.
    left: Option<Vec<u8>>,
}

impl PageUnderWay {
    /// A page of up to `limit` parts that `scan`, a scan of `range`, finds.
    pub fn new(scan: Scan, range: PartRange, limit: usize) -> Self {
        Self { parts: StoredParts::with_room_for(limit.clamp(1, ROOM_PARTS)), ..Self::begun(scan, range, limit) }
    }

    /// The same for a page that only [counts](PageUnderWay::end_count) them.
    pub fn counting(scan: Scan, range: PartRange, limit: usize) -> Self {
        Self { only_counts: true, ..Self::begun(scan, range, limit) }
    }

    fn begun(mut scan: Scan, range: PartRange, limit: usize) -> Self {
        let limit = limit.max(1);
        scan.set_budget(limit.saturating_mul(LOOKS_PER_PART).max(LOOKS_MIN), BYTES_MAX);
        scan.expect(limit);
        let parts = StoredParts::default();
        Self { scan, range, limit, parts, count: 0, only_counts: false, bytes: 0, newest: 0, left: None }
    }

    /// Takes what is in memory; `false` if something has to be [loaded](PageUnderWay::load) before it goes on.
    pub fn take(&mut self) -> bool {
        let Self { scan, range, limit, parts, count, only_counts, bytes, newest, left } = self;
        let step = scan.show(|entry| {
            *newest = entry.seq.max(*newest);
            *bytes += (entry.key.len() + entry.value.len()) as u64;
            if !*only_counts {
                parts.push(entry.key, entry.value);
            }
            *count += 1;
            let is_full = *count == *limit;
            if is_full {
                // The page does not look for the next part: there may be many dead ones in front of it.
                *left = Some(if range.reverse { entry.key.to_vec() } else { [entry.key, &[0]].concat() });
            }
            !is_full
        });
        step == ScanStep::Ready
    }

    /// Fetches what is not in memory.
    ///
    /// # Errors
    /// Errors of the disk; `Corruption` where stored data is damaged.
    pub async fn load(&mut self) -> Result<()> {
        self.scan.load().await
    }

    /// The end of a page that only counts, in the same way.
    pub fn end_count(self, partition: &Partition) -> (PartCount, Seq) {
        let count = self.count;
        let (page, newest) = self.end(partition);
        (PartCount { parts: count, ..page.into() }, newest)
    }

    /// The page, booked as read in `partition`; and the newest sequence number among its parts.
    pub fn end(self, partition: &Partition) -> (PartPage, Seq) {
        let Self { scan, range, parts, bytes, newest, left, .. } = self;
        let next = left.or_else(|| scan.stopped_at()).map(|left| match range.reverse {
            true => PartRange { to: left, ..range },
            false => PartRange { from: left, ..range },
        });
        partition.account.book_user(Direction::Read, bytes);
        (PartPage { parts, next, passed: scan.passed() }, newest)
    }
}
