//! Counters, one set per thread so that counting is a plain store to a line of its own cache.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use weir_io::Nanos;

use weir_node::request_units::{Dimension, Price, Resources};

use crate::latency::{self, Latency};
use weir_command::table::subcommands::{self, SUBCOMMANDS};
use weir_command::table::{COMMANDS, Command};
use weir_command::{Args, table};

/// The number of counters: one for each command of the table, and behind them one for each subcommand.
pub(crate) fn counted() -> usize {
    COMMANDS.len() + SUBCOMMANDS.len()
}

/// The name that Redis gives to what is counted under `index`.
pub(crate) fn counted_name(index: usize) -> String {
    match COMMANDS.get(index) {
        Some(command) => command.name.to_owned(),
        None => SUBCOMMANDS[index - COMMANDS.len()].full_name(),
    }
}

/// The index under which the subcommand called `name` of `command` is counted, if there is one.
fn subcommand_index(command: &Command, name: Option<&[u8]>) -> Option<usize> {
    let name = name.filter(|_| command.is_container)?;
    subcommands::place_of(command.name, name).map(|place| COMMANDS.len() + place)
}

/// The indices under which a call is counted: that of the command, and that of its subcommand if it has one.
fn indices(command: &Command, args: Args<'_>) -> impl Iterator<Item = usize> {
    std::iter::once(command.index).chain(subcommand_index(command, args.get(1)))
}

/// The index under which a call is reported: that of its subcommand if it has one.
pub(crate) fn told_as(command: &Command, args: Args<'_>) -> usize {
    subcommand_index(command, args.get(1)).unwrap_or(command.index)
}

/// The indices under which `name` is counted: a command, a subcommand (`client|list`), or all subcommands of a
/// container.
pub(crate) fn counted_as(name: &[u8]) -> Vec<usize> {
    let mut parts = name.splitn(2, |&byte| byte == b'|');
    let Some(command) = parts.next().and_then(table::find) else { return Vec::new() };
    if let Some(subcommand) = parts.next() {
        return subcommand_index(command, Some(subcommand)).into_iter().collect();
    }
    let below = SUBCOMMANDS.iter().enumerate().filter(|(_, one)| one.container == command.name);
    std::iter::once(command.index).chain(below.map(|(place, _)| COMMANDS.len() + place)).collect()
}

/// Number of buckets for the times of calls. Each bucket ends at twice the end of the one before it; the first ends at
/// 1,024 ns.
pub(crate) const CALL_BUCKETS: usize = 26;

/// The bucket in which a call of `nanos` is counted.
fn call_bucket(nanos: Nanos) -> usize {
    (nanos / 1024).checked_ilog2().map_or(0, |power| power as usize + 1).min(CALL_BUCKETS - 1)
}

/// The end of a bucket, in microseconds, as Redis rounds it.
pub(crate) fn call_bucket_micros(bucket: usize) -> u64 {
    if bucket < 5 { 1 << bucket } else { 33 << (bucket - 5) }
}

/// Calls by the time that they took.
pub(crate) type CallTimes = [u64; CALL_BUCKETS];

/// Counters of one thread. Only that thread adds.
#[repr(align(128))]
pub(crate) struct ThreadStats {
    commands: Vec<AtomicU64>,
    /// Nanoseconds that calls took, in the same order.
    nanos: Vec<AtomicU64>,
    /// Calls that ended in an error.
    failed: Vec<AtomicU64>,
    /// Calls that were refused before they were made.
    rejected: Vec<AtomicU64>,
    /// Calls by the time that they took. Only commands that were ever called have this.
    times: Vec<OnceLock<Box<[AtomicU64; CALL_BUCKETS]>>>,
    pub(crate) errors: Counter,
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    /// Commands that have changed something.
    pub(crate) changes: Counter,
    pub(crate) bytes_in: Counter,
    pub(crate) bytes_out: Counter,
    pub(crate) latency: Latency,
    pub(crate) cost: Cost,
    pub(crate) busy: Busy,
    /// Set in the node's counters only.
    pub(crate) asleep: Asleep,
}

/// What commands have cost, by the cost table.
#[derive(Default)]
pub(crate) struct Cost {
    /// Cost in thousandths of a request unit.
    milli_units: Counter,
    /// By dimension, in thousandths of its unit.
    resources: [Counter; Dimension::ALL.len()],
}

impl Cost {
    /// Adds the cost of a command.
    #[inline]
    pub(crate) fn add(&self, price: &Price) {
        self.milli_units.add(price.milli_units);
        for dimension in Dimension::ALL {
            self.resources[dimension as usize].add(price.resources[dimension]);
        }
    }
}

/// How busy a thread was for the node or for the tenant that these counters belong to.
#[derive(Default)]
pub(crate) struct Busy {
    /// Nanoseconds of time on the clock. They include time in which others had the processor.
    turns: Counter,
    /// Nanoseconds of processor time at the last reading. Only in the node's counters, because reading it costs a
    /// system call.
    processor: AtomicU64,
    /// When the processor time was last read.
    read: AtomicU64,
    /// The parts of both that were judged already. Only the judge stores them.
    judged: [AtomicU64; 2],
}

/// How often processor time is read, in nanoseconds.
const READ_NANOS: Nanos = 50_000_000;

impl Busy {
    /// Adds `nanos` for which the thread was busy.
    #[inline]
    pub(crate) fn add(&self, nanos: Nanos) {
        self.turns.add(nanos);
    }

    /// Asks `processor_time` how long the calling thread has had a processor, unless that was done recently.
    #[inline]
    pub(crate) fn read(&self, now: Nanos, processor_time: impl FnOnce() -> Nanos) {
        if now.saturating_sub(self.read.load(Ordering::Relaxed)) >= READ_NANOS {
            self.read.store(now, Ordering::Relaxed);
            self.processor.store(processor_time(), Ordering::Relaxed);
        }
    }

    /// The time on the clock and the processor time since the last call.
    fn judge(&self) -> [Nanos; 2] {
        let since = |now: Nanos, judged: &AtomicU64| now.saturating_sub(judged.swap(now, Ordering::Relaxed));
        let [turns, processor] = &self.judged;
        [since(self.turns.get(), turns), since(self.processor.load(Ordering::Relaxed), processor)]
    }
}

/// A number that only grows. One thread writes it, and any thread may read it.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

/// Adds without an atomic read-modify-write: there is one writer.
#[inline]
fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

impl Counter {
    /// Adds `n`.
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
        let zeros = || (0..counted()).map(|_| AtomicU64::new(0)).collect();
        Self {
            commands: zeros(),
            nanos: zeros(),
            failed: zeros(),
            rejected: zeros(),
            times: (0..counted()).map(|_| OnceLock::new()).collect(),
            errors: Counter::default(),
            hits: Counter::default(),
            misses: Counter::default(),
            changes: Counter::default(),
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
            latency: Latency::default(),
            cost: Cost::default(),
            busy: Busy::default(),
            asleep: Asleep::default(),
        }
    }

    /// Counts a call of `command`.
    #[inline]
    pub(crate) fn called(&self, command: &Command, args: Args<'_>) {
        add(&self.commands[command.index], 1);
        if let Some(index) = subcommand_index(command, args.get(1)) {
            add(&self.commands[index], 1);
        }
    }

    /// Records how long the call took, and whether it failed.
    #[inline]
    pub(crate) fn took(&self, command: &Command, args: Args<'_>, nanos: u64, failed: bool) {
        self.took_as(command.index, nanos, failed);
        if let Some(index) = subcommand_index(command, args.get(1)) {
            self.took_as(index, nanos, failed);
        }
    }

    /// Adds the calls that a script has made.
    pub(crate) fn add(&self, calls: &Calls) {
        for (&index, calls) in &calls.0 {
            add(&self.commands[index], calls.count);
            add(&self.nanos[index], calls.nanos);
            add(&self.failed[index], calls.failed);
            add(&self.rejected[index], calls.rejected);
            if calls.count > 0 {
                let times = self.times[index].get_or_init(|| Box::new([const { AtomicU64::new(0) }; CALL_BUCKETS]));
                times.iter().zip(calls.times).for_each(|(counter, count)| add(counter, count));
            }
        }
    }

    #[inline]
    fn took_as(&self, index: usize, nanos: u64, failed: bool) {
        add(&self.nanos[index], nanos);
        let times = self.times[index].get_or_init(|| Box::new([const { AtomicU64::new(0) }; CALL_BUCKETS]));
        add(&times[call_bucket(nanos)], 1);
        if failed {
            add(&self.failed[index], 1);
        }
    }

    /// Calls since the start.
    fn calls(&self) -> u64 {
        self.commands[..COMMANDS.len()].iter().map(|calls| calls.load(Ordering::Relaxed)).sum()
    }

    /// Counts a call of `command` that was refused before it was made.
    pub(crate) fn rejected(&self, command: &Command, args: Args<'_>) {
        indices(command, args).for_each(|index| add(&self.rejected[index], 1));
    }
}

/// Calls that are counted later, if at all: those of a script, which may run again from its beginning, and whether its
/// own call has failed.
#[derive(Default)]
pub(crate) struct Calls(BTreeMap<usize, CallsOf>);

/// The calls of one command.
#[derive(Default)]
struct CallsOf {
    count: u64,
    failed: u64,
    rejected: u64,
    nanos: u64,
    times: CallTimes,
}

impl Calls {
    /// Records a call of `command`, how long it took, and whether it failed.
    pub(crate) fn add(&mut self, command: &Command, args: Args<'_>, nanos: Nanos, failed: bool) {
        for index in indices(command, args) {
            let calls = self.0.entry(index).or_default();
            calls.count += 1;
            calls.failed += u64::from(failed);
            calls.nanos += nanos;
            calls.times[call_bucket(nanos)] += 1;
        }
    }

    /// Records a call of `command` that was refused before it was made.
    pub(crate) fn reject(&mut self, command: &Command, args: Args<'_>) {
        for index in indices(command, args) {
            self.0.entry(index).or_default().rejected += 1;
        }
    }

    /// Records that a call of the command with this index, which is counted elsewhere, was answered with an error.
    pub(crate) fn fail(&mut self, index: usize) {
        self.0.entry(index).or_default().failed += 1;
    }
}

/// What a thread has done since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    /// Nanoseconds that the thread slept because it had nothing to do.
    pub(crate) asleep: Nanos,
    /// Commands called.
    pub(crate) commands: u64,
}

/// How long a thread has slept, in one number, so that a reader gets a valid answer even while the thread falls asleep
/// or wakes up. While the thread is awake, the number is twice the nanoseconds slept. While it sleeps, the number is
/// twice the difference between the nanoseconds slept and the moment when the sleep began, plus one.
#[derive(Default)]
pub(crate) struct Asleep(AtomicI64);

impl Asleep {
    /// The calling thread falls asleep.
    pub(crate) fn begin(&self, now: Nanos) {
        self.0.store((self.at(now) - now as i64) << 1 | 1, Ordering::Relaxed);
    }

    /// The calling thread is awake again.
    pub(crate) fn end(&self, now: Nanos) {
        self.0.store(self.at(now) << 1, Ordering::Relaxed);
    }

    fn at(&self, now: Nanos) -> i64 {
        let coded = self.0.load(Ordering::Relaxed);
        (coded >> 1) + if coded & 1 == 1 { now as i64 } else { 0 }
    }
}

/// The counters of all threads.
pub(crate) struct Stats {
    /// Made when a thread first counts, so that a tenant served by few threads costs little memory.
    threads: Vec<OnceLock<Box<ThreadStats>>>,
    /// Connections refused because there were too many already.
    pub(crate) refused: AtomicU64,
    /// Connections cut because they kept the gateway waiting.
    pub(crate) cut: AtomicU64,
    /// Connections cut because they did not take the messages sent to them.
    pub(crate) slow_listeners: AtomicU64,
    /// Changes counted until the last `SAVE`.
    saved: AtomicU64,
    /// The sums at the last `CONFIG RESETSTAT`. They are subtracted instead of reset, because metrics must only grow.
    forgotten: Mutex<Totals>,
}

/// The sums at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Calls by position in the command table, followed by those of subcommands, which are therefore counted twice.
    pub(crate) commands: Vec<u64>,
    /// Calls by the time that they took; then nanoseconds, failures and rejected calls. All are in the same order.
    pub(crate) times: Vec<CallTimes>,
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
            saved: AtomicU64::new(0),
            forgotten: Mutex::default(),
        }
    }

    /// Makes [`Stats::recent`] begin again at zero.
    pub(crate) fn reset(&self) {
        let mut forgotten = self.forgotten.lock();
        *forgotten = self.totals();
    }

    /// Commands that have changed something, on all threads since the start.
    fn changes(&self) -> u64 {
        self.threads.iter().filter_map(OnceLock::get).map(|thread| thread.changes.get()).sum()
    }

    /// Makes [`Stats::unsaved`] begin again at zero.
    pub(crate) fn save(&self) {
        self.saved.store(self.changes(), Ordering::Relaxed);
    }

    /// Commands that have changed something since the last `SAVE`.
    pub(crate) fn unsaved(&self) -> u64 {
        self.changes().saturating_sub(self.saved.load(Ordering::Relaxed))
    }

    /// The sums since the last reset.
    pub(crate) fn recent(&self) -> Totals {
        let forgotten = self.forgotten.lock();
        let totals = self.totals();
        let since = |now: &CallTimes, then: Option<&CallTimes>| -> CallTimes {
            std::array::from_fn(|bucket| now[bucket] - then.map_or(0, |then| then[bucket]))
        };
        let each = |now: &[u64], then: &[u64]| -> Vec<u64> {
            now.iter().enumerate().map(|(index, now)| now - then.get(index).copied().unwrap_or(0)).collect()
        };
        Totals {
            commands: each(&totals.commands, &forgotten.commands),
            times: totals.times.iter().enumerate().map(|(index, now)| since(now, forgotten.times.get(index))).collect(),
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

    /// What the first `threads` threads have done until `now`.
    pub(crate) fn work(&self, threads: usize, now: Nanos) -> Vec<Work> {
        let work =
            |thread: &ThreadStats| Work { asleep: thread.asleep.at(now).max(0) as Nanos, commands: thread.calls() };
        (0..threads).map(|index| work(self.thread(index))).collect()
    }

    /// For each thread, the share of its busy time since the last call of this function in which it had a processor.
    pub(crate) fn judge_threads(&self) -> Vec<f64> {
        let share = |thread: &OnceLock<Box<ThreadStats>>| {
            let [turns, processor] = thread.get().map_or([0; 2], |thread| thread.busy.judge());
            (processor as f64 / turns.max(1) as f64).min(1.0)
        };
        self.threads.iter().map(share).collect()
    }

    /// Processor time that all threads spent on this tenant since the last call. `shares` comes from
    /// [`Stats::judge_threads`].
    pub(crate) fn judge(&self, shares: &[f64]) -> Nanos {
        let spent = |(thread, share): (&OnceLock<Box<ThreadStats>>, &f64)| {
            let [turns, _] = thread.get().map_or([0; 2], |thread| thread.busy.judge());
            (turns as f64 * share) as Nanos
        };
        self.threads.iter().zip(shares).map(spent).sum()
    }

    /// What commands have cost on all threads since the start.
    pub(crate) fn cost(&self) -> Price {
        let mut price = Price::default();
        for thread in self.threads.iter().filter_map(OnceLock::get) {
            price.milli_units += thread.cost.milli_units.get();
            price.resources += Resources::new(thread.cost.resources.each_ref().map(Counter::get));
        }
        price
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
            (0..counted()).map(sum).collect()
        };
        let times = |index: usize| -> CallTimes {
            let counted: Vec<_> = threads().filter_map(|thread| thread.times[index].get()).collect();
            std::array::from_fn(|bucket| counted.iter().map(|times| times[bucket].load(Ordering::Relaxed)).sum())
        };
        Totals {
            commands: by_command(|thread| &thread.commands),
            times: (0..counted()).map(times).collect(),
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
    fn a_call_is_counted_in_the_bucket_that_ends_behind_it() {
        for (nanos, micros) in [(0, 1), (1023, 1), (1024, 2), (2047, 2), (2048, 4), (300_000_000, 540_672)] {
            assert_eq!(call_bucket_micros(call_bucket(nanos)), micros, "{nanos}");
        }
        assert_eq!(call_bucket(Nanos::MAX), CALL_BUCKETS - 1);
    }

    #[test]
    fn a_container_is_counted_with_its_subcommands() {
        let names = |name: &[u8]| counted_as(name).into_iter().map(counted_name).collect::<Vec<_>>();
        assert_eq!(names(b"GET"), ["get"]);
        assert_eq!(names(b"client|LIST"), ["client|list"]);
        assert!(names(b"config").contains(&"config|resetstat".to_owned()));
        assert_eq!(names(b"client|nosuch"), [""; 0]);
        assert_eq!(names(b"nosuch|x"), [""; 0]);
    }

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
