//! The slot between an operation in flight and the task that awaits it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::{Error, ErrorKind, Result};

enum Completion<T> {
    Waiting(Option<Waker>),
    Done(Result<T>),
    Taken,
}

/// The backend's end: completes once. If it is dropped without a result (a worker died), it completes with an error, so
/// that nobody waits for ever.
pub(super) struct Completer<T>(Option<Arc<Mutex<Completion<T>>>>);

/// The caller's end. Dropping it abandons the result, not the operation: whatever the device still needs belongs to the
/// backend.
pub(super) struct Wait<T>(Arc<Mutex<Completion<T>>>);

/// Both ends of a new slot.
pub(super) fn slot<T>() -> (Completer<T>, Wait<T>) {
    let state = Arc::new(Mutex::new(Completion::Waiting(None)));
    (Completer(Some(Arc::clone(&state))), Wait(state))
}

impl<T> Completer<T> {
    /// Hands over the result and wakes the waiter.
    pub(super) fn complete(mut self, result: Result<T>) {
        if let Some(state) = self.0.take() {
            finish(&state, result);
        }
    }
}

impl<T> Drop for Completer<T> {
    fn drop(&mut self) {
        if let Some(state) = self.0.take() {
            finish(
                &state,
                Err(Error::new(
                    ErrorKind::Device,
                    "finish",
                    "",
                    "the worker thread ended before the operation was done",
                )),
            );
        }
    }
}

fn finish<T>(state: &Mutex<Completion<T>>, result: Result<T>) {
    let before = std::mem::replace(&mut *state.lock(), Completion::Done(result));
    // Woken outside the lock: a waker may run anything, even poll at once.
    if let Completion::Waiting(Some(waker)) = before {
        waker.wake();
    }
}

impl<T> Future for Wait<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let mut state = self.0.lock();
        match &mut *state {
            Completion::Waiting(Some(waker)) => waker.clone_from(cx.waker()),
            Completion::Waiting(empty) => *empty = Some(cx.waker().clone()),
            Completion::Done(_) => match std::mem::replace(&mut *state, Completion::Taken) {
                Completion::Done(result) => return Poll::Ready(result),
                Completion::Waiting(_) | Completion::Taken => unreachable!("matched as done under the same lock"),
            },
            Completion::Taken => panic!("Op polled after it was done"),
        }
        Poll::Pending
    }
}
