//! Remembers wrong secrets: whoever guesses has to wait (S3).
//!
//! - After ten wrong secrets an address waits, whatever name it tries. Of an IPv6 address only the first 64 bits count,
//!   because its owner chooses the rest freely.
//! - After ten wrong secrets a name waits, wherever they came from, but only for addresses that have been wrong before.
//!   The first try from a clean address is always checked, so that no guesser can lock the owner out. A guesser with
//!   many addresses has one guess with each of them, not ten.
//!
//! A name that nobody has waits like a name that exists.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use weir_io::Nanos;

/// Wrong secrets before the first wait.
const FREE: u32 = 10;
/// The longest wait. Failures are remembered twice as long.
const WAIT_MAX: Nanos = 60 * SECOND;
const SECOND: Nanos = 1_000_000_000;
/// How many addresses and how many names are remembered. Beyond that, the one whose wait ends first is forgotten; among
/// several, the one whose last failure is the oldest.
const REMEMBERED_MAX: usize = 16 << 10;

/// A keyed hash of a name, so that long ones cost no more than short ones.
pub type NameHash = [u8; 32];

/// Failures by address and by name.
#[derive(Default)]
pub struct Failures {
    addresses: FailureCounts<IpAddr>,
    names: FailureCounts<NameHash>,
}

impl Failures {
    /// Nanoseconds until `address` may try a secret for `name`; `None` = now.
    pub fn wait(&self, address: IpAddr, name: &NameHash, now: Nanos) -> Option<Nanos> {
        let address = network(address);
        let by_name = || self.names.wait(name, now).filter(|_| self.addresses.has(&address, now));
        self.addresses.wait(&address, now).max(by_name())
    }

    /// Counts a wrong secret.
    pub fn add(&mut self, address: IpAddr, name: NameHash, now: Nanos) {
        self.addresses.add(network(address), now);
        self.names.add(name, now);
    }
}

/// The network that one owner of `address` controls.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::from(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

/// Every operation takes a number of steps logarithmic in [`REMEMBERED_MAX`], because guessers fill the table and
/// strangers wait behind them.
struct FailureCounts<K> {
    counts: BTreeMap<K, Count>,
    /// The same keys in the order in which they are forgotten.
    order: BTreeSet<(Nanos, Nanos, K)>,
}

impl<K> Default for FailureCounts<K> {
    fn default() -> Self {
        Self { counts: BTreeMap::new(), order: BTreeSet::new() }
    }
}

#[derive(Clone, Copy, Default)]
struct Count {
    wrong: u32,
    /// No secret is checked before this time.
    until: Nanos,
    last: Nanos,
}

impl Count {
    /// The key's place in the order of forgetting.
    fn place<K>(&self, key: K) -> (Nanos, Nanos, K) {
        (self.until, self.last, key)
    }

    fn is_forgotten(&self, now: Nanos) -> bool {
        now.saturating_sub(self.last) > 2 * WAIT_MAX
    }
}

impl<K: Ord + Copy> FailureCounts<K> {
    fn wait(&self, key: &K, now: Nanos) -> Option<Nanos> {
        self.counts.get(key).map(|count| count.until.saturating_sub(now)).filter(|&wait| wait > 0)
    }

    fn has(&self, key: &K, now: Nanos) -> bool {
        self.counts.get(key).is_some_and(|count| !count.is_forgotten(now))
    }

    fn add(&mut self, key: K, now: Nanos) {
        let known = self.counts.get(&key).copied();
        if let Some(known) = known {
            self.order.remove(&known.place(key));
        } else if self.counts.len() >= REMEMBERED_MAX
            && let Some((.., first)) = self.order.pop_first()
        {
            self.counts.remove(&first);
        }
        let mut count = known.filter(|count| !count.is_forgotten(now)).unwrap_or_default();
        count.wrong = count.wrong.saturating_add(1);
        count.last = now;
        if let Some(beyond) = count.wrong.checked_sub(FREE) {
            count.until = now + (SECOND << beyond.min(6)).min(WAIT_MAX);
        }
        self.counts.insert(key, count);
        self.order.insert(count.place(key));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::cmp::Ordering;

    use super::*;

    const NAME: NameHash = [7; 32];

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn s3_an_address_waits_longer_and_longer_and_is_forgiven() {
        let (mut failures, mut now) = (Failures::default(), 5);
        (0..9).for_each(|_| failures.add(address(1), NAME, now));
        assert_eq!(failures.wait(address(1), &NAME, now), None);
        for expected in [1, 2, 4, 8, 16, 32, 60, 60] {
            failures.add(address(1), NAME, now);
            assert_eq!(failures.wait(address(1), &[8; 32], now), Some(expected * SECOND), "whatever the name");
            now += expected * SECOND;
            assert_eq!(failures.wait(address(1), &NAME, now), None);
        }
        now += 3 * WAIT_MAX;
        failures.add(address(1), NAME, now);
        assert_eq!(failures.wait(address(1), &NAME, now), None, "it was long ago");
    }

    #[test]
    fn s3_a_name_waits_for_all_who_were_wrong_and_for_nobody_else() {
        let mut failures = Failures::default();
        // Ten addresses make one guess each.
        (0..10).for_each(|last| failures.add(address(last), NAME, 0));
        for guesser in 0..10 {
            assert_eq!(failures.wait(address(guesser), &NAME, 0), Some(SECOND));
            assert_eq!(failures.wait(address(guesser), &[8; 32], 0), None, "another name is another matter");
        }
        assert_eq!(failures.wait(address(99), &NAME, 0), None, "the owner comes from a clean address");
        // A hundred more fresh addresses get one guess each, not ten.
        for last in 100..200 {
            assert_eq!(failures.wait(address(last), &NAME, 0), None);
            failures.add(address(last), NAME, 0);
            assert!(failures.wait(address(last), &NAME, 0).is_some());
        }
    }

    #[test]
    fn s3_whoever_has_a_network_is_one_guesser() {
        let mut failures = Failures::default();
        let address = |text: &str| text.parse().expect("an address");
        (0..10).for_each(|last| failures.add(address(&format!("2001:db8:0:1::{last}")), NAME, 0));
        assert_eq!(failures.wait(address("2001:db8:0:1:ffff::1"), &[8; 32], 0), Some(SECOND));
        assert_eq!(failures.wait(address("2001:db8:0:2::1"), &[8; 32], 0), None);
        (0..10).for_each(|_| failures.add(address("::ffff:10.0.0.1"), NAME, 0));
        assert_eq!(
            failures.wait(address("10.0.0.1"), &[8; 32], 0),
            Some(SECOND),
            "the same address, written otherwise"
        );
        assert_eq!(failures.wait(address("10.0.0.2"), &[8; 32], 0), None);
    }

    /// A key that counts how often this thread compares one.
    #[derive(Clone, Copy, PartialEq, Eq)]
    struct Counted(u32);

    thread_local!(static COMPARED: Cell<usize> = const { Cell::new(0) });

    impl Ord for Counted {
        fn cmp(&self, other: &Self) -> Ordering {
            COMPARED.set(COMPARED.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Counted {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    #[test]
    fn a_wrong_secret_costs_few_steps_however_many_are_remembered() {
        let mut failures = FailureCounts::default();
        let mut most = 0;
        for i in 0..2 * REMEMBERED_MAX as u32 {
            let before = COMPARED.get();
            // All failures are at the same moment, so places in the order differ by their keys alone and every step is
            // counted.
            failures.add(Counted(i.wrapping_mul(0x9e37_79b9)), 5);
            most = most.max(COMPARED.get() - before);
        }
        assert_eq!((failures.counts.len(), failures.order.len()), (REMEMBERED_MAX, REMEMBERED_MAX));
        assert!(most < 400, "{most} comparisons for one");
    }

    #[test]
    fn who_waits_is_remembered_longest() {
        let mut failures = FailureCounts::default();
        (0..10).for_each(|_| failures.add(0, 1));
        failures.add(1, 2);
        for key in 2..2 + REMEMBERED_MAX as u32 {
            failures.add(key, u64::from(key) + 1);
        }
        assert!(failures.wait(&0, 5).is_some() && failures.has(&0, 5));
        assert!(
            !failures.has(&1, 5) && !failures.has(&2, 5) && failures.has(&3, 5),
            "the oldest of the others are not"
        );
        assert_eq!((failures.counts.len(), failures.order.len()), (REMEMBERED_MAX, REMEMBERED_MAX));
    }
}
