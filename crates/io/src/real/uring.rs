//! Reads through io_uring: the calling thread submits, one thread reaps. There is no hand-over on the way in, and one
//! wake on the way out.
//!
//! Soundness: the kernel reads and writes the buffers of submitted requests until it posts their completion. Hence a
//! request belongs to the ring from its submission to its completion, whatever happens to the task that awaits it. If
//! the ring is dropped while requests are in flight (its reaper died), the requests are leaked rather than freed.

use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use io_uring::{IoUring, opcode, squeue, types};
use parking_lot::Mutex;
use rustix::io::Errno;

use super::precedence::be_prompt;
use super::threads::Lane;
use super::transfer::{Request, Step, Verb};
use crate::Result;

/// Most requests in the ring at once, per lane (foreground, background). Others wait outside, so that clients' requests
/// find room when compaction is greedy.
const IN_FLIGHT_MAX: [usize; 2] = [192, 56];
/// Holds everything that may be in flight, and the wake-up at the end: a submission never finds the ring full. A power
/// of two.
const ENTRIES: u32 = 256;
/// Stands for no request: it wakes the reaper at the end.
const WAKE_UP: u64 = u64::MAX;

/// A ring and its reaper. Dropping it waits for everything submitted.
pub(super) struct Uring {
    shared: Arc<Shared>,
    /// Taken when joined.
    reaper: Option<JoinHandle<()>>,
}

struct Shared {
    ring: IoUring,
    /// Also guards the submission queue's user side. The completion queue's user side belongs to the reaper alone.
    state: Mutex<RingUse>,
    queue_max: usize,
}

struct RingUse {
    /// Requests that the kernel is working on, by `user_data`.
    in_flight: Vec<Option<(Lane, Request)>>,
    /// Indices of free places in `in_flight`.
    free: Vec<usize>,
    /// How many requests are in flight, per lane.
    count: [usize; 2],
    /// Requests not submitted yet, per lane, because the lane's share of the ring is in use.
    waiting: [VecDeque<Request>; 2],
    closing: bool,
}

impl Uring {
    /// A ring, with up to `queue_max` requests waiting outside it in each lane. Fails if the kernel has no ring to
    /// give.
    pub(super) fn new(queue_max: usize) -> std::io::Result<Self> {
        let ring = IoUring::builder().dontfork().setup_submit_all().build(ENTRIES)?;
        let state = RingUse {
            in_flight: (0..ENTRIES).map(|_| None).collect(),
            free: (0..ENTRIES as usize).rev().collect(),
            count: [0; 2],
            waiting: Default::default(),
            closing: false,
        };
        let shared = Arc::new(Shared { ring, state: Mutex::new(state), queue_max });
        let body = {
            let shared = Arc::clone(&shared);
            move || {
                be_prompt();
                shared.reap_all();
            }
        };
        let reaper = std::thread::Builder::new().name("weir-io-ring".into()).spawn(body)?;
        Ok(Self { shared, reaper: Some(reaper) })
    }

    /// Submits `request`. If too many are waiting already, the caller does the work itself, as with worker threads.
    pub(super) fn submit(&self, lane: Lane, request: Request) {
        let mut state = self.shared.state.lock();
        if state.count[lane as usize] < IN_FLIGHT_MAX[lane as usize] {
            state.start(&self.shared.ring, lane, request);
            drop(state);
            self.shared.enter();
        } else if state.waiting[lane as usize].len() < self.shared.queue_max {
            state.waiting[lane as usize].push_back(request);
        } else {
            drop(state);
            request.run();
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        {
            let mut state = self.shared.state.lock();
            state.closing = true;
            push(&self.shared.ring, &mut state, &opcode::Nop::new().build().user_data(WAKE_UP));
        }
        self.shared.enter();
        // The last owner may be a waker that the reaper runs: a thread cannot join itself, but the reaper still runs to
        // the end.
        if let Some(reaper) = self.reaper.take().filter(|reaper| reaper.thread().id() != std::thread::current().id()) {
            // Panics are caught in the reaper.
            let _ = reaper.join();
        }
    }
}

/// Puts `entry` into the submission queue. Taking the locked state proves that nobody else does so now.
fn push(ring: &IoUring, _state: &mut RingUse, entry: &squeue::Entry) {
    // SAFETY: the exclusive state says that we hold its lock, and no submission queue lives longer than its lock.
    let mut queue = unsafe { ring.submission_shared() };
    // SAFETY: the entry's descriptor and buffer belong to a request that stays in `in_flight` until its completion.
    let pushed = unsafe { queue.push(entry) };
    pushed.expect("limits keep the submission queue from filling");
}

impl RingUse {
    /// Hands `request` to the kernel, as soon as somebody enters.
    fn start(&mut self, ring: &IoUring, lane: Lane, mut request: Request) {
        let index = self.free.pop().expect("limits leave an index free");
        let entry = entry(&mut request).user_data(index as u64);
        self.in_flight[index] = Some((lane, request));
        self.count[lane as usize] += 1;
        push(ring, self, &entry);
    }

    /// Books the outcome of the request at `index`: gives the request back if it is finished, else submits the rest of
    /// it.
    fn advance(
        &mut self,
        ring: &IoUring,
        index: usize,
        outcome: Result<usize, Errno>,
    ) -> Option<(Request, Result<()>)> {
        let (lane, mut request) = self.in_flight[index].take().expect("one completion per submission");
        match request.transfer.advance(outcome) {
            Step::Again => {
                let entry = entry(&mut request).user_data(index as u64);
                self.in_flight[index] = Some((lane, request));
                push(ring, self, &entry);
                None
            }
            Step::Finished(result) => {
                self.free.push(index);
                self.count[lane as usize] -= 1;
                if let Some(next) = self.waiting[lane as usize].pop_front() {
                    self.start(ring, lane, next);
                }
                Some((request, result))
            }
        }
    }

    fn is_done(&self) -> bool {
        self.closing && self.count == [0; 2]
    }
}

impl Drop for RingUse {
    fn drop(&mut self) {
        if self.count != [0; 2] {
            // The kernel may still write into these buffers.
            std::mem::forget(std::mem::take(&mut self.in_flight));
        }
    }
}

/// The submission of what `request` still has to read.
fn entry(request: &mut Request) -> squeue::Entry {
    let transfer = &mut request.transfer;
    debug_assert_eq!(transfer.verb, Verb::Read, "the device gives the ring nothing else");
    let fd = types::Fd(transfer.handle.fd.as_raw_fd());
    let position = transfer.position();
    let rest = transfer.rest();
    // At most a gigabyte: see `rest`.
    opcode::Read::new(fd, rest.as_mut_ptr(), rest.len() as u32).offset(position).build()
}

impl Shared {
    /// Submits what is in the submission queue.
    fn enter(&self) {
        // An error means an interruption, or that the kernel is short of memory for the moment. What is queued must go
        // in, so try again.
        while self.ring.submit().is_err() {
            std::thread::yield_now();
        }
    }

    fn reap_all(&self) {
        let mut reaped: Vec<(u64, i32)> = Vec::with_capacity(ENTRIES as usize);
        let mut finished = Vec::with_capacity(ENTRIES as usize);
        loop {
            if self.ring.submit_and_wait(1).is_err() {
                // As in `enter`; completions that have arrived meanwhile are reaped all the same.
                std::thread::yield_now();
            }
            // SAFETY: only the reaper touches the completion queue.
            let completions = unsafe { self.ring.completion_shared() };
            reaped.extend(completions.map(|entry| (entry.user_data(), entry.result())));
            let mut state = self.state.lock();
            for (index, result) in reaped.drain(..).filter(|&(index, _)| index != WAKE_UP) {
                let outcome = usize::try_from(result).map_err(|_| Errno::from_raw_os_error(-result));
                finished.extend(state.advance(&self.ring, index as usize, outcome));
            }
            let done = state.is_done();
            drop(state);
            for (request, result) in finished.drain(..) {
                // Only a waker can panic here. The panic has been reported; the ring must live on.
                let _ = catch_unwind(AssertUnwindSafe(|| request.finish(result)));
            }
            if done {
                return;
            }
        }
    }
}
