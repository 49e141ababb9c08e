//! A range scan, forward or reverse: the newest visible version of each key, tombstones and expired values left out.

use std::ops::Bound;
use std::sync::Arc;

use weir_io::{Result, Waiting};
use weir_model::engine::{Entry, Kind, Passed, Range, SEQ_MAX, ScanStep, Seq, Walk, is_expired};

use super::expected::Expected;
use super::merge::MergeCursor;
use super::source::Source;
use super::view::View;
use crate::cursor::{Cursor, Step};
use crate::table::CursorOptions;
use crate::version::Version;

/// How many versions of one key are stepped over before the rest of them is jumped over. A key that is written to again
/// and again has as many versions as there were writes since the last flush, and a seek costs as much as some steps.
const STEPS_MAX: usize = 8;

/// A scan of a tree. It keeps its view alive, and with it the memory and files it reads.
pub struct TreeWalk {
    merge: MergeCursor<Source>,
    version: Arc<Version>,
    range: Range,
    /// How many entries are going to be taken, if the caller said so and the sources do not know it yet.
    expected: Option<usize>,
    at: Seq,
    now_ms: u64,
    started: bool,
    /// The merge has moved on from the last answer.
    has_moved: bool,
    /// Entries that may still be looked at.
    budget: usize,
    /// All entries that were looked at, and their bytes; the scan stops when these reach `bytes_max`.
    passed: Passed,
    bytes_max: u64,
    /// The budget was used up before the end.
    stopped: bool,
    /// There is no further answer.
    is_at_end: bool,
    /// Forward: the last key given out, whose older versions are to be skipped. Reverse: the key being gathered.
    key: Vec<u8>,
    /// Whether `key` holds anything yet.
    has_key: bool,
    /// How many versions of `key` were met one after the other.
    versions: usize,
    /// Reverse only: the merge was sent forward to the newest visible version of `key`.
    is_at_newest: bool,
    /// Reverse only: the newest visible version of `key` met so far.
    best: Owned,
}

#[derive(Default)]
struct Owned {
    seq: Seq,
    kind: Option<Kind>,
    /// The kind of the last answer.
    given: Kind,
    expire_at_ms: u64,
    value: Vec<u8>,
}

impl Owned {
    fn set(&mut self, entry: &Entry<'_>) {
        self.seq = entry.seq;
        self.kind = Some(entry.kind);
        self.expire_at_ms = entry.expire_at_ms;
        self.value.clear();
        self.value.extend_from_slice(entry.value);
    }
}

impl TreeWalk {
    /// A scan of `range` in `view` as of `at`; values that expired by `now_ms` (wall clock) do not exist.
    pub fn new(view: &Arc<View>, range: Range, at: Seq, now_ms: u64, options: CursorOptions) -> Self {
        Self {
            merge: MergeCursor::new(view.sources(at, options)),
            version: Arc::clone(&view.version),
            range,
            expected: None,
            at,
            now_ms,
            started: false,
            has_moved: false,
            budget: usize::MAX,
            passed: Passed::default(),
            bytes_max: u64::MAX,
            stopped: false,
            is_at_end: false,
            key: Vec::new(),
            has_key: false,
            versions: 0,
            is_at_newest: false,
            best: Owned::default(),
        }
    }

    fn start(&mut self) -> Step {
        self.started = true;
        match (self.range.reverse, &self.range.from, &self.range.to) {
            (false, Bound::Unbounded, _) => self.merge.seek_first(),
            (false, Bound::Included(key), _) => self.merge.seek(key, SEQ_MAX),
            (false, Bound::Excluded(key), _) => self.merge.seek(&successor(key), SEQ_MAX),
            (true, _, Bound::Unbounded) => self.merge.seek_last(),
            (true, _, Bound::Included(key)) => self.merge.seek_before(&successor(key), SEQ_MAX),
            (true, _, Bound::Excluded(key)) => self.merge.seek_before(key, SEQ_MAX),
        }
    }

    /// Whether the merge stands on the next answer, or at the end.
    fn is_done_forward(&mut self) -> bool {
        let Some(entry) = self.merge.entry() else { return true };
        if self.range.is_past(entry.key) {
            self.is_at_end = true;
            return true;
        }
        if self.budget == 0 || self.passed.bytes >= self.bytes_max {
            self.stopped = true;
            return true;
        }
        self.budget -= 1;
        pass(&mut self.passed, &entry);
        let seen = self.has_key && self.key == entry.key;
        if seen || entry.seq > self.at {
            self.versions = if seen { self.versions + 1 } else { 0 };
            return false;
        }
        self.versions = 0;
        // The newest visible version: it decides, and whatever is older is skipped.
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        self.has_key = true;
        entry.kind.is_value() && !entry.is_expired(self.now_ms)
    }

    /// Going back, the versions of a key come oldest first: the last visible one before the key changes is the newest.
    /// Whether that is the next answer, or the end was reached.
    fn is_done_reverse(&mut self) -> bool {
        loop {
            match self.merge.entry() {
                Some(entry) if !self.range.is_past(entry.key) && (!self.has_key || self.key == entry.key) => {
                    if !self.has_key {
                        // Between two keys: no version of a key is left behind.
                        if self.budget == 0 || self.passed.bytes >= self.bytes_max {
                            self.stopped = true;
                            return true;
                        }
                        self.key.clear();
                        self.key.extend_from_slice(entry.key);
                        self.has_key = true;
                        self.versions = 0;
                    }
                    self.versions += 1;
                    self.budget = self.budget.saturating_sub(1);
                    pass(&mut self.passed, &entry);
                    if entry.seq <= self.at {
                        self.best.set(&entry);
                    }
                    return false;
                }
                _ if !self.has_key => {
                    self.is_at_end = true;
                    return true;
                }
                _ => {}
            }
            self.has_key = false;
            let expired = is_expired(self.best.expire_at_ms, self.now_ms);
            if let Some(kind) = self.best.kind.take().filter(|kind| kind.is_value() && !expired) {
                self.best.given = kind;
                return true;
            }
        }
    }

    /// Goes on from an entry that is no answer: to the next one, or past the rest of many versions of a key.
    fn go_on(&mut self) -> Step {
        let jumps = self.versions >= STEPS_MAX;
        if jumps {
            self.versions = 0;
        }
        match (self.range.reverse, jumps) {
            (false, false) => self.merge.next(),
            (false, true) => self.merge.seek(&successor(&self.key), SEQ_MAX),
            (true, false) => self.merge.prev(),
            (true, true) => {
                self.is_at_newest = true;
                self.merge.seek(&self.key, self.at)
            }
        }
    }

    /// Takes the newest visible version of `key`, which the merge was sent to, and turns back to the entry in front of
    /// all its versions.
    fn turn_back(&mut self) -> Step {
        self.is_at_newest = false;
        if let Some(entry) = self.merge.entry().filter(|entry| self.key == entry.key) {
            pass(&mut self.passed, &entry);
            self.best.set(&entry);
        }
        self.merge.seek_before(&self.key, SEQ_MAX)
    }

    fn is_done(&mut self) -> bool {
        if self.range.reverse { self.is_done_reverse() } else { self.is_done_forward() }
    }
}

impl Walk for TreeWalk {
    /// Shows the rest only where all that is left is in one memtable. Going forward, its cursor gives the newest
    /// visible version of each key first, and behind it older ones of a key that has several chains of versions.
    fn show_rest(&mut self, see: &mut dyn FnMut(Entry<'_>) -> bool) -> bool {
        let source = if self.range.reverse { None } else { self.merge.only_source() };
        let Some(Source::Memtable(cursor)) = source else { return false };
        let mut older = 0;
        loop {
            let step = match older {
                STEPS_MAX => cursor.seek(&successor(&self.key), SEQ_MAX),
                _ => cursor.next(),
            };
            let Step::Ready = step else { unreachable!("all of it is in memory") };
            let Some(entry) = cursor.entry() else { break };
            if self.range.is_past(entry.key) {
                self.is_at_end = true;
                break;
            }
            if self.budget == 0 || self.passed.bytes >= self.bytes_max {
                self.stopped = true;
                break;
            }
            self.budget -= 1;
            pass(&mut self.passed, &entry);
            if self.key == entry.key {
                older += 1;
                continue;
            }
            older = 0;
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            let is_answer = entry.kind.is_value() && !entry.is_expired(self.now_ms);
            if is_answer && !see(entry) {
                break;
            }
        }
        // The entry that it stopped at has not been looked at.
        self.has_moved = self.stopped;
        self.versions = 0;
        self.merge.moved_only_source();
        true
    }

    fn step(&mut self) -> ScanStep {
        loop {
            if !self.has_moved {
                self.has_moved = true;
                let step = match (self.started, self.range.reverse) {
                    (false, _) => self.start(),
                    // It stands on an entry of the next key already, or past the first one.
                    (true, true) => Step::Ready,
                    (true, false) if self.merge.entry().is_none() => Step::Ready,
                    (true, false) => self.merge.next(),
                };
                if step == Step::Load {
                    return ScanStep::Load;
                }
            }
            if self.is_at_newest && self.turn_back() == Step::Load {
                return ScanStep::Load;
            }
            if self.is_done() {
                // The entry that it stopped at has not been looked at.
                self.has_moved = self.stopped;
                return ScanStep::Ready;
            }
            if self.go_on() == Step::Load {
                return ScanStep::Load;
            }
        }
    }

    fn load(&mut self) -> Waiting<'_, Result<()>> {
        // Not before: sources that have everything in memory need not know.
        if let Some(entries) = self.expected.take() {
            let expected = Expected::new(&self.range, entries, &self.version);
            self.merge.sources_mut().iter_mut().for_each(|source| source.expect(&expected));
        }
        Box::pin(async {
            while self.merge.load().await? == Step::Load {}
            Ok(())
        })
    }

    fn entry(&self) -> Option<Entry<'_>> {
        if self.is_at_end || self.stopped {
            return None;
        }
        if !self.range.reverse {
            return self.merge.entry();
        }
        Some(Entry {
            key: &self.key,
            seq: self.best.seq,
            kind: self.best.given,
            expire_at_ms: self.best.expire_at_ms,
            value: &self.best.value,
        })
    }

    fn expect(&mut self, entries: usize) {
        debug_assert!(!self.started, "what is read first is as long as it is");
        self.expected = Some(entries);
    }

    fn set_budget(&mut self, entries: usize, bytes: u64) {
        self.budget = entries;
        self.bytes_max = bytes;
        self.stopped = false;
    }

    fn passed(&self) -> Passed {
        self.passed
    }

    fn stopped_at(&self) -> Option<Vec<u8>> {
        let entry = self.merge.entry().filter(|_| self.stopped)?;
        if self.range.reverse {
            return Some(successor(entry.key));
        }
        Some(if self.has_key && self.key == entry.key { successor(entry.key) } else { entry.key.to_vec() })
    }
}

#[inline]
fn pass(passed: &mut Passed, entry: &Entry<'_>) {
    passed.entries += 1;
    passed.bytes += (entry.key.len() + entry.value.len()) as u64;
}

/// The smallest key larger than `key`.
fn successor(key: &[u8]) -> Vec<u8> {
    let mut next = key.to_vec();
    next.push(0);
    next
}
