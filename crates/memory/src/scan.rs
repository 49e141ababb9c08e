//! A range scan, forward or reverse, of what was visible when it began.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use crossbeam_epoch as epoch;
use weir_io::{Result, Waiting};
use weir_model::engine::{Entry, Passed, Range, ScanStep, Seq, Snapshot, Walk};

use crate::index::{self, Index};
use crate::key::Key;
use crate::version::Version;

/// Rows taken from the index at once: as many as a page of a scan often needs, then each time more, up to a bound.
const FIRST_ROWS: usize = 16;
const MORE_ROWS: usize = 4;
const ROWS_MAX: usize = 256;

/// A scan. Versions that it may still come to see stay in memory as long as it lives.
pub(crate) struct StoreWalk {
    index: Arc<Index>,
    snapshot: Snapshot,
    range: Range,
    /// The last row that was taken from the index: what is left of the range is behind it.
    last: Option<Key>,
    now_ms: u64,
    /// Rows with the version that is visible, if any.
    page: VecDeque<(Key, Option<Arc<Version>>)>,
    page_rows: usize,
    /// The range holds nothing beyond the page.
    is_last: bool,
    current: Option<(Key, Arc<Version>)>,
    /// Rows that may still be looked at.
    budget: usize,
    passed: Passed,
    bytes_max: u64,
    stopped: bool,
}

impl StoreWalk {
    /// A scan of `range` as of `snapshot`; values that expired by `now_ms` (wall clock) do not exist.
    pub fn new(index: &Arc<Index>, range: Range, snapshot: Snapshot, now_ms: u64) -> Self {
        Self {
            index: Arc::clone(index),
            snapshot,
            range,
            last: None,
            now_ms,
            page: VecDeque::new(),
            page_rows: FIRST_ROWS,
            is_last: false,
            current: None,
            budget: usize::MAX,
            passed: Passed::default(),
            bytes_max: u64::MAX,
            stopped: false,
        }
    }

    fn advance(&mut self) -> Option<(Key, Arc<Version>)> {
        loop {
            if self.page.is_empty() {
                self.fill();
            }
            self.page.front()?;
            if self.budget == 0 || self.passed.bytes >= self.bytes_max {
                self.stopped = true;
                return None;
            }
            let (key, version) = self.page.pop_front()?;
            self.budget -= 1;
            self.passed.bytes += bytes_of(&key, version.as_deref());
            if let Some(version) = version.filter(|version| version.is_answer(self.now_ms)) {
                return Some((key, version));
            }
        }
    }

    /// Takes the next page from the index.
    fn fill(&mut self) {
        if self.is_last {
            return;
        }
        self.go_behind_last();
        let Self { index, range, page, .. } = self;
        let (at, most) = (self.snapshot.seq(), self.page_rows);
        let (from, to) = (range.from.as_ref().map(|key| &key[..]), range.to.as_ref().map(|key| &key[..]));
        self.is_last = index.walk(from, to, range.reverse, |entry, _| {
            page.push_back((entry.key.clone(), visible(entry, at)));
            page.len() < most
        });
        self.last = page.back().map(|(last, _)| last.clone());
        // Each was copied, whether or not anybody will ask for it.
        self.passed.entries += self.page.len() as u64;
        self.page_rows = (self.page_rows * MORE_ROWS).min(ROWS_MAX);
    }

    /// Cuts the range to what is left of it. This happens only when the scan goes on: most scans that have found enough
    /// do not.
    fn go_behind_last(&mut self) {
        if let Some(last) = self.last.take() {
            let behind = Bound::Excluded(last.to_vec());
            if self.range.reverse { self.range.to = behind } else { self.range.from = behind }
        }
    }
}

/// The version of a row that is visible at `at`, which is held.
fn visible(entry: &index::Entry, at: Seq) -> Option<Arc<Version>> {
    entry.row.newest.load()?.visible(at)
}

#[inline]
fn bytes_of(key: &[u8], version: Option<&Version>) -> u64 {
    (key.len() + version.map_or(0, |version| version.value.len())) as u64
}

impl Walk for StoreWalk {
    /// Shows rows right from the index: no reference is counted and nothing is copied for a row.
    fn show(&mut self, see: &mut dyn FnMut(Entry<'_>) -> bool) -> ScanStep {
        while !self.page.is_empty() {
            let Some((key, version)) = self.advance() else { break };
            if !see(version.entry(&key)) {
                return ScanStep::Ready;
            }
        }
        if self.is_last || self.stopped {
            return ScanStep::Ready;
        }
        self.go_behind_last();
        let Self { index, range, budget, passed, page, .. } = self;
        let (at, now_ms, bytes_max, guard) = (self.snapshot.seq(), self.now_ms, self.bytes_max, epoch::pin());
        let (mut last, mut stopped) = (None, false);
        let (from, to) = (range.from.as_ref().map(|key| &key[..]), range.to.as_ref().map(|key| &key[..]));
        self.is_last = index.walk(from, to, range.reverse, |entry, newest| {
            let version = newest.visible_in(at, &guard);
            stopped = *budget == 0 || passed.bytes >= bytes_max;
            if stopped {
                page.push_back((entry.key.clone(), visible(entry, at)));
                return false;
            }
            *budget -= 1;
            passed.entries += 1;
            passed.bytes += bytes_of(&entry.key, version);
            let goes_on = match version.filter(|version| version.is_answer(now_ms)) {
                Some(version) => see(version.entry(&entry.key)),
                None => true,
            };
            if !goes_on {
                last = Some(entry.key.clone());
            }
            goes_on
        });
        self.stopped = stopped;
        self.last = last.or_else(|| page.back().map(|(key, _)| key.clone()));
        ScanStep::Ready
    }

    fn step(&mut self) -> ScanStep {
        self.current = self.advance();
        ScanStep::Ready
    }

    /// Everything is in memory.
    fn load(&mut self) -> Waiting<'_, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.current.as_ref().map(|(key, version)| version.entry(key))
    }

    fn set_budget(&mut self, entries: usize, bytes: u64) {
        (self.budget, self.bytes_max, self.stopped) = (entries, bytes, false);
    }

    fn passed(&self) -> Passed {
        self.passed
    }

    fn stopped_at(&self) -> Option<Vec<u8>> {
        let (key, _) = self.page.front().filter(|_| self.stopped)?;
        // Going back, this row and the rows before it are left: all that is before the first key behind this one.
        let behind: &[u8] = if self.range.reverse { &[0] } else { &[] };
        Some([&key[..], behind].concat())
    }
}
