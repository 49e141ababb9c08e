//! Waiting with a limit of time.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use weir_io::{Clock, sleep_until};

use crate::failure::{Failure, Result};

/// One second, in nanoseconds.
pub const SECOND: u64 = 1_000_000_000;

/// The result of `future`, if it comes within `seconds`.
///
/// # Errors
/// Those of `future`, or `what` has taken longer.
pub async fn within<T>(
    clock: &Arc<dyn Clock>,
    seconds: u64,
    what: &str,
    future: impl Future<Output = Result<T>>,
) -> Result<T> {
    let late = sleep_until(clock, clock.now() + seconds * SECOND);
    match select(pin!(future), pin!(late)).await {
        Either::Left((done, _)) => done,
        Either::Right(_) => Err(Failure::broken(format!("{what} took longer than {seconds} s"))),
    }
}

/// Waits for this many milliseconds.
pub async fn pause(clock: &Arc<dyn Clock>, milliseconds: u64) {
    sleep_until(clock, clock.now() + milliseconds * 1_000_000).await;
}
