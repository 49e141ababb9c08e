//! Waiting with a limit of time.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use tokio::sync::watch;
use weir_io::{Clock, sleep_until};

use crate::failure::{Failure, Result};

/// How long an answer is still waited for once the work is told to end, in milliseconds.
const TOLD_MS: u64 = 1_000;

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

/// The result of `future`; once `stop` says that the work is told to end, only if it comes within a second.
///
/// # Errors
/// Those of `future`, or it has taken longer.
pub async fn unless_told<T>(
    clock: &Arc<dyn Clock>,
    stop: Option<watch::Receiver<bool>>,
    future: impl Future<Output = Result<T>>,
) -> Result<T> {
    let Some(mut stop) = stop else { return future.await };
    let told = async {
        if stop.wait_for(|&stop| stop).await.is_err() {
            // Nobody is there any more who could tell.
            std::future::pending::<()>().await;
        }
        pause(clock, TOLD_MS).await;
    };
    match select(pin!(future), pin!(told)).await {
        Either::Left((done, _)) => done,
        Either::Right(_) => Err(Failure::broken("it did not answer within a second after the import was told to end")),
    }
}

/// Waits for this many milliseconds.
pub async fn pause(clock: &Arc<dyn Clock>, milliseconds: u64) {
    sleep_until(clock, clock.now() + milliseconds * 1_000_000).await;
}
