//! What deferral keeps in memory (U-20): levels 0 and 1, in the block cache.
//!
//! From 80 % of the cache on nothing more is kept of what is written, the newest going first: what is merged from then
//! on leaves the cache with its inputs. From 90 % on nobody enters stage two, and who has most in levels 0 and 1 leaves
//! it, one after the other.

use weir_io::Nanos;

use crate::policy::sample::MemoryFacts;

/// Share of the cache from which nothing more is kept, in percent …
const UNKEPT_PERCENT: u64 = 80;
/// … and from which stage two is left.
const FULL_PERCENT: u64 = 90;
/// Time between two that leave, in nanoseconds: what the first one frees is to be seen before the next goes.
const BETWEEN: Nanos = 10_000_000_000;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upper {
    percent: u64,
    left_at: Option<Nanos>,
}

impl Upper {
    /// Takes in what is kept.
    pub fn see(&mut self, memory: &MemoryFacts) {
        self.percent = memory.upper_max.map_or(0, |max| memory.upper_used * 100 / max.max(1));
    }

    /// Share of the cache, in percent.
    pub fn percent(self) -> u64 {
        self.percent
    }

    /// Whether what is written is kept.
    pub fn keeps(self) -> bool {
        self.percent < UNKEPT_PERCENT
    }

    /// Whether stage two may be entered.
    pub fn has_room(self) -> bool {
        self.percent < FULL_PERCENT
    }

    /// Whether one who is in stage two has to leave it now. He is taken to do so.
    pub fn one_leaves(&mut self, now: Nanos) -> bool {
        let leaves = !self.has_room() && self.left_at.is_none_or(|at| now - at >= BETWEEN);
        if leaves {
            self.left_at = Some(now);
        }
        leaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_80_percent_nothing_is_kept_and_from_90_one_leaves_every_ten_seconds() {
        let mut upper = Upper::default();
        let mut at = |second: u64, used: u64| {
            upper.see(&MemoryFacts { upper_used: used, upper_max: Some(1000), ..MemoryFacts::default() });
            (upper.keeps(), upper.has_room(), upper.one_leaves(second * 1_000_000_000))
        };
        assert_eq!([at(1, 0), at(2, 799)], [(true, true, false); 2]);
        assert_eq!([at(3, 800), at(4, 899)], [(false, true, false); 2]);
        assert_eq!([at(5, 900), at(6, 950), at(14, 950)].map(|(_, _, leaves)| leaves), [true, false, false]);
        assert_eq!([at(15, 950), at(40, 0)], [(false, false, true), (true, true, false)]);
        upper.see(&MemoryFacts { upper_used: 9, ..MemoryFacts::default() });
        assert!(upper.keeps(), "nobody counts");
    }
}
