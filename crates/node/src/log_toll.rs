//! What a partition owes its own gate for its writes to the shared log (DF-16).
//!
//! A partition's own log waits at the partition's gate, and the commits of its records with it. Records of a shared log
//! go out together with records of others, which must not wait for a partition that has used up what its tenant bought.
//! So the records go out at once, and only their acknowledgement waits. To a client that is the same.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;
use weir_admission::OwnGate;
use weir_io::BoxFuture;
use weir_model::LogIndex;

/// The records of one partition that have not passed its gate yet. Lock order: `owed`, then those of the gate, or
/// `bell`.
pub(crate) struct LogToll {
    gate: OwnGate,
    /// Whether the log goes through the page cache.
    buffered: bool,
    /// Records that have not passed yet, in order.
    owed: Mutex<VecDeque<(LogIndex, BoxFuture<()>)>>,
    bell: Arc<Bell>,
}

/// Wakes everybody who waits for some record to pass.
#[derive(Default)]
struct Bell(Mutex<Vec<Waker>>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let woken = std::mem::take(&mut *self.0.lock());
        woken.into_iter().for_each(Waker::wake);
    }
}

impl LogToll {
    pub fn new(gate: OwnGate, buffered: bool) -> Self {
        Self { gate, buffered, owed: Mutex::default(), bell: Arc::default() }
    }

    /// Record `index`, of `bytes` bytes, was appended. Not to be called under the order lock: others may be woken.
    pub fn owe(&self, index: LogIndex, bytes: u64) {
        let Some(waiting) = self.gate.pass(bytes, self.buffered) else { return };
        {
            let mut owed = self.owed.lock();
            // A record that was appended earlier may come later.
            let behind = owed.partition_point(|(before, _)| *before < index);
            owed.insert(behind, (index, waiting));
        }
        // Somebody has to ask the gate for the first record, even if nobody waits for its commit.
        self.advance();
    }

    /// Ready when record `index`, and all before it, have passed.
    pub fn poll(&self, index: LogIndex, cx: &Context<'_>) -> Poll<()> {
        {
            let owed = self.owed.lock();
            if owed.front().is_none_or(|(first, _)| *first > index) {
                return Poll::Ready(());
            }
            // Before asking the gate: no wake-up in between is lost.
            let mut wakers = self.bell.0.lock();
            if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                wakers.push(cx.waker().clone());
            }
        }
        match self.advance() {
            Some(first) if first <= index => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }

    /// Lets records pass that may. Gives the first record that may not.
    fn advance(&self) -> Option<LogIndex> {
        let waker = Waker::from(Arc::clone(&self.bell));
        let mut owed = self.owed.lock();
        let mut has_passed = false;
        let first = loop {
            let Some((index, waiting)) = owed.front_mut() else { break None };
            match waiting.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(()) => (has_passed, _) = (true, owed.pop_front()),
                Poll::Pending => break Some(*index),
            }
        };
        drop(owed);
        if has_passed {
            // Others may wait for the records that have just passed.
            waker.wake();
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures_util::future::join_all;
    use weir_admission::{Gate, GateOptions, Ledger, Limits, PartitionGate, Rates};
    use weir_io::Owner;
    use weir_io::sim::Sim;

    use super::*;

    fn toll(sim: &Sim, bytes_per_sec: u64) -> LogToll {
        let gate = PartitionGate::new(Owner { tenant: 1, partition: 1 }, &sim.clock());
        gate.set_foreground(Limits::Shared(Rates::bytes(bytes_per_sec)), None);
        let node = Gate::new(sim.clock(), GateOptions::NODE);
        LogToll::new(OwnGate::new(gate, node, &Ledger::new()), false)
    }

    #[test]
    fn commits_pass_at_the_rate_of_the_gate_and_in_order_whoever_asks() {
        let sim = Sim::new(1);
        let toll = toll(&sim, 100_000);
        let clock = sim.clock();
        (1..=100).for_each(|index| toll.owe(index, 10_000));
        let began = clock.now();
        let passed = sim.block_on(join_all((1..=100).rev().map(|index| {
            let (toll, clock) = (&toll, sim.clock());
            async move {
                poll_fn(|cx| toll.poll(index, cx)).await;
                clock.now()
            }
        })));
        assert!(passed.is_sorted_by(|later, earlier| later >= earlier), "in the order of the records");
        let seconds = (passed[0] - began) / 1_000_000_000;
        assert!((8..=10).contains(&seconds), "1 MB at 100 kB/s, but for a burst: {seconds} s");
        assert!(toll.owed.lock().is_empty() && toll.bell.0.lock().is_empty());
    }

    #[test]
    fn who_gives_up_waiting_has_paid_all_the_same() {
        let sim = Sim::new(1);
        let toll = toll(&sim, 100_000);
        // Nobody waits for these.
        (1..=50).for_each(|index| toll.owe(index, 10_000));
        let began = sim.clock().now();
        toll.owe(51, 1);
        sim.block_on(poll_fn(|cx| toll.poll(51, cx)));
        assert!(sim.clock().now() - began > 3_000_000_000, "the last one stands behind half a megabyte");
    }

    #[test]
    fn an_unlimited_gate_owes_nothing() {
        let sim = Sim::new(1);
        let toll = toll(&sim, weir_admission::UNLIMITED);
        (1..=50).for_each(|index| toll.owe(index, 1 << 30));
        assert!(toll.owed.lock().is_empty());
    }
}
