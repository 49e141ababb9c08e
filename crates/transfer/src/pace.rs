//! No faster than so many bytes a second.

use std::sync::Arc;

use weir_io::{Clock, Nanos, sleep_until};

use crate::within::SECOND;

/// Holds a flow of bytes back to a rate.
pub struct Pace {
    clock: Arc<dyn Clock>,
    /// Bytes a second; `None` = as fast as it goes.
    rate: Option<u64>,
    /// When all that was spent so far is paid.
    paid: Nanos,
}

impl Pace {
    /// At most `rate` bytes a second.
    pub fn new(clock: Arc<dyn Clock>, rate: Option<u64>) -> Self {
        Self { clock, rate: rate.filter(|&rate| rate > 0), paid: 0 }
    }

    /// Spends `bytes`, and waits until they are paid. What was not used before is not saved up.
    pub async fn spend(&mut self, bytes: u64) {
        let Some(rate) = self.rate else { return };
        let cost = u128::from(bytes) * u128::from(SECOND) / u128::from(rate);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        self.paid = self.paid.max(self.clock.now()).saturating_add(cost);
        sleep_until(&self.clock, self.paid).await;
    }
}
