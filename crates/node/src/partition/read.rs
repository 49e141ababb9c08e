//! Reading.

use std::future::{Future, poll_fn};
use std::ops::Bound;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use weir_admission::Direction;
use weir_io::Result;
use weir_log::{SyncMode, Waiter};
use weir_lsm::entry::{Kind, Seq};
use weir_lsm::{Found, Lookup, Range, Scan, Value};

use super::Partition;
use super::expired::is_mortal;
use crate::metrics::Counters;

/// A living key's value.
#[derive(Clone, Debug)]
pub struct Record {
    /// The bytes, shared with memtable or block.
    pub value: Value,
    /// First millisecond since 1970 at which the key no longer exists; `None` = it stays.
    pub expire_at_ms: Option<u64>,
}

/// Entries that a page looks at for each key that it may hold: one call never walks through millions of tombstones.
const PAGE_LOOKS_PER_KEY: usize = 10;
/// Bytes of entries, their values included, after which a page ends: going through keys reads the values beside them.
const PAGE_BYTES_MAX: u64 = 256 << 10;

/// A bounded step through the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Living keys, ascending.
    pub keys: Vec<Vec<u8>>,
    /// Where to go on; `None` at the end.
    pub next: Option<Vec<u8>>,
    /// Bytes of keys and values that were passed for it, of what is deleted or old as well.
    pub passed_bytes: u64,
}

impl Partition {
    /// The living record of `key`. Done at the first poll if it is in memory.
    pub async fn get(self: &Arc<Self>, key: &[u8]) -> Result<Option<Record>> {
        let mut lookup = self.tree.get_latest(key);
        let found = match &mut lookup {
            Lookup::Ready(_) => lookup.await?,
            Lookup::Pending(_) => {
                Counters::add(&self.counters.reads_from_device, 1);
                self.timed(lookup).await?
            }
        };
        if let Some(found) = &found
            && self.sync != SyncMode::None
            && found.seq > self.tree.published()
            && self.published(found.seq).await.is_err()
        {
            // The log has failed, and the change was refused: whether it will be there is not known before the log is
            // replaced. What was acknowledged before it is known, and reads go on.
            return Ok(self.read(self.tree.get(key, None).await?));
        }
        let is_mortal = is_mortal(found.as_ref());
        let record = self.read(found);
        if is_mortal && record.is_none() {
            self.bury(&[key]);
        }
        Ok(record)
    }

    /// Has the processor fetch what reads of `keys`, which follow soon, will touch.
    pub fn foresee(&self, keys: &[&[u8]]) {
        self.tree.foresee(keys);
    }

    /// The living records of `keys` as of one moment, in their order.
    pub async fn multi_get(self: &Arc<Self>, keys: &[&[u8]]) -> Result<Vec<Option<Record>>> {
        self.publish_all().await;
        let found = self.timed(self.tree.multi_get(keys)).await?;
        let mut expired = Vec::new();
        let records = keys.iter().zip(found).map(|(&key, found)| {
            let is_mortal = is_mortal(found.as_ref());
            let record = self.read(found);
            if is_mortal && record.is_none() {
                expired.push(key);
            }
            record
        });
        let records = records.collect();
        if !expired.is_empty() {
            self.bury(&expired);
        }
        Ok(records)
    }

    /// A scan of the living keys of `range`, as of now.
    pub async fn scan(self: &Arc<Self>, range: Range) -> Result<Scan> {
        self.publish_all().await;
        Ok(self.tree.scan(range, None))
    }

    /// Up to `limit` living keys from `from` on and before `to`, having looked at no more than [`PAGE_LOOKS_PER_KEY`] times as many
    /// entries, and at no further one after [`PAGE_BYTES_MAX`] of them: where much was deleted a page may be empty and yet not the last.
    pub async fn page(self: &Arc<Self>, from: &[u8], to: Option<&[u8]>, limit: usize) -> Result<Page> {
        let to = to.map_or(Bound::Unbounded, |to| Bound::Excluded(to.into()));
        let range = Range { from: Bound::Included(from.into()), to, reverse: false };
        let limit = limit.max(1);
        let mut scan = self.scan(range).await?;
        scan.set_budget(limit.saturating_mul(PAGE_LOOKS_PER_KEY), PAGE_BYTES_MAX);
        let mut page = Page::default();
        let mut bytes = 0;
        while let Some(entry) = self.timed(scan.next()).await? {
            if page.keys.len() == limit {
                page.next = Some(entry.key.to_vec());
                page.passed_bytes = scan.passed_bytes();
                self.account.book_user(Direction::Read, bytes);
                return Ok(page);
            }
            bytes += entry.key.len() as u64;
            page.keys.push(entry.key.to_vec());
        }
        page.next = scan.stopped_at();
        page.passed_bytes = scan.passed_bytes();
        self.account.book_user(Direction::Read, bytes);
        Ok(page)
    }

    /// Awaits `read`, and takes its time unless it is done at once: then it was in memory (U-23).
    pub(super) async fn timed<T>(&self, read: impl Future<Output = T>) -> T {
        let (mut read, mut began) = (pin!(read), None);
        poll_fn(|cx| {
            let polled = read.as_mut().poll(cx);
            match (polled.is_ready(), began) {
                (false, None) => began = Some(self.clock.now()),
                (true, Some(began)) => self.read_times.add(self.clock.now() - began),
                _ => {}
            }
            polled
        })
        .await
    }

    /// The living record that a user asked for, booked as read.
    pub(super) fn read(&self, found: Option<Found>) -> Option<Record> {
        let record = self.living(found);
        self.account.book_user(Direction::Read, record.as_ref().map_or(0, |record| record.value.len() as u64));
        record
    }

    pub(super) fn living(&self, found: Option<Found>) -> Option<Record> {
        let found = found.filter(|found| found.kind == Kind::Put)?;
        let expire_at_ms = (found.expire_at_ms != 0).then_some(found.expire_at_ms);
        // The wall clock is read only for what can expire.
        let lives = expire_at_ms.is_none_or(|at| at > self.clock.unix_ms());
        lives.then_some(Record { value: found.value, expire_at_ms })
    }

    /// Waits until everything written so far is published, where that is not so at once; or until the log has failed: then
    /// what was acknowledged is published, and the rest was refused.
    async fn publish_all(&self) {
        if self.sync != SyncMode::None {
            drop(self.published(self.tree.applied_seq()).await);
        }
    }

    /// Waits until change `seq` is published. Its own writer may have gone away: whoever wants to know drives the log.
    async fn published(&self, seq: Seq) -> Result<()> {
        if self.tree.published() >= seq {
            return Ok(());
        }
        // Not only up to `seq`, which may stand in the middle of a batch: nobody may see half of that. And every change that is
        // applied by now is in a log record that has an index by now.
        let applied = self.tree.applied_seq();
        let mut waiting = Waiting { partition: self, index: self.log.last(), waiter: Waiter::default() };
        poll_fn(|cx| Pin::new(&mut waiting).get_mut().poll(cx)).await?;
        self.tree.publish(applied);
        Ok(())
    }
}

struct Waiting<'a> {
    partition: &'a Partition,
    index: u64,
    waiter: Waiter,
}

impl Waiting<'_> {
    fn poll(&mut self, cx: &mut std::task::Context<'_>) -> Poll<Result<()>> {
        self.partition.log.poll_commit(self.index, &mut self.waiter, cx)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.partition.log.forget(&mut self.waiter);
    }
}
