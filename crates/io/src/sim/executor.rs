//! The executor: one thread, virtual time, and an order of running that the seed decides.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

use super::clock::SimClock;
use super::hash::Fold;
use crate::{BoxFuture, Clock, Nanos, Rng, Spawn};

/// Which of several runnable tasks runs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The one that became runnable first.
    Fifo,
    /// Any of them, drawn from the seed: finds the interleavings that nobody thought of.
    Random,
}

/// A run that reaches this virtual time, a day, is taken for one that never ends.
const TIME_LIMIT_DEFAULT: Nanos = 24 * 3600 * 1_000_000_000;

/// A run with more task runs than this within one instant of virtual time is taken for one that spins. It takes some
/// seconds of real time to get there.
const SPIN_LIMIT: u64 = 20_000_000;

/// A world in one thread: tasks, and a clock that jumps to the next timer when nothing is runnable. The same seed
/// gives the same run, always. Dropping it drops every task where it stands, as a killed process would.
pub struct Sim {
    clock: Arc<SimClock>,
    queue: Arc<Queue>,
    rng: Cell<Rng>,
    order: Order,
    time_limit: Cell<Nanos>,
    /// Task runs since time moved last.
    spins: Cell<u64>,
    /// A hash of which task ran when.
    events: Cell<Fold>,
    running: Cell<bool>,
}

/// All tasks, and which of them are runnable. Shared with wakers and spawners.
struct Queue(Mutex<Tasks>);

#[derive(Default)]
struct Tasks {
    ready: VecDeque<Arc<Task>>,
    /// Every unfinished task, so that dropping the world drops them all.
    live: Vec<Option<Arc<Task>>>,
    free_slots: Vec<usize>,
    spawned: u64,
    closed: bool,
}

struct Task {
    queue: Arc<Queue>,
    /// The task's place in the order of spawning; names the task in the event hash.
    number: u64,
    slot: usize,
    /// In `ready` already: a second wake changes nothing.
    queued: AtomicBool,
    /// `None` while it is being polled, when it is done, and always for the root (its future is on the stack).
    future: Mutex<Option<BoxFuture<()>>>,
}

/// The slot number of the future given to `block_on`, which has no slot of its own.
const ROOT: usize = usize::MAX;

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if self.queued.swap(true, Relaxed) {
            return;
        }
        let queue = Arc::clone(&self.queue);
        let mut tasks = queue.0.lock();
        if !tasks.closed {
            tasks.ready.push_back(self);
        }
    }
}

impl Queue {
    fn spawn(self: &Arc<Self>, future: BoxFuture<()>) {
        let mut tasks = self.0.lock();
        if tasks.closed {
            // Dropped outside the lock: the destructor of the task may want to spawn too.
            drop(tasks);
            return drop(future);
        }
        let slot = tasks.free_slots.pop().unwrap_or_else(|| {
            tasks.live.push(None);
            tasks.live.len() - 1
        });
        let number = tasks.spawned + 1;
        tasks.spawned = number;
        let (queue, future) = (Arc::clone(self), Mutex::new(Some(future)));
        let task = Arc::new(Task { queue, number, slot, queued: AtomicBool::new(true), future });
        tasks.live[slot] = Some(Arc::clone(&task));
        tasks.ready.push_back(task);
    }

    fn finish(&self, task: &Task) {
        let mut tasks = self.0.lock();
        tasks.live[task.slot] = None;
        tasks.free_slots.push(task.slot);
    }
}

struct Spawner(Arc<Queue>);

impl Spawn for Spawner {
    fn spawn(&self, future: BoxFuture<()>) {
        self.0.spawn(future);
    }
}

impl Sim {
    /// The world of `seed`, running tasks in [`Order::Random`].
    pub fn new(seed: u64) -> Self {
        Self::with_order(seed, Order::Random)
    }

    /// The world of `seed`, running tasks in `order`.
    pub fn with_order(seed: u64, order: Order) -> Self {
        Self {
            clock: SimClock::new(),
            queue: Arc::new(Queue(Mutex::default())),
            rng: Cell::new(Rng::new(seed)),
            order,
            time_limit: Cell::new(TIME_LIMIT_DEFAULT),
            spins: Cell::new(0),
            events: Cell::new(Fold::new()),
            running: Cell::new(false),
        }
    }

    /// The virtual clock.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock) as Arc<dyn Clock>
    }

    /// Virtual nanoseconds since the world began.
    pub fn now(&self) -> Nanos {
        self.clock.now()
    }

    /// Makes the wall clock jump to `unix_ms`; monotonic time is not touched.
    pub fn set_unix_ms(&self, unix_ms: u64) {
        self.clock.set_unix_ms(unix_ms);
    }

    /// A handle that starts tasks in this world. After the world is gone, the handle drops every task it is given.
    pub fn spawner(&self) -> Arc<dyn Spawn> {
        Arc::new(Spawner(Arc::clone(&self.queue)))
    }

    /// Starts a task.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.queue.spawn(Box::pin(future));
    }

    /// A new generator, drawn from the seed.
    pub fn rng(&self) -> Rng {
        self.draw(|rng| rng.fork("caller"))
    }

    /// A hash of which task ran when. Together with [`super::SimFs::event_hash`] it tells two runs apart.
    pub fn event_hash(&self) -> u64 {
        self.events.get().value()
    }

    /// Makes a run that reaches `at` panic: otherwise a background loop would hide for ever that nobody makes progress.
    pub fn set_time_limit(&self, at: Nanos) {
        self.time_limit.set(at);
    }

    /// Runs until `future` is done, and runs every other task meanwhile.
    ///
    /// # Panics
    /// When nothing is runnable and no timer is set (a deadlock), when tasks keep waking one another and time stands
    /// still (a livelock), beyond the time limit, or when called from a task.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let _running = self.enter();
        let mut future = pin!(future);
        let (queue, future_slot) = (Arc::clone(&self.queue), Mutex::new(None));
        let root = Arc::new(Task { queue, number: 0, slot: ROOT, queued: AtomicBool::new(false), future: future_slot });
        Arc::clone(&root).wake();
        let waker = Waker::from(Arc::clone(&root));
        loop {
            while let Some(task) = self.next_ready() {
                if !Arc::ptr_eq(&task, &root) {
                    poll(&task);
                } else if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return output;
                }
            }
            let Some(at) = self.clock.next_timer() else {
                let tasks = self.queue.0.lock().live.iter().flatten().count();
                panic!("deadlock at {} ns: nothing is runnable, no timer is set; {tasks} tasks wait", self.now());
            };
            self.advance(at);
        }
    }

    /// Runs everything that happens up to virtual time `at`, and stops there even if somebody still waits.
    pub fn run_until(&self, at: Nanos) {
        let _running = self.enter();
        loop {
            while let Some(task) = self.next_ready() {
                poll(&task);
            }
            match self.clock.next_timer() {
                Some(next) if next <= at => self.advance(next),
                _ => return self.clock.advance_to(at),
            }
        }
    }

    fn advance(&self, at: Nanos) {
        assert!(at < self.time_limit.get(), "no end in sight: virtual time reached the limit of {at} ns");
        self.spins.set(0);
        self.clock.advance_to(at);
    }

    /// Takes the next runnable task off the queue.
    fn next_ready(&self) -> Option<Arc<Task>> {
        let mut tasks = self.queue.0.lock();
        let task = match (self.order, tasks.ready.len()) {
            (Order::Random, count @ 2..) => {
                let chosen = self.draw(|rng| rng.below(count as u64)) as usize;
                tasks.ready.swap_remove_back(chosen)
            }
            _ => tasks.ready.pop_front(),
        }?;
        task.queued.store(false, Relaxed);
        self.spins.set(self.spins.get() + 1);
        assert!(
            self.spins.get() < SPIN_LIMIT,
            "livelock at {} ns: task {} and time stands still",
            self.now(),
            task.number
        );
        let mut events = self.events.get();
        events.add(task.number).add(self.clock.now());
        self.events.set(events);
        Some(task)
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        let mut rng = self.rng.replace(Rng::new(0));
        let drawn = draw(&mut rng);
        self.rng.set(rng);
        drawn
    }

    fn enter(&self) -> Running<'_> {
        assert!(!self.running.replace(true), "block_on or run_until called from inside the simulation");
        Running(&self.running)
    }
}

/// Resets the flag even when a task panics.
struct Running<'a>(&'a Cell<bool>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

fn poll(task: &Arc<Task>) {
    // The future is taken out while it runs: a task being polled blocks nobody, and a task that panics is gone.
    let Some(mut future) = task.future.lock().take() else { return };
    let waker = Waker::from(Arc::clone(task));
    if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
        drop(future);
        return task.queue.finish(task);
    }
    *task.future.lock() = Some(future);
}

impl Drop for Sim {
    fn drop(&mut self) {
        let mut tasks = self.queue.0.lock();
        tasks.closed = true;
        let live = std::mem::take(&mut tasks.live);
        let ready = std::mem::take(&mut tasks.ready);
        drop(tasks);
        drop(ready);
        for task in live.into_iter().flatten() {
            let future = task.future.lock().take();
            drop(future);
        }
    }
}
