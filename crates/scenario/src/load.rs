//! The load: open loop. Every operation has a time of its own, whatever happened to the one before, and is measured
//! from that time.
//!
//! A partition's writes stand in one [queue](crate::queue), because a stalled partition holds up all of them anyway: a
//! write that finds others waiting is late. Reads do not wait for one another.

use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::{Clock, Error, ErrorKind, Nanos, Result, Rng, Spawn, sleep_until};
use weir_model::Batch;
use weir_model::engine::Range;
use weir_node::PartitionSlot;

use crate::choice::Choice;
use crate::data::{Sizes, fill};
use crate::mix::Kind;
use crate::pattern::{SECOND, Schedule};
use crate::queue::{Queue, Target};
use crate::tally::Tally;
use crate::written::Written;

/// Reads of a partition in flight; reads beyond this number are counted as failed.
const READS_MAX: usize = 1024;

/// One partition's clients.
#[derive(Clone)]
pub struct Clients {
    /// The partition that they ask, awake or asleep.
    pub slot: Arc<PartitionSlot>,
    /// Its number, from 0.
    pub index: usize,
    /// What items are like.
    pub sizes: Sizes,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Where reads run.
    pub spawn: Arc<dyn Spawn>,
    /// Where operations are counted.
    pub tally: Arc<Mutex<Tally>>,
    /// What they have written, if it is to be checked. Then only one write is under way at a time.
    pub written: Option<Arc<Mutex<Written>>>,
}

impl Clients {
    /// Sends writes of items that `choice` draws at `times`, until `until`. A write that was not sent by then was not
    /// served.
    ///
    /// # Errors
    /// A write failed.
    pub async fn write(self, times: Schedule, until: Nanos, choice: Arc<Choice>, rng: Rng) -> Result<()> {
        let Self { sizes, ref tally, index: partition, .. } = self;
        let queue = Queue { partition, choice: &choice, sizes, times, until, tally };
        queue.send(&self, rng).await.map(drop)
    }

    /// Sends operations of `kind` on items that `choice` draws at `times`: gets, scans of up to `entries_max` entries,
    /// or reads that are followed by a write. Ends when all are answered: an operation that still waits when the time
    /// is over counts as well.
    ///
    /// # Errors
    /// A write failed.
    pub async fn read(
        self,
        times: Schedule,
        choice: Arc<Choice>,
        (kind, entries_max): (Kind, u64),
        mut rng: Rng,
    ) -> Result<()> {
        let (under_way, failure) = (Arc::new(()), Arc::new(Mutex::new(None)));
        for at in times {
            sleep_until(&self.clock, at).await;
            if Arc::strong_count(&under_way) > READS_MAX {
                let (is_awake, waited) = (self.is_awake(), self.clock.now() - at);
                let mut tally = self.tally.lock();
                tally.partition_reads[self.index].0 += 1;
                tally.reads_failed += 1;
                tally.by_state.note(is_awake, waited, false);
                continue;
            }
            let (clients, ticket, item) = (self.clone(), Arc::clone(&under_way), choice.draw(&mut rng));
            let operation = Operation { kind, item, entries: entries(kind, entries_max, &mut rng), at };
            let mut payload = if kind == Kind::Modify { rng.fork("payload") } else { Rng::new(0) };
            let failure = Arc::clone(&failure);
            self.spawn.spawn(Box::pin(async move {
                if let Err(error) = clients.operate(operation, &mut payload).await {
                    failure.lock().get_or_insert(error);
                }
                drop(ticket);
            }));
        }
        while Arc::strong_count(&under_way) > 1 {
            sleep_until(&self.clock, self.clock.now() + SECOND / 100).await;
        }
        let failed = failure.lock().clone();
        failed.map_or(Ok(()), Err)
    }
}

/// One operation.
#[derive(Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    pub(crate) item: u64,
    /// How many entries a scan reads at most.
    pub(crate) entries: u64,
    /// When it was to be sent.
    pub(crate) at: Nanos,
}

impl Clients {
    /// Does `operation`, with a value from `rng` if it writes one, and counts it when it is answered. A read that finds
    /// nothing has failed.
    ///
    /// # Errors
    /// A write failed.
    pub(crate) async fn operate(&self, operation: Operation, rng: &mut Rng) -> Result<()> {
        let Operation { kind, item, at, .. } = operation;
        if matches!(kind, Kind::Get | Kind::Scan | Kind::Modify) {
            self.tally.lock().partition_reads[self.index].0 += 1;
            let is_awake = self.is_awake();
            let found = self.read_one(operation).await;
            let waited = self.clock.now() - at;
            let mut tally = self.tally.lock();
            tally.by_state.note(is_awake, waited, matches!(found, Ok(true)));
            match found {
                Ok(true) => tally.read(self.index, waited),
                _ => {
                    tally.reads_failed += 1;
                    return Ok(());
                }
            }
        }
        if matches!(kind, Kind::Insert | Kind::Update | Kind::Modify) {
            let sent = if kind == Kind::Modify { self.clock.now() } else { at };
            let mut value = vec![0; self.sizes.value_bytes(item)];
            fill(&mut value, rng);
            self.put(&self.sizes.key(item), &value).await?;
            self.tally.lock().wrote(self.index, self.clock.now() - sent, true);
        }
        self.tally.lock().by_kind.note(kind, self.clock.now() - at);
        Ok(())
    }

    /// Reads, and returns whether the item was there, or for a scan any item behind it.
    async fn read_one(&self, Operation { kind, item, entries, .. }: Operation) -> Result<bool> {
        let key = self.sizes.key(item);
        if kind != Kind::Scan {
            return self.get(&key).await;
        }
        let from = Bound::Included(key.to_vec());
        let partition = self.slot.partition().await?;
        let mut scan = partition.scan(Range { from, to: Bound::Unbounded, reverse: false }).await?;
        scan.expect(entries as usize);
        let mut found = 0;
        while found < entries && scan.next().await?.is_some() {
            found += 1;
        }
        Ok(found > 0)
    }

    /// Reads the item of `key`, and returns whether it was there. Counts it as lost if it is older than what was
    /// acknowledged.
    async fn get(&self, key: &[u8]) -> Result<bool> {
        let last = self.written.as_ref().and_then(|written| written.lock().last(key));
        let row = self.slot.partition().await?.get(key).await?;
        if let (Some(written), Some(last)) = (&self.written, last) {
            let value = row.as_ref().and_then(|row| row.value());
            let is_kept = written.lock().is_kept(last, value.map(|value| &**value));
            self.tally.lock().by_state.lost += u64::from(!is_kept);
        }
        Ok(row.is_some())
    }

    /// Stores one pair. A partition that is just going to sleep writes nothing; it is asked again when it is awake.
    async fn store(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = Batch::new();
        batch.put(key, value);
        loop {
            let partition = self.slot.partition().await?;
            match partition.write(&batch).await {
                Err(error) if error.kind() == ErrorKind::Closed && !self.slot.has(&partition) => {}
                outcome => return outcome?.await,
            }
        }
    }
}

/// How many entries the next operation reads: a scan reads from one to `entries_max`, all equally likely.
pub fn entries(kind: Kind, entries_max: u64, rng: &mut Rng) -> u64 {
    if kind == Kind::Scan { 1 + rng.below(entries_max) } else { 0 }
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
        let Some(written) = &self.written else { return self.store(key, value).await };
        let (number, value) = written.lock().begin(value);
        self.store(key, &value).await?;
        written.lock().acknowledge(key, number);
        Ok(())
    }

    fn is_awake(&self) -> bool {
        self.slot.awake().is_some()
    }
}
