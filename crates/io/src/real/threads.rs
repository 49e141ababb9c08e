//! Worker threads that make blocking system calls. There are two lanes with workers of their own, so that a client's
//! read never waits behind a compaction's writes. Each lane keeps one worker more than it is using, up to its limit: an
//! idle process has one per lane. Workers are started by workers, because a thread inherits the niceness of the thread
//! that starts it, and submitters may be niced.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::precedence::be_prompt;
use super::transfer::Request;
use crate::Class;

/// Which workers serve a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// A client waits for it.
    Foreground = 0,
    /// Flush, compaction, maintenance.
    Background = 1,
}

impl Lane {
    /// The lane of `class`.
    pub(super) const fn of(class: Class) -> Self {
        if class.is_foreground() { Lane::Foreground } else { Lane::Background }
    }

    const fn thread_name(self) -> &'static str {
        match self {
            Lane::Foreground => "weir-io-fg",
            Lane::Background => "weir-io-bg",
        }
    }
}

/// Something for a worker to do.
pub(super) enum Task {
    /// Bytes to move.
    Transfer(Request),
    /// Any other blocking call (open, rename, …).
    Call(Box<dyn FnOnce() + Send>),
}

impl Task {
    fn run(self) {
        match self {
            Task::Transfer(request) => request.run(),
            Task::Call(call) => call(),
        }
    }
}

/// The workers of both lanes. Dropping it finishes everything submitted, then joins them.
pub(super) struct Threads {
    lanes: [Arc<Pool>; 2],
}

struct Pool {
    lane: Lane,
    workers_max: usize,
    queue_max: usize,
    state: Mutex<PoolState>,
    work: Condvar,
}

#[derive(Default)]
struct PoolState {
    queue: VecDeque<Task>,
    workers: Vec<JoinHandle<()>>,
    /// Workers that wait for work and that no submission has claimed yet.
    idle: usize,
    closing: bool,
}

impl Threads {
    /// Up to `foreground` and `background` workers, with up to `queue_max` tasks waiting in each lane.
    pub(super) fn new(foreground: usize, background: usize, queue_max: usize) -> Self {
        let pool = |lane, workers_max: usize| {
            let state = Mutex::new(PoolState::default());
            let pool = Pool { lane, workers_max: workers_max.max(1), queue_max, state, work: Condvar::new() };
            let pool = Arc::new(pool);
            pool.start_worker(&mut pool.state.lock());
            pool
        };
        Self { lanes: [pool(Lane::Foreground, foreground), pool(Lane::Background, background)] }
    }

    /// Gives `task` to a worker of `lane`. If the lane's queue is full, the caller does the work itself. That is
    /// back-pressure on the submitter that overfills it, instead of an error that nobody could do anything about.
    pub(super) fn submit(&self, lane: Lane, task: Task) {
        if let Some(refused) = Pool::push(&self.lanes[lane as usize], task) {
            refused.run();
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        for pool in &self.lanes {
            let workers = {
                let mut state = pool.state.lock();
                state.closing = true;
                std::mem::take(&mut state.workers)
            };
            pool.work.notify_all();
            for worker in workers {
                // The last owner may be a waker that a worker runs: a thread cannot join itself, and it is ending
                // anyway.
                if worker.thread().id() != std::thread::current().id() {
                    // A worker that panicked has completed its operation with an error already.
                    let _ = worker.join();
                }
            }
        }
    }
}

impl Pool {
    /// Starts a worker if the limit allows.
    fn start_worker(self: &Arc<Self>, state: &mut PoolState) {
        if state.workers.len() >= self.workers_max || state.closing {
            return;
        }
        let pool = Arc::clone(self);
        let body = move || {
            if pool.lane == Lane::Foreground {
                be_prompt();
            }
            pool.work();
        };
        // If the system has no threads left, the existing workers must do, or the submitters themselves.
        if let Ok(worker) = std::thread::Builder::new().name(self.lane.thread_name().into()).spawn(body) {
            state.workers.push(worker);
        }
    }

    /// Queues `task`, or gives it back if the queue is full or no worker would serve it.
    fn push(&self, task: Task) -> Option<Task> {
        let mut state = self.state.lock();
        if state.queue.len() >= self.queue_max || state.workers.is_empty() {
            return Some(task);
        }
        state.queue.push_back(task);
        if state.idle > 0 {
            // The worker is claimed here and not when it wakes: the next submission must not count on the same worker.
            state.idle -= 1;
            self.work.notify_one();
        }
        None
    }

    fn work(self: &Arc<Self>) {
        let mut state = self.state.lock();
        loop {
            if let Some(task) = state.queue.pop_front() {
                if state.idle == 0 {
                    self.start_worker(&mut state);
                }
                MutexGuard::unlocked(&mut state, || {
                    // Only a waker can panic here. The panic has been reported; the lane must live on.
                    let _ = catch_unwind(AssertUnwindSafe(|| task.run()));
                });
            } else if state.closing {
                return;
            } else {
                state.idle += 1;
                self.work.wait(&mut state);
            }
        }
    }
}
