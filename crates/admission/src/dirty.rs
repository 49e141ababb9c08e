//! The cost of a write through the page cache to the device.
//!
//! The kernel writes whole pages, once for each time that a page becomes dirty. A hundred small records that are
//! appended to one page between two syncs are one page for the device, and so is one record alone. The kernel's own
//! accounting (`write_bytes`) counts the same way, at the moment when a clean page becomes dirty.

use std::ops::Range;

use parking_lot::Mutex;
use weir_io::PAGE;

/// The pages that a write makes dirty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dirtied {
    /// Bytes of the pages that were clean.
    pub(crate) bytes: u64,
    /// 1 if these pages are a run of their own, which the device writes as one operation; 0 if they lengthen a run, or
    /// there are none.
    pub(crate) runs: u64,
}

/// The dirty pages of one file, as far as this handle made them dirty.
///
/// One range is enough: files that are not written directly are only appended to. A write far from the range counts in
/// full and starts another range, so that a wrong guess books a page too much, never a byte too few.
#[derive(Debug, Default)]
pub(crate) struct DirtyPages(Mutex<Range<u64>>);

impl DirtyPages {
    /// Takes in a write of `len` bytes at `offset`, and gives the pages that it makes dirty.
    pub(crate) fn touch(&self, offset: u64, len: u64) -> Dirtied {
        if len == 0 {
            return Dirtied::default();
        }
        let page = PAGE as u64;
        let (start, end) = (offset / page, (offset + len).div_ceil(page));
        let mut dirty = self.0.lock();
        let apart = end < dirty.start || start > dirty.end || dirty.is_empty();
        if apart {
            *dirty = start..end;
            return Dirtied { bytes: (end - start) * page, runs: 1 };
        }
        let before = dirty.end - dirty.start;
        *dirty = dirty.start.min(start)..dirty.end.max(end);
        Dirtied { bytes: (dirty.end - dirty.start - before) * page, runs: 0 }
    }

    /// Takes in that a sync begins: a write from now on makes its page dirty again.
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
        let counted: Vec<(u64, u64)> = [(0, 100), (100, 100), (200, 3896), (4096, 1), (4097, 8192)]
            .map(|(offset, len)| file.touch(offset, len))
            .map(|dirtied| (dirtied.bytes / PAGE as u64, dirtied.runs))
            .into();
        assert_eq!(counted, [(1, 1), (0, 0), (0, 0), (1, 0), (2, 0)], "appended to: one run");
        file.clean();
        assert_eq!(file.touch(12_289, 1), Dirtied { bytes: PAGE as u64, runs: 1 }, "the last page again");
        assert_eq!(file.touch(12_290, 0), Dirtied::default());
    }

    #[test]
    fn a_write_elsewhere_counts_in_full() {
        let file = DirtyPages::default();
        assert_eq!(file.touch(0, 4096), Dirtied { bytes: 4096, runs: 1 });
        assert_eq!(file.touch(1 << 20, 8192), Dirtied { bytes: 8192, runs: 1 });
        assert_eq!(file.touch((1 << 20) - 4096, 4096), Dirtied { bytes: 4096, runs: 0 }, "next to it, in front");
        assert_eq!(file.touch(1 << 20, 4096), Dirtied::default());
    }
}
