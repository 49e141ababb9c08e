//! How long a piece of work is tried again whose outcome the target left open.

use super::Target;
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
    /// To connect again does not help, or it was tried often enough, or the work is told to end.
    pub async fn wait(&mut self, failure: Failure, target: &Target, tally: &Tally) -> Result {
        if failure.remedy != Remedy::Reconnect || target.is_told_to_end() {
            return Err(failure);
        }
        if self.0 >= TRIES_MAX {
            let message = format!("the target: {failure}; it was tried again {TRIES_MAX} times");
            return Err(Failure { message, ..failure });
        }
        tally.note(format!("the target: {failure}; trying again"));
        pause(&target.clock, (PAUSE_MS << self.0).min(PAUSE_MS_MAX)).await;
        self.0 += 1;
        Ok(())
    }
}
