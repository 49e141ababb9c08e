//! The part of a file that is in the page cache and not yet on the device. The kernel writes whole pages, each once
//! however many writes made it dirty: a record of 100 bytes is 4096 for the device.

use std::ops::Range;

use crate::PAGE;

/// The dirty pages of one file.
#[derive(Default)]
pub(super) struct DirtyPages {
    /// Page numbers. Ranges may overlap, except for the last one, which grows while a file is appended to.
    ranges: Vec<Range<u64>>,
}

impl DirtyPages {
    /// Records a write of `len` bytes at `offset`.
    pub(super) fn touch(&mut self, offset: u64, len: u64) {
        if len == 0 {
            return;
        }
        let (start, end) = (offset / PAGE as u64, (offset + len).div_ceil(PAGE as u64));
        match self.ranges.last_mut() {
            Some(last) if (last.start..=last.end).contains(&start) => last.end = last.end.max(end),
            _ => self.ranges.push(start..end),
        }
    }

    /// Records a sync: all pages are clean. Returns the bytes that the device has to write.
    pub(super) fn clean(&mut self) -> u64 {
        let mut ranges = std::mem::take(&mut self.ranges);
        ranges.sort_unstable_by_key(|range| range.start);
        let (mut pages, mut until) = (0, 0);
        for range in ranges {
            pages += range.end.saturating_sub(range.start.max(until));
            until = until.max(range.end);
        }
        pages * PAGE as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(writes: &[(u64, u64)]) -> u64 {
        let mut pages = DirtyPages::default();
        for &(offset, len) in writes {
            pages.touch(offset, len);
        }
        let bytes = pages.clean();
        assert_eq!(pages.clean(), 0, "a page is written once");
        bytes / PAGE as u64
    }

    #[test]
    fn a_page_is_written_whole_and_once() {
        assert_eq!(cleaned(&[]), 0);
        assert_eq!(cleaned(&[(0, 0)]), 0);
        assert_eq!(cleaned(&[(0, 1)]), 1);
        assert_eq!(cleaned(&[(4095, 2)]), 2);
        assert_eq!(cleaned(&[(0, 100), (100, 100), (200, 4000)]), 2, "appended");
        assert_eq!(cleaned(&[(0, 4096), (40960, 4096), (0, 8192), (4096, 1)]), 3, "here and there");
        assert_eq!(cleaned(&[(8192, 4096), (0, 40960)]), 10, "over what is dirty");
    }
}
