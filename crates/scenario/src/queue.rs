//! A partition's queue of writes, open loop: every write has a time of its own, whatever happened to the one before,
//! and is measured from that time.
//!
//! The same in every world: a simulated or a real node whose callers wait, or a store whose callers block.

use std::future::Future;

use parking_lot::Mutex;
use weir_io::{Nanos, Rng};

use crate::by_state::DONE;
use crate::choice::Choice;
use crate::data::{Sizes, fill};
use crate::pattern::Schedule;
use crate::tally::Tally;

/// The store of one partition, and the time it lives in.
pub trait Target: Sync {
    /// Why a write failed.
    type Failure: Send;

    /// The time now.
    fn now(&self) -> Nanos;

    /// Waits until `at`, unless that has passed.
    fn wait_until(&self, at: Nanos) -> impl Future<Output = ()> + Send;

    /// Stores one pair; the future is done when the write is acknowledged.
    fn put(&self, key: &[u8], value: &[u8]) -> impl Future<Output = Result<(), Self::Failure>> + Send;

    /// Whether the store is ready, and need not be woken first.
    fn is_awake(&self) -> bool {
        true
    }

    /// Whether nobody needs another operation.
    fn is_over(&self) -> bool {
        false
    }
}

/// A queue of writes: new values of items that exist.
pub struct Queue<'a> {
    /// The partition's number, from 0.
    pub partition: usize,
    /// Which items are written.
    pub choice: &'a Choice,
    /// How long their values are.
    pub sizes: Sizes,
    /// When writes are to be sent.
    pub times: Schedule,
    /// A write that was not sent by then was not served.
    pub until: Nanos,
    /// Where writes are counted.
    pub tally: &'a Mutex<Tally>,
}

/// What a queue has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Writes that were to be sent.
    pub all: u64,
    /// Writes that were done within 10 ms ([`DONE`]).
    pub done: u64,
    /// The same, less the time by which a sender that had nothing to do until then woke up late: the machine is to
    /// blame for that, or whoever took its processors.
    pub done_awake: u64,
}

impl Queue<'_> {
    /// Sends all writes to `target`.
    ///
    /// # Errors
    /// The error of the first write that fails; no more are sent.
    pub async fn send<T: Target>(self, target: &T, mut rng: Rng) -> Result<Sent, T::Failure> {
        let mut sent = Sent::default();
        let mut longest = vec![0; self.sizes.value_bytes_max()];
        // By how much the first of the writes that now stand in the queue came too late.
        let mut overslept = 0;
        for at in self.times {
            if target.now() < at {
                target.wait_until(at).await;
                overslept = target.now() - at;
            }
            sent.all += 1;
            if target.now() >= self.until || target.is_over() {
                let (is_awake, waited) = (target.is_awake(), target.now() - at);
                let mut tally = self.tally.lock();
                tally.wrote(self.partition, waited, false);
                tally.by_state.note(is_awake, waited, false);
                continue;
            }
            let item = self.choice.draw(&mut rng);
            let value = &mut longest[..self.sizes.value_bytes(item)];
            fill(value, &mut rng);
            let is_awake = target.is_awake();
            target.put(&self.sizes.key(item), value).await?;
            self.choice.is_stored(item);
            let waited = target.now() - at;
            sent.done += u64::from(waited <= DONE);
            sent.done_awake += u64::from(waited.saturating_sub(overslept) <= DONE);
            let mut tally = self.tally.lock();
            tally.wrote(self.partition, waited, true);
            tally.by_kind.note(self.choice.kind_of_write(), waited);
            tally.by_state.note(is_awake, waited, true);
        }
        Ok(sent)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_io::sim::Sim;
    use weir_io::{Clock, sleep_until};

    use super::*;

    const MS: Nanos = 1_000_000;

    /// A store whose writes take as long as it is told, and whose sender wakes up late.
    struct Slow {
        clock: Arc<dyn Clock>,
        takes: Vec<Nanos>,
        oversleeps: Nanos,
        puts: Mutex<Vec<Nanos>>,
    }

    impl Target for Slow {
        type Failure = &'static str;

        fn now(&self) -> Nanos {
            self.clock.now()
        }

        async fn wait_until(&self, at: Nanos) {
            sleep_until(&self.clock, at + self.oversleeps).await;
        }

        async fn put(&self, _key: &[u8], _value: &[u8]) -> Result<(), &'static str> {
            let nth = self.puts.lock().len();
            let takes = *self.takes.get(nth).ok_or("no more")?;
            self.puts.lock().push(self.now());
            sleep_until(&self.clock, self.now() + takes).await;
            Ok(())
        }
    }

    /// Three writes in 0.3 s, one in each tenth of a second.
    fn send(takes: &[Nanos], oversleeps: Nanos, until: Nanos) -> (Result<Sent, &'static str>, Vec<Nanos>, Tally) {
        let sim = Sim::new(1);
        let target = Slow { clock: sim.clock(), takes: takes.to_vec(), oversleeps, puts: Mutex::default() };
        let tally = Mutex::new(Tally::new(1, 0));
        let times = Schedule::of(0, 300 * MS, [(0, 10.0)].into(), Rng::new(1));
        let (choice, sizes) = (Choice::Uniform(10), Sizes::Same(24));
        let queue = Queue { partition: 0, choice: &choice, sizes, times, until, tally: &tally };
        let outcome = sim.block_on(queue.send(&target, Rng::new(2)));
        (outcome, target.puts.into_inner(), tally.into_inner())
    }

    #[test]
    fn a_write_behind_a_slow_one_is_late_by_its_own_time() {
        let (outcome, puts, tally) = send(&[350 * MS, 0, 0], 0, 1_000 * MS);
        assert_eq!((puts[1], puts[2]), (puts[0] + 350 * MS, puts[0] + 350 * MS), "they stand in one queue");
        let sent = outcome.expect("nothing fails");
        assert_eq!((sent.all, sent.done_awake), (3, 0));
        assert_eq!(tally.partitions, [(3, 0)]);
        let (outcome, ..) = send(&[0, 0, 0], 0, 1_000 * MS);
        assert_eq!(outcome, Ok(Sent { all: 3, done: 3, done_awake: 3 }));
    }

    #[test]
    fn a_sender_that_wakes_up_late_is_told_from_a_slow_store() {
        let (outcome, ..) = send(&[0, 0, 0], 15 * MS, 1_000 * MS);
        assert_eq!(outcome, Ok(Sent { all: 3, done: 0, done_awake: 3 }));
    }

    #[test]
    fn what_was_not_sent_in_time_was_not_served_and_a_failure_ends_the_queue() {
        let (outcome, puts, tally) = send(&[400 * MS, 0, 0], 0, 300 * MS);
        assert_eq!((outcome.map(|sent| sent.all), puts.len()), (Ok(3), 1));
        assert_eq!((tally.partitions, tally.done_now.0), (vec![(3, 0)], 1));
        let (outcome, puts, _) = send(&[0], 0, 1_000 * MS);
        assert_eq!((outcome, puts.len()), (Err("no more"), 1));
    }
}
