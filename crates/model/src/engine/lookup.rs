//! The answer to a point read.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use weir_io::{BoxFuture, Result};

use super::Found;

/// The answer to a point read, ready or in flight. The value may have expired: the caller has the wall clock.
#[must_use]
pub enum Lookup {
    /// Answered from memory. `None` once it has been taken.
    Ready(Option<Result<Option<Found>>>),
    /// The device is being read.
    Pending(BoxFuture<Result<Option<Found>>>),
}

impl Future for Lookup {
    type Output = Result<Option<Found>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Lookup::Ready(answer) => Poll::Ready(answer.take().expect("Lookup polled after it was done")),
            Lookup::Pending(future) => future.as_mut().poll(cx),
        }
    }
}
