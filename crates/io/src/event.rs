//! Waiting for something to change, without a thread.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// Wakes all waiters whenever something may have changed. The waiters check for themselves what did.
#[derive(Debug, Default)]
pub struct Event(Mutex<Waiters>);

#[derive(Debug, Default)]
struct Waiters {
    next_id: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Event {
    /// Something may have changed.
    pub fn notify(&self) {
        let woken = std::mem::take(&mut self.0.lock().wakers);
        woken.into_values().for_each(Waker::wake);
    }

    /// Waits until `look` finds something. `look` is called before the first wait and after every [`Event::notify`].
    pub fn wait<T>(&self, look: impl FnMut() -> Option<T> + Send + Unpin) -> impl Future<Output = T> + Send {
        Wait { event: self, look, id: None }
    }
}

struct Wait<'a, F> {
    event: &'a Event,
    look: F,
    id: Option<u64>,
}

impl<T, F: FnMut() -> Option<T>> Future for Wait<'_, F>
where
    F: Unpin,
{
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        // Register before looking: otherwise a change between the two would be missed.
        let mut waiters = self.event.0.lock();
        let id = self.id.unwrap_or(waiters.next_id);
        waiters.next_id = waiters.next_id.max(id + 1);
        waiters.wakers.insert(id, cx.waker().clone());
        drop(waiters);
        self.id = Some(id);
        match (self.look)() {
            Some(found) => Poll::Ready(found),
            None => Poll::Pending,
        }
    }
}

impl<F> Drop for Wait<'_, F> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.event.0.lock().wakers.remove(&id);
        }
    }
}
