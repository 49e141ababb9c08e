//! Spawned I/O: it goes on whether or not its caller polls it.
//!
//! A job has several I/Os under way and awaits one of them. If another one were granted at a gate, it would keep its
//! place in flight until the job polls it, and the I/O that the job awaits may be next in the queue for that very
//! place. So background I/O that must wait runs on a task of its own. Dropping the [`SpawnedOp`] ends the I/O; if it
//! was not issued yet, it never is.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use weir_io::{Error, ErrorKind, Op, Result, Spawn};

/// Runs `op` on a task of its own, on `spawn`.
pub(crate) fn spawn_op<T: Unpin + Send + 'static>(op: Op<T>, spawn: &Arc<dyn Spawn>) -> Op<T> {
    let shared = Shared { result: None, caller: None, task: None, is_dropped: false, is_answered: false };
    let shared = Arc::new(Mutex::new(shared));
    spawn.spawn(Box::pin(Task { op, shared: Arc::clone(&shared) }));
    Op::pending(SpawnedOp(shared))
}

/// The state that the caller and the task share.
struct Shared<T> {
    result: Option<Result<T>>,
    caller: Option<Waker>,
    task: Option<Waker>,
    /// Nobody will ask for the result.
    is_dropped: bool,
    is_answered: bool,
}

/// The caller's end.
struct SpawnedOp<T>(Arc<Mutex<Shared<T>>>);

impl<T> Future for SpawnedOp<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut shared = self.0.lock();
        if let Some(result) = shared.result.take() {
            return Poll::Ready(result);
        }
        shared.caller = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for SpawnedOp<T> {
    fn drop(&mut self) {
        let mut shared = self.0.lock();
        shared.is_dropped = true;
        let task = shared.task.take();
        drop(shared);
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// The task's end.
struct Task<T> {
    op: Op<T>,
    shared: Arc<Mutex<Shared<T>>>,
}

impl<T: Unpin> Future for Task<T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        {
            let mut shared = self.shared.lock();
            if shared.is_dropped {
                return Poll::Ready(());
            }
            shared.task = Some(cx.waker().clone());
        }
        let Poll::Ready(result) = Pin::new(&mut self.op).poll(cx) else { return Poll::Pending };
        self.answer(result);
        Poll::Ready(())
    }
}

impl<T> Task<T> {
    fn answer(&self, result: Result<T>) {
        let mut shared = self.shared.lock();
        if std::mem::replace(&mut shared.is_answered, true) {
            return;
        }
        (shared.result, shared.task) = (Some(result), None);
        let caller = shared.caller.take();
        drop(shared);
        if let Some(caller) = caller {
            caller.wake();
        }
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        // The task may have ended before its time (its executor shut down, or it panicked). Without an answer the
        // caller would wait for ever.
        self.answer(Err(Error::new(ErrorKind::Device, "run", "an I/O", "the task that ran it is gone")));
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
    fn the_caller_gets_an_error_when_the_task_is_gone() {
        let spawn: Arc<dyn Spawn> = Arc::new(Gone);
        let op = spawn_op(Op::<()>::pending(std::future::pending()), &spawn);
        let error = Sim::new(1).block_on(op).expect_err("nobody runs it");
        assert_eq!(error.kind(), ErrorKind::Device);
    }
}
