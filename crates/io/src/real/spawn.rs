//! Background work on a set of niced threads.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::precedence::be_nice;
use crate::{BoxFuture, Spawn};

/// A small executor for flushes and compactions: few long tasks that yield every 200 us. Dropping the executor stops
/// each task at its next yield and drops the task.
pub struct RealSpawn {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<TaskQueue>,
    work: Condvar,
}

#[derive(Default)]
struct TaskQueue {
    ready: VecDeque<Arc<Task>>,
    /// Every task that is not done, so that the end can drop tasks that nobody wakes any more.
    alive: BTreeMap<u64, Arc<Task>>,
    spawned: u64,
    closing: bool,
}

/// Not in the queue, not running: waits for a wake.
const IDLE: u8 = 0;
/// In the queue.
const QUEUED: u8 = 1;
/// A thread polls it.
const RUNNING: u8 = 2;
/// A thread polls it, and it was woken meanwhile.
const WOKEN: u8 = 3;

struct Task {
    id: u64,
    /// Locked by the thread that polls or drops it; the phases ensure that two threads never do so at once.
    future: Mutex<Option<BoxFuture<()>>>,
    phase: AtomicU8,
    shared: Weak<Shared>,
}

impl RealSpawn {
    /// Starts `threads` threads at niceness `nice` (0 to 19; it is not an error if the system refuses the niceness).
    pub fn new(threads: usize, nice: i32) -> Self {
        let shared = Arc::new(Shared { state: Mutex::default(), work: Condvar::new() });
        let start = |index| {
            let shared = Arc::clone(&shared);
            let body = move || {
                be_nice(nice);
                shared.run();
            };
            std::thread::Builder::new()
                .name(format!("weir-bg-{index}"))
                .spawn(body)
                .unwrap_or_else(|error| panic!("cannot start a background thread: {error}"))
        };
        let threads = (0..threads.max(1)).map(start).collect();
        Self { shared, threads }
    }
}

impl Spawn for RealSpawn {
    fn spawn(&self, future: BoxFuture<()>) {
        let mut state = self.shared.state.lock();
        let id = state.spawned;
        state.spawned += 1;
        let task = Arc::new(Task {
            id,
            future: Mutex::new(Some(future)),
            phase: AtomicU8::new(QUEUED),
            shared: Arc::downgrade(&self.shared),
        });
        state.alive.insert(id, Arc::clone(&task));
        state.ready.push_back(task);
        self.shared.work.notify_one();
    }
}

impl Drop for RealSpawn {
    fn drop(&mut self) {
        self.shared.state.lock().closing = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // The last owner may be one of our tasks: a thread cannot join itself, and it ends after this poll.
            if thread.thread().id() != std::thread::current().id() {
                // No error to lose: tasks that panic are caught.
                let _ = thread.join();
            }
        }
        let (alive, ready) = {
            let mut state = self.shared.state.lock();
            (std::mem::take(&mut state.alive), std::mem::take(&mut state.ready))
        };
        drop(ready);
        for task in alive.into_values() {
            // The lock is taken only if a task drops its own executor; that task ends by itself.
            let future = task.future.try_lock().and_then(|mut future| future.take());
            drop(future);
        }
    }
}

impl Shared {
    fn run(self: &Arc<Self>) {
        let mut state = self.state.lock();
        while !state.closing {
            match state.ready.pop_front() {
                Some(task) => MutexGuard::unlocked(&mut state, || self.poll(task)),
                None => self.work.wait(&mut state),
            }
        }
    }

    fn poll(&self, task: Arc<Task>) {
        // A swap, not a store: the poll has to see what was written before every wake that found the task in the queue.
        task.phase.swap(RUNNING, Ordering::AcqRel);
        let waker = Waker::from(Arc::clone(&task));
        let mut slot = task.future.lock();
        let Some(future) = slot.as_mut() else { return };
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(&waker))));
        // A panic has been reported by the hook. It ends the task like a return does; dropping the task tells its
        // waiters.
        if matches!(polled, Ok(Poll::Ready(())) | Err(_)) {
            *slot = None;
            let done = self.state.lock().alive.remove(&task.id);
            drop(done);
            return;
        }
        drop(slot);
        let idle = task.phase.compare_exchange(RUNNING, IDLE, Ordering::AcqRel, Ordering::Acquire);
        if idle.is_err() {
            // Woken while it ran: to the back of the queue, after everything else that is ready.
            task.phase.swap(QUEUED, Ordering::AcqRel);
            self.enqueue(task);
        }
    }

    fn enqueue(&self, task: Arc<Task>) {
        let mut state = self.state.lock();
        if !state.closing {
            state.ready.push_back(task);
            self.work.notify_one();
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        // The phase is written even where it stays the same. Otherwise a wake that finds the task in the queue could be
        // unseen by the poll that is just beginning, and the poll could miss what this wake is about.
        let woken = self.phase.fetch_update(Ordering::AcqRel, Ordering::Acquire, |phase| match phase {
            IDLE => Some(QUEUED),
            RUNNING => Some(WOKEN),
            other => Some(other),
        });
        if woken == Ok(IDLE)
            && let Some(shared) = self.shared.upgrade()
        {
            shared.enqueue(self);
        }
    }
}
