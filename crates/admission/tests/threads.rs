//! The gate, the quota and the pool with real threads and the real clock, which virtual time cannot show. Nothing here
//! depends on how long anything takes. A lost wake-up shows as a test that never ends.
#![allow(clippy::disallowed_methods, reason = "races need threads and a clock that runs by itself")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};

use weir_admission::{
    Direction, Gate, GateOptions, Limits, OnLimit, Pool, Quota, Rank, Rates, Request, Unit, UnitLimits,
};
use weir_io::real::{RealClock, block_on};
use weir_io::{Clock, Nanos, Owner, Rng};

#[test]
fn nobody_is_stuck_and_nothing_is_lost_between_threads() {
    let half = Rates::bytes(1_000_000_000);
    race(&[Limits::Split { read: half, write: half }]);
}

#[test]
fn opening_and_closing_the_gate_leaves_nobody_behind() {
    race(&[Limits::UNLIMITED]);
}

/// Four threads ask, wait and give up. One of them turns the limits to `detour` and back now and then.
fn race(detour: &[Limits]) {
    let clock: Arc<dyn Clock> = RealClock::new();
    let gate = Gate::new(Arc::clone(&clock), GateOptions::NODE.with_limits(Limits::bytes(2_000_000_000)));
    let granted: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4_u32)
            .map(|thread| {
                let gate = Arc::clone(&gate);
                scope.spawn(move || {
                    let mut rng = Rng::new(u64::from(thread));
                    let mut granted = 0;
                    for round in 0..3000_u64 {
                        let owner = Owner { tenant: 1, partition: rng.below(3) as u32 };
                        let rank = Rank::ALL[rng.below(5) as usize];
                        let bytes = rng.below(100_000);
                        let mut request = gate.request(owner, rank, Direction::Read, bytes);
                        match rng.below(8) {
                            0 => continue,
                            1 => {
                                if Pin::new(&mut request).poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                                    continue;
                                }
                            }
                            _ => drop(block_on(request)),
                        }
                        granted += 1;
                        if thread == 0 && round % 500 == 0 {
                            detour.iter().for_each(|&limits| gate.set_limits(limits));
                            gate.set_limits(Limits::bytes(2_000_000_000));
                        }
                    }
                    granted
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).sum()
    });
    assert!(granted > 4 * 3000 / 2);
    assert!(Rank::ALL.iter().all(|&rank| gate.waiting(rank) == 0));
    // Nothing is lent any more: two background grants fit at once, as at the beginning.
    gate.set_limits(Limits::UNLIMITED);
    gate.set_limits(Limits::bytes(2_000_000_000));
    let owner = Owner { tenant: 2, partition: 9 };
    let fresh: Vec<_> = (0..2)
        .map(|_| gate.request(owner, Rank::Maintenance, Direction::Read, gate.grant_bytes(Direction::Read)))
        .collect();
    assert!(fresh.iter().all(|request| matches!(request, Request::Ready(_))));
}

/// A clock that advances by a microsecond each time it is read, and jumps to where somebody wants to be woken. So
/// whether the threads ask for more than a limit does not depend on how fast the machine is.
#[derive(Default)]
struct LookedAt(AtomicU64);

impl Clock for LookedAt {
    fn now(&self) -> Nanos {
        self.0.fetch_add(1_000, Ordering::Relaxed)
    }

    fn wake_at(&self, at: Nanos, waker: Waker) {
        self.0.fetch_max(at, Ordering::Relaxed);
        waker.wake();
    }

    fn unix_ms(&self) -> u64 {
        0
    }
}

/// Four threads ask, pay, are paid back and give up, while the limit is turned. A thread that reads the clock, and then
/// waits for the lock, meets others that came later.
#[test]
fn units_are_neither_lost_nor_stuck_between_threads() {
    // All requests together come to some million units, two minutes' worth: nobody is refused for an hour's wait.
    let limits = |wcu| UnitLimits { wcu, on_limit: OnLimit::Delay { max_ms: 3_600_000 }, ..UnitLimits::default() };
    // The threads ask for some million units. The forty or so times that the limit is turned off and on again fill the
    // bucket with at most 400,000, and time brings next to nothing: somebody waits, however the threads are scheduled.
    let quota = Quota::new(Arc::new(LookedAt::default()), &limits(10_000));
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let quota = Arc::clone(&quota);
            scope.spawn(move || {
                let mut rng = Rng::new(u64::from(thread));
                for round in 0..20_000_u64 {
                    let units = 1 + rng.below(20);
                    let mut admission = quota.admit(Unit::Write, thread % 2, units);
                    if rng.below(8) == 0 {
                        // Answered or not, the request is given up.
                        let _ = Pin::new(&mut admission).poll(&mut Context::from_waker(Waker::noop()));
                        continue;
                    }
                    block_on(admission).expect("an hour is long enough");
                    quota.settle(Unit::Write, thread % 2, units, rng.below(30));
                    if thread == 0 && round % 500 == 0 {
                        quota.set_limits(&limits(0));
                        quota.set_limits(&limits(10_000));
                    }
                }
            });
        }
    });
    assert_eq!(quota.waiting(Unit::Write), 0);
    assert!(quota.stats(Unit::Write).delayed > 0, "somebody has waited");
}

/// Four threads ask, wait, give back and give up. One of them turns the knobs now and then.
#[test]
fn units_of_a_pool_are_neither_lost_nor_stuck_between_threads() {
    let pool = Pool::new(100);
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let pool = Arc::clone(&pool);
            scope.spawn(move || {
                let mut rng = Rng::new(u64::from(thread));
                for round in 0..5000_u64 {
                    let mut acquire = pool.acquire(rng.below(3) as u32, rng.below(60));
                    match rng.below(8) {
                        0 => drop(acquire),
                        1 => {
                            let polled = Pin::new(&mut acquire).poll(&mut Context::from_waker(Waker::noop()));
                            drop((polled, acquire));
                        }
                        _ => drop(block_on(acquire)),
                    }
                    if thread == 0 && round % 100 == 0 {
                        pool.set_headroom(rng.below(30));
                        pool.set_reserve(1, rng.below(30));
                    }
                }
            });
        }
    });
    let stats = pool.stats();
    assert_eq!((stats.used, stats.waiting), (0, 0));
}
