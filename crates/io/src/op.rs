//! The future that every call through the door returns.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::Result;

/// A boxed future that owns everything it needs.
pub type BoxFuture<T> = Waiting<'static, T>;

/// A boxed future that may borrow what it works on.
pub type Waiting<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// An I/O that may already be done.
///
/// An I/O that can be answered at once (a write into the page cache, a simulated disk without latency) costs neither an
/// allocation nor a task hop; one that must wait is a boxed future. The operation is *submitted* when the call returns,
/// not when the future is first polled. Dropping an `Op` does not undo it: the device may still do the work. The future
/// owns the buffer, which stays alive until the device is done.
#[must_use = "an I/O whose result nobody looks at hides its error"]
pub enum Op<T> {
    /// Done; `None` once the result has been taken.
    Ready(Option<Result<T>>),
    /// In flight.
    Pending(BoxFuture<Result<T>>),
}

impl<T> Op<T> {
    /// An operation that is already done.
    pub fn ready(result: Result<T>) -> Self {
        Op::Ready(Some(result))
    }

    /// An operation that `future` completes. The future must already have been submitted where that matters.
    pub fn pending(future: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        Op::Pending(Box::pin(future))
    }
}

impl<T: Unpin> Future for Op<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Op::Ready(result) => Poll::Ready(result.take().expect("Op polled after it was done")),
            Op::Pending(future) => future.as_mut().poll(cx),
        }
    }
}
