//! Counters, one set per thread so that counting is a plain store to a line of its own cache.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use weir_io::Nanos;

use crate::latency::{self, Latency};
use weir_command::table::COMMANDS;

/// Counters of one thread. Only that thread adds.
#[repr(align(128))]
pub(crate) struct ThreadStats {
    commands: Vec<AtomicU64>,
    /// Nanoseconds that calls took, in the same order.
    nanos: Vec<AtomicU64>,
    /// Calls that ended in an error.
    failed: Vec<AtomicU64>,
    /// Calls with the wrong number of arguments, which were not made.
    rejected: Vec<AtomicU64>,
    pub(crate) errors: Counter,
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) bytes_in: Counter,
    pub(crate) bytes_out: Counter,
    pub(crate) latency: Latency,
    pub(crate) busy: Busy,
    /// In the node's counters only.
    pub(crate) asleep: Asleep,
}

/// What a thread did, for whom these counters are.
#[derive(Default)]
pub(crate) struct Busy {
    /// Nanoseconds spent on it. That others had the processor meanwhile is among them.
    turns: Counter,
    /// Nanoseconds of processor time, as last read. In the node's counters only: to read it costs a system call.
    processor: AtomicU64,
    /// When it was read.
    read: AtomicU64,
    /// What of both was judged already. Only the judge stores them.
    judged: [AtomicU64; 2],
}

/// How often processor time is read, in nanoseconds.
const READ_NANOS: Nanos = 50_000_000;

impl Busy {
    /// The thread was busy for so long.
    #[inline]
    pub(crate) fn add(&self, nanos: Nanos) {
        self.turns.add(nanos);
    }

    /// Asks `processor_time` how long the calling thread has had a processor, if that was not done lately.
    #[inline]
    pub(crate) fn read(&self, now: Nanos, processor_time: impl FnOnce() -> Nanos) {
        if now.saturating_sub(self.read.load(Ordering::Relaxed)) >= READ_NANOS {
            self.read.store(now, Ordering::Relaxed);
            self.processor.store(processor_time(), Ordering::Relaxed);
        }
    }

    /// Turns and processor time since this was last asked.
    fn judge(&self) -> [Nanos; 2] {
        let since = |now: Nanos, judged: &AtomicU64| now.saturating_sub(judged.swap(now, Ordering::Relaxed));
        let [turns, processor] = &self.judged;
        [since(self.turns.get(), turns), since(self.processor.load(Ordering::Relaxed), processor)]
    }
}

/// A number that only grows, written by one thread and read by any.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

/// Adds without an atomic read-modify-write: there is one writer.
#[inline]
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

impl Counter {
    /// One more, or `n`.
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        add(&self.0, n);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl ThreadStats {
    fn new() -> Self {
        let zeros = || COMMANDS.iter().map(|_| AtomicU64::new(0)).collect();
        Self {
            commands: zeros(),
            nanos: zeros(),
            failed: zeros(),
            rejected: zeros(),
            errors: Counter::default(),
            hits: Counter::default(),
            misses: Counter::default(),
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
            latency: Latency::default(),
            busy: Busy::default(),
            asleep: Asleep::default(),
        }
    }

    /// A command of the table was called.
    #[inline]
    pub(crate) fn called(&self, index: usize) {
        add(&self.commands[index], 1);
    }

    /// The call took so long, and may have failed.
    #[inline]
    pub(crate) fn took(&self, index: usize, nanos: u64, failed: bool) {
        add(&self.nanos[index], nanos);
        if failed {
            add(&self.failed[index], 1);
        }
    }

    /// Calls since the start.
    fn calls(&self) -> u64 {
        self.commands.iter().map(|calls| calls.load(Ordering::Relaxed)).sum()
    }

    /// A command of the table had the wrong number of arguments.
    pub(crate) fn rejected(&self, index: usize) {
        add(&self.rejected[index], 1);
    }
}

/// What a thread has done since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    /// Nanoseconds that it slept, having nothing to do.
    pub(crate) asleep: Nanos,
    /// Commands called.
    pub(crate) commands: u64,
}

/// How long a thread has slept; in one number, so that whoever asks while it falls asleep or wakes up gets no nonsense.
/// Twice the nanoseconds while it is awake; while it sleeps twice those less the moment since when, and one.
#[derive(Default)]
pub(crate) struct Asleep(AtomicI64);

impl Asleep {
    /// The calling thread falls asleep.
    pub(crate) fn begin(&self, now: Nanos) {
        self.0.store((self.at(now) - now as i64) << 1 | 1, Ordering::Relaxed);
    }

    /// It is awake again.
    pub(crate) fn end(&self, now: Nanos) {
        self.0.store(self.at(now) << 1, Ordering::Relaxed);
    }

    fn at(&self, now: Nanos) -> i64 {
        let coded = self.0.load(Ordering::Relaxed);
        (coded >> 1) + if coded & 1 == 1 { now as i64 } else { 0 }
    }
}

/// Counters of all threads.
pub(crate) struct Stats {
    /// Made when a thread first counts: a tenant that is served by few threads costs little.
    threads: Vec<OnceLock<Box<ThreadStats>>>,
    /// Connections refused because there were too many.
    pub(crate) refused: AtomicU64,
    /// Connections cut because they kept us waiting.
    pub(crate) cut: AtomicU64,
    /// Connections cut because they did not take what was sent to them.
    pub(crate) slow_listeners: AtomicU64,
    /// The sums at the last `CONFIG RESETSTAT`: what metrics see only grows.
    forgotten: Mutex<Totals>,
}

/// The sums at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Calls by position in the command table.
    pub(crate) commands: Vec<u64>,
    /// Nanoseconds, failures and refusals in the same order.
    pub(crate) nanos: Vec<u64>,
    pub(crate) failed: Vec<u64>,
    pub(crate) rejected: Vec<u64>,
    pub(crate) errors: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) refused: u64,
    pub(crate) cut: u64,
    pub(crate) slow_listeners: u64,
}

impl Stats {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            threads: (0..threads).map(|_| OnceLock::new()).collect(),
            refused: AtomicU64::new(0),
            cut: AtomicU64::new(0),
            slow_listeners: AtomicU64::new(0),
            forgotten: Mutex::default(),
        }
    }

    /// Lets [`Stats::recent`] begin at zero.
    pub(crate) fn reset(&self) {
        let mut forgotten = self.forgotten.lock();
        *forgotten = self.totals();
    }

    /// The sums since the last reset.
    pub(crate) fn recent(&self) -> Totals {
        let forgotten = self.forgotten.lock();
        let totals = self.totals();
        let each = |now: &[u64], then: &[u64]| -> Vec<u64> {
            now.iter().enumerate().map(|(index, now)| now - then.get(index).copied().unwrap_or(0)).collect()
        };
        Totals {
            commands: each(&totals.commands, &forgotten.commands),
            nanos: each(&totals.nanos, &forgotten.nanos),
            failed: each(&totals.failed, &forgotten.failed),
            rejected: each(&totals.rejected, &forgotten.rejected),
            errors: totals.errors - forgotten.errors,
            hits: totals.hits - forgotten.hits,
            misses: totals.misses - forgotten.misses,
            bytes_in: totals.bytes_in - forgotten.bytes_in,
            bytes_out: totals.bytes_out - forgotten.bytes_out,
            refused: totals.refused - forgotten.refused,
            cut: totals.cut - forgotten.cut,
            slow_listeners: totals.slow_listeners - forgotten.slow_listeners,
        }
    }

    pub(crate) fn thread(&self, index: usize) -> &ThreadStats {
        self.threads[index].get_or_init(|| Box::new(ThreadStats::new()))
    }

    /// Calls on all threads since the start.
    pub(crate) fn calls(&self) -> u64 {
        self.threads.iter().filter_map(OnceLock::get).map(|thread| thread.calls()).sum()
    }

    /// What the first `threads` have done until `now`.
    pub(crate) fn work(&self, threads: usize, now: Nanos) -> Vec<Work> {
        let work =
            |thread: &ThreadStats| Work { asleep: thread.asleep.at(now).max(0) as Nanos, commands: thread.calls() };
        (0..threads).map(|index| work(self.thread(index))).collect()
    }

    /// Of the time that each thread was busy since this was last asked, the share in which it had a processor.
    pub(crate) fn judge_threads(&self) -> Vec<f64> {
        let share = |thread: &OnceLock<Box<ThreadStats>>| {
            let [turns, processor] = thread.get().map_or([0; 2], |thread| thread.busy.judge());
            (processor as f64 / turns.max(1) as f64).min(1.0)
        };
        self.threads.iter().map(share).collect()
    }

    /// Processor time that all threads spent on it since this was last asked; `shares` as from
    /// [`Stats::judge_threads`].
    pub(crate) fn judge(&self, shares: &[f64]) -> Nanos {
        let spent = |(thread, share): (&OnceLock<Box<ThreadStats>>, &f64)| {
            let [turns, _] = thread.get().map_or([0; 2], |thread| thread.busy.judge());
            (turns as f64 * share) as Nanos
        };
        self.threads.iter().zip(shares).map(spent).sum()
    }

    /// Replies by how long they took, since the start ([`latency`]).
    pub(crate) fn latencies(&self) -> Vec<u64> {
        let mut sums = vec![0; latency::BUCKETS];
        for thread in self.threads.iter().filter_map(OnceLock::get) {
            thread.latency.add_to(&mut sums);
        }
        sums
    }

    pub(crate) fn totals(&self) -> Totals {
        let threads = || self.threads.iter().filter_map(OnceLock::get);
        let sum = |counter: fn(&ThreadStats) -> u64| threads().map(|thread| counter(thread)).sum();
        let by_command = |counters: fn(&ThreadStats) -> &Vec<AtomicU64>| -> Vec<u64> {
            let sum = |index: usize| threads().map(|thread| counters(thread)[index].load(Ordering::Relaxed)).sum();
            (0..COMMANDS.len()).map(sum).collect()
        };
        Totals {
            commands: by_command(|thread| &thread.commands),
            nanos: by_command(|thread| &thread.nanos),
            failed: by_command(|thread| &thread.failed),
            rejected: by_command(|thread| &thread.rejected),
            errors: sum(|thread| thread.errors.get()),
            hits: sum(|thread| thread.hits.get()),
            misses: sum(|thread| thread.misses.get()),
            bytes_in: sum(|thread| thread.bytes_in.get()),
            bytes_out: sum(|thread| thread.bytes_out.get()),
            refused: self.refused.load(Ordering::Relaxed),
            cut: self.cut.load(Ordering::Relaxed),
            slow_listeners: self.slow_listeners.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sleeps_is_seen_to_sleep_before_he_wakes() {
        let asleep = Asleep::default();
        assert_eq!(asleep.at(500), 0);
        asleep.begin(1_000);
        assert_eq!((asleep.at(1_000), asleep.at(1_700)), (0, 700));
        asleep.end(2_000);
        assert_eq!((asleep.at(2_000), asleep.at(9_000)), (1_000, 1_000));
        asleep.begin(9_000);
        asleep.begin(9_100);
        asleep.end(9_400);
        assert_eq!(asleep.at(9_500), 1_400);
    }
}
