//! The write throttle: slowed writes go one after the other, at a rate that may change while they wait.
//!
//! The rate is the partition's, however many writers there are. A policy may set one, and a tree that is close to a
//! stall has one: the lower of the two holds. When it changes, or the partition is closed, the writers that wait go on
//! at the new rate, or at once. A writer that goes away leaves its turn to the others.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use weir_admission::{Direction, Gate, GateOptions, Limits, Rank};
use weir_io::Nanos;
use weir_model::engine::Stall;

use super::Partition;
use crate::stall::StallCause;

/// Nothing is saved up: a rate below what users want has no idle seconds.
const OPTIONS: GateOptions = GateOptions { limits: Limits::UNLIMITED, burst: 0, background_in_flight: Nanos::MAX };

/// The gate at which slowed writes wait, and its rate.
#[derive(Default)]
pub(crate) struct WriteThrottle {
    /// The rate of `gate`, in bytes per second; `None` = open. Held while the gate is set, so that the last to look has
    /// the last word.
    rate: Mutex<Option<u64>>,
    /// Made for the first write that is slowed: most partitions never see one.
    gate: OnceLock<Arc<Gate>>,
}

impl Partition {
    /// From now on users may write at most `bytes_per_sec`; `None` = as they like.
    pub(crate) fn set_write_rate(&self, bytes_per_sec: Option<u64>) {
        self.write_rate.store(bytes_per_sec.map_or(0, |rate| rate.max(1)), Ordering::Relaxed);
        self.adjust_throttle();
    }

    /// Lets slowed writes go at the rate that holds now. To be called wherever that rate may have changed.
    pub(crate) fn adjust_throttle(&self) {
        let mut turned = self.write_throttle.rate.lock();
        let of_tree = match self.engine.stall() {
            Stall::None => None,
            Stall::Slow(_) => Some(self.engine.slow_rate()),
            // Writes that wait for their turn wait for the end of the stop as well.
            Stall::Stop(_) => *turned,
        };
        let of_policy = Some(self.write_rate.load(Ordering::Relaxed)).filter(|&rate| rate > 0);
        // A policy slows writes before a stall. It must not make those faster that the tree slows already.
        let rate = of_tree.into_iter().chain(of_policy).min().filter(|_| !self.is_closing());
        if *turned != rate {
            *turned = rate;
            self.throttle_gate().set_limits(rate.map_or(Limits::UNLIMITED, Limits::bytes));
        }
    }

    /// The bound that is nearer, which a write would wait for next: a policy slows writes before either is reached.
    fn nearer(&self) -> StallCause {
        self.engine.nearest_stall().into()
    }

    fn throttle_gate(&self) -> &Arc<Gate> {
        self.write_throttle.gate.get_or_init(|| Gate::new(Arc::clone(&self.clock), OPTIONS))
    }

    /// Waits for the turn of a write of `bytes` while writes are slowed.
    pub(super) async fn wait_for_throttle(&self, bytes: usize) {
        let why = match self.engine.stall() {
            Stall::Slow(why) => why.into(),
            _ if self.write_rate.load(Ordering::Relaxed) > 0 => self.nearer(),
            _ => return,
        };
        self.adjust_throttle();
        let begin = self.clock.now();
        drop(self.throttle_gate().request(self.owner, Rank::Foreground, Direction::Write, bytes as u64).await);
        self.counters.slowed(why, self.clock.now() - begin);
    }
}

#[cfg(test)]
mod tests;
