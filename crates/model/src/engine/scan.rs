//! Range scans, forward or reverse: the newest visible version of each key, without tombstones and expired values.

use std::ops::Bound;

use weir_io::{Result, Waiting};

use super::Entry;

/// The keys to scan.
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

    /// Whether a scan that has come to `key` has left the range.
    pub fn is_past(&self, key: &[u8]) -> bool {
        match (if self.reverse { &self.from } else { &self.to }, self.reverse) {
            (Bound::Unbounded, _) => false,
            (Bound::Included(end), false) => key > end.as_slice(),
            (Bound::Excluded(end), false) => key >= end.as_slice(),
            (Bound::Included(end), true) => key < end.as_slice(),
            (Bound::Excluded(end), true) => key <= end.as_slice(),
        }
    }
}

/// Everything that a scan has looked at: its answers, and versions that were deleted, expired, old or not yet visible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Versions of keys, including those that the scan has loaded and may still return.
    pub entries: u64,
    /// Bytes of their keys and values: about as much as was read for the scan.
    pub bytes: u64,
}

/// The result of a step of a [`Walk`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ScanStep {
    /// The walk stands on the next answer, or at the end.
    Ready,
    /// The walk needs data that is not in memory: await [`Walk::load`], then step again.
    Load,
}

/// The engine's side of a [`Scan`]. Steps are plain calls as long as they find the data in memory.
pub trait Walk: Send {
    /// Goes to the next answer.
    fn step(&mut self) -> ScanStep;

    /// Goes from answer to answer and shows each to `see`. It stops when `see` returns false, at the end of the range,
    /// or at data that is not in memory; the result is that of a step. If `see` returned false, the next step goes to
    /// the answer behind that one.
    fn show(&mut self, see: &mut dyn FnMut(Entry<'_>) -> bool) -> ScanStep {
        loop {
            let step = self.step();
            match self.entry().filter(|_| step == ScanStep::Ready) {
                Some(entry) if see(entry) => {}
                _ => return step,
            }
            if self.show_rest(see) {
                return ScanStep::Ready;
            }
        }
    }

    /// Shows the answers behind the present one, as [`Walk::show`] does, where this costs less than a step for each and
    /// needs no data that is not in memory. Otherwise returns `false`, having shown nothing.
    fn show_rest(&mut self, _see: &mut dyn FnMut(Entry<'_>) -> bool) -> bool {
        false
    }

    /// Fetches the data that a step was missing.
    ///
    /// # Errors
    /// As [`Scan::next`].
    fn load(&mut self) -> Waiting<'_, Result<()>>;

    /// The answer that the walk stands on; `None` before the first step and at the end.
    fn entry(&self) -> Option<Entry<'_>>;

    /// See [`Scan::expect`]. A walk that reads nothing from a device may ignore it.
    fn expect(&mut self, _entries: usize) {}

    /// See [`Scan::set_budget`].
    fn set_budget(&mut self, entries: usize, bytes: u64);

    /// See [`Scan::passed`].
    fn passed(&self) -> Passed;

    /// See [`Scan::stopped_at`].
    fn stopped_at(&self) -> Option<Vec<u8>>;
}

/// A scan in progress. It keeps alive the memory and the files that it reads.
pub struct Scan(Box<dyn Walk>);

impl Scan {
    /// A scan by `walk`.
    pub fn new(walk: impl Walk + 'static) -> Self {
        Self(Box::new(walk))
    }

    /// The next key and its version; `None` at the end of the range. After an error, or if the future was dropped
    /// unfinished, the scan must not be used again.
    ///
    /// # Errors
    /// Any error of the disk; `Corruption` where stored data is damaged.
    pub async fn next(&mut self) -> Result<Option<Entry<'_>>> {
        while self.step() == ScanStep::Load {
            self.load().await?;
        }
        Ok(self.entry())
    }

    /// Goes to the next key, as far as data in memory allows: for callers that must not wait. If it returns
    /// [`ScanStep::Load`], call [`Scan::load`] to fetch the missing data, and then step again.
    pub fn step(&mut self) -> ScanStep {
        self.0.step()
    }

    /// Shows answers to `see`, one after the other, until `see` returns false, the range ends, or data is not in
    /// memory. For many answers this costs less than steps. If it returns [`ScanStep::Load`], call [`Scan::load`] to
    /// fetch the missing data, and then call this again.
    pub fn show(&mut self, mut see: impl FnMut(Entry<'_>) -> bool) -> ScanStep {
        self.0.show(&mut see)
    }

    /// Fetches the data that a step was missing.
    ///
    /// # Errors
    /// As [`Scan::next`].
    pub async fn load(&mut self) -> Result<()> {
        self.0.load().await
    }

    /// The key and its version at which the last step arrived; `None` at the end of the range.
    pub fn entry(&self) -> Option<Entry<'_>> {
        self.0.entry()
    }

    /// Announces that the caller will take about `entries` entries, or all that there are up to the end of the range.
    /// Reads of the device are then about as long as that takes, from the first one on; without it the first one is
    /// short. Call it before the first step.
    pub fn expect(&mut self, entries: usize) {
        self.0.expect(entries);
    }

    /// From now on the scan looks at no more than `entries` entries, and at no further one when it has passed `bytes`
    /// of keys and values. All versions count, whether they are answers, or deleted, expired, old or not yet visible. A
    /// reverse scan stops between two keys. Then [`Scan::next`] returns `None`, and [`Scan::stopped_at`] says where to
    /// go on.
    pub fn set_budget(&mut self, entries: usize, bytes: u64) {
        self.0.set_budget(entries, bytes);
    }

    /// Everything the scan has looked at so far, answers or not.
    pub fn passed(&self) -> Passed {
        self.0.passed()
    }

    /// The first key that was not looked at because the budget was used up; `None` if it was not used up. In a reverse
    /// scan, the first key behind the remaining ones: they are before it.
    pub fn stopped_at(&self) -> Option<Vec<u8>> {
        self.0.stopped_at()
    }
}
