//! The last replies for which clients waited long, and what they waited for. They are for operators (`weir why`), who
//! see no keys and no values here.
//!
//! A tenant's own log of slow commands ([`super::slowlog`]) has the time that a command took by itself. Here it is the
//! time that its client saw: from the bytes of a request to the reply in the kernel's hands, including the commands in
//! front of it in the pipeline and its commit.

use std::collections::VecDeque;

use parking_lot::Mutex;
use weir_io::Nanos;
use weir_node::waits::Waits;

/// From this many microseconds on a reply is remembered: what Redis takes for slow by default.
const SLOW_MICROS: u64 = 10_000;

/// How many replies of a tenant are remembered.
const KEPT: usize = 64;

/// A slow reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowReply {
    /// When the reply was written, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The same moment on the server's clock, in nanoseconds: the wall clock may have been set since.
    pub at: Nanos,
    /// How long the client waited, in microseconds.
    pub micros: u64,
    /// Number of commands answered with it, which were pipelined.
    pub replies: u64,
    /// The command among them that took longest. The plain writes of a pipeline are written together, as `set`.
    pub command: &'static str,
    /// What part of the time was spent waiting. The rest is work for this command and those in front of it, the log's
    /// promise, and a client that does not read.
    pub waited: Waits,
}

/// The slow replies of one tenant.
#[derive(Default)]
pub(crate) struct SlowReplies(Mutex<VecDeque<SlowReply>>);

impl SlowReplies {
    /// Whether a reply that took this long is slow.
    #[inline]
    pub(super) fn wants(micros: u64) -> bool {
        micros >= SLOW_MICROS
    }

    pub(super) fn add(&self, reply: SlowReply) {
        let mut replies = self.0.lock();
        replies.push_front(reply);
        replies.truncate(KEPT);
    }

    /// All remembered replies, newest first.
    pub(crate) fn all(&self) -> Vec<SlowReply> {
        self.0.lock().iter().copied().collect()
    }
}
