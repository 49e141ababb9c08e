//! Which versions of a key a merge may forget.
//!
//! Snapshots cut the sequence numbers into stripes: everything at or before the oldest snapshot is stripe 0, everything
//! between it and the next is stripe 1, and so on. No read can tell two versions of one stripe apart except that the
//! newer hides the older. So of each key the newest version of each stripe is kept, and nothing else.

use weir_model::engine::{Entry, Seq};

/// Decides entry by entry, in the tree's order.
pub struct Retention {
    /// Sequence numbers that reads may be made at, ascending.
    horizons: Vec<Seq>,
    key: Vec<u8>,
    /// Stripe of the last version kept of `key`; `None` before the first entry.
    stripe: Option<usize>,
}

/// What a merge may do with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A newer version in the same stripe hides it: forget it.
    Shadowed,
    /// Some read can see it.
    Visible {
        /// Every read that can be made sees it or something newer: a tombstone without anything below can go.
        oldest: bool,
    },
}

impl Retention {
    /// `horizons`: the snapshots and the newest published sequence number, in any order.
    pub fn new(mut horizons: Vec<Seq>) -> Self {
        horizons.sort_unstable();
        horizons.dedup();
        Self { horizons, key: Vec::new(), stripe: None }
    }

    /// Whether `key` is that of the entry last judged.
    pub fn is_same_key(&self, key: &[u8]) -> bool {
        self.stripe.is_some() && self.key == key
    }

    /// The verdict on the next entry.
    pub fn judge(&mut self, entry: &Entry<'_>) -> Verdict {
        let stripe = self.horizons.partition_point(|&horizon| horizon < entry.seq);
        if self.is_same_key(entry.key) {
            // Beyond the newest horizon every version stays: a snapshot may yet be taken between any two of them.
            if self.stripe == Some(stripe) && stripe < self.horizons.len() {
                return Verdict::Shadowed;
            }
        } else {
            self.key.clear();
            self.key.extend_from_slice(entry.key);
        }
        self.stripe = Some(stripe);
        Verdict::Visible { oldest: stripe == 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_model::engine::Kind;

    fn judge(horizons: &[Seq], versions: &[Seq]) -> Vec<Seq> {
        let mut retention = Retention::new(horizons.to_vec());
        let entry = |seq| Entry { key: b"k", seq, kind: Kind::Put, expire_at_ms: 0, value: b"" };
        versions.iter().copied().filter(|&seq| retention.judge(&entry(seq)) != Verdict::Shadowed).collect()
    }

    #[test]
    fn one_version_a_stripe_stays() {
        assert_eq!(judge(&[100], &[9, 7, 3]), [9]);
        assert_eq!(judge(&[5, 100], &[9, 7, 5, 3]), [9, 5]);
        assert_eq!(
            judge(&[8], &[10, 9, 7, 3]),
            [10, 9, 7],
            "9 and 10 are not published yet: readers will come for each"
        );
    }

    proptest! {
        /// Whatever is dropped, a read at any horizon sees what it saw before.
        #[test]
        fn no_horizon_sees_a_difference(
            horizons in proptest::collection::vec(1_u64..50, 1..5),
            versions in proptest::collection::btree_set(1_u64..60, 0..30),
        ) {
            let versions: Vec<Seq> = versions.into_iter().rev().collect();
            let kept = judge(&horizons, &versions);
            let newest = horizons.iter().max().copied().unwrap_or(0);
            // Every horizon, and every later moment at which a snapshot may still be taken.
            for at in horizons.iter().copied().chain(newest..61) {
                prop_assert_eq!(versions.iter().find(|&&seq| seq <= at), kept.iter().find(|&&seq| seq <= at));
            }
        }
    }
}
