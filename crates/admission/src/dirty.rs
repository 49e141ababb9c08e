//! What a write through the page cache costs the device.
//!
//! The kernel writes whole pages, once for each time a page becomes dirty: a hundred small records appended to one page between
//! two syncs are one page for the device, and one record alone is a page too. Its own accounting (`write_bytes`) counts the same
//! way, at the moment a clean page becomes dirty.

use std::ops::Range;

use parking_lot::Mutex;
use weir_io::PAGE;

/// The pages of one file that are dirty, as far as this handle made them so.
///
/// One range is enough: files that are not written directly are appended to. A write far from the range counts in full and starts
/// another, so that a wrong guess books a page too much, never a byte too few.
#[derive(Debug, Default)]
pub(crate) struct DirtyPages(Mutex<Range<u64>>);

impl DirtyPages {
    /// Bytes of the pages that a write of `len` bytes at `offset` makes dirty.
    pub(crate) fn touch(&self, offset: u64, len: u64) -> u64 {
        if len == 0 {
            return 0;
        }
        let page = PAGE as u64;
        let (start, end) = (offset / page, (offset + len).div_ceil(page));
        let mut dirty = self.0.lock();
        let apart = end < dirty.start || start > dirty.end || dirty.is_empty();
        if apart {
            *dirty = start..end;
            return (end - start) * page;
        }
        let before = dirty.end - dirty.start;
        *dirty = dirty.start.min(start)..dirty.end.max(end);
        (dirty.end - dirty.start - before) * page
    }

    /// A sync begins: whatever is written from now on makes its page dirty again.
    pub(crate) fn clean(&self) {
        *self.0.lock() = 0..0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_counts_once_between_two_syncs() {
        let file = DirtyPages::default();
        let counted: Vec<u64> = [(0, 100), (100, 100), (200, 3896), (4096, 1), (4097, 8192)]
            .map(|(offset, len)| file.touch(offset, len) / PAGE as u64)
            .into();
        assert_eq!(counted, [1, 0, 0, 1, 2]);
        file.clean();
        assert_eq!(file.touch(12_289, 1), PAGE as u64, "the last page again");
        assert_eq!(file.touch(12_290, 0), 0);
    }

    #[test]
    fn a_write_elsewhere_counts_in_full() {
        let file = DirtyPages::default();
        assert_eq!(file.touch(0, 4096), 4096);
        assert_eq!(file.touch(1 << 20, 8192), 8192);
        assert_eq!(file.touch((1 << 20) - 4096, 4096), 4096, "next to it, in front");
        assert_eq!(file.touch(1 << 20, 4096), 0);
    }
}
