//! Offsets of some of a segment's records: a reader that wants only a few records need not read everything in front of
//! them.

use weir_model::LogIndex;

/// Least bytes between two signposts: reading this much in vain in front of a record costs a tenth of a millisecond.
const APART_BYTES: u64 = 64 << 10;

/// Indexes of records and their offsets in the segment, both rising.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signposts(Vec<(LogIndex, u64)>);

impl Signposts {
    /// Notes that record `index` stands at `offset`.
    pub fn note(&mut self, index: LogIndex, offset: u64) {
        if self.0.last().is_none_or(|&(_, last)| offset >= last + APART_BYTES) {
            self.0.push((index, offset));
        }
    }

    /// The last noted record at or in front of record `index`, and its offset.
    pub fn before(&self, index: LogIndex) -> Option<(LogIndex, u64)> {
        let behind = self.0.partition_point(|&(known, _)| known <= index);
        self.0.get(behind.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signpost_is_the_last_one_in_front() {
        let mut signposts = Signposts::default();
        assert_eq!(signposts.before(9), None);
        for index in 10..1_000 {
            signposts.note(index, 4_096 + (index - 10) * 1_024);
        }
        assert_eq!(signposts.0.len(), 990_usize.div_ceil(64));
        assert_eq!((signposts.before(9), signposts.before(10)), (None, Some((10, 4_096))));
        assert_eq!(signposts.before(73), Some((10, 4_096)));
        assert_eq!(signposts.before(74), Some((74, 4_096 + (64 << 10))));
        assert_eq!(signposts.before(5_000), Some((970, 4_096 + (960 << 10))));
    }
}
