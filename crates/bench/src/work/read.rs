//! Works that read the loaded tree.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use weir_io::Rng;

use super::fill::finish;
use super::{Progress, Size, Until, Work};
use crate::contestant::Contestant;
use crate::data::{self, Values};
use crate::meter::{Account, Latencies, Stopwatch};
use crate::outcome::Outcome;
use crate::{Failure, Result};

/// Items after a seek.
const SCAN_ITEMS: usize = 50;

/// Overwrites per second beside the readers of `readwhilewriting`. Bounded, because an unbounded writer gives the
/// slower store less to read through.
const WRITES_PER_SEC: u64 = 10_000;

/// One of this many reads is timed: reading the clock twice costs 40 ns, which a cached read would notice.
const TIMED_ONE_OF: u64 = 16;

/// How often the coordinator looks at the counters.
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(super) fn measure(
    work: Work,
    store: Box<dyn Contestant>,
    size: &Size,
    cache_bytes: u64,
    seed: u64,
    outcome: &mut Outcome,
    progress: Progress<'_>,
) -> Result<()> {
    let values = Values::new(size.value_bytes);
    let range = match work {
        Work::ReadCached => hot_items(size, cache_bytes),
        _ => u64::from(size.items),
    };
    if work == Work::ReadCached {
        warm(&*store, range)?;
    }
    // One read in flight per thread, on every contestant: many futures on two threads of Weir measured slower, even
    // compared with more threads than processors.
    let threads = if work == Work::ReadRandom16 { 16 } else { 2 };
    let run = Run::new(threads, size.reads);
    let body = |reader: &mut Reader<'_>| match work {
        Work::Scan => scan_lane(&*store, reader),
        _ => get_lane(&*store, reader),
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..threads)
            .map(|lane| {
                let rng = Rng::new(seed ^ (lane as u64 + 1).wrapping_mul(0x9e37_79b9));
                let mut reader = Reader::new(&run, lane, range, rng, &values);
                scope.spawn(move || {
                    let result = body(&mut reader);
                    reader.leave(result)
                })
            })
            .collect();
        let writer =
            (work == Work::ReadWhileWriting).then(|| scope.spawn(|| write_paced(&*store, &values, size, seed, &run)));
        run.coordinate(outcome, progress)?;
        let mut latencies = Latencies::default();
        for reader in readers {
            latencies.merge(&reader.join().map_err(|_| "a reader panicked")??);
        }
        if let Some(writer) = writer {
            let written = writer.join().map_err(|_| "the writer panicked")??;
            outcome.load_ops_per_sec = Some(written);
        }
        latencies.report(outcome);
        Ok::<_, Failure>(())
    })?;
    if work == Work::ReadWhileWriting {
        store.settle()?;
    }
    finish(store, outcome)?;
    outcome.remarks = format!("{threads} threads; {}", outcome.remarks);
    Ok(())
}

/// Items whose blocks fill half the cache. They are neighbours, so that a block holds hot items only.
fn hot_items(size: &Size, cache_bytes: u64) -> u64 {
    let per_item = (size.value_bytes + data::KEY_BYTES) as u64;
    (cache_bytes / 2 / per_item).clamp(1, u64::from(size.items))
}

/// Reads every item of the range twice, because some caches admit a block only when they see it a second time.
fn warm(store: &dyn Contestant, range: u64) -> Result<()> {
    for item in (0..range).chain(0..range) {
        store.get(&data::key(item), &mut |_| ())?;
    }
    Ok(())
}

fn get_lane(store: &dyn Contestant, reader: &mut Reader<'_>) -> Result<()> {
    while let Some(ticket) = reader.next() {
        let mut right = false;
        store.get(&ticket.key, &mut |value| right = reader.values.is_of(ticket.item, value))?;
        if !right {
            return Err(format!("item {} was not found, or had a wrong value", ticket.item).into());
        }
        reader.count(&ticket);
    }
    Ok(())
}

fn scan_lane(store: &dyn Contestant, reader: &mut Reader<'_>) -> Result<()> {
    while let Some(ticket) = reader.next() {
        let (mut seen, mut right) = (0_u64, true);
        store.scan(&ticket.key, SCAN_ITEMS, &mut |key, value| {
            let item = ticket.item + seen;
            right &= data::item(key) == Some(item) && reader.values.is_of(item, value);
            seen += 1;
        })?;
        // Near the end of the keys there are fewer items.
        let expected = (SCAN_ITEMS as u64).min(reader.range - ticket.item);
        if !right || seen != expected {
            return Err(format!("a scan from item {} gave {seen} items, or wrong ones", ticket.item).into());
        }
        reader.count(&ticket);
    }
    Ok(())
}

/// Overwrites random items at [`WRITES_PER_SEC`] until the run ends, and returns the rate reached.
fn write_paced(store: &dyn Contestant, values: &Values, size: &Size, seed: u64, run: &Run) -> Result<f64> {
    let mut rng = Rng::new(seed ^ 0x77);
    let mut value = Vec::new();
    let mut written = 0_u64;
    let watch = Stopwatch::start();
    while !run.over.load(Ordering::Relaxed) {
        let due = written * 1_000_000_000 / WRITES_PER_SEC;
        let now = watch.nanos();
        if due > now {
            thread::sleep(Duration::from_nanos(due - now));
        }
        let item = rng.below(u64::from(size.items));
        values.fill(item, &mut value);
        store.put(&data::key(item), &value)?;
        written += 1;
    }
    Ok(written as f64 / watch.seconds())
}

/// What readers and the coordinator share.
struct Run {
    watch: Stopwatch,
    until: Until,
    /// Operations that each lane may do.
    share: u64,
    /// Whether operations count: the warm-up is over, or there is none.
    counts_now: AtomicBool,
    over: AtomicBool,
    lanes_left: AtomicU64,
    /// Operations done, one counter per lane, each on its own cache line.
    counts: Vec<Count>,
    failure: Mutex<Option<Failure>>,
}

#[repr(align(128))]
#[derive(Default)]
struct Count(AtomicU64);

impl Run {
    fn new(lanes: usize, until: Until) -> Self {
        let share = match until {
            Until::Ops(ops) => ops.div_ceil(lanes as u64),
            Until::Seconds(_) => u64::MAX,
        };
        Self {
            watch: Stopwatch::start(),
            until,
            share,
            counts_now: AtomicBool::new(matches!(until, Until::Ops(_))),
            over: AtomicBool::new(false),
            lanes_left: AtomicU64::new(lanes as u64),
            counts: (0..lanes).map(|_| Count::default()).collect(),
            failure: Mutex::new(None),
        }
    }

    fn done(&self) -> u64 {
        self.counts.iter().map(|count| count.0.load(Ordering::Relaxed)).sum()
    }

    /// Watches the readers: counts from the end of the warm-up to the end of the run.
    fn coordinate(&self, outcome: &mut Outcome, progress: Progress<'_>) -> Result<()> {
        let (warm, end) = match self.until {
            Until::Seconds(seconds) => (0.25 * seconds, 1.25 * seconds),
            Until::Ops(_) => (0.0, f64::INFINITY),
        };
        let look = |at: f64| loop {
            let seconds = self.watch.seconds();
            if seconds >= at || self.lanes_left.load(Ordering::Acquire) == 0 {
                return (seconds, self.done());
            }
            progress(match self.until {
                Until::Seconds(_) => seconds / end,
                Until::Ops(ops) => self.done() as f64 / ops as f64,
            });
            thread::sleep(LOOK_EVERY.min(Duration::from_secs_f64((at - seconds).min(1.0))));
        };
        let (start_seconds, start_ops) = if warm > 0.0 { look(warm) } else { (0.0, 0) };
        self.counts_now.store(true, Ordering::Relaxed);
        let before = Account::now()?;
        let (end_seconds, end_ops) = look(end);
        let after = Account::now()?;
        self.over.store(true, Ordering::Relaxed);
        if let Some(failure) = self.failure.lock().map_err(|_| "a reader panicked")?.take() {
            return Err(failure);
        }
        after.report_since(&before, outcome);
        outcome.ops = end_ops - start_ops;
        outcome.seconds = end_seconds - start_seconds;
        outcome.ops_per_sec = outcome.ops as f64 / outcome.seconds;
        Ok(())
    }
}

/// One read to do.
struct Ticket {
    item: u64,
    key: [u8; data::KEY_BYTES],
    /// When the read was handed out, in nanoseconds of the run's watch; 0 if it is not timed.
    started: u64,
}

/// One lane: hands out random items and counts answers.
struct Reader<'a> {
    run: &'a Run,
    lane: usize,
    range: u64,
    rng: Rng,
    values: &'a Values,
    handed_out: u64,
    counted: u64,
    latencies: Latencies,
}

impl<'a> Reader<'a> {
    fn new(run: &'a Run, lane: usize, range: u64, rng: Rng, values: &'a Values) -> Self {
        let latencies = Latencies::default();
        Self { run, lane, range, rng, values, handed_out: 0, counted: 0, latencies }
    }

    /// The next read; `None` when the work is over.
    fn next(&mut self) -> Option<Ticket> {
        if self.handed_out == self.run.share || self.run.over.load(Ordering::Relaxed) {
            return None;
        }
        let item = self.rng.below(self.range);
        let is_timed = self.handed_out.is_multiple_of(TIMED_ONE_OF) && self.run.counts_now.load(Ordering::Relaxed);
        let started = if is_timed { self.run.watch.nanos() } else { 0 };
        self.handed_out += 1;
        Some(Ticket { item, key: data::key(item), started })
    }

    /// Notes that `ticket` was answered, and rightly.
    fn count(&mut self, ticket: &Ticket) {
        if ticket.started != 0 {
            self.latencies.record(self.run.watch.nanos() - ticket.started);
        }
        self.counted += 1;
        self.run.counts[self.lane].0.store(self.counted, Ordering::Relaxed);
    }

    /// Notes that the lane is finished, with `result` of its body.
    fn leave(self, result: Result<()>) -> Result<Latencies> {
        if let Err(failure) = result {
            if let Ok(mut first) = self.run.failure.lock() {
                first.get_or_insert(failure);
            }
            self.run.over.store(true, Ordering::Relaxed);
        }
        self.run.lanes_left.fetch_sub(1, Ordering::AcqRel);
        Ok(self.latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_count_from_the_end_of_the_warm_up() {
        let values = Values::new(8);
        let timed = |run: &Run| {
            let mut reader = Reader::new(run, 0, 10, Rng::new(1), &values);
            let mut hand_out = || (0..32).filter(|_| reader.next().is_some_and(|ticket| ticket.started > 0)).count();
            let before = hand_out();
            run.counts_now.store(true, Ordering::Relaxed);
            (before, hand_out())
        };
        assert_eq!(timed(&Run::new(1, Until::Seconds(4.0))), (0, 2));
        assert_eq!(timed(&Run::new(1, Until::Ops(100))), (2, 2), "there is no warm-up");
    }
}
