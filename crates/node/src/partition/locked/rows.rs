//! The rows that a command which reads and then writes has locked, and what it finds there.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::iter::once;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;

use parking_lot::Mutex;
use weir_admission::Direction;
use weir_command::{Page, PartPage, PartRange, Read, Rows, Waiting};
use weir_io::Result;
use weir_model::engine::{Found, Kind, Lookup, Seq};
use weir_model::{Row, StoredKey};

use super::super::Partition;
use super::super::covers::{Elsewhere, Lives};
use super::super::expired::is_mortal;
use super::super::latch::Latches;
use super::super::part_page::{PageUnderWay, scan_range};

/// A command that has looked at about this many parts under the order lock, living or dead, goes on without the lock.
const PARTS_IN_ORDER_MAX: usize = 2_000;
/// How many heads are remembered: they are searched one by one.
const HEADS_MAX: usize = 16;
/// Beginning a scan takes as long as looking at this many parts.
const SCAN_PARTS: usize = 16;
/// This many bytes of dead entries, or of older versions, count as one part.
const PASSED_PART_BYTES: u64 = 64;

/// A row that was found expired.
pub(super) struct Expired {
    key: Vec<u8>,
    /// The sequence number at which it was written.
    seq: Seq,
    /// What the row has elsewhere.
    elsewhere: Elsewhere,
}

/// Rows that nobody else writes to while they are read. A read sees changes that are not yet committed, so the answer
/// waits for their commit.
pub(super) struct LockedRows<'p> {
    pub(super) partition: &'p Arc<Partition>,
    /// The newest version that was read.
    pub(super) newest_seen: AtomicU64,
    pub(super) expired: Mutex<Vec<Expired>>,
    /// Heads that were read, with what their rows have elsewhere: the first [`HEADS_MAX`].
    heads: Mutex<Vec<(StoredKey, Elsewhere)>>,
    /// The order lock is held. Nothing may be read from the device then, because some threads do their I/O right where
    /// they ask for it.
    pub(super) is_in_order: AtomicBool,
    /// About how many parts scans have looked at so far.
    parts_in_order: AtomicUsize,
    /// Something was asked for by its key that is not in memory.
    misses: AtomicBool,
    /// How many rows and parts were read, and their bytes. They are booked together in the end.
    reads: AtomicU64,
    read_bytes: AtomicU64,
}

impl<'p> LockedRows<'p> {
    pub(super) fn new(partition: &'p Arc<Partition>) -> Self {
        Self {
            partition,
            newest_seen: AtomicU64::new(0),
            expired: Mutex::default(),
            heads: Mutex::default(),
            is_in_order: AtomicBool::new(false),
            parts_in_order: AtomicUsize::new(0),
            misses: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
        }
    }

    /// Whether something was asked for by its key that is not in memory.
    pub(super) fn misses(&self) -> bool {
        self.misses.load(Ordering::Relaxed)
    }

    /// What was read so far is not booked: the command begins again, and reads it once more.
    pub(super) fn forget_reads(&self) {
        self.reads.store(0, Ordering::Relaxed);
        self.read_bytes.store(0, Ordering::Relaxed);
    }

    fn saw(&self, seq: Seq) {
        // One task uses this at a time: no need for an exchange.
        self.newest_seen.store(seq.max(self.newest_seen.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// The row that a user asked for, to be booked as read.
    fn counted(&self, row: Option<Row>) -> Option<Row> {
        let bytes = row.as_ref().map_or(0, |row| row.bytes() as u64);
        self.reads.store(self.reads.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.read_bytes.store(self.read_bytes.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
        row
    }

    /// The row, if it lives at `now_ms`, or by the clock if no time is given.
    fn judge(&self, key: &[u8], found: Option<Found>, now_ms: Option<u64>) -> Result<Option<Row>> {
        let Some(found) = found else { return Ok(self.counted(None)) };
        self.saw(found.seq);
        if found.kind == Kind::Head {
            let mut heads = self.heads.lock();
            if heads.len() < HEADS_MAX {
                heads.push((StoredKey::of(key), Elsewhere::found(key, &found)?));
            }
        }
        let mortal = is_mortal(Some(&found)).then(|| found.clone());
        let row = self.partition.living(key, Some(found), now_ms)?;
        if let Some(found) = mortal.filter(|_| row.is_none()) {
            let elsewhere = Elsewhere::found(key, &found)?;
            self.expired.lock().push(Expired { key: key.to_vec(), seq: found.seq, elsewhere });
        }
        Ok(self.counted(row))
    }

    /// Whether the expired row is certainly still there, and not latched by another command. The caller holds the order
    /// lock. A command may read keys that are not its rows; others may write to those keys once it has released the
    /// lock and has its own rows `latched` instead, which are sorted.
    fn is_still(&self, found: &Expired, order: &Latches, latched: Option<&[Arc<[u8]>]>) -> bool {
        let is_own = |rows: &[Arc<[u8]>]| rows.binary_search_by(|row| row[..].cmp(&found.key)).is_ok();
        if latched.is_some_and(is_own) {
            return true;
        }
        if order.any(once(&found.key[..])) {
            return false;
        }
        if latched.is_none() {
            return true;
        }
        match self.partition.engine.get_latest(&found.key) {
            Lookup::Ready(now) => matches!(now, Some(Ok(Some(now))) if now.seq == found.seq),
            Lookup::Pending(_) => false,
        }
    }

    /// The rows that were found expired and are to be deleted, each row once.
    pub(super) fn to_bury<'a>(
        &self,
        expired: &'a [Expired],
        order: &Latches,
        latched: Option<&[Arc<[u8]>]>,
    ) -> BTreeMap<&'a [u8], Elsewhere> {
        let still = expired.iter().filter(|found| self.is_still(found, order, latched));
        still.map(|found| (&found.key[..], found.elsewhere)).collect()
    }

    /// Waits until the order lock is released. No waker is called for it: whoever releases the lock goes on with this
    /// future at once.
    fn out_of_order(&self) -> impl Future<Output = ()> + Send {
        poll_fn(|_| if self.is_in_order.load(Ordering::Relaxed) { Poll::Pending } else { Poll::Ready(()) })
    }

    pub(super) fn read<'a>(&'a self, key: impl Deref<Target = [u8]> + Send + 'a, now_ms: Option<u64>) -> Read<'a> {
        match self.partition.engine.get_latest(&key) {
            Lookup::Ready(found) => {
                let found = found.expect("looked at once");
                Read::Ready(found.and_then(|found| self.judge(&key, found, now_ms)))
            }
            lookup @ Lookup::Pending(_) => {
                self.misses.store(true, Ordering::Relaxed);
                Read::Pending(Box::pin(async move {
                    self.out_of_order().await;
                    let found = lookup.await?;
                    self.judge(&key, found, now_ms)
                }))
            }
        }
    }
}

impl Drop for LockedRows<'_> {
    fn drop(&mut self) {
        let (reads, bytes) = (*self.reads.get_mut(), *self.read_bytes.get_mut());
        if reads > 0 {
            self.partition.account.book_user_together(Direction::Read, bytes, reads);
        }
    }
}

impl Lives for LockedRows<'_> {
    fn known(&self, key: &[u8]) -> Option<Elsewhere> {
        let heads = self.heads.lock();
        heads.iter().find(|(known, _)| known[..] == *key).map(|(_, elsewhere)| *elsewhere)
    }

    fn elsewhere<'a>(&'a self, key: &'a [u8]) -> Waiting<'a, Result<Elsewhere>> {
        Box::pin(async move {
            let lookup = self.partition.engine.get_latest(key);
            if matches!(lookup, Lookup::Pending(_)) {
                self.out_of_order().await;
            }
            let found = lookup.await?;
            found.map_or(Ok(Elsewhere::default()), |found| Elsewhere::found(key, &found))
        })
    }
}

impl Rows for LockedRows<'_> {
    fn get<'a>(&'a self, database: u8, key: &'a [u8], now_ms: u64) -> Read<'a> {
        self.read(StoredKey::new(database, key), Some(now_ms))
    }

    fn part<'a>(&'a self, _: &'a [u8], part: &'a [u8], now_ms: u64) -> Read<'a> {
        self.read(part, Some(now_ms))
    }

    fn parts<'a>(&'a self, _: &'a [u8], range: PartRange, limit: usize) -> Waiting<'a, Result<PartPage>> {
        Box::pin(async move {
            if self.parts_in_order.load(Ordering::Relaxed) >= PARTS_IN_ORDER_MAX {
                self.out_of_order().await;
            }
            let scan = self.partition.engine.scan_latest(scan_range(&range));
            let mut page = PageUnderWay::new(scan, range, limit);
            while !page.take() {
                self.out_of_order().await;
                page.load().await?;
            }
            let (page, newest) = page.end(self.partition);
            let passed = (page.passed.bytes / PASSED_PART_BYTES) as usize;
            self.parts_in_order.fetch_add(page.parts.len() + passed + SCAN_PARTS, Ordering::Relaxed);
            self.saw(newest);
            Ok(page)
        })
    }

    fn new_version(&self) -> u64 {
        self.partition.new_version()
    }

    fn page<'a>(&'a self, database: u8, from: &'a [u8], limit: usize) -> Waiting<'a, Result<Page>> {
        Box::pin(async move {
            self.out_of_order().await;
            self.partition.keys(database, from, limit).await
        })
    }
}
