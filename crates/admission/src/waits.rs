//! What one request has waited for, and how long: sums that go with its task from poll to poll.
//!
//! Code that serves requests polls each task in a [`Followed`]. Code that lets requests wait books the wait here
//! ([`book`]), wherever it is, and need not know for which request. [`so_far`] gives the sums. They are kept for the
//! thread that polls, so that neither a read far down in a tree nor a gate has to carry a request along. A wait that
//! ends where no followed task is polled is booked to nobody.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use weir_io::Nanos;

/// The causes for which a request waits, in the order in which it meets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Cause {
    /// Its tenant's own units.
    Quota = 0,
    /// Its turn in the node's queue of requests, because all tenants together use too many units.
    NodeQueue = 1,
    /// A flush or a compaction of its tree, or memory for the tree.
    Stall = 2,
    /// Its partition's share of the disk.
    Partition = 3,
    /// The disk, which others are using.
    Node = 4,
}

impl Cause {
    /// The names of the causes in reports, in that order.
    pub const NAMES: [&'static str; 5] = ["quota", "node_queue", "stall", "partition_gate", "node_gate"];
}

/// Nanoseconds by [`Cause`]. Waits that overlap each count in full.
pub type Waits = [Nanos; Cause::NAMES.len()];

/// Reads of the device for one task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceReads {
    /// How many reads of the device there were.
    pub reads: u64,
    /// Bytes that they asked for.
    pub bytes: u64,
}

/// All the sums of a task.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    waited: Waits,
    device: DeviceReads,
}

impl Sums {
    const NONE: Sums = Sums { waited: [0; Cause::NAMES.len()], device: DeviceReads { reads: 0, bytes: 0 } };
}

thread_local! {
    /// The sums of the task that is polled.
    static SUMS: Cell<Sums> = const { Cell::new(Sums::NONE) };
}

/// Books that the task that is polled has waited for `nanos` nanoseconds.
#[inline]
pub fn book(cause: Cause, nanos: Nanos) {
    let mut sums = SUMS.get();
    sums.waited[cause as usize] += nanos;
    SUMS.set(sums);
}

/// What the task that is polled has waited for since it began or [`clear`] was last called.
pub fn so_far() -> Waits {
    SUMS.get().waited
}

/// Books that `bytes` are read from the device for the task that is polled.
#[inline]
pub(crate) fn book_device_read(bytes: u64) {
    let mut sums = SUMS.get();
    sums.device.reads += 1;
    sums.device.bytes += bytes;
    SUMS.set(sums);
}

/// What was read from the device for the task that is polled since this was last called.
#[inline]
pub fn take_device_reads() -> DeviceReads {
    let mut sums = SUMS.get();
    let device = std::mem::take(&mut sums.device);
    if device.reads > 0 {
        SUMS.set(sums);
    }
    device
}

/// The same, without taking it.
pub fn device_reads() -> DeviceReads {
    SUMS.get().device
}

/// Sets the waits of the task that is polled to zero: it begins to serve another request.
#[inline]
pub fn clear() {
    SUMS.set(Sums { waited: Waits::default(), ..SUMS.get() });
}

pin_project! {
    /// A task with sums of its own.
    #[derive(Debug)]
    pub struct Followed<F> {
        sums: Sums,
        #[pin]
        task: F,
    }
}

impl<F> Followed<F> {
    /// `task`, which has waited for nothing yet.
    pub fn new(task: F) -> Self {
        Self { sums: Sums::NONE, task }
    }
}

impl<F: Future> Future for Followed<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _turn = Turn::begin(this.sums);
        this.task.poll(cx)
    }
}

/// The time in which a task is polled. It also ends where the poll ends in a panic: otherwise the thread would go on
/// with somebody else's sums.
struct Turn<'t> {
    sums: &'t mut Sums,
    outer: Sums,
}

impl<'t> Turn<'t> {
    fn begin(sums: &'t mut Sums) -> Self {
        let outer = SUMS.replace(*sums);
        Self { sums, outer }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.sums = SUMS.replace(self.outer);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    /// Waits for the disk once in each poll, and ends in the third.
    async fn three_polls(nanos: Nanos) -> Waits {
        let mut polls = 0;
        std::future::poll_fn(|_| {
            book(Cause::Node, nanos);
            polls += 1;
            if polls == 3 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        so_far()
    }

    #[test]
    fn tasks_polled_in_turn_have_their_own() {
        let mut cx = Context::from_waker(Waker::noop());
        let (mut one, mut other) = (pin!(Followed::new(three_polls(1))), pin!(Followed::new(three_polls(10))));
        for _ in 0..2 {
            assert!(one.as_mut().poll(&mut cx).is_pending() && other.as_mut().poll(&mut cx).is_pending());
        }
        assert_eq!(one.as_mut().poll(&mut cx), Poll::Ready([0, 0, 0, 0, 3]));
        assert_eq!(other.as_mut().poll(&mut cx), Poll::Ready([0, 0, 0, 0, 30]));
        assert_eq!(so_far(), [0; 5], "the thread is nobody's again");
    }

    #[test]
    fn device_reads_are_taken_by_the_task_that_has_asked() {
        let mut cx = Context::from_waker(Waker::noop());
        let reads = |bytes| async move {
            book_device_read(bytes);
            let mut polls = 0;
            std::future::poll_fn(|_| {
                polls += 1;
                if polls == 2 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            book_device_read(1);
            assert_eq!(device_reads().reads, 2, "they are still to be taken");
            (take_device_reads(), take_device_reads())
        };
        let (mut one, mut other) = (pin!(Followed::new(reads(4096))), pin!(Followed::new(reads(100))));
        assert!(one.as_mut().poll(&mut cx).is_pending() && other.as_mut().poll(&mut cx).is_pending());
        let taken = |bytes| Poll::Ready((DeviceReads { reads: 2, bytes }, DeviceReads::default()));
        assert_eq!(one.as_mut().poll(&mut cx), taken(4097));
        assert_eq!(other.as_mut().poll(&mut cx), taken(101));
    }

    #[test]
    fn who_panics_leaves_nothing_to_the_next() {
        let mut cx = Context::from_waker(Waker::noop());
        book(Cause::Stall, 7);
        let panics = std::future::poll_fn(|_| -> Poll<()> {
            book(Cause::Quota, 1);
            panic!("on purpose")
        });
        let mut panics = pin!(Followed::new(panics));
        assert!(catch_unwind(AssertUnwindSafe(|| panics.as_mut().poll(&mut cx))).is_err());
        assert_eq!(so_far(), [0, 0, 7, 0, 0]);
        clear();
        assert_eq!(so_far(), [0; 5]);
    }
}
