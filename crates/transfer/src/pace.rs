//! Limits a flow to a number of bytes a second.

use std::sync::Arc;

use weir_io::{Clock, Nanos, sleep_until};

use crate::within::SECOND;

/// Holds a flow of bytes down to a rate.
pub struct Pace {
    clock: Arc<dyn Clock>,
    /// Bytes a second; `None` = as fast as it goes.
    rate: Option<u64>,
    /// When all bytes spent so far are paid.
    paid: Nanos,
}

impl Pace {
    /// A limit of `rate` bytes a second; `None` = no limit.
    pub fn new(clock: Arc<dyn Clock>, rate: Option<u64>) -> Self {
        Self { clock, rate: rate.filter(|&rate| rate > 0), paid: 0 }
    }

    /// Spends `bytes`, and waits until they are paid. Time in which nothing was spent is not saved up.
    pub async fn spend(&mut self, bytes: u64) {
        let Some(rate) = self.rate else { return };
        let cost = u128::from(bytes) * u128::from(SECOND) / u128::from(rate);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        self.paid = self.paid.max(self.clock.now()).saturating_add(cost);
        sleep_until(&self.clock, self.paid).await;
    }
}
