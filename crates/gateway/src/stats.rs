//! Counters, one set per thread so that counting is a plain store to a line of its own cache.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::resp::table::COMMANDS;

/// Counters of one thread. Only that thread adds.
#[repr(align(128))]
pub(crate) struct ThreadStats {
    commands: Vec<AtomicU64>,
    pub(crate) errors: Counter,
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) bytes_in: Counter,
    pub(crate) bytes_out: Counter,
}

/// A number that only grows, written by one thread and read by any.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds without an atomic read-modify-write: there is one writer.
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl ThreadStats {
    fn new() -> Self {
        Self {
            commands: COMMANDS.iter().map(|_| AtomicU64::new(0)).collect(),
            errors: Counter::default(),
            hits: Counter::default(),
            misses: Counter::default(),
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
        }
    }

    /// A command of the table was called.
    #[inline]
    pub(crate) fn called(&self, index: usize) {
        let counter = &self.commands[index];
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// Counters of all threads.
pub(crate) struct Stats {
    threads: Vec<ThreadStats>,
    /// Connections refused because there were too many.
    pub(crate) refused: AtomicU64,
    /// Connections cut because they kept us waiting.
    pub(crate) cut: AtomicU64,
}

/// The sums at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Calls by position in the command table.
    pub(crate) commands: Vec<u64>,
    pub(crate) errors: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) refused: u64,
    pub(crate) cut: u64,
}

impl Stats {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            threads: (0..threads).map(|_| ThreadStats::new()).collect(),
            refused: AtomicU64::new(0),
            cut: AtomicU64::new(0),
        }
    }

    pub(crate) fn thread(&self, index: usize) -> &ThreadStats {
        &self.threads[index]
    }

    pub(crate) fn totals(&self) -> Totals {
        let sum = |counter: fn(&ThreadStats) -> u64| self.threads.iter().map(counter).sum();
        Totals {
            commands: (0..COMMANDS.len())
                .map(|index| self.threads.iter().map(|thread| thread.commands[index].load(Ordering::Relaxed)).sum())
                .collect(),
            errors: sum(|thread| thread.errors.get()),
            hits: sum(|thread| thread.hits.get()),
            misses: sum(|thread| thread.misses.get()),
            bytes_in: sum(|thread| thread.bytes_in.get()),
            bytes_out: sum(|thread| thread.bytes_out.get()),
            refused: self.refused.load(Ordering::Relaxed),
            cut: self.cut.load(Ordering::Relaxed),
        }
    }
}
