//! The last replies that clients waited long for, and what for: for operators (`weir why`), who see no key and no value
//! in it.
//!
//! A tenant's own log of slow commands ([`super::slowlog`]) has what a command took by itself. Here it is what its
//! client saw: from the bytes of a request to the reply in the kernel's hands, with the commands in front of it in the
//! pipeline and with its commit.

use std::collections::VecDeque;

use parking_lot::Mutex;
use weir_io::Nanos;
use weir_node::waits::Waits;

/// From so many microseconds on a reply is remembered: what Redis takes for slow, unless it is told otherwise.
const SLOW_MICROS: u64 = 10_000;

/// Replies remembered of a tenant.
const KEPT: usize = 64;

/// What was slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowReply {
    /// When it was written, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The same moment on the server's clock, in nanoseconds: the wall clock may have been set since.
    pub at: Nanos,
    /// What its client waited, in microseconds.
    pub micros: u64,
    /// Commands that were answered with it, pipelined in front of it.
    pub replies: u64,
    /// The one that took longest. Plain writes of a pipeline are written together, as `set`.
    pub command: &'static str,
    /// What of it was waiting. The rest is work, of this command and those in front of it, the log's promise, and a
    /// client that does not read.
    pub waited: Waits,
}

/// See the module. Everything in it belongs to one tenant.
#[derive(Default)]
pub(crate) struct SlowReplies(Mutex<VecDeque<SlowReply>>);

impl SlowReplies {
    /// Whether so long is slow.
    #[inline]
    pub(super) fn wants(micros: u64) -> bool {
        micros >= SLOW_MICROS
    }

    pub(super) fn add(&self, reply: SlowReply) {
        let mut replies = self.0.lock();
        replies.push_front(reply);
        replies.truncate(KEPT);
    }

    /// All that are remembered, the newest first.
    pub(crate) fn all(&self) -> Vec<SlowReply> {
        self.0.lock().iter().copied().collect()
    }
}
