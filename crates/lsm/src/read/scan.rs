//! A range scan, forward or reverse: the newest visible version of each key, tombstones and expired values left out.

use std::ops::Bound;
use std::sync::Arc;

use weir_io::Result;

use super::merge::MergeCursor;
use super::source::Source;
use super::view::View;
use crate::cursor::{Cursor, Step};
use crate::entry::{Entry, Kind, SEQ_MAX, Seq, is_expired};
use crate::table::CursorOptions;

/// What to scan.
#[derive(Clone, Debug)]
pub struct Range {
    /// Where the keys begin.
    pub from: Bound<Vec<u8>>,
    /// Where the keys end.
    pub to: Bound<Vec<u8>>,
    /// Largest key first.
    pub reverse: bool,
}

impl Range {
    /// Every key, smallest first.
    pub fn all() -> Self {
        Self { from: Bound::Unbounded, to: Bound::Unbounded, reverse: false }
    }

    /// Keys from `key` on, smallest first.
    pub fn starting_at(key: &[u8]) -> Self {
        Self { from: Bound::Included(key.into()), ..Self::all() }
    }

    fn is_past(&self, key: &[u8]) -> bool {
        match (if self.reverse { &self.from } else { &self.to }, self.reverse) {
            (Bound::Unbounded, _) => false,
            (Bound::Included(end), false) => key > end.as_slice(),
            (Bound::Excluded(end), false) => key >= end.as_slice(),
            (Bound::Included(end), true) => key < end.as_slice(),
            (Bound::Excluded(end), true) => key <= end.as_slice(),
        }
    }
}

/// A scan under way. It keeps its view alive, and with it the memory and files it reads.
pub struct Scan {
    merge: MergeCursor<Source>,
    range: Range,
    at: Seq,
    now_ms: u64,
    started: bool,
    /// Entries that may still be looked at.
    budget: usize,
    /// Bytes of keys and values of all entries that were looked at, and where that stops.
    passed_bytes: u64,
    bytes_max: u64,
    /// The budget was used up before the end.
    stopped: bool,
    /// Forward: the last key given out, whose older versions are to be skipped. Reverse: the key being gathered.
    key: Vec<u8>,
    /// Whether `key` holds anything yet.
    has_key: bool,
    /// Reverse only: the newest visible version of `key` met so far.
    best: Owned,
}

#[derive(Default)]
struct Owned {
    seq: Seq,
    kind: Option<Kind>,
    expire_at_ms: u64,
    value: Vec<u8>,
}

impl Scan {
    /// A scan of `range` in `view` as of `at`; values that expired by `now_ms` (wall clock) do not exist.
    pub fn new(view: &Arc<View>, range: Range, at: Seq, now_ms: u64, options: CursorOptions) -> Self {
        Self {
            merge: MergeCursor::new(view.sources(options)),
            range,
            at,
            now_ms,
            started: false,
            budget: usize::MAX,
            passed_bytes: 0,
            bytes_max: u64::MAX,
            stopped: false,
            key: Vec::new(),
            has_key: false,
            best: Owned::default(),
        }
    }

    /// Lets a forward scan look at no more than `entries` from now on, and at no further one when it has passed `bytes`
    /// of keys and values, whether they are answers, or deleted, expired, old or not yet visible. Then [`Scan::next`]
    /// says `None`, and [`Scan::stopped_at`] where to go on.
    pub fn set_budget(&mut self, entries: usize, bytes: u64) {
        self.budget = entries;
        self.bytes_max = bytes;
    }

    /// Bytes of keys and values that a forward scan has looked at, answers or not: about what it had read for it.
    pub fn passed_bytes(&self) -> u64 {
        self.passed_bytes
    }

    /// The first key that was not looked at because the budget was used up; `None` if it was not.
    pub fn stopped_at(&self) -> Option<Vec<u8>> {
        let entry = self.merge.entry().filter(|_| self.stopped)?;
        Some(if self.has_key && self.key == entry.key { successor(entry.key) } else { entry.key.to_vec() })
    }

    /// The next key and its version; `None` at the end of the range. After an error, or if the
    /// future was dropped unfinished, the scan must not be used again.
    pub async fn next(&mut self) -> Result<Option<Entry<'_>>> {
        if self.range.reverse { self.next_reverse().await } else { self.next_forward().await }
    }

    async fn start(&mut self) -> Result<()> {
        self.started = true;
        let step = match (self.range.reverse, &self.range.from, &self.range.to) {
            (false, Bound::Unbounded, _) => self.merge.seek_first(),
            (false, Bound::Included(key), _) => self.merge.seek(key, SEQ_MAX),
            (false, Bound::Excluded(key), _) => self.merge.seek(&successor(key), SEQ_MAX),
            (true, _, Bound::Unbounded) => self.merge.seek_last(),
            (true, _, Bound::Included(key)) => self.merge.seek_before(&successor(key), SEQ_MAX),
            (true, _, Bound::Excluded(key)) => self.merge.seek_before(key, SEQ_MAX),
        };
        self.finish(step).await
    }

    async fn finish(&mut self, mut step: Step) -> Result<()> {
        while step == Step::Load {
            step = self.merge.load().await?;
        }
        Ok(())
    }

    async fn next_forward(&mut self) -> Result<Option<Entry<'_>>> {
        if !self.started {
            self.start().await?;
        } else if self.merge.entry().is_some() {
            let step = self.merge.next();
            self.finish(step).await?;
        }
        loop {
            let Some(entry) = self.merge.entry() else { return Ok(None) };
            if self.range.is_past(entry.key) {
                return Ok(None);
            }
            if self.budget == 0 || self.passed_bytes >= self.bytes_max {
                self.stopped = true;
                return Ok(None);
            }
            self.budget -= 1;
            self.passed_bytes += (entry.key.len() + entry.value.len()) as u64;
            let seen = self.has_key && self.key == entry.key;
            if !seen && entry.seq <= self.at {
                // The newest visible version: it decides, and whatever is older is skipped.
                self.key.clear();
                self.key.extend_from_slice(entry.key);
                self.has_key = true;
                if entry.kind == Kind::Put && !entry.is_expired(self.now_ms) {
                    break;
                }
            }
            let step = self.merge.next();
            self.finish(step).await?;
        }
        Ok(self.merge.entry())
    }

    /// Going back, the versions of a key come oldest first: the last visible one before the key changes is the newest.
    async fn next_reverse(&mut self) -> Result<Option<Entry<'_>>> {
        if !self.started {
            self.start().await?;
        }
        loop {
            let same_key = match self.merge.entry() {
                Some(entry) if !self.range.is_past(entry.key) => {
                    if self.has_key && self.key != entry.key {
                        false
                    } else {
                        if !self.has_key {
                            self.key.clear();
                            self.key.extend_from_slice(entry.key);
                            self.has_key = true;
                        }
                        if entry.seq <= self.at {
                            self.best.seq = entry.seq;
                            self.best.kind = Some(entry.kind);
                            self.best.expire_at_ms = entry.expire_at_ms;
                            self.best.value.clear();
                            self.best.value.extend_from_slice(entry.value);
                        }
                        true
                    }
                }
                _ if !self.has_key => return Ok(None),
                _ => false,
            };
            if same_key {
                let step = self.merge.prev();
                self.finish(step).await?;
                continue;
            }
            self.has_key = false;
            let expired = is_expired(self.best.expire_at_ms, self.now_ms);
            if self.best.kind.take() == Some(Kind::Put) && !expired {
                break;
            }
        }
        Ok(Some(Entry {
            key: &self.key,
            seq: self.best.seq,
            kind: Kind::Put,
            expire_at_ms: self.best.expire_at_ms,
            value: &self.best.value,
        }))
    }
}

/// The smallest key larger than `key`.
fn successor(key: &[u8]) -> Vec<u8> {
    let mut next = key.to_vec();
    next.push(0);
    next
}
