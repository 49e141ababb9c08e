//! Messages that others send to a connection without a request from it. They wait until the connection writes them.
//!
//! Any thread may put a message into a mailbox, and does not wait. The put wakes the connection's task, so nothing
//! polls. A message is encoded once, whoever gets it: mailboxes share its bytes.
//!
//! The messages that a connection does not take are limited as `client-output-buffer-limit` limits them in Redis. A
//! connection beyond the hard limit is cut at once. One that stays beyond the soft limit for the configured number of
//! seconds is cut, too. Its mailbox takes no more messages.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use weir_command::reply::Protocol;
use weir_io::Nanos;

use crate::tenant::byte_limit::Held;

/// Bytes that a mailbox needs for a message besides the message's own: a queue has up to twice the places that it
/// needs.
pub(crate) const PLACE_BYTES: usize = 2 * size_of::<Push>();

/// Places that an empty queue keeps.
const PLACES_KEPT: usize = 4;

/// How much may wait in the mailbox of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushLimits {
    /// The connection is cut at once if more bytes than this wait.
    pub hard_bytes: usize,
    /// The connection is cut if more bytes than this wait for longer than [`PushLimits::soft_seconds`].
    pub soft_bytes: usize,
    /// How long more than [`PushLimits::soft_bytes`] may wait.
    pub soft_seconds: u64,
}

/// The limits that Redis has for subscribed connections.
impl Default for PushLimits {
    fn default() -> Self {
        Self { hard_bytes: 32 << 20, soft_bytes: 8 << 20, soft_seconds: 60 }
    }
}

/// Encoded elements that many mailboxes share. The last mailbox to drop them gives their memory back.
#[derive(Clone)]
pub(crate) struct Shared(Arc<(Vec<u8>, Held)>);

impl Shared {
    /// Shares `bytes`, which `held` books.
    pub(crate) fn new(bytes: Vec<u8>, held: Held) -> Self {
        Self(Arc::new((bytes, held)))
    }
}

impl Deref for Shared {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0.0
    }
}

/// A message: its elements, in a form that is the same in all versions of the protocol. Whoever writes the message puts
/// the header in front, which differs between the versions.
pub(crate) struct Push {
    /// Number of elements; `None` for a line that has no header.
    pub(crate) len: Option<usize>,
    /// The first of them, encoded.
    pub(crate) front: Arc<[u8]>,
    /// The others.
    pub(crate) rest: Shared,
    /// Books [`PLACE_BYTES`].
    pub(crate) _place: Held,
}

impl Push {
    fn bytes(&self) -> usize {
        self.front.len() + self.rest.len() + PLACE_BYTES
    }
}

/// What messages a connection can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Speaks {
    pub(crate) protocol: Protocol,
    /// It has subscribed to something.
    pub(crate) is_subscriber: bool,
}

/// The connection that a mailbox belongs to.
pub(crate) trait Recipient: Send + Sync {
    /// Ends the connection because it is too slow.
    fn cut(&self);
    /// The address of the client.
    fn address(&self) -> IpAddr;
    /// What messages the connection can take.
    fn speaks(&self) -> Speaks;
    /// Whether the connection is ending and takes no more messages.
    fn has_left(&self) -> bool;
}

/// What became of a message that was put into a mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// The message waits.
    Waits,
    /// The message was too much, and the recipient was cut just now.
    Cut,
    /// The recipient was cut before.
    Gone,
}

struct MailQueue {
    queue: VecDeque<Push>,
    /// Bytes of messages in the queue, and of messages that were taken and are not written yet.
    bytes: usize,
    /// Since when the mailbox has held more than the soft limit.
    soft_since: Option<Nanos>,
    is_cut: bool,
    waker: Option<Waker>,
}

/// The messages that wait for one connection.
pub(crate) struct Mailbox {
    recipient: Arc<dyn Recipient>,
    limits: PushLimits,
    has_mail: AtomicBool,
    state: Mutex<MailQueue>,
}

impl Mailbox {
    /// An empty mailbox.
    pub(crate) fn new(recipient: Arc<dyn Recipient>, limits: PushLimits) -> Arc<Self> {
        let state = MailQueue { queue: VecDeque::new(), bytes: 0, soft_since: None, is_cut: false, waker: None };
        Arc::new(Self { recipient, limits, has_mail: AtomicBool::new(false), state: Mutex::new(state) })
    }

    /// Puts `push` behind the waiting messages, at the moment `now` of the server's clock. Adds the waker to call for
    /// it to `wakers` instead of waking, because the caller may hold a lock.
    pub(crate) fn put(&self, push: Push, now: Nanos, wakers: &mut Vec<Waker>) -> Put {
        let mut state = self.state.lock();
        if state.is_cut {
            return Put::Gone;
        }
        state.bytes += push.bytes();
        state.queue.push_back(push);
        if self.is_too_much(&mut state, now) {
            self.cut_locked(state);
            return Put::Cut;
        }
        self.has_mail.store(true, Ordering::Release);
        wakers.extend(state.waker.take());
        Put::Waits
    }

    fn is_too_much(&self, state: &mut MailQueue, now: Nanos) -> bool {
        if state.bytes <= self.limits.soft_bytes {
            state.soft_since = None;
        }
        let soft = state.bytes > self.limits.soft_bytes && {
            let since = *state.soft_since.get_or_insert(now);
            now.saturating_sub(since) > self.limits.soft_seconds.saturating_mul(1_000_000_000)
        };
        soft || state.bytes > self.limits.hard_bytes
    }

    /// Cuts the recipient, because the memory of its waiting messages is needed for others. `false` if the recipient
    /// was cut before.
    pub(crate) fn cut(&self) -> bool {
        let state = self.state.lock();
        let is_first = !state.is_cut;
        if is_first {
            self.cut_locked(state);
        }
        is_first
    }

    /// Drops the messages that wait, and takes no more: the recipient has ended.
    pub(crate) fn close(&self) {
        self.close_locked(self.state.lock());
    }

    fn cut_locked(&self, state: parking_lot::MutexGuard<'_, MailQueue>) {
        self.close_locked(state);
        self.recipient.cut();
    }

    fn close_locked(&self, mut state: parking_lot::MutexGuard<'_, MailQueue>) {
        state.is_cut = true;
        let dropped = std::mem::take(&mut state.queue);
        self.has_mail.store(false, Ordering::Release);
        drop(state);
        drop(dropped);
    }

    /// Bytes of messages that wait, or that are being written.
    pub(crate) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// The connection that the mailbox belongs to.
    pub(crate) fn recipient(&self) -> &dyn Recipient {
        &*self.recipient
    }

    /// The address of the recipient.
    pub(crate) fn address(&self) -> IpAddr {
        self.recipient.address()
    }

    /// Whether a message waits.
    #[inline]
    pub(crate) fn has_mail(&self) -> bool {
        self.has_mail.load(Ordering::Acquire)
    }

    /// Hands messages to `write` until they have `bytes_max` in total, at least one message. Returns the bytes that
    /// stay booked for them until [`Mailbox::written`].
    pub(crate) fn take(&self, bytes_max: usize, mut write: impl FnMut(Push)) -> usize {
        let mut state = self.state.lock();
        let mut taken = 0;
        while taken < bytes_max
            && let Some(push) = state.queue.pop_front()
        {
            taken += push.bytes();
            write(push);
        }
        if state.queue.is_empty() {
            state.queue.shrink_to(PLACES_KEPT);
            self.has_mail.store(false, Ordering::Release);
        }
        taken
    }

    /// Waits until there is something for [`Mailbox::take`].
    pub(crate) fn poll_mail(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if !state.queue.is_empty() {
            return Poll::Ready(());
        }
        if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            state.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// The messages that were taken have been sent to the client.
    pub(crate) fn written(&self, taken: usize) {
        let mut state = self.state.lock();
        state.bytes = state.bytes.saturating_sub(taken);
        if state.bytes <= self.limits.soft_bytes {
            state.soft_since = None;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::tenant::byte_limit::ByteLimit;

    const SECOND: Nanos = 1_000_000_000;

    /// Counts how often it was cut.
    #[derive(Default)]
    pub(crate) struct Somebody {
        pub(crate) cuts: AtomicUsize,
    }

    impl Recipient for Somebody {
        fn cut(&self) {
            self.cuts.fetch_add(1, Ordering::Relaxed);
        }

        fn address(&self) -> IpAddr {
            [127, 0, 0, 1].into()
        }

        fn speaks(&self) -> Speaks {
            Speaks { protocol: Protocol::Resp3, is_subscriber: true }
        }

        fn has_left(&self) -> bool {
            false
        }
    }

    /// Messages that share their bytes.
    fn messages(bytes: usize, booked: &Arc<ByteLimit>) -> impl Fn() -> Push + use<> {
        let shared = Shared::new(vec![b'x'; bytes], booked.hold(bytes as u64));
        let booked = Arc::clone(booked);
        move || {
            let place = booked.hold(PLACE_BYTES as u64);
            Push { len: Some(1), front: Arc::from(&b""[..]), rest: shared.clone(), _place: place }
        }
    }

    fn mailbox(limits: PushLimits) -> (Arc<Mailbox>, Arc<Somebody>, Arc<ByteLimit>) {
        let somebody = Arc::new(Somebody::default());
        let mailbox = Mailbox::new(Arc::clone(&somebody) as Arc<dyn Recipient>, limits);
        (mailbox, somebody, ByteLimit::new(1 << 30))
    }

    #[test]
    fn who_does_not_take_is_cut_at_the_hard_limit_and_nothing_is_kept_for_him() {
        let limits = PushLimits { hard_bytes: 10_000, soft_bytes: 10_000, soft_seconds: 60 };
        let (mailbox, somebody, booked) = mailbox(limits);
        let message = messages(1000 - PLACE_BYTES, &booked);
        let puts: Vec<Put> = (0..12).map(|_| mailbox.put(message(), 0, &mut Vec::new())).collect();
        assert_eq!(puts[..10], [Put::Waits; 10]);
        assert_eq!(puts[10..], [Put::Cut, Put::Gone]);
        assert_eq!(somebody.cuts.load(Ordering::Relaxed), 1);
        assert!(!mailbox.has_mail() && !mailbox.cut());
        drop(message);
        assert_eq!(booked.bytes(), 0);
    }

    #[test]
    fn what_is_taken_counts_until_it_is_written() {
        let limits = PushLimits { hard_bytes: 10_000, soft_bytes: 10_000, soft_seconds: 60 };
        let (mailbox, _, booked) = mailbox(limits);
        let message = messages(1000 - PLACE_BYTES, &booked);
        (0..10).for_each(|_| assert_eq!(mailbox.put(message(), 0, &mut Vec::new()), Put::Waits));
        let mut written = 0;
        let taken = mailbox.take(2500, |_| written += 1);
        assert_eq!((written, taken, mailbox.bytes()), (3, 3000, 10_000));
        mailbox.written(taken);
        (0..3).for_each(|_| assert_eq!(mailbox.put(message(), 0, &mut Vec::new()), Put::Waits));
        assert_eq!(mailbox.put(message(), 0, &mut Vec::new()), Put::Cut);
    }

    #[test]
    fn beyond_the_soft_limit_somebody_has_his_seconds() {
        let limits = PushLimits { hard_bytes: usize::MAX, soft_bytes: 1500, soft_seconds: 60 };
        let (mailbox, somebody, booked) = mailbox(limits);
        let message = messages(1000 - PLACE_BYTES, &booked);
        let put = |second: Nanos| mailbox.put(message(), second * SECOND, &mut Vec::new());
        assert_eq!([put(0), put(100), put(159)], [Put::Waits; 3]);
        mailbox.written(mailbox.take(2000, drop));
        // The queue was below the soft limit meanwhile, so the seconds begin anew.
        assert_eq!([put(161), put(221)], [Put::Waits; 2]);
        assert_eq!(somebody.cuts.load(Ordering::Relaxed), 0);
        assert_eq!(put(222), Put::Cut);
    }

    #[test]
    fn whoever_waits_is_woken_by_the_first_message() {
        struct Count(AtomicUsize);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let (mailbox, _, booked) = mailbox(PushLimits::default());
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&waker);
        assert!(mailbox.poll_mail(&mut cx).is_pending() && mailbox.poll_mail(&mut cx).is_pending());
        let message = messages(10, &booked);
        let mut wakers = Vec::new();
        (0..3).for_each(|_| assert_eq!(mailbox.put(message(), 0, &mut wakers), Put::Waits));
        wakers.into_iter().for_each(Waker::wake);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(mailbox.poll_mail(&mut cx).is_ready());
    }
}
