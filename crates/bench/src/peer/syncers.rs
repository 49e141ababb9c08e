//! Threads that sync the stores of a peer as often as Weir's logs are synced, off the writers' path.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A thread for each store. The threads end when this is dropped.
pub(super) struct Syncers {
    threads: Vec<JoinHandle<()>>,
    closing: Arc<AtomicBool>,
}

impl Syncers {
    /// Calls `sync` with the number of each of `stores` stores, on a thread of its own, every `interval`, until `sync`
    /// returns false. The stores are not all synced at the same moment, just as Weir's are not.
    pub(super) fn start(
        stores: usize,
        interval: Duration,
        sync: impl Fn(usize) -> bool + Clone + Send + 'static,
    ) -> Self {
        let closing = Arc::new(AtomicBool::new(false));
        let threads = (0..stores).map(|index| {
            let (sync, closing) = (sync.clone(), Arc::clone(&closing));
            let mut next = Instant::now() + interval * index as u32 / stores as u32;
            thread::spawn(move || {
                while !closing.load(Ordering::Acquire) {
                    let now = Instant::now();
                    if now < next {
                        // Woken early if the thread is to end.
                        thread::park_timeout(next - now);
                        continue;
                    }
                    // Measured from beginning to beginning: on a throttled disk a sync takes a part of the interval, or
                    // all of it.
                    next = now + interval;
                    if !sync(index) {
                        return;
                    }
                }
            })
        });
        Self { threads: threads.collect(), closing }
    }
}

impl Drop for Syncers {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // A panic has been printed already.
            let _ = thread.join();
        }
    }
}
