//! Threads that may block: the scope that says so, and an executor of one future for them.

use std::cell::Cell;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

thread_local! {
    /// How many [`BlockingScope`]s this thread is inside of.
    static SCOPES: Cell<u32> = const { Cell::new(0) };
    /// The parker of this thread, while no `block_on` is using it.
    static PARKER: Cell<Option<(Arc<Parker>, Waker)>> = const { Cell::new(None) };
}

/// Declares that the calling thread may block, until the guard is dropped: an embedded client's own thread, or a
/// bench's. I/O that this thread asks for runs on it with pread and pwrite, which saves the hand-over to another
/// thread. On a thread that drives more than one future it would serialise them, so it is not for executors.
pub fn blocking_scope() -> BlockingScope {
    SCOPES.set(SCOPES.get() + 1);
    BlockingScope(PhantomData)
}

/// The guard that [`blocking_scope`] returns.
#[must_use = "the scope ends when the guard is dropped"]
pub struct BlockingScope(
    /// Not `Send`: the scope belongs to the thread.
    PhantomData<*const ()>,
);

impl Drop for BlockingScope {
    fn drop(&mut self) {
        SCOPES.set(SCOPES.get() - 1);
    }
}

/// Whether the calling thread is inside a [`blocking_scope`].
pub(super) fn may_block() -> bool {
    SCOPES.get() > 0
}

struct Parker {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Only the first wake since the last poll pays for the unpark.
        if !self.woken.swap(true, Ordering::Release) {
            self.thread.unpark();
        }
    }
}

/// Runs `future` on the calling thread, parking it whenever there is nothing to do. For embedded users, tools and
/// benches; to drive many futures from one thread, give it a `FuturesUnordered` of them.
pub fn block_on<F: Future>(future: F) -> F::Output {
    // The parker is taken out while in use, so that a `block_on` inside a `block_on` has its own and cannot swallow our
    // wake.
    let (parker, waker) = PARKER.take().unwrap_or_else(|| {
        let parker = Arc::new(Parker { thread: std::thread::current(), woken: AtomicBool::new(false) });
        (Arc::clone(&parker), Waker::from(parker))
    });
    let mut future = pin!(future);
    let mut context = Context::from_waker(&waker);
    let output = loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            break output;
        }
        while !parker.woken.swap(false, Ordering::Acquire) {
            std::thread::park();
        }
    };
    PARKER.set(Some((parker, waker)));
    output
}
