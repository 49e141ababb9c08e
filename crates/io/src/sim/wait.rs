//! Waiting for an operation that takes time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::disk::Shared;
use crate::{Error, Nanos, Result, Sleep, sleep_until};

/// Holds the result of an operation until its time has come.
pub(super) struct Wait<T> {
    shared: Arc<Shared>,
    done_at: Nanos,
    sleep: Sleep,
    result: Option<Result<T>>,
    /// What the caller gets instead if the power goes first.
    cut_off: Option<Error>,
}

impl<T> Wait<T> {
    pub(super) fn new(shared: Arc<Shared>, done_at: Nanos, result: Result<T>, cut_off: Error) -> Self {
        let sleep = sleep_until(&shared.clock, done_at);
        Self { shared, done_at, sleep, result: Some(result), cut_off: Some(cut_off) }
    }
}

impl<T: Unpin> Future for Wait<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        if Pin::new(&mut self.sleep).poll(cx).is_pending() {
            return Poll::Pending;
        }
        let result = self.result.take().expect("polled after it was done");
        let cut_off = self.cut_off.take().filter(|_| self.shared.was_cut_off(self.done_at));
        Poll::Ready(cut_off.map_or(result, Err))
    }
}
