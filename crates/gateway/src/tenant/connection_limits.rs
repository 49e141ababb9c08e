//! How many connections each tenant may have. A tenant that takes many must leave some to others, and to clients that
//! have not logged in yet (S13).
//!
//! 1. A tenth of the node's places is never a tenant's: clients log in through it. When all places are taken, the
//!    stranger who has been there longest makes room for a new one ([`crate::resp::client`]). A client that has a
//!    secret needs such a place only for milliseconds.
//! 2. A tenant with a limit of its own may have that many. A tenant without one may have nine times as many as are
//!    free. So a tenant that is alone gets nine tenths, each of three greedy tenants gets nine 28ths, and there is
//!    always one left for a tenant that has none. (A fixed share would be too small for one tenant alone or too large
//!    for many; these are the dynamic thresholds of Choudhury and Hahne, "Dynamic queue length thresholds", 1998.)

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

/// One place of this many is kept for strangers.
const ONE_FOR_STRANGERS: usize = 10;
/// A tenant without a limit may have this many times as many places as are free.
const TIMES_FREE: usize = 9;

/// The places that tenants may have, of all that a node has.
pub(crate) struct ConnectionLimits {
    max: usize,
    taken: Mutex<usize>,
}

impl ConnectionLimits {
    /// The limits of a node that takes `connections_max` connections.
    pub(crate) fn new(connections_max: usize) -> Arc<Self> {
        let strangers = connections_max.div_ceil(ONE_FOR_STRANGERS);
        // If there is only one place, whoever comes first gets it.
        Arc::new(Self { max: (connections_max - strangers).max(1), taken: Mutex::new(0) })
    }

    /// Takes a place for a tenant that has `own` places and may have `limit` (0 = not limited). `false` if it may not
    /// have one more.
    pub(super) fn take(&self, own: &AtomicUsize, limit: usize) -> bool {
        let mut taken = self.taken.lock();
        let free = self.max.saturating_sub(*taken);
        let most = if limit == 0 { free.saturating_mul(TIMES_FREE) } else { limit };
        let may = free > 0 && own.load(Relaxed) < most;
        if may {
            *taken += 1;
            own.fetch_add(1, Relaxed);
        }
        may
    }

    /// Gives one of the tenant's `own` places back.
    pub(super) fn give_back(&self, own: &AtomicUsize) {
        *self.taken.lock() -= 1;
        own.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many places the tenants get that take them in turn until nobody may have more, each within its limit.
    fn greedy<const N: usize>(places: &ConnectionLimits, limits: [usize; N]) -> [usize; N] {
        let own: [AtomicUsize; N] = std::array::from_fn(|_| AtomicUsize::new(0));
        while own.iter().zip(limits).fold(false, |any, (own, limit)| any | places.take(own, limit)) {}
        own.map(AtomicUsize::into_inner)
    }

    /// Whether a new tenant gets a place.
    fn admits(places: &ConnectionLimits) -> bool {
        places.take(&AtomicUsize::new(0), 0)
    }

    #[test]
    fn s13_there_is_a_place_left_for_who_has_none() {
        let places = ConnectionLimits::new(10_000);
        assert_eq!(greedy(&places, [0]), [8100]);
        assert!(admits(&places), "another's first");
        let places = ConnectionLimits::new(10_000);
        let own = greedy(&places, [0; 3]);
        assert!(own.iter().all(|own| (2890..=2895).contains(own)), "{own:?}");
        let places = ConnectionLimits::new(10_000);
        let own = greedy(&places, [0; 100]);
        assert!(own.iter().all(|own| (89..=90).contains(own)) && admits(&places), "{own:?}");
    }

    #[test]
    fn s13_an_own_limit_holds_as_long_as_there_are_places() {
        let places = ConnectionLimits::new(1000);
        assert_eq!(greedy(&places, [300, 0, 2]), [300, 539, 2]);
        assert_eq!(greedy(&ConnectionLimits::new(1000), [5000]), [900], "never those of strangers");
        let places = ConnectionLimits::new(1);
        let own = AtomicUsize::new(0);
        assert!(places.take(&own, 0) && !admits(&places));
        places.give_back(&own);
        assert!(admits(&places) && own.into_inner() == 0);
    }
}
