//! The executor and the clock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::*;
use crate::{sleep_until, yield_now};

const MS: u64 = 1_000_000;

#[test]
fn time_jumps_from_timer_to_timer_and_stands_still_between() {
    let sim = Sim::new(1);
    let clock = sim.clock();
    let woken = Arc::new(Mutex::new(Vec::new()));
    for at in [30, 10, 20] {
        let (clock, woken) = (sim.clock(), Arc::clone(&woken));
        sim.spawn(async move {
            sleep_until(&clock, at * MS).await;
            woken.lock().push((at, clock.now() / MS));
        });
    }
    sim.block_on(sleep_until(&clock, 20 * MS));
    assert_eq!(sim.now(), 20 * MS);
    sim.run_until(100 * MS);
    assert_eq!(*woken.lock(), [(10, 10), (20, 20), (30, 30)]);
    assert_eq!(sim.now(), 100 * MS);
}

#[test]
fn the_wall_clock_runs_along_and_may_jump() {
    let sim = Sim::new(1);
    let clock = sim.clock();
    let before = clock.unix_ms();
    sim.run_until(5 * MS);
    assert_eq!(clock.unix_ms(), before + 5);
    sim.set_unix_ms(1000);
    sim.run_until(8 * MS);
    assert_eq!((clock.unix_ms(), sim.now()), (1003, 8 * MS));
}

/// The order in which ten tasks, three turns each, ran.
fn order(sim: &Sim) -> Vec<u64> {
    let ran = Arc::new(Mutex::new(Vec::new()));
    for task in 0..10 {
        let ran = Arc::clone(&ran);
        sim.spawn(async move {
            for _ in 0..3 {
                ran.lock().push(task);
                yield_now().await;
            }
        });
    }
    sim.run_until(1);
    let ran = ran.lock();
    ran.clone()
}

#[test]
fn a_seed_is_an_order_and_fifo_is_fair() {
    let (first, again, other) = (Sim::new(1), Sim::new(1), Sim::new(2));
    assert_eq!(order(&first), order(&again));
    assert_eq!(first.event_hash(), again.event_hash());
    assert_ne!(order(&other), order(&Sim::new(1)));
    assert_ne!(first.event_hash(), other.event_hash());
    let fair: Vec<u64> = (0..3).flat_map(|_| 0..10).collect();
    assert_eq!(order(&Sim::with_order(1, Order::Fifo)), fair);
}

#[test]
#[should_panic(expected = "deadlock at 7 ns: nothing is runnable, no timer is set; 1 tasks wait")]
fn a_deadlock_is_a_panic() {
    let sim = Sim::new(1);
    sim.run_until(7);
    sim.spawn(std::future::pending());
    sim.block_on(std::future::pending::<()>());
}

/// A yielding loop that waits for a sleeper: nothing is ever idle, so time never moves, and the sleeper sleeps on.
/// Without the limit such a run would look like a slow one, for ever.
#[test]
#[should_panic(expected = "livelock at 7 ns")]
fn a_livelock_is_a_panic() {
    let sim = Sim::new(1);
    sim.run_until(7);
    sim.block_on(async {
        loop {
            crate::yield_now().await;
        }
    });
}

#[test]
#[should_panic(expected = "no end in sight")]
fn a_loop_that_never_ends_is_a_panic() {
    let sim = Sim::new(1);
    let clock = sim.clock();
    sim.spawn(async move {
        loop {
            sleep_until(&clock, clock.now() + MS).await;
        }
    });
    sim.set_time_limit(1000 * MS);
    sim.block_on(std::future::pending::<()>());
}

/// Counts how many instances of it were dropped.
struct Counted(Arc<AtomicU64>, Arc<dyn crate::Spawn>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
        // A destructor that spawns: the spawned task is dropped, not run.
        let count = Arc::clone(&self.0);
        self.1.spawn(Box::pin(async move {
            count.fetch_add(1000, Relaxed);
        }));
    }
}

#[test]
fn dropping_the_world_drops_every_task_where_it_stands() {
    let dropped = Arc::new(AtomicU64::new(0));
    let sim = Sim::new(1);
    for wait in [0, 1] {
        let (counted, clock) = (Counted(Arc::clone(&dropped), sim.spawner()), sim.clock());
        sim.spawn(async move {
            sleep_until(&clock, wait * MS).await;
            yield_now().await;
            std::future::pending::<()>().await;
            drop(counted);
        });
    }
    sim.run_until(1);
    let spawner = sim.spawner();
    sim.spawn(async {});
    drop(sim);
    spawner.spawn(Box::pin(async { unreachable!("the world is gone") }));
    assert_eq!((dropped.load(Relaxed), Arc::strong_count(&dropped)), (2, 1));
}

#[test]
fn tasks_may_start_tasks_and_finished_ones_leave_room() {
    let sim = Sim::new(1);
    let done = Arc::new(AtomicU64::new(0));
    let spawner = sim.spawner();
    let count = Arc::clone(&done);
    sim.block_on(async move {
        for _ in 0..100 {
            let count = Arc::clone(&count);
            spawner.spawn(Box::pin(async move {
                count.fetch_add(1, Relaxed);
            }));
            yield_now().await;
        }
    });
    sim.run_until(1);
    assert_eq!(done.load(Relaxed), 100);
}
