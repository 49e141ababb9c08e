//! How long a piece of work is tried again whose outcome the target left open.

use std::sync::Arc;

use weir_io::Clock;

use crate::failure::{Failure, Remedy, Result};
use crate::tally::Tally;
use crate::within::pause;

/// How often one piece of work may be tried again.
const TRIES_MAX: u32 = 20;
/// The first pause, in milliseconds; each is twice as long as the one before it.
const PAUSE_MS: u64 = 100;
/// The longest pause, in milliseconds. With it, all pauses together last longer than a failed log takes to be replaced.
const PAUSE_MS_MAX: u64 = 5_000;

/// Counts how often one piece of work was broken off: the connection broke, or the target's disk failed.
#[derive(Default)]
pub struct Breaks(u32);

impl Breaks {
    /// Waits before the work that ended with `failure` is tried again.
    ///
    /// # Errors
    /// To connect again does not help, or it was tried often enough.
    pub async fn wait(&mut self, failure: Failure, clock: &Arc<dyn Clock>, tally: &Tally) -> Result {
        if failure.remedy != Remedy::Reconnect {
            return Err(failure);
        }
        if self.0 >= TRIES_MAX {
            let message = format!("the target: {failure}; it was tried again {TRIES_MAX} times");
            return Err(Failure { message, ..failure });
        }
        tally.note(format!("the target: {failure}; trying again"));
        pause(clock, (PAUSE_MS << self.0).min(PAUSE_MS_MAX)).await;
        self.0 += 1;
        Ok(())
    }
}
