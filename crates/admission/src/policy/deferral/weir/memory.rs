//! What deferral keeps in memory (U-20): levels 0 and 1, in the block cache.
//!
//! What flushes write is always kept as far as there is room, because it is merged next. From 80 % of the cache on,
//! nothing more is kept of what merges write, and what they have written gives way to what flushes write. So what is
//! merged from then on leaves the cache together with its inputs, and the next merge reads it from the device. A full
//! cache does not end deferral (the other half of U-20's choice): compactions into level 1 would rewrite it for every
//! few runs while there is no bandwidth for that. Where level 0 then grows too long, the guard slows writes.

use crate::policy::sample::MemoryFacts;

/// Share of the cache from which nothing more is kept of what merges write, in percent.
const UNKEPT_PERCENT: u64 = 80;

/// Whether what merges write into levels 0 and 1 is kept.
pub fn merges_are_kept(memory: &MemoryFacts) -> bool {
    memory.upper_max.is_none_or(|max| memory.upper_used * 100 < max * UNKEPT_PERCENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_80_percent_of_the_cache_nothing_that_merges_write_is_kept() {
        let kept =
            |upper_used, upper_max| merges_are_kept(&MemoryFacts { upper_used, upper_max, ..MemoryFacts::default() });
        assert_eq!([0, 799, 800, 1000].map(|used| kept(used, Some(1000))), [true, true, false, false]);
        assert!(kept(9, None), "nobody counts");
    }
}
