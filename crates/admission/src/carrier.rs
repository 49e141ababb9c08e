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
use weir_io::{Error, ErrorKind, Op, Result, Spawn};

/// Hands `op` to a task on `spawn`.
pub(crate) fn carry<T: Unpin + Send + 'static>(op: Op<T>, spawn: &Arc<dyn Spawn>) -> Op<T> {
    let state = State { result: None, owner: None, task: None, is_dropped: false, is_answered: false };
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
    is_answered: bool,
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
        self.answer(result);
        Poll::Ready(())
    }
}

impl<T> Carrier<T> {
    fn answer(&self, result: Result<T>) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.is_answered, true) {
            return;
        }
        (state.result, state.task) = (Some(result), None);
        let owner = state.owner.take();
        drop(state);
        if let Some(owner) = owner {
            owner.wake();
        }
    }
}

impl<T> Drop for Carrier<T> {
    fn drop(&mut self) {
        // Ended before its time (its executor shut down, or it panicked): the owner would wait for ever.
        self.answer(Err(Error::new(ErrorKind::Device, "carry", "an I/O", "the task that carried it is gone")));
    }
}

#[cfg(test)]
mod tests {
    use weir_io::BoxFuture;
    use weir_io::sim::Sim;

    use super::*;

    /// Takes tasks and drops them.
    struct Gone;

    impl Spawn for Gone {
        fn spawn(&self, _task: BoxFuture<()>) {}
    }

    #[test]
    fn the_owner_hears_when_the_task_is_gone() {
        let spawn: Arc<dyn Spawn> = Arc::new(Gone);
        let carried = carry(Op::<()>::pending(std::future::pending()), &spawn);
        let error = Sim::new(1).block_on(carried).expect_err("nobody carries it");
        assert_eq!(error.kind(), ErrorKind::Device);
    }
}
