//! Tokens that are taken out of a bucket ahead of need, so that passing far below a limit costs one atomic step: no
//! lock, no clock.
//!
//! The bucket's lock rules. Its holder, before looking at the bucket, takes back what is left in the reserve
//! ([`Reserve::reclaim`]). There is never anything in reserve while somebody waits. Tokens leave the bucket when they
//! are put in reserve, and count against the bucket's capacity until they are taken back ([`crate::Bucket::lend`]). So
//! bucket and reserve together never hold more than the bucket alone would. They may hold less, by no more than the
//! reserve: tokens that would have come back since they were spent from it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Tokens and operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Handful {
    pub(crate) tokens: u64,
    pub(crate) ops: u64,
}

/// Operations are counted above this bit, tokens below.
const OPS_SHIFT: u32 = 40;
const TOKENS: u64 = (1 << OPS_SHIFT) - 1;

impl Handful {
    /// As much as fits, where nothing is limited.
    pub(crate) const MOST: Handful = Handful { tokens: TOKENS, ops: u64::MAX >> OPS_SHIFT };

    fn pack(self) -> u64 {
        self.ops << OPS_SHIFT | self.tokens
    }

    fn unpack(packed: u64) -> Self {
        Self { tokens: packed & TOKENS, ops: packed >> OPS_SHIFT }
    }
}

/// A reserve of tokens and operations. Its atomic accesses are relaxed throughout: it is one number, and says nothing
/// about any other memory.
#[derive(Debug, Default)]
pub(crate) struct Reserve(AtomicU64);

impl Reserve {
    /// Takes `tokens` and `ops` if both are there. An empty reserve does not even give zero tokens: then the caller has
    /// to take the lock.
    #[inline]
    pub(crate) fn try_take(&self, tokens: u64, ops: u64) -> bool {
        let mut left = self.0.load(Relaxed);
        loop {
            if left == 0 || left & TOKENS < tokens || left >> OPS_SHIFT < ops {
                return false;
            }
            match self.0.compare_exchange_weak(left, left - (ops << OPS_SHIFT | tokens), Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => left = now,
            }
        }
    }

    /// Whether anything is there. If so, nobody waits, and nothing is owed.
    #[inline]
    pub(crate) fn is_filled(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    /// Takes back what is left. To be called under the bucket's lock.
    pub(crate) fn reclaim(&self) -> Handful {
        if !self.is_filled() {
            return Handful::default();
        }
        Handful::unpack(self.0.swap(0, Relaxed))
    }

    /// Fills the reserve, which was reclaimed before. To be called under the bucket's lock.
    pub(crate) fn fill(&self, handful: Handful) {
        debug_assert!(handful.tokens <= Handful::MOST.tokens && handful.ops <= Handful::MOST.ops);
        self.0.store(handful.pack(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_is_there_and_not_more() {
        let reserve = Reserve::default();
        assert!(!reserve.try_take(0, 1) && !reserve.try_take(1, 0) && !reserve.try_take(0, 0));
        reserve.fill(Handful { tokens: 10, ops: 3 });
        assert!(reserve.try_take(4, 1) && !reserve.try_take(7, 1) && reserve.try_take(0, 2));
        assert!(!reserve.try_take(0, 1) && reserve.try_take(1, 0) && !reserve.try_take(u64::MAX, 0));
        assert_eq!(reserve.reclaim(), Handful { tokens: 5, ops: 0 });
        assert_eq!(reserve.reclaim(), Handful::default());
        reserve.fill(Handful::MOST);
        assert!(reserve.try_take(TOKENS, 1) && !reserve.try_take(1, 1));
        assert_eq!(reserve.reclaim(), Handful { tokens: 0, ops: Handful::MOST.ops - 1 });
    }
}
