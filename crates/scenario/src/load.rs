//! The load: open loop, every operation at its own time whatever became of the one before, measured from that time.
//!
//! A partition's writes stand in one [queue](crate::queue), as a stalled partition holds up all of them anyway: a write
//! that finds others waiting is late. Reads do not wait for one another.

use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::{Clock, Error, Nanos, Result, Rng, Spawn, sleep_until};
use weir_model::Batch;
use weir_model::engine::Range;
use weir_node::Partition;

use crate::data::{Choice, Sizes, key};
use crate::pattern::{SECOND, Schedule};
use crate::queue::{Queue, Target};
use crate::tally::Tally;

/// Reads of a partition under way; those beyond are counted as failed.
const READS_MAX: usize = 1024;

/// One partition's clients.
#[derive(Clone)]
pub struct Clients {
    /// Whom they ask.
    pub partition: Arc<Partition>,
    /// Its number, from 0.
    pub index: usize,
    /// How long values are.
    pub sizes: Sizes,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Where reads run.
    pub spawn: Arc<dyn Spawn>,
    /// Where it is counted.
    pub tally: Arc<Mutex<Tally>>,
}

impl Clients {
    /// Sends writes of items that `choice` draws at `times`, until `until`: what was not sent by then was not served.
    ///
    /// # Errors
    /// A write failed.
    pub async fn write(self, times: Schedule, until: Nanos, choice: Arc<Choice>, rng: Rng) -> Result<()> {
        let Self { sizes, ref tally, index: partition, .. } = self;
        let queue = Queue { partition, choice: &choice, sizes, times, until, tally };
        queue.send(&self, rng).await.map(drop)
    }

    /// Sends reads of existing items, as `choice` draws them, at `times`: gets, or scans of so many `entries` on
    /// average. Ends when all are answered: who waits when the time is over counts as well.
    pub async fn read(self, times: Schedule, choice: Arc<Choice>, entries: Option<u64>, mut rng: Rng) {
        let under_way = Arc::new(());
        for at in times {
            sleep_until(&self.clock, at).await;
            self.tally.lock().partition_reads[self.index].0 += 1;
            if Arc::strong_count(&under_way) > READS_MAX {
                self.tally.lock().reads_failed += 1;
                continue;
            }
            let (clients, ticket, item) = (self.clone(), Arc::clone(&under_way), choice.draw(&mut rng));
            let entries = entries.map(|mean| scan_length(mean, &mut rng));
            self.spawn.spawn(Box::pin(async move {
                let found = clients.read_one(item, entries).await;
                let mut tally = clients.tally.lock();
                match found {
                    Ok(true) => tally.read(clients.index, clients.clock.now() - at),
                    _ => tally.reads_failed += 1,
                }
                drop(ticket);
            }));
        }
        while Arc::strong_count(&under_way) > 1 {
            sleep_until(&self.clock, self.clock.now() + SECOND / 100).await;
        }
    }
}

impl Clients {
    /// Gets `item`, or scans so many `entries` from it on; whether it was there.
    ///
    /// # Errors
    /// What the disk says.
    pub(crate) async fn read_one(&self, item: u64, entries: Option<u64>) -> Result<bool> {
        let key = key(item);
        let Some(entries) = entries else { return Ok(self.partition.get(&key).await?.is_some()) };
        let from = Bound::Included(key.to_vec());
        let mut scan = self.partition.scan(Range { from, to: Bound::Unbounded, reverse: false }).await?;
        let mut found = 0;
        while found < entries && scan.next().await?.is_some() {
            found += 1;
        }
        Ok(found > 0)
    }
}

/// Entries of the next scan, where they are `mean` on average.
pub(crate) fn scan_length(mean: u64, rng: &mut Rng) -> u64 {
    1 + rng.below((2 * mean).saturating_sub(1))
}

impl Target for Clients {
    type Failure = Error;

    fn now(&self) -> Nanos {
        self.clock.now()
    }

    async fn wait_until(&self, at: Nanos) {
        sleep_until(&self.clock, at).await;
    }

    async fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = Batch::new();
        batch.put(key, value);
        self.partition.write(&batch).await?.await
    }
}
