//! An I/O that goes on whether or not its owner looks at it.
//!
//! A job has several I/Os out and awaits one of them. What another one waits for at a gate would come in vain: granted, it would hold its
//! place in flight until the job looks its way, while the one that the job awaits may be next in the queue for that very place. So
//! background I/O that must wait is carried by a task of its own. Whoever drops it ends it, before it is issued if it is not yet.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use weir_io::{Op, Result, Spawn};

/// Hands `op` to a task on `spawn`.
pub(crate) fn carry<T: Unpin + Send + 'static>(op: Op<T>, spawn: &Arc<dyn Spawn>) -> Op<T> {
    let state = State { result: None, owner: None, task: None, is_dropped: false };
    let state = Arc::new(Mutex::new(state));
    spawn.spawn(Box::pin(Carrier { op, state: Arc::clone(&state) }));
    Op::pending(Carried(state))
}

struct State<T> {
    result: Option<Result<T>>,
    owner: Option<Waker>,
    task: Option<Waker>,
    /// Nobody will ask for the result.
    is_dropped: bool,
}

/// The owner's end.
struct Carried<T>(Arc<Mutex<State<T>>>);

impl<T> Future for Carried<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.lock();
        if let Some(result) = state.result.take() {
            return Poll::Ready(result);
        }
        state.owner = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for Carried<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_dropped = true;
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// The task.
struct Carrier<T> {
    op: Op<T>,
    state: Arc<Mutex<State<T>>>,
}

impl<T: Unpin> Future for Carrier<T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        {
            let mut state = self.state.lock();
            if state.is_dropped {
                return Poll::Ready(());
            }
            state.task = Some(cx.waker().clone());
        }
        let Poll::Ready(result) = Pin::new(&mut self.op).poll(cx) else { return Poll::Pending };
        let mut state = self.state.lock();
        (state.result, state.task) = (Some(result), None);
        let owner = state.owner.take();
        drop(state);
        if let Some(owner) = owner {
            owner.wake();
        }
        Poll::Ready(())
    }
}
