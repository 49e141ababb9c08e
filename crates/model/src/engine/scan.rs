//! Range scans, forward or reverse: the newest visible version of each key, tombstones and expired values left out.

use std::ops::Bound;

use weir_io::{Result, Waiting};

use super::Entry;

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

    /// Whether a scan of the range that has come to `key` is at its end.
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

/// What a scan has looked at: what it gave, and what was deleted, expired, old or not yet visible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Versions of keys; also such as it has in hand, and may yet give.
    pub entries: u64,
    /// Bytes of their keys and values: about what was read for it.
    pub bytes: u64,
}

/// How far a [`Walk`] came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ScanStep {
    /// It stands on the next answer, or at the end.
    Ready,
    /// It misses something: await [`Walk::load`], then step again.
    Load,
}

/// What engines put into a [`Scan`]. Steps are plain calls as long as they find what they need in memory.
pub trait Walk: Send {
    /// Goes to the next answer.
    fn step(&mut self) -> ScanStep;

    /// Goes from answer to answer and shows each to `see`, until it says false, or the end, or as far as memory
    /// carries; the rest as of a step. Where `see` has said false, the next step goes to the answer behind that.
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

    /// Shows the answers behind the one that it stands on, as [`Walk::show`] does, where that takes less than a step
    /// for each and never misses anything. `false` if it is not so: nothing was shown.
    fn show_rest(&mut self, _see: &mut dyn FnMut(Entry<'_>) -> bool) -> bool {
        false
    }

    /// Fetches what a step misses.
    ///
    /// # Errors
    /// As [`Scan::next`].
    fn load(&mut self) -> Waiting<'_, Result<()>>;

    /// The answer on which it stands; `None` before the first step and at the end.
    fn entry(&self) -> Option<Entry<'_>>;

    /// See [`Scan::expect`]. Whoever reads nothing from a device need not know.
    fn expect(&mut self, _entries: usize) {}

    /// See [`Scan::set_budget`].
    fn set_budget(&mut self, entries: usize, bytes: u64);

    /// See [`Scan::passed`].
    fn passed(&self) -> Passed;

    /// See [`Scan::stopped_at`].
    fn stopped_at(&self) -> Option<Vec<u8>>;
}

/// A scan under way. It keeps alive what it reads: memory and files.
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
    /// What the disk says; `Corruption` where what is stored is damaged.
    pub async fn next(&mut self) -> Result<Option<Entry<'_>>> {
        while self.step() == ScanStep::Load {
            self.load().await?;
        }
        Ok(self.entry())
    }

    /// Goes to the next key, as far as memory carries: for whoever may not wait where it is. Where it misses something,
    /// [`Scan::load`] fetches that, and this is to be asked again.
    pub fn step(&mut self) -> ScanStep {
        self.0.step()
    }

    /// Shows answers to `see`, one after the other, until it says false, or the end, as far as memory carries: many of
    /// them cost less so than by steps. Where it misses something, [`Scan::load`] fetches that, and this is to be asked
    /// again.
    pub fn show(&mut self, mut see: impl FnMut(Entry<'_>) -> bool) -> ScanStep {
        self.0.show(&mut see)
    }

    /// Fetches what a step misses.
    ///
    /// # Errors
    /// As [`Scan::next`].
    pub async fn load(&mut self) -> Result<()> {
        self.0.load().await
    }

    /// The key and its version that the last step has gone to; `None` at the end of the range.
    pub fn entry(&self) -> Option<Entry<'_>> {
        self.0.entry()
    }

    /// Says that whoever asks will take about so many `entries`, or all that there are up to the end of the range.
    /// Reads of the device are then about as long as that takes, from the first one on; without it the first one is
    /// short. To be said before the first step.
    pub fn expect(&mut self, entries: usize) {
        self.0.expect(entries);
    }

    /// Lets the scan look at no more than `entries` from now on, and at no further one when it has passed `bytes` of
    /// keys and values, whether they are answers, or deleted, expired, old or not yet visible. Going back, it stops
    /// between two keys. Then [`Scan::next`] says `None`, and [`Scan::stopped_at`] where to go on.
    pub fn set_budget(&mut self, entries: usize, bytes: u64) {
        self.0.set_budget(entries, bytes);
    }

    /// What it has looked at so far, answers or not.
    pub fn passed(&self) -> Passed {
        self.0.passed()
    }

    /// The first key that was not looked at because the budget was used up; `None` if it was not. Going back, the first
    /// key behind those: what is left is before it.
    pub fn stopped_at(&self) -> Option<Vec<u8>> {
        self.0.stopped_at()
    }
}
