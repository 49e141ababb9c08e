//! The segments of a log: the active one, the older ones, and the spare that is made before it is needed.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use weir_io::{BoxFuture, Class, Error, Op, Result, Tag};
use weir_model::LogIndex;

use super::LogState;
use crate::options::SyncMode;
use crate::record::{self, Link};
use crate::segment::{self, HEADER_PAGE, Segment, Wanted};
use crate::signposts::Signposts;

/// A segment that is full, or existed when the log was opened.
pub(crate) struct Older {
    pub id: u64,
    pub path: PathBuf,
    /// Kept open until it is synced.
    pub segment: Option<Arc<Segment>>,
    pub last: LogIndex,
    /// Where its records end.
    pub used: u64,
    pub allocated: u64,
    pub signposts: Signposts,
}

/// A segment to be searched for records.
pub(crate) struct Searched {
    pub path: PathBuf,
    /// The index of its last record.
    pub last: LogIndex,
    pub signposts: Signposts,
}

/// The segment that is being written to.
pub(super) struct Active {
    pub segment: Arc<Segment>,
    /// Where the next write goes.
    pub offset: u64,
    pub signposts: Signposts,
    /// The link that the first write to it begins with.
    pub link: Option<Link>,
}

/// The segment that will be written to next.
pub(super) enum Spare {
    None,
    Preparing(BoxFuture<Result<Segment>>),
    /// The file of one that was given up is being removed. The next one has the same name while it is made.
    Removing(Op<()>),
    Ready(Segment),
}

impl LogState {
    pub fn has_spare(&self) -> bool {
        matches!(self.spare, Spare::Ready(_))
    }

    /// The engine holds everything up to `persisted`: returns the segments that nobody needs any more.
    pub fn truncate(&mut self, persisted: LogIndex) -> Vec<Older> {
        // Records that the engine holds are as good as synced, unless their write is still in flight.
        self.durable = self.durable.max(persisted.min(self.committed));
        let count = self.older.iter().take_while(|older| self.is_unneeded(older, persisted)).count();
        self.older.drain(..count).collect()
    }

    /// The last index in the newest segment that is no longer written to and is entirely on the device.
    pub fn sealed(&self) -> Option<LogIndex> {
        self.older.iter().rev().map(|older| older.last).find(|last| *last <= self.durable)
    }

    /// These files were to be removed, and were not.
    pub fn leave_behind(&mut self, paths: &mut Vec<PathBuf>) {
        self.unremoved.append(paths);
        // Names sort by the numbers of the segments.
        self.unremoved.sort_unstable();
    }

    /// Whether there are segments to be removed: [`LogState::truncate`] would return some, or some were left behind.
    pub fn would_truncate(&self, persisted: LogIndex) -> bool {
        !self.unremoved.is_empty() || self.older.front().is_some_and(|older| self.is_unneeded(older, persisted))
    }

    /// The segments that may contain records `first..=last`, in order.
    pub fn segments_with(&self, first: LogIndex, last: LogIndex) -> Vec<Searched> {
        let mut before = 0;
        let mut segments = Vec::new();
        for older in &self.older {
            if older.last >= first && before < last {
                let (path, signposts) = (older.path.clone(), older.signposts.clone());
                segments.push(Searched { path, last: older.last, signposts });
            }
            before = older.last;
        }
        segments.extend(self.active.as_ref().filter(|_| before < last).map(|active| Searched {
            path: active.segment.path.clone(),
            last: self.last(),
            signposts: active.signposts.clone(),
        }));
        segments
    }

    fn is_unneeded(&self, older: &Older, persisted: LogIndex) -> bool {
        older.last <= persisted && older.last <= self.committed
    }

    /// Takes a segment from `unneeded` that can become the spare, if a spare is wanted.
    pub fn choose_recycled(&self, unneeded: &mut Vec<Older>) -> Option<Older> {
        // Through the page cache, writing a part of an old page would first read that page from the device.
        let wanted = self.options.sync == SyncMode::Always && matches!(self.spare, Spare::None) && self.fence.is_none();
        let sizes = self.next_segment_bytes..=2 * self.options.segment_bytes;
        let fit = unneeded.iter().position(|older| sizes.contains(&older.allocated));
        fit.filter(|_| wanted).map(|position| unneeded.swap_remove(position))
    }

    /// Starts making a spare segment, from `recycled` if that is given. If it has to be filled with zeros, these are of
    /// `class`.
    pub fn start_spare(&mut self, recycled: Option<PathBuf>, class: Class) {
        debug_assert!(matches!(self.spare, Spare::None));
        self.stats.segments_recycled += u64::from(recycled.is_some());
        self.stats.segments_created += u64::from(recycled.is_none());
        let id = self.next_segment_id;
        self.next_segment_id += 1;
        self.recycled.clone_from(&recycled);
        let (fs, dir) = (Arc::clone(&self.fs), self.dir.clone());
        let is_filling = Arc::<AtomicBool>::default();
        self.is_filling = Arc::clone(&is_filling);
        let wanted =
            Wanted { id, capacity: self.next_segment_bytes, recycled, class, is_filling, names_dir: self.is_new };
        self.spare = Spare::Preparing(Box::pin(segment::prepare(fs, dir, self.options, wanted)));
        self.spare_failure = None;
    }

    /// Why there is no spare segment, if making it failed.
    pub fn spare_failure(&self) -> Option<&Error> {
        self.spare_failure.as_ref()
    }

    pub fn forget_spare_failure(&mut self) {
        self.spare_failure = None;
    }

    /// A log that nobody writes to has no segment, and needs no spare either.
    pub fn wants_spare(&self) -> bool {
        matches!(self.spare, Spare::None)
            && self.active.as_ref().is_some_and(|active| active.offset > active.segment.capacity / 2)
    }

    /// Gives up a spare that is being filled in the background: writes wait for a segment by now, or for another log,
    /// or this log is closed, and behind the strict foreground of others its zeros might wait for ever. The segment
    /// that is made instead is small, because it is filled before others. Gives whether there was such a spare: its
    /// file is left behind, for the next making to remove.
    pub(super) fn give_up_filling(&mut self) -> bool {
        let gives_up = matches!(self.spare, Spare::Preparing(_)) && self.is_filling.load(Ordering::Relaxed);
        if gives_up {
            self.spare = Spare::None;
            self.next_segment_bytes = self.next_segment_bytes.min(self.options.first_segment_bytes());
        }
        gives_up
    }

    /// Like [`LogState::give_up_filling`], and removes the file, where the next segment may not be made for long: the
    /// file has the space of a whole segment. On a full disk a failed log would otherwise keep the space that the flush
    /// needs which must happen before the log is replaced.
    pub(super) fn remove_filling(&mut self) {
        if self.give_up_filling() {
            let (temporary, tag) = (self.dir.join(segment::PREPARING), Tag::new(self.options.owner, Class::Log));
            self.spare = Spare::Removing(self.fs.remove(&temporary, tag));
            self.reap_spare();
        }
    }

    /// Nothing will be written behind the waiting records except a closing mark. If they need another segment, it
    /// should be no larger than that: on a full disk there might be no room for a larger one. One that is being filled
    /// in the background is given up.
    pub fn expect_no_more(&mut self) {
        self.remove_filling();
        let wanted = HEADER_PAGE + record::next_page(self.open_bytes()) + super::CLOSE_BYTES_MAX;
        self.next_segment_bytes = self.next_segment_bytes.min(wanted);
    }

    /// Whether a spare is being made, or the file of one that was given up is being removed.
    pub fn is_spare_in_flight(&self) -> bool {
        matches!(self.spare, Spare::Preparing(_) | Spare::Removing(_))
    }

    /// Whether the spare in the making is made of an old segment.
    pub fn is_recycling(&self) -> bool {
        self.is_spare_in_flight() && self.recycled.is_some()
    }

    pub fn take_spare(&mut self) -> Option<Segment> {
        match std::mem::replace(&mut self.spare, Spare::None) {
            Spare::Ready(segment) => Some(segment),
            other => {
                self.spare = other;
                None
            }
        }
    }

    pub(super) fn retire_active(&mut self) {
        if let Some(Active { segment, offset, signposts, .. }) = self.active.take() {
            let last = self.waiters.submitted.load(Ordering::SeqCst);
            self.older.push_back(Older {
                id: segment.id,
                path: segment.path.clone(),
                last,
                used: offset,
                allocated: segment.allocated.max(offset),
                signposts,
                segment: Some(segment).filter(|_| last > self.durable && self.options.sync != SyncMode::Always),
            });
        }
    }

    /// Returns false if there is no spare.
    pub fn activate_spare(&mut self) -> bool {
        let Some(segment) = self.take_spare() else { return false };
        self.next_segment_bytes = (2 * segment.capacity).min(self.options.segment_bytes);
        let (segment, signposts) = (Arc::new(segment), Signposts::default());
        // The segment in front of it is finished: its writes were handed over, and no more will follow.
        let link = self.older.back().map_or_else(Link::default, |older| Link { previous: older.id, end: older.used });
        self.active = Some(Active { segment, offset: HEADER_PAGE, signposts, link: Some(link) });
        true
    }

    pub(super) fn reap_spare(&mut self) {
        let cx = &mut Context::from_waker(&self.everybody);
        let made = match &mut self.spare {
            Spare::None | Spare::Ready(_) => return,
            Spare::Preparing(future) => future.as_mut().poll(cx),
            Spare::Removing(op) => {
                // A file that could not be removed is removed by the next making, or the next opening.
                if Pin::new(op).poll(cx).is_ready() {
                    self.spare = Spare::None;
                    self.waiters.wake_all();
                }
                return;
            }
        };
        let Poll::Ready(result) = made else { return };
        let recycled = self.recycled.take();
        match result {
            Ok(segment) => {
                self.spare = Spare::Ready(segment);
                self.is_new = false;
            }
            Err(error) => {
                self.spare = Spare::None;
                // The old segment may still have its name.
                self.leave_behind(&mut Vec::from_iter(recycled));
                self.spare_failure = Some(error.clone());
                // The disk may be full: a small segment may still find room.
                self.next_segment_bytes = self.options.first_segment_bytes();
                // With room left in the active segment nothing is lost yet: the next maintenance tries again.
                if self.must_roll() {
                    self.fence(error, self.waiters.submitted.load(Ordering::SeqCst) + 1);
                }
            }
        }
        self.waiters.wake_all();
    }

    /// Whether the open buffer needs another segment than the active one.
    pub(super) fn must_roll(&self) -> bool {
        !self.open.is_empty()
            && self.active.as_ref().is_none_or(|active| {
                active.offset > HEADER_PAGE && active.offset + self.open_bytes() > active.segment.capacity
            })
    }
}
