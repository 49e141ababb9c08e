//! Work that its caller does, and that is done to its end even if the caller goes away.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use weir_io::{BoxFuture, Spawn};

/// Runs `future` to its end: on the caller's thread while the caller waits, and in the background from then on.
pub fn carried<T: Send + 'static>(
    spawn: &Arc<dyn Spawn>,
    future: impl Future<Output = T> + Send + 'static,
) -> impl Future<Output = T> + Send {
    Carried { future: Some(Box::pin(future)), spawn: Arc::clone(spawn) }
}

struct Carried<T: Send + 'static> {
    /// `None` once it is done.
    future: Option<BoxFuture<T>>,
    spawn: Arc<dyn Spawn>,
}

impl<T: Send + 'static> Future for Carried<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let future = self.future.as_mut().expect("not polled after its end");
        let outcome = future.as_mut().poll(cx);
        if outcome.is_ready() {
            self.future = None;
        }
        outcome
    }
}

impl<T: Send + 'static> Drop for Carried<T> {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            self.spawn.spawn(Box::pin(async move { drop(future.await) }));
        }
    }
}
