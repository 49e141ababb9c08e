//! One pool of bandwidth for reads and writes, as most rented disks have it.
//!
//! The kernel limits each direction by itself. No fixed split is fair to contestants of which one reads half of what it
//! moves and another hardly anything. So a thread divides the pool anew whenever demand has changed, in proportion to
//! what waits or was asked for in each direction. A disk with one queue would serve them like that.
//!
//! When a limit is set anew the kernel lets a whole slice (0.1 s) pass at once, whatever passed before. With twenty
//! divisions a second a contestant moved twice what it should. So limits are set seldom, and what passed beyond the
//! pool is a debt: the pool is smaller from then on until the debt is paid.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::{Caps, Throttle};
use crate::Result;
use crate::meter::Stopwatch;

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(100);
/// The least share of the pool that either direction has: bytes that come between two looks pass at this rate until the
/// next look.
const LEAST: f64 = 0.05;
/// A direction that used more than this share of its part may have wanted more.
const USED_UP: f64 = 0.9;
/// What such a direction is taken to have asked for beyond what it used, as a share of the pool: counters do not show
/// what waits. If both directions are used up, both are taken to want more, and the pool is divided evenly in the end.
const WANTS_MORE: f64 = 0.25;
/// What was asked for is an average over this time, in seconds.
const MEMORY: f64 = 1.0;
/// A debt is paid within this time, in seconds.
const PAID_WITHIN: f64 = 1.0;
/// The pool is never smaller than this share of itself, whatever is owed.
const LEAST_POOL: f64 = 0.25;
/// Limits are set anew when one of them changes by more than this share of the pool.
const STEP: f64 = 0.05;

/// Divides a pool until it is ended.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The thread, and the channel it listens to: the thread ends at once when the sender is dropped.
    running: Option<(Sender<()>, JoinHandle<Result<()>>)>,
}

impl Pool {
    /// Divides the two `caps` together from now on.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn start(throttle: Arc<Throttle>, caps: Caps) -> Result<Self> {
        let (sender, until) = mpsc::channel();
        let thread =
            thread::Builder::new().name("throttle-pool".into()).spawn(move || divide(&throttle, caps, &until))?;
        Ok(Self { running: Some((sender, thread)) })
    }

    /// Ends the division. The last limits stay.
    ///
    /// # Errors
    /// The error says what went wrong during the division.
    pub(crate) fn end(mut self) -> Result<()> {
        self.stop()
    }

    fn stop(&mut self) -> Result<()> {
        let Some((sender, thread)) = self.running.take() else { return Ok(()) };
        drop(sender);
        thread.join().unwrap_or_else(|_| Err("the thread that divides the disk's bandwidth has panicked".into()))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Only reached if the run has failed already, with an error of its own.
        let _ = self.stop();
    }
}

fn divide(throttle: &Throttle, caps: Caps, until: &Receiver<()>) -> Result<()> {
    let mut division = Division::new(caps);
    let (mut before, mut watch) = (throttle.moved()?, Stopwatch::start());
    while until.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
        let (moved, seconds) = (throttle.moved()?, watch.seconds());
        watch = Stopwatch::start();
        let passed = [moved.read.saturating_sub(before.read), moved.written.saturating_sub(before.written)];
        before = moved;
        if let Some(caps) = division.next(passed.map(|bytes| bytes as f64), seconds) {
            throttle.cap(caps)?;
        }
    }
    Ok(())
}

/// How a pool is divided: reads first, writes second, in bytes and bytes a second.
#[derive(Debug)]
struct Division {
    /// The pool, for both directions together.
    pool: f64,
    /// The limits that are set now.
    caps: Caps,
    /// What each direction asked for of late.
    wanted: [f64; 2],
    /// Bytes that passed beyond the pool.
    debt: f64,
}

impl Division {
    fn new(caps: Caps) -> Self {
        Self { pool: (caps.read + caps.write) as f64, caps, wanted: [0.0; 2], debt: 0.0 }
    }

    /// The limits to set now, if other ones are due, after `passed` bytes in the `seconds` since the last look.
    fn next(&mut self, passed: [f64; 2], seconds: f64) -> Option<Caps> {
        let limits = [self.caps.read, self.caps.write].map(|cap| cap as f64);
        let weight = (seconds / MEMORY).min(1.0);
        for direction in 0..2 {
            let rate = passed[direction] / seconds;
            let is_used_up = rate >= limits[direction] * USED_UP;
            let wanted = rate + if is_used_up { self.pool * WANTS_MORE } else { 0.0 };
            self.wanted[direction] += weight * (wanted - self.wanted[direction]);
        }
        // Bandwidth that was not used is not saved up.
        self.debt = (self.debt + passed.iter().sum::<f64>() - self.pool * seconds).max(0.0);
        let [read, written] = self.wanted;
        let share = if read + written > 0.0 { read / (read + written) } else { limits[0] / (limits[0] + limits[1]) };
        let pool = (self.pool - self.debt / PAID_WITHIN).max(self.pool * LEAST_POOL);
        let read = pool * share.clamp(LEAST, 1.0 - LEAST);
        let next = [read, pool - read];
        let is_due = (0..2).any(|direction| (next[direction] - limits[direction]).abs() > self.pool * STEP);
        is_due.then(|| {
            self.caps = Caps { read: next[0] as u64, write: next[1] as u64, ..self.caps };
            self.caps
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: f64 = 10e6;
    const LOOK: f64 = 0.1;

    /// What passes on average over the last half of a minute, while each direction asks for so many bytes a second and
    /// gets at most its limit, and a slice of the kernel's for each new limit.
    fn settled(asked: [f64; 2]) -> [f64; 2] {
        let mut division = Division::new(Caps::pool(POOL as u64));
        let (mut waiting, mut sum) = ([0.0; 2], [0.0; 2]);
        let mut is_new = true;
        for look in 0..600 {
            let limits = [division.caps.read, division.caps.write].map(|cap| cap as f64);
            let mut passed = [0.0; 2];
            for direction in 0..2 {
                waiting[direction] += asked[direction] * LOOK;
                let slices = if is_new { 2.0 } else { 1.0 };
                passed[direction] = f64::min(waiting[direction], limits[direction] * LOOK * slices);
                // A contestant waits for what it has asked for before it asks for more.
                waiting[direction] = f64::min(waiting[direction] - passed[direction], 1e6);
                if look >= 300 {
                    sum[direction] += passed[direction] / 30.0;
                }
            }
            is_new = division.next(passed, LOOK).is_some();
        }
        sum
    }

    #[test]
    fn who_only_writes_has_nearly_all_of_the_pool() {
        let [read, written] = settled([0.0, 20e6]);
        assert_eq!(read, 0.0);
        assert!((0.94 * POOL..=1.01 * POOL).contains(&written), "{written}");
    }

    #[test]
    fn who_asks_for_less_than_the_pool_has_it() {
        let [read, written] = settled([1e6, 7e6]);
        assert!((0.99e6..=1.01e6).contains(&read) && (6.9e6..=7.1e6).contains(&written), "{read} {written}");
    }

    #[test]
    fn two_who_ask_for_too_much_have_all_of_it_and_not_more() {
        let [read, written] = settled([15e6, 20e6]);
        assert!((0.95 * POOL..=1.02 * POOL).contains(&(read + written)), "{read} {written}");
        assert!(read > 0.25 * POOL && written > 0.25 * POOL, "{read} {written}");
    }

    #[test]
    fn one_who_asks_for_too_much_leaves_the_other_what_it_needs() {
        let [read, written] = settled([2e6, 20e6]);
        assert!((1.9e6..=2.1e6).contains(&read), "{read} {written}");
        assert!(written > 0.7 * POOL && read + written <= 1.02 * POOL, "{read} {written}");
    }

    #[test]
    fn one_that_begins_where_the_other_has_all_gets_its_part() {
        let mut division = Division::new(Caps { read: 500_000, write: 9_500_000, shared: true });
        for _ in 0..50 {
            let limits = [division.caps.read, division.caps.write];
            division.next(limits.map(|cap| cap as f64 * LOOK), LOOK);
        }
        assert!(division.caps.read > 3_500_000, "{:?}", division.caps);
    }

    #[test]
    fn what_passes_beyond_the_pool_is_made_up_for() {
        let mut division = Division::new(Caps::pool(POOL as u64));
        // Half a second's worth beyond what is allowed to pass.
        let caps = division.next([3e6, 3e6], LOOK).expect("limits that are lower");
        assert!(((caps.read + caps.write) as f64) < 0.6 * POOL, "{caps:?}");
        let mut least = caps;
        for _ in 0..100 {
            let limits = [division.caps.read, division.caps.write];
            if let Some(caps) = division.next(limits.map(|cap| cap as f64 * LOOK), LOOK) {
                least = caps;
            }
        }
        assert!(((least.read + least.write) as f64) > 0.9 * POOL, "{least:?}");
    }

    #[test]
    fn where_nothing_is_asked_for_the_division_stays() {
        let mut division = Division::new(Caps { read: 1_000_000, write: 9_000_000, shared: true });
        for _ in 0..100 {
            assert_eq!(division.next([0.0; 2], LOOK), None);
        }
    }
}
