//! For tests: a future that is polled to its end, turn by turn.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// How many turns a future takes before it is done, and its result.
pub fn turns<T>(future: impl Future<Output = T>) -> (usize, T) {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    let mut turns = 0;
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(done) => return (turns, done),
            Poll::Pending => turns += 1,
        }
    }
}
