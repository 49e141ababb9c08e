//! The request units of the node (XS-26). What tenants use within their limits is taken from them whatever is there,
//! and may leave a debt. What a tenant uses beyond its limit is given only if something is left.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use weir_io::{Clock, Nanos};

use super::node_queue::NodeQueue;
use super::request_order::RequestOrder;
use crate::bucket::Bucket;

/// The units of this time, in nanoseconds, are kept while nobody uses them.
const BURST: Nanos = 1_000_000_000;

/// The units of this time, in nanoseconds, are owed at most. What is used within limits may exceed what comes for
/// hours, and shows late if commands are long. When that is over, what is left is given to whoever may have it.
const DEBT_MAX: Nanos = BURST;

/// How much is given out of what the machine has, in percent: more than all of it, as tenants hardly ever use
/// everything at once (U-18).
const OVER_SUBSCRIBED_PERCENT: u64 = 150;

/// How much may be used of what the machine has before requests wait in its queues, in percent (U-18). Above that, what
/// waits for a processor or the device grows fast, and has no order there.
const QUEUE_ABOVE_PERCENT: u64 = 80;

/// The request units of one node. The lock is the innermost.
pub struct NodeUnits {
    clock: Arc<dyn Clock>,
    bucket: Mutex<Bucket>,
    /// Thousandths of units that were given beyond tenants' limits.
    extra: AtomicU64,
    /// The queues in which requests wait while all tenants together use too many units.
    queue: Arc<NodeQueue>,
    /// How many numbers of tenants were given out so far.
    numbers: AtomicU32,
}

impl NodeUnits {
    /// A node that gives nothing beyond its tenants' limits, as nobody knows what it has.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        let bucket = Mutex::new(Bucket::new(0, BURST, clock.now()));
        let queue = NodeQueue::new(Arc::clone(&clock));
        Arc::new(Self { clock, bucket, extra: AtomicU64::new(0), queue, numbers: AtomicU32::new(0) })
    }

    /// The queues in which requests wait while all tenants together use too many units.
    #[inline]
    pub fn queue(&self) -> &Arc<NodeQueue> {
        &self.queue
    }

    /// A number for a tenant. After 2^32 of them numbers come again, and two tenants share a place in the queues.
    pub(super) fn new_number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Sets what the machine has: `milli_units` thousandths of units a second.
    pub fn set(&self, milli_units: u64) {
        let rate = u64::try_from(u128::from(milli_units) * u128::from(OVER_SUBSCRIBED_PERCENT) / 100);
        // The largest number would mean no limit.
        self.bucket.lock().set(rate.unwrap_or(u64::MAX).min(u64::MAX - 1), BURST, self.clock.now());
    }

    /// Turns the knobs of the queues: while more than [`QUEUE_ABOVE_PERCENT`] of `milli_units` a second are used,
    /// requests wait in queues, in `order`. With `None` they never wait.
    pub fn set_queues(&self, milli_units: u64, order: Option<RequestOrder>) {
        let threshold = u128::from(milli_units) * u128::from(QUEUE_ABOVE_PERCENT) / 100;
        let threshold = u64::try_from(threshold).unwrap_or(u64::MAX);
        self.queue.set(order.map(|_| threshold), order.unwrap_or_default());
    }

    /// Takes in that `milli_units` were used within a limit.
    pub(super) fn used(&self, milli_units: u64) {
        let mut bucket = self.bucket.lock();
        if bucket.rate() > 0 {
            bucket.take_into_debt(milli_units, DEBT_MAX, self.clock.now());
        }
    }

    /// Takes in that `milli_units` that were used within a limit were given back.
    pub(super) fn given_back(&self, milli_units: u64) {
        self.bucket.lock().refund(milli_units);
    }

    /// Takes `milli_units` beyond a limit, if something is left.
    pub(super) fn try_take(&self, milli_units: u64) -> bool {
        let now = self.clock.now();
        let mut bucket = self.bucket.lock();
        let is_there = bucket.tokens(now) > 0;
        if is_there {
            bucket.take_into_debt(milli_units, DEBT_MAX, now);
            self.extra.fetch_add(milli_units, Ordering::Relaxed);
        }
        is_there
    }

    /// Thousandths of units that were given beyond tenants' limits so far.
    pub fn extra(&self) -> u64 {
        self.extra.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for NodeUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeUnits").field("extra", &self.extra).finish_non_exhaustive()
    }
}
