//! A queue of rows by the moment at which they expire: the next ones, as far as there is room.
//!
//! Rows for which there is no room are forgotten, the latest first. The queue then knows from which moment on some may
//! be missing, and that it [lacks](ExpiryQueue::lacks) them when half of what it had is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The size of the queue at most: some 30,000 short keys.
pub(crate) const QUEUE_BYTES_MAX: usize = 4 << 20;
/// What a row takes in addition to its key: a place in each of two trees, and a count of references.
const ROW_BYTES: usize = 112;

/// The rows that expire next, by time and by key.
pub(crate) struct ExpiryQueue {
    deadlines: BTreeMap<Arc<[u8]>, u64>,
    order: BTreeSet<(u64, Arc<[u8]>)>,
    bytes: usize,
    /// Rows that expire at this moment or later may be missing; `u64::MAX` = none is missing.
    missing_from_ms: u64,
}

impl Default for ExpiryQueue {
    fn default() -> Self {
        Self { deadlines: BTreeMap::new(), order: BTreeSet::new(), bytes: 0, missing_from_ms: u64::MAX }
    }
}

impl ExpiryQueue {
    /// When the first one expires.
    pub fn first_ms(&self) -> Option<u64> {
        self.order.first().map(|(deadline_ms, _)| *deadline_ms)
    }

    /// From now on the row of the stored key `row` expires at `deadline_ms`; `None` = it does not expire.
    pub fn set(&mut self, row: &[u8], deadline_ms: Option<u64>) {
        if let Some((row, before_ms)) = self.deadlines.remove_entry(row) {
            self.bytes -= ROW_BYTES + row.len();
            self.order.remove(&(before_ms, row));
        }
        let Some(deadline_ms) = deadline_ms.filter(|&deadline_ms| deadline_ms < self.missing_from_ms) else { return };
        let row = Arc::<[u8]>::from(row);
        self.bytes += ROW_BYTES + row.len();
        self.order.insert((deadline_ms, Arc::clone(&row)));
        self.deadlines.insert(row, deadline_ms);
        while self.bytes > QUEUE_BYTES_MAX
            && let Some((last_ms, row)) = self.order.pop_last()
        {
            self.bytes -= ROW_BYTES + row.len();
            self.deadlines.remove(&row);
            self.missing_from_ms = last_ms;
        }
    }

    /// The same for a row as it once was: what is known of it since then counts more.
    pub fn add(&mut self, row: &[u8], deadline_ms: u64) {
        if !self.deadlines.contains_key(row) {
            self.set(row, Some(deadline_ms));
        }
    }

    /// Takes out up to `limit` rows that have expired at `now_ms`.
    pub fn take_due(&mut self, now_ms: u64, limit: usize) -> Vec<Arc<[u8]>> {
        let mut due = Vec::new();
        while due.len() < limit && self.first_ms().is_some_and(|first_ms| first_ms <= now_ms) {
            let Some((_, row)) = self.order.pop_first() else { break };
            self.bytes -= ROW_BYTES + row.len();
            self.deadlines.remove(&row);
            due.push(row);
        }
        due
    }

    /// Whether rows are missing that will soon be among the next ones.
    pub fn lacks(&self) -> bool {
        self.missing_from_ms != u64::MAX && self.bytes <= QUEUE_BYTES_MAX / 2
    }

    /// From now on the caller adds all rows that may be missing.
    pub fn complete(&mut self) {
        self.missing_from_ms = u64::MAX;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row(number: u32) -> Vec<u8> {
        // Long enough that a few hundred keys fill the queue.
        [&number.to_be_bytes()[..], &[b'x'; 12_000]].concat()
    }

    #[test]
    fn rows_come_by_their_last_deadline() {
        let mut queue = ExpiryQueue::default();
        for (row, deadline_ms) in [(b"a", 30), (b"b", 20), (b"c", 10), (b"b", 40)] {
            queue.set(row, Some(deadline_ms));
        }
        queue.set(b"c", None);
        queue.add(b"a", 5);
        queue.add(b"d", 7);
        assert_eq!(queue.first_ms(), Some(7));
        assert!(queue.take_due(6, 10).is_empty());
        let due = |queue: &mut ExpiryQueue, now_ms, limit| {
            queue.take_due(now_ms, limit).iter().map(|row| row[0]).collect::<Vec<u8>>()
        };
        assert_eq!(due(&mut queue, 100, 2), b"da");
        assert_eq!(due(&mut queue, 100, 2), b"b");
        assert_eq!((queue.first_ms(), queue.bytes, queue.deadlines.len()), (None, 0, 0));
    }

    proptest! {
        /// Compared with a map without a limit: the rows in the queue are right, and all rows are there up to the
        /// moment from which some may be missing.
        #[test]
        fn all_are_there_until_some_may_be_missing(
            steps in prop::collection::vec((0_u32..600, prop::option::weighted(0.8, 1_u64..1_000), 0_u32..100), 1..900),
        ) {
            let (mut queue, mut all) = (ExpiryQueue::default(), BTreeMap::<u32, u64>::new());
            for (number, deadline_ms, dice) in steps {
                if dice == 0 {
                    let missing_ms = queue.missing_from_ms;
                    queue.complete();
                    for (&number, &deadline_ms) in all.iter().filter(|(_, deadline_ms)| **deadline_ms >= missing_ms) {
                        queue.add(&row(number), deadline_ms);
                    }
                }
                if dice == 1 {
                    let now_ms = u64::from(number);
                    for row in queue.take_due(now_ms, 50) {
                        let number = u32::from_be_bytes(row[..4].try_into().expect("four bytes"));
                        prop_assert!(all.remove(&number).is_some_and(|deadline_ms| deadline_ms <= now_ms));
                    }
                }
                queue.set(&row(number), deadline_ms);
                match deadline_ms {
                    Some(deadline_ms) => all.insert(number, deadline_ms),
                    None => all.remove(&number),
                };
                prop_assert!(queue.bytes <= QUEUE_BYTES_MAX);
            }
            let known: BTreeMap<Vec<u8>, u64> = queue.deadlines.iter().map(|(row, at)| (row.to_vec(), *at)).collect();
            prop_assert_eq!(queue.order.len(), known.len());
            for (number, deadline_ms) in all {
                let known_ms = known.get(&row(number)).copied();
                let may_miss = deadline_ms >= queue.missing_from_ms;
                prop_assert!(known_ms == Some(deadline_ms) || (known_ms.is_none() && may_miss));
            }
            let bytes: usize = known.keys().map(|row| ROW_BYTES + row.len()).sum();
            prop_assert_eq!(queue.bytes, bytes);
        }
    }
}
