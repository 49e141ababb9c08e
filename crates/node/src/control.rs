//! The control loop of the node: what must happen now and then, whether or not somebody writes.
//!
//! One task and one timer, however many partitions are awake:
//!
//! - A partition that is written to puts itself, once, on the list of those *due*, and is visited within `interval`:
//!   its log is synced (mode `Interval`) and its next segment prepared. It is marked before the write is acknowledged,
//!   and unmarked before the sync looks at what is there. So the loss of the machine costs at most the interval and the
//!   time of a sync.
//! - Visits are staggered: each partition has a phase within the interval, by its number. Where many are due at once,
//!   one sync of the whole file system does for all of them, once per interval ([`group_sync`](crate::group_sync)).
//! - A *round* over all awake partitions, every ten intervals, finds what nobody reported: files whose last reader has
//!   gone, and jobs that are due because time has passed.
//!
//! Knobs are turned elsewhere: see [`tick`](crate::tick).

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Weak};

use futures_util::future::select;
use parking_lot::Mutex;
use weir_io::{Clock, Event, Nanos, Spawn, sleep_until};
use weir_log::SyncMode;

use crate::group_sync::GroupSync;
use crate::tended::{Tended, Visit};

/// Phases of an interval.
const PHASES: u64 = 32;
/// Intervals between two rounds.
const ROUND_INTERVALS: u64 = 10;

/// The control loop: the list of partitions that are due, and all partitions that are open.
pub(crate) struct Control {
    clock: Arc<dyn Clock>,
    interval: Nanos,
    spawn: Arc<dyn Spawn>,
    group_sync: Arc<GroupSync>,
    state: Mutex<Visits>,
    /// Something is due earlier than the loop thinks, or the loop has to end.
    news: Arc<Event>,
}

#[derive(Default)]
struct Visits {
    /// Partitions that are due, by the time of the visit, the partition's number and the number of the mark. Each is in
    /// it at most once. A writer may be so slow that it marks a partition after that was closed, when another one is
    /// open under its number: neither takes the place of the other.
    due: BTreeMap<(Nanos, u32, u64), Weak<dyn Tended>>,
    /// How many marks there were.
    marks: u64,
    /// Open partitions, by number.
    awake: BTreeMap<u32, Weak<dyn Tended>>,
    next_round: Nanos,
}

impl Control {
    /// Visits partitions that are due within `interval`, on `spawn`.
    pub fn new(clock: Arc<dyn Clock>, interval: Nanos, spawn: Arc<dyn Spawn>, group_sync: GroupSync) -> Arc<Self> {
        let state = Visits { next_round: clock.now() + ROUND_INTERVALS * interval, ..Visits::default() };
        let (state, news, group_sync) = (Mutex::new(state), Arc::default(), Arc::new(group_sync));
        let control = Arc::new(Self { clock, interval, spawn, group_sync, state, news });
        let run = run(Arc::downgrade(&control), Arc::clone(&control.clock), Arc::clone(&control.news));
        control.spawn.spawn(Box::pin(run));
        control
    }

    /// `partition` is open from now on: rounds visit it until it is dropped.
    pub fn admit(&self, number: u32, partition: Weak<dyn Tended>) {
        let now = self.clock.now();
        let first = {
            let mut state = self.state.lock();
            let first = state.awake.is_empty();
            if first {
                // The loop has slept without an end. A moment that has passed would look like one at which it wakes by
                // itself.
                state.next_round = now + ROUND_INTERVALS * self.interval;
            }
            state.awake.insert(number, partition);
            first
        };
        if first {
            self.news.notify();
        }
    }

    /// All partitions that are open, in the order of their numbers.
    fn awake(&self) -> Vec<Arc<dyn Tended>> {
        let mut awake = Vec::new();
        self.state.lock().awake.retain(|_, partition| {
            let partition = partition.upgrade();
            awake.extend(partition.clone());
            partition.is_some()
        });
        awake
    }

    /// `partition` wants a visit within the interval, but not twice before that visit.
    pub fn mark(&self, number: u32, partition: Weak<dyn Tended>) {
        let now = self.clock.now();
        let at = self.group_sync.next(now).unwrap_or_else(|| phase(now, self.interval, number));
        let earliest = {
            let mut state = self.state.lock();
            let earliest = state.next().is_none_or(|next| at < next);
            state.marks += 1;
            let mark = state.marks;
            state.due.insert((at, number, mark), partition);
            earliest
        };
        if earliest {
            self.news.notify();
        }
    }

    /// When the loop has something to do next.
    fn next(&self) -> Nanos {
        self.state.lock().next().unwrap_or(Nanos::MAX)
    }

    fn tick(&self) {
        let now = self.clock.now();
        let (due, round) = {
            let mut state = self.state.lock();
            let later = state.due.split_off(&(now + 1, 0, 0));
            let mut due = std::mem::replace(&mut state.due, later);
            if !due.is_empty() && self.group_sync.is_worth_it(now, due.len() + state.due.len()) {
                // The group sync covers them all.
                due.append(&mut state.due);
            }
            let round = now >= state.next_round;
            if round {
                state.next_round = now + ROUND_INTERVALS * self.interval;
            }
            (due, round)
        };
        let due: Vec<_> = due.into_values().filter_map(|partition| partition.upgrade()?.begin_visit()).collect();
        self.visit(now, due);
        if round {
            for partition in self.awake() {
                partition.pass_round();
            }
        }
    }

    fn visit(&self, now: Nanos, due: Vec<Box<dyn Visit>>) {
        // Unmarked first: a write from here on marks its partition again.
        due.iter().for_each(|visit| visit.unmark());
        let are_interval = due.iter().all(|visit| visit.sync_mode() == SyncMode::Interval);
        if are_interval && self.group_sync.is_worth_it(now, due.len()) {
            self.group_sync.begin(now);
            let (group_sync, clock) = (Arc::clone(&self.group_sync), Arc::clone(&self.clock));
            let spawn = Arc::clone(&self.spawn);
            self.spawn.spawn(Box::pin(async move {
                let rest = group_sync.sync(due, &clock).await;
                rest.into_iter().for_each(|visit| spawn.spawn(Box::pin(tend(visit))));
            }));
            return;
        }
        due.into_iter().for_each(|visit| self.spawn.spawn(Box::pin(tend(visit))));
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.news.notify();
    }
}

impl Visits {
    fn next(&self) -> Option<Nanos> {
        let due = self.due.first_key_value().map(|((at, ..), _)| *at);
        // If no partition is awake, there is no round to make.
        let round = (!self.awake.is_empty()).then_some(self.next_round);
        due.into_iter().chain(round).min()
    }
}

/// The first moment after `now` in the phase of partition `number`: at most an interval later.
fn phase(now: Nanos, interval: Nanos, number: u32) -> Nanos {
    let step = (interval / PHASES).max(1);
    let next = now / step + 1;
    let wanted = u64::from(number) % PHASES;
    (next + (wanted + PHASES - next % PHASES) % PHASES) * step
}

/// Runs the loop. Ends with the node.
async fn run(control: Weak<Control>, clock: Arc<dyn Clock>, news: Arc<Event>) {
    loop {
        let Some(at) = control.upgrade().map(|control| control.next()) else { return };
        let earlier = || control.upgrade().is_none_or(|control| control.next() < at).then_some(());
        if at == Nanos::MAX {
            news.wait(earlier).await;
        } else {
            select(pin!(sleep_until(&clock, at)), pin!(news.wait(earlier))).await;
        }
        let Some(control) = control.upgrade() else { return };
        if clock.now() >= control.next() {
            control.tick();
        }
    }
}

/// Visits one partition that was written to.
async fn tend(visit: Box<dyn Visit>) {
    if visit.sync_mode() == SyncMode::Interval
        && let Err(error) = visit.log().sync().await
    {
        tracing::warn!(%error, "cannot sync the log of a partition");
    }
    visit.look_after();
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use weir_io::sim::Sim;
    use weir_log::WriteAheadLog;

    use super::*;

    struct Counted {
        is_closed: bool,
        visits: AtomicU64,
    }

    struct CountedVisit(Arc<Counted>);

    impl Tended for Counted {
        fn begin_visit(self: Arc<Self>) -> Option<Box<dyn Visit>> {
            if self.is_closed { None } else { Some(Box::new(CountedVisit(self))) }
        }

        fn pass_round(self: Arc<Self>) {}
    }

    impl Visit for CountedVisit {
        fn unmark(&self) {}

        fn sync_mode(&self) -> SyncMode {
            SyncMode::None
        }

        fn log(&self) -> &Arc<dyn WriteAheadLog> {
            unreachable!("in this mode nothing is synced")
        }

        fn look_after(&self) {
            self.0.visits.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_late_mark_of_a_closed_partition_takes_no_visit_from_the_one_that_is_open_now() {
        let (sim, interval) = (Sim::new(1), 100_000_000);
        let group_sync = GroupSync::new(None, interval, Box::new(|_| 0));
        let control = Control::new(sim.clock(), interval, sim.spawner(), group_sync);
        let [open, closed] = [false, true].map(|is_closed| Arc::new(Counted { is_closed, visits: AtomicU64::new(0) }));
        for partition in [&open, &closed] {
            let partition: Arc<dyn Tended> = partition.clone();
            control.mark(7, Arc::downgrade(&partition));
        }
        sim.run_until(sim.now() + 2 * interval);
        assert_eq!([&open, &closed].map(|partition| partition.visits.load(Ordering::Relaxed)), [1, 0]);
    }

    #[test]
    fn phases_are_within_the_interval_and_spread_over_it() {
        let interval = 100_000_000;
        for now in [0, 1, 6_249_999, 6_250_000, 1_234_567_890] {
            let times: std::collections::BTreeSet<_> = (0..1000).map(|number| phase(now, interval, number)).collect();
            assert_eq!(times.len() as u64, PHASES);
            assert!(times.iter().all(|&at| now < at && at <= now + interval), "{now}: {times:?}");
        }
        assert!(phase(5, 1, 3) > 5, "an interval of a nanosecond");
    }
}
