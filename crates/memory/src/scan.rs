//! A range scan, forward or reverse, of what was visible when it began.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use weir_io::{Result, Waiting};
use weir_model::engine::{Entry, Range, ScanStep, Snapshot, Walk, is_expired};

use crate::index::Index;
use crate::key::Key;
use crate::version::Version;

/// Rows taken from the index at once: as many as a page of a scan often needs, then each time more, up to a bound.
const FIRST_ROWS: usize = 16;
const MORE_ROWS: usize = 4;
const ROWS_MAX: usize = 256;

/// A scan. What it may still come to see stays in memory as long as it lives.
pub(crate) struct StoreWalk {
    index: Arc<Index>,
    snapshot: Snapshot,
    range: Range,
    now_ms: u64,
    /// Rows with the version that is visible, if any.
    page: VecDeque<(Key, Option<Arc<Version>>)>,
    page_rows: usize,
    /// The range holds nothing beyond the page.
    is_last: bool,
    current: Option<(Key, Arc<Version>)>,
    /// Rows that may still be looked at.
    budget: usize,
    passed_bytes: u64,
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
            now_ms,
            page: VecDeque::new(),
            page_rows: FIRST_ROWS,
            is_last: false,
            current: None,
            budget: usize::MAX,
            passed_bytes: 0,
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
            if self.budget == 0 || self.passed_bytes >= self.bytes_max {
                self.stopped = true;
                return None;
            }
            let (key, version) = self.page.pop_front()?;
            self.budget -= 1;
            self.passed_bytes += (key.len() + version.as_ref().map_or(0, |version| version.value.len())) as u64;
            if let Some(version) = version
                && version.kind.is_value()
                && !is_expired(version.expire_at_ms, self.now_ms)
            {
                return Some((key, version));
            }
        }
    }

    /// Takes the next page from the index.
    fn fill(&mut self) {
        if self.is_last {
            return;
        }
        let Self { index, range, page, .. } = self;
        let (at, most) = (self.snapshot.seq(), self.page_rows);
        let (from, to) = (range.from.as_ref().map(|key| &key[..]), range.to.as_ref().map(|key| &key[..]));
        self.is_last = index.walk(from, to, range.reverse, |key, newest| {
            page.push_back((key.clone(), newest.visible(at)));
            page.len() < most
        });
        if let Some((last, _)) = page.back() {
            let behind = Bound::Excluded(last.to_vec());
            if range.reverse { range.to = behind } else { range.from = behind }
        }
        self.page_rows = (self.page_rows * MORE_ROWS).min(ROWS_MAX);
    }
}

impl Walk for StoreWalk {
    fn step(&mut self) -> ScanStep {
        self.current = self.advance();
        ScanStep::Ready
    }

    /// Everything is in memory.
    fn load(&mut self) -> Waiting<'_, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.current.as_ref().map(|(key, version)| Entry {
            key,
            seq: version.seq,
            kind: version.kind,
            expire_at_ms: version.expire_at_ms,
            value: &version.value,
        })
    }

    fn set_budget(&mut self, entries: usize, bytes: u64) {
        (self.budget, self.bytes_max, self.stopped) = (entries, bytes, false);
    }

    fn passed_bytes(&self) -> u64 {
        self.passed_bytes
    }

    fn stopped_at(&self) -> Option<Vec<u8>> {
        let (key, _) = self.page.front().filter(|_| self.stopped)?;
        // Going back, what is left is before it: before the first key behind the next one.
        let behind: &[u8] = if self.range.reverse { &[0] } else { &[] };
        Some([&key[..], behind].concat())
    }
}
