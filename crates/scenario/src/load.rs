//! The load: open loop, every operation at its own time whatever became of the one before, measured from that time.
//!
//! A partition's writes stand in one queue, as a stalled partition holds up all of them anyway: a write that finds others waiting is late.
//! Reads do not wait for one another.

use std::sync::Arc;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use weir_io::{Clock, Nanos, Result, Rng, Spawn, sleep_until};
use weir_model::Batch;
use weir_node::Partition;

use crate::data::{fill, key};
use crate::outcome::Latency;
use crate::plan::SECOND;

/// Done by then is *normally served*: stricter than U-21, which does not count time that passes before the write path.
pub const NORMAL: Nanos = 1_000_000;
/// Reads of a partition under way; those beyond are counted as failed.
const READS_MAX: usize = 1024;

/// Times of operations: `rate` a second from `from` on, until `until`, each somewhere in its own interval.
#[derive(Clone, Debug)]
pub struct Schedule {
    from: Nanos,
    until: Nanos,
    rate: f64,
    next: u64,
    rng: Rng,
}

impl Schedule {
    /// See the type.
    pub fn new(from: Nanos, until: Nanos, rate: f64, rng: Rng) -> Self {
        Self { from, until, rate, next: 0, rng }
    }
}

impl Iterator for Schedule {
    type Item = Nanos;

    fn next(&mut self) -> Option<Nanos> {
        if self.rate <= 0.0 {
            return None;
        }
        let at = self.from + ((self.next as f64 + self.rng.unit()) * SECOND as f64 / self.rate) as Nanos;
        self.next += 1;
        (at < self.until).then_some(at)
    }
}

/// What clients saw, counted as it happens.
pub struct Tally {
    /// Of writes, in nanoseconds.
    pub writes: Histogram<u64>,
    /// Of reads.
    pub reads: Histogram<u64>,
    /// Of the second under way.
    pub writes_now: Histogram<u64>,
    /// Of the second under way.
    pub reads_now: Histogram<u64>,
    /// Writes done in the second under way, and those of them that were normally served.
    pub done_now: (u64, u64),
    /// For each partition: writes that were to be sent, and those that were normally served.
    pub partitions: Vec<(u64, u64)>,
    /// Reads that failed or could not be sent.
    pub reads_failed: u64,
}

impl Tally {
    /// Nothing yet.
    pub fn new(partitions: usize) -> Self {
        Self {
            writes: histogram(3),
            reads: histogram(3),
            writes_now: histogram(2),
            reads_now: histogram(2),
            done_now: (0, 0),
            partitions: vec![(0, 0); partitions],
            reads_failed: 0,
        }
    }

    fn wrote(&mut self, partition: usize, waited: Nanos, done: bool) {
        let normal = done && waited <= NORMAL;
        self.writes.saturating_record(waited);
        let (all, served) = &mut self.partitions[partition];
        *all += 1;
        *served += u64::from(normal);
        if done {
            self.writes_now.saturating_record(waited);
            self.done_now.0 += 1;
            self.done_now.1 += u64::from(normal);
        }
    }

    fn read(&mut self, waited: Nanos) {
        self.reads.saturating_record(waited);
        self.reads_now.saturating_record(waited);
    }

    /// For each partition, the share of its writes that were normally served.
    pub fn shares(&self) -> Vec<f64> {
        let share = |&(all, served): &(u64, u64)| if all == 0 { 1.0 } else { served as f64 / all as f64 };
        self.partitions.iter().map(share).collect()
    }
}

/// Nanoseconds up to ten minutes.
fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600 * SECOND, digits).expect("constant bounds are valid")
}

/// The figures of `histogram`.
pub fn latency(histogram: &Histogram<u64>) -> Latency {
    let us = |nanos: u64| nanos as f64 / 1e3;
    Latency {
        avg: if histogram.is_empty() { 0.0 } else { histogram.mean() / 1e3 },
        p50: us(histogram.value_at_quantile(0.5)),
        p99: us(histogram.value_at_quantile(0.99)),
        p999: us(histogram.value_at_quantile(0.999)),
        max: us(histogram.max()),
    }
}

/// One partition's clients.
#[derive(Clone)]
pub struct Clients {
    /// Whom they ask.
    pub partition: Arc<Partition>,
    /// Its number, from 0.
    pub index: usize,
    /// Items that exist.
    pub items: u64,
    /// What a value is long.
    pub value_bytes: usize,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Where reads run.
    pub spawn: Arc<dyn Spawn>,
    /// Where it is counted.
    pub tally: Arc<Mutex<Tally>>,
}

impl Clients {
    /// Sends writes at `times`, until `until`: what was not sent by then was not served.
    ///
    /// # Errors
    /// A write failed.
    pub async fn write(self, times: Schedule, until: Nanos, mut rng: Rng) -> Result<()> {
        let mut value = vec![0; self.value_bytes];
        for at in times {
            sleep_until(&self.clock, at).await;
            if self.clock.now() >= until {
                self.tally.lock().wrote(self.index, self.clock.now() - at, false);
                continue;
            }
            let item = rng.below(self.items.max(1));
            fill(&mut value, &mut rng);
            let mut batch = Batch::new();
            batch.put(&key(item), &value);
            self.partition.write(&batch).await?.await?;
            self.tally.lock().wrote(self.index, self.clock.now() - at, true);
        }
        Ok(())
    }

    /// Sends reads of existing items at `times`.
    pub async fn read(self, times: Schedule, mut rng: Rng) {
        let under_way = Arc::new(());
        for at in times {
            sleep_until(&self.clock, at).await;
            if Arc::strong_count(&under_way) > READS_MAX {
                self.tally.lock().reads_failed += 1;
                continue;
            }
            let (clients, ticket, item) = (self.clone(), Arc::clone(&under_way), rng.below(self.items.max(1)));
            self.spawn.spawn(Box::pin(async move {
                let found = clients.partition.get(&key(item)).await;
                let mut tally = clients.tally.lock();
                match found {
                    Ok(Some(_)) => tally.read(clients.clock.now() - at),
                    _ => tally.reads_failed += 1,
                }
                drop(ticket);
            }));
        }
    }
}
