//! The state of a log, and every change of it. Writes and syncs are not started here: [`LogState::next_step`] says
//! which are due, and the caller starts them without holding the lock.

mod segments;
mod syncs;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use weir_io::{AlignedBuf, Class, Error, Fs, Op, PAGE, Result};
use weir_model::LogIndex;

use crate::options::{LogOptions, SyncMode};
use crate::record::{self, Kind, Mark};
use crate::recover::Found;
use crate::segment::Segment;
use crate::stats::LogStats;
use crate::waiters::{EverybodyWaker, GroupWaker, Waiters};

use segments::{Active, Spare};
pub(crate) use segments::{Older, Searched};
use syncs::Syncing;

/// The class of the zeros that fill a spare segment (mode `Always`) while the active one has room. They must not stand
/// behind compactions, or every write would wait for them in the end. Nor must they stand before the log's own writes:
/// others would have to wait while a whole segment is written. The rest of a spare is a page or two, and writes stop
/// without it: it does not stand behind the flushes of a busy node.
const AHEAD_OF_TIME: Class = Class::Flush;
/// Most writes in flight. Synced writes of a page or two overlap well on every SSD. With one at a time, groups fall
/// into the rhythm "one writer, all the others", and where the write is handed to another thread the device idles in
/// between.
const WRITES_IN_FLIGHT: usize = 4;
/// Mode `None` writes when this many bytes have gathered.
const UNSYNCED_BUFFER_BYTES: usize = 256 << 10;
/// Most bytes of a closing mark in a segment: with a link in front of it, a page in mode `Always`.
const CLOSE_BYTES_MAX: u64 = PAGE as u64;
/// How many empty buffers are kept for the next groups, and the largest that is kept.
const SPARE_BUFFERS: usize = WRITES_IN_FLIGHT;
const SPARE_BUFFER_BYTES_MAX: usize = 256 << 10;

/// A call to the file system that is being made, in flight, or over.
enum Slot<T> {
    /// A caller makes the call right now, outside the lock.
    Submitting,
    Flying(Op<T>),
    /// A part of a larger sync: see [`crate::OutsideSync`].
    Outside,
}

/// A write of some records.
struct Group {
    first: LogIndex,
    last: LogIndex,
    slot: Slot<AlignedBuf>,
    waker: Option<Waker>,
    result: Option<Result<()>>,
}

struct Fence {
    error: Error,
    /// From this index on, records are not acknowledged any more.
    from: LogIndex,
}

/// The next thing to do, without the lock.
pub(crate) enum Step {
    Write { segment: Arc<Segment>, offset: u64, buf: AlignedBuf, number: u64, pad: bool },
    Sync { segment: Arc<Segment> },
}

/// Wishes of a driver beyond writing the records that wait.
#[derive(Clone, Copy, Default)]
pub(crate) struct Want {
    /// Write even records that mode `None` would keep in memory.
    pub flush: bool,
    /// Make this index durable.
    pub durable: LogIndex,
    /// Make a spare segment even if there is room in the active one.
    pub spare: bool,
}

pub(crate) struct LogState {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    options: LogOptions,
    waiters: Arc<Waiters>,
    everybody: Waker,
    /// Records not yet handed to a write, without checksums.
    open: AlignedBuf,
    spare_buffers: Vec<AlignedBuf>,
    /// The index of the next append.
    next: LogIndex,
    committed: LogIndex,
    durable: LogIndex,
    /// The durable index of the last mark written.
    marked: LogIndex,
    groups: VecDeque<Group>,
    /// Number of the front group: groups are numbered in the order of their records.
    front: u64,
    syncing: Option<Syncing>,
    /// Set while an observer waits for the end of a group. Another driver may see that end without any waker having
    /// been called.
    observed: bool,
    active: Option<Active>,
    pub older: VecDeque<Older>,
    /// The files of segments that nobody needs any more, and that could not be removed yet. The oldest comes first.
    pub unremoved: Vec<PathBuf>,
    spare: Spare,
    /// The file that the spare in the making is made from, if that is an old segment.
    recycled: Option<PathBuf>,
    /// See [`Wanted::is_filling`](crate::segment::Wanted::is_filling), of the spare in the making.
    is_filling: Arc<AtomicBool>,
    /// Why the last attempt to make a spare failed, while there is still room in the active segment.
    spare_failure: Option<Error>,
    next_segment_id: u64,
    /// Whether the name of the directory itself may not be durable yet.
    is_new: bool,
    /// Size of the next segment, in bytes.
    next_segment_bytes: u64,
    fence: Option<Fence>,
    stats: LogStats,
}

impl LogState {
    /// A log that goes on behind the records that were `found`, all of which are durable. It has no segment to write to
    /// until the first write.
    pub fn new(fs: Arc<dyn Fs>, dir: PathBuf, options: LogOptions, waiters: Arc<Waiters>, found: Found) -> Self {
        let Found { recovery, older, unremoved, next_segment_id, is_new } = found;
        let next = recovery.last + 1;
        waiters.submitted.store(next - 1, Ordering::SeqCst);
        Self {
            fs,
            dir,
            options,
            everybody: Waker::from(Arc::new(EverybodyWaker(Arc::clone(&waiters)))),
            waiters,
            open: AlignedBuf::new(),
            spare_buffers: Vec::new(),
            next,
            committed: next - 1,
            durable: next - 1,
            marked: 0,
            groups: VecDeque::new(),
            front: 0,
            syncing: None,
            observed: false,
            active: None,
            older: VecDeque::from(older),
            unremoved,
            spare: Spare::None,
            recycled: None,
            is_filling: Arc::default(),
            spare_failure: None,
            next_segment_id,
            is_new,
            next_segment_bytes: options.first_segment_bytes(),
            fence: None,
            stats: LogStats::default(),
        }
    }

    /// Appends a record whose payload is `tag` followed by `payload`.
    pub fn append(&mut self, tag: &[u8], payload: &[u8]) -> Result<LogIndex> {
        if let Some(fence) = &self.fence {
            return Err(fence.error.clone());
        }
        let index = self.next;
        record::push_tagged(&mut self.open, Kind::Data, index, tag, payload);
        self.next += 1;
        self.stats.records += 1;
        self.stats.payload_bytes += (tag.len() + payload.len()) as u64;
        Ok(index)
    }

    /// The answer to a commit, if there is one.
    pub fn outcome(&self, index: LogIndex) -> Option<Result<()>> {
        if index <= self.committed {
            return Some(Ok(()));
        }
        if let Some(fence) = &self.fence
            && index >= fence.from
        {
            return Some(Err(fence.error.clone()));
        }
        // The buffer must not grow without a bound while a segment is made.
        let can_be_written = || self.groups.len() < WRITES_IN_FLIGHT && !self.must_roll();
        let in_memory_is_enough = self.options.sync == SyncMode::None
            && index < self.next
            && (self.open.len() < UNSYNCED_BUFFER_BYTES || can_be_written());
        in_memory_is_enough.then_some(Ok(()))
    }

    /// Whether mode `None` has enough bytes for a write.
    pub fn is_write_due(&self) -> bool {
        self.open.len() >= UNSYNCED_BUFFER_BYTES
    }

    pub fn failure(&self) -> Option<Error> {
        self.fence.as_ref().map(|fence| fence.error.clone())
    }

    pub fn last(&self) -> LogIndex {
        self.next - 1
    }

    pub fn durable(&self) -> LogIndex {
        self.durable
    }

    /// An observer is about to wait: it is told of the end of the groups in flight, unless a sync ends first.
    pub fn observe(&mut self) {
        self.observed |= self.syncing.is_none() && !self.groups.is_empty();
    }

    pub fn is_quiet(&self) -> bool {
        self.groups.is_empty() && self.syncing.is_none() && !self.is_spare_in_flight()
    }

    /// Whether records wait to be written, or are being written.
    pub fn has_unwritten(&self) -> bool {
        !self.open.is_empty() || !self.groups.is_empty()
    }

    pub fn stats(&self) -> LogStats {
        let active = self.active.as_ref();
        LogStats {
            last: self.last(),
            committed: self.committed,
            durable: self.durable,
            segments: self.older.len() as u64 + u64::from(active.is_some()),
            live_bytes: self.older.iter().map(|older| older.used).sum::<u64>()
                + active.map_or(0, |active| active.offset),
            ..self.stats
        }
    }

    /// Records from `from` on are not acknowledged any more, and nothing is written until [`LogState::restart`].
    pub fn fence(&mut self, error: Error, from: LogIndex) {
        match &mut self.fence {
            // A write in front of the one that failed first has failed too.
            Some(fence) => fence.from = fence.from.min(from),
            None => {
                self.stats.failures += 1;
                self.fence = Some(Fence { error, from });
                // Whoever replaces the log waits until nothing is in flight.
                self.remove_filling();
            }
        }
        self.waiters.wake_all();
    }

    /// Goes on after a failure, in a new segment. The engine must have persisted everything so far.
    pub fn restart(&mut self) {
        debug_assert!(self.is_quiet());
        self.open.clear();
        self.committed = self.last();
        self.durable = self.last();
        self.waiters.submitted.store(self.last(), Ordering::SeqCst);
        self.retire_active();
        self.older.iter_mut().for_each(|older| older.segment = None);
        self.activate_spare();
        self.fence = None;
        self.waiters.wake_all();
    }

    /// Whether somebody should drive the log although nobody waits for it. Whoever maintains the log already hears of
    /// what is under way, but not of records that were appended since.
    pub fn wants_maintenance(&self, is_maintained: bool) -> bool {
        match is_maintained {
            true => self.has_due_records(),
            false => self.wants_spare() || self.is_spare_in_flight() || !self.groups.is_empty() || self.can_write(),
        }
    }

    /// Puts a closing mark behind the last record, unless nothing was written since the opening.
    pub fn push_close(&mut self) {
        if self.active.is_none() {
            return;
        }
        let mark = Mark { durable: self.durable, term: 0 };
        record::push_mark(&mut self.open, Kind::Close, self.next, mark);
        self.marked = self.durable;
    }

    /// Polls the operations in flight and handles completed ones. Syncs and the making of a segment are polled only if
    /// `all`, or if nothing can be written before they are done. Polling may do the operation on the spot
    /// (`weir_io::real::blocking_scope`), under the lock: a caller that waits only for its own write would have to wait
    /// until the device has made a file.
    pub fn reap(&mut self, all: bool) {
        for position in 0..self.groups.len() {
            let group = &mut self.groups[position];
            let Slot::Flying(op) = &mut group.slot else { continue };
            if group.result.is_some() {
                continue;
            }
            let result = match op {
                Op::Ready(result) => result.take().expect("a write is taken once"),
                Op::Pending(op) => {
                    let (waiters, first, last) = (&self.waiters, group.first, group.last);
                    let waker = group.waker.get_or_insert_with(|| {
                        Waker::from(Arc::new(GroupWaker { waiters: Arc::clone(waiters), first, last }))
                    });
                    match op.as_mut().poll(&mut Context::from_waker(waker)) {
                        Poll::Ready(result) => result,
                        Poll::Pending => continue,
                    }
                }
            };
            let first = group.first;
            match result {
                Ok(mut buf) => {
                    group.result = Some(Ok(()));
                    if self.spare_buffers.len() < SPARE_BUFFERS && buf.capacity() <= SPARE_BUFFER_BYTES_MAX {
                        buf.clear();
                        self.spare_buffers.push(buf);
                    }
                }
                Err(error) => {
                    group.result = Some(Err(error.clone()));
                    self.fence(error, first);
                }
            }
        }
        if self.observed && self.groups.front().is_some_and(|group| group.result.is_some()) {
            self.observed = false;
            self.waiters.wake_observers();
        }
        while self.groups.front().is_some_and(|group| group.result.is_some()) {
            let group = self.groups.pop_front().expect("there is a front");
            self.front += 1;
            let acknowledged = self.fence.as_ref().is_none_or(|fence| group.last < fence.from);
            if acknowledged && group.last > self.committed {
                self.committed = group.last;
                if self.options.sync == SyncMode::Always {
                    self.durable = group.last;
                }
            }
        }
        if all {
            self.reap_sync();
        }
        if all || self.must_roll() {
            self.reap_spare();
        }
    }

    /// Bytes that the open buffer will take in its segment, including a link and a mark.
    fn open_bytes(&self) -> u64 {
        let with_both = (self.open.len() + 96) as u64;
        if self.options.sync == SyncMode::Always { record::next_page(with_both) } else { with_both }
    }

    /// The next thing to do. Its effects on the state are booked already.
    pub fn next_step(&mut self, want: Want) -> Option<Step> {
        let flush = want.flush || self.options.sync != SyncMode::None || self.is_write_due();
        if self.fence.is_none() && flush && self.must_roll() {
            self.give_up_filling();
            if matches!(self.spare, Spare::None) {
                self.start_spare(None, Class::Log);
                self.reap_spare();
            }
            if self.has_spare() {
                self.retire_active();
                self.activate_spare();
            }
        } else if want.spare && self.fence.is_none() && self.spare_failure.is_none() && self.wants_spare() {
            self.start_spare(None, AHEAD_OF_TIME);
            self.reap_spare();
        }
        if self.fence.is_some() {
            return None;
        }
        if flush && !self.open.is_empty() && self.has_slot() && !self.must_roll() {
            return self.take_group();
        }
        if want.durable > self.durable && self.syncing.is_none() {
            return self.take_sync();
        }
        None
    }

    /// Whether a write may start now: if it carries as many records as the one before, or nothing is in flight. Smaller
    /// writes would have to wait for others at the end of that one anyway, and cost a device write each.
    fn has_slot(&self) -> bool {
        let waiting = self.last() - self.waiters.submitted.load(Ordering::SeqCst);
        let enough = self.groups.back().is_none_or(|group| group.last + 1 - group.first <= waiting);
        enough && self.groups.len() < WRITES_IN_FLIGHT
    }

    fn take_group(&mut self) -> Option<Step> {
        let next_buffer = self.spare_buffers.pop().unwrap_or_default();
        let mut buf = std::mem::replace(&mut self.open, next_buffer);
        if self.durable > self.marked {
            record::push_mark(&mut buf, Kind::Mark, self.next, Mark { durable: self.durable, term: 0 });
            self.marked = self.durable;
        }
        let active = self.active.as_mut().expect("must_roll is false: there is an active segment");
        if let Some(link) = active.link.take() {
            let records = buf;
            buf = AlignedBuf::new();
            record::push_link(&mut buf, self.waiters.submitted.load(Ordering::SeqCst) + 1, link);
            buf.extend_from_slice(&records);
        }
        let (segment, offset) = (Arc::clone(&active.segment), active.offset);
        let pad = self.options.sync == SyncMode::Always;
        let length = if pad { record::next_page(buf.len() as u64) } else { buf.len() as u64 };
        active.offset += length;
        active.signposts.note(self.waiters.submitted.load(Ordering::SeqCst) + 1, offset);
        self.stats.groups += 1;
        self.stats.bytes_written += length;
        self.stats.padding_bytes += length - buf.len() as u64;
        let number = self.front + self.groups.len() as u64;
        let first = self.waiters.submitted.swap(self.last(), Ordering::SeqCst) + 1;
        let last = self.last();
        self.groups.push_back(Group { first, last, slot: Slot::Submitting, waker: None, result: None });
        Some(Step::Write { segment, offset, buf, number, pad })
    }

    /// The write of group `number` has been handed over.
    pub fn install_write(&mut self, number: u64, op: Op<AlignedBuf>) {
        // A group that is being submitted cannot have left the queue, so the difference is its position.
        self.groups[(number - self.front) as usize].slot = Slot::Flying(op);
    }

    /// Whether `index` has been handed to a write.
    pub fn is_submitted(&self, index: LogIndex) -> bool {
        index <= self.waiters.submitted.load(Ordering::SeqCst)
    }

    /// Whether somebody should poll because records wait and could be written.
    pub fn can_write(&self) -> bool {
        let room = self.has_slot() && (self.has_spare() || !self.must_roll());
        self.has_due_records() && room
    }

    /// Whether records wait that should be written now.
    fn has_due_records(&self) -> bool {
        let due = self.options.sync != SyncMode::None || self.is_write_due();
        due && !self.open.is_empty() && self.fence.is_none()
    }

    /// The last record that should be written by now.
    pub fn due(&self) -> LogIndex {
        if self.has_due_records() { self.last() } else { self.committed }
    }

    /// Whether the log is fenced and takes no records; for `replace`.
    pub fn is_fenced(&self) -> bool {
        self.fence.is_some()
    }

    pub fn committed(&self) -> LogIndex {
        self.committed
    }
}
