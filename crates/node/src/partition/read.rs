//! Reads of a partition: single rows, pages, scans, and reading ahead.

use std::future::poll_fn;
use std::ops::Bound;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::{join_all, try_join_all};
use weir_admission::Direction;
use weir_command::{Page, PartCount, PartPage, PartRange, Read, TURN_KEYS, end_turn_of};
use weir_io::{Result, Yield};
use weir_log::{SyncMode, Waiter};
use weir_model::engine::{Found, Kind, Lookup, Range, Scan, Seq};
use weir_model::parts::{HeadRef, Life, is_placed};
use weir_model::{Row, StoredKey};

use super::Partition;
use super::covers::head_of;
use super::expired::is_mortal;
use super::part_page::{PageUnderWay, scan_range};
use crate::metrics::Counters;

/// Entries that a page looks at for each key that it may hold: one call never walks through millions of tombstones.
const PAGE_LOOKS_PER_KEY: usize = 10;
/// Bytes of entries, their values included, after which a page ends: going through keys also reads their values.
const PAGE_BYTES_MAX: u64 = 256 << 10;

/// Rows that one client's read-ahead asks the device for at a time.
const READ_AHEAD_MAX: usize = 64;

impl Partition {
    /// The row of `key`, if it lives at `now_ms` (milliseconds since 1970).
    #[inline]
    pub fn row(self: &Arc<Self>, key: &[u8], now_ms: u64) -> Read<'static> {
        let mut lookup = self.engine.get_latest(key);
        if let Lookup::Ready(answer) = &mut lookup {
            match answer.take().expect("looked at once") {
                Ok(found) if !self.is_on_its_way(found.as_ref()) => {
                    return Read::Ready(self.row_of(key, found, Some(now_ms)));
                }
                Ok(found) => lookup = Lookup::Ready(Some(Ok(found))),
                Err(error) => return Read::Ready(Err(error)),
            }
        }
        let (partition, key) = (Arc::clone(self), StoredKey::of(key));
        Read::Pending(Box::pin(async move { partition.finish_read(&key, lookup, Some(now_ms)).await }))
    }

    /// The living row of `key`. Done at the first poll if it is in memory.
    ///
    /// # Errors
    /// Errors of the disk; `Corruption` where stored data is damaged.
    pub async fn get(self: &Arc<Self>, key: &[u8]) -> Result<Option<Row>> {
        self.finish_read(key, self.engine.get_latest(key), None).await
    }

    async fn finish_read(self: &Arc<Self>, key: &[u8], lookup: Lookup, now_ms: Option<u64>) -> Result<Option<Row>> {
        if matches!(lookup, Lookup::Pending(_)) {
            Counters::add(&self.counters.reads_from_device, 1);
        }
        let found = lookup.await?;
        if let Some(seq) = found.as_ref().map(|found| found.seq)
            && self.is_on_its_way(found.as_ref())
            && self.published(seq).await.is_err()
        {
            // The log has failed, and the change was refused. Whether the change will be there is not known before the
            // log is replaced. What was acknowledged before it is known, and reads go on.
            self.witnessed.watched.may_change(key);
            return Ok(self.booked(self.living(key, self.engine.get(key, None).await?, now_ms)?));
        }
        self.row_of(key, found, now_ms)
    }

    /// Whether a change was found whose commit has yet to be waited for.
    #[inline]
    fn is_on_its_way(&self, found: Option<&Found>) -> bool {
        self.sync != SyncMode::None && found.is_some_and(|found| found.seq > self.engine.published())
    }

    #[inline]
    fn row_of(self: &Arc<Self>, key: &[u8], found: Option<Found>, now_ms: Option<u64>) -> Result<Option<Row>> {
        let is_mortal = is_mortal(found.as_ref());
        let row = self.booked(self.living(key, found, now_ms)?);
        if is_mortal && row.is_none() {
            self.bury(&[key]);
        }
        Ok(row)
    }

    /// The number of the newest change, if every change is published. All that is read before this gives another number
    /// is of one moment.
    pub fn settled(&self) -> Option<Seq> {
        // In this order: a change that is applied meanwhile is not published yet when it is looked at, or has another
        // number.
        let published = self.engine.published();
        Some(self.engine.applied_seq()).filter(|&applied| applied == published)
    }

    /// Reads the rows of `keys` into memory, and the `members` of rows, given by the stored keys of their rows and
    /// their names, a few at a time. What is in memory already is not read. Whoever asks for the rows next gets the
    /// errors. Others are served in between, as what is in memory makes nobody wait.
    pub(super) async fn read_ahead(&self, keys: &[StoredKey], members: &[(StoredKey, &[u8])], yields: Yield) {
        const TURN_CHUNKS: usize = TURN_KEYS / READ_AHEAD_MAX;
        for (index, keys) in keys.chunks(READ_AHEAD_MAX).enumerate() {
            end_turn_of(yields, TURN_CHUNKS, index).await;
            self.read_into_cache(keys.iter().map(|key| &key[..])).await;
        }
        for (index, members) in members.chunks(READ_AHEAD_MAX).enumerate() {
            end_turn_of(yields, TURN_CHUNKS, index).await;
            let mut parts = Vec::with_capacity(members.len());
            for of_one_row in members.chunk_by(|(key, _), (next, _)| key[..] == next[..]) {
                self.add_parts_of(&mut parts, &of_one_row[0].0, of_one_row.iter().map(|(_, name)| *name));
            }
            self.read_into_cache(parts.iter().map(|part| &part[..])).await;
        }
    }

    async fn read_into_cache<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        let lookups = keys.map(|key| self.engine.get_latest(key));
        let reads = lookups.filter(|lookup| matches!(lookup, Lookup::Pending(_)));
        // Each value is dropped as it comes: only the cache keeps what is read here.
        let reads = reads.map(async |lookup: Lookup| drop(lookup.await));
        join_all(reads.collect::<Vec<_>>()).await;
    }

    /// Has the processor fetch what reads of `keys`, which will follow soon, will touch.
    pub fn prefetch(&self, keys: &[&[u8]]) {
        self.engine.prefetch(keys);
    }

    /// The same for members of hashes, sets and sorted sets: the keys of their rows, and their names. Members of one
    /// row that follow one another look the row up once.
    pub fn prefetch_members(&self, database: u8, members: &[(&[u8], &[u8])]) {
        let mut parts = Vec::with_capacity(members.len());
        for of_one_row in members.chunk_by(|(key, _), (next, _)| key == next) {
            let row = StoredKey::new(database, of_one_row[0].0);
            self.add_parts_of(&mut parts, &row, of_one_row.iter().map(|(_, name)| *name));
        }
        if !parts.is_empty() {
            self.engine.prefetch(&parts.iter().map(|part| &part[..]).collect::<Vec<_>>());
        }
    }

    /// Adds the stored keys of the members called `names` of a hash, a set or a sorted set to `parts`. `row` is the
    /// stored key of its row. Members have such keys only if the row is in memory, and keeps them at keys of their own.
    fn add_parts_of<'n>(&self, parts: &mut Vec<StoredKey>, row: &[u8], names: impl Iterator<Item = &'n [u8]>) {
        let Lookup::Ready(Some(Ok(Some(found)))) = self.engine.get_latest(row) else { return };
        let head = HeadRef::parse(&found.value).filter(|_| found.kind == Kind::Head);
        if let Some(head) = head.filter(|head| head.packed.is_none() && is_placed(head.kind)) {
            parts.extend(names.map(|name| Life::new(head.version).stored_member(0, name)));
        }
    }

    /// The living rows of `keys` as of one moment, in their order.
    pub async fn multi_get(self: &Arc<Self>, keys: &[&[u8]]) -> Result<Vec<Option<Row>>> {
        self.publish_all().await;
        let found = try_join_all(self.engine.multi_get(keys)).await?;
        let mut expired = Vec::new();
        let rows = keys.iter().zip(found).map(|(&key, found)| {
            let is_mortal = is_mortal(found.as_ref());
            let row = self.booked(self.living(key, found, None)?);
            if is_mortal && row.is_none() {
                expired.push(key);
            }
            Ok(row)
        });
        let rows = rows.collect::<Result<_>>()?;
        if !expired.is_empty() {
            self.bury(&expired);
        }
        Ok(rows)
    }

    /// A scan of the living keys of `range`, as of now.
    pub async fn scan(self: &Arc<Self>, range: Range) -> Result<Scan> {
        self.publish_all().await;
        Ok(self.engine.scan(range, None))
    }

    /// Up to `limit` living keys from `from` on and before `to`. It looks at no more than [`PAGE_LOOKS_PER_KEY`] times
    /// as many entries, and at no further one after [`PAGE_BYTES_MAX`] of them. So where much was deleted, a page may
    /// be empty and still not be the last.
    pub async fn page(self: &Arc<Self>, from: &[u8], to: Option<&[u8]>, limit: usize) -> Result<Page> {
        self.publish_all().await;
        self.page_of(self.engine.scan(page_range(from, to), None), limit).await
    }

    async fn page_of(&self, mut scan: Scan, limit: usize) -> Result<Page> {
        let limit = limit.max(1);
        scan.set_budget(limit.saturating_mul(PAGE_LOOKS_PER_KEY), PAGE_BYTES_MAX);
        // If there is one more key, the next page begins with it.
        scan.expect(limit.saturating_add(1));
        let mut page = Page::default();
        let mut bytes = 0;
        while let Some(entry) = scan.next().await? {
            if page.keys.len() == limit {
                page.next = Some(entry.key.to_vec());
                page.passed = scan.passed();
                self.account.book_user(Direction::Read, bytes);
                return Ok(page);
            }
            bytes += entry.key.len() as u64;
            if entry.kind == Kind::Head {
                let kind = HeadRef::parse(entry.value).map(|head| (page.keys.len(), head.kind));
                page.kinds.extend(kind);
            }
            page.keys.push(entry.key.to_vec());
        }
        page.next = scan.stopped_at();
        page.passed = scan.passed();
        self.account.book_user(Direction::Read, bytes);
        Ok(page)
    }

    /// Up to `limit` keys of rows of `database` from the key `from` on: as [`Partition::page`], without the number of
    /// the database in front of them.
    ///
    /// # Errors
    /// Errors of the disk; `Corruption` where stored data is damaged.
    pub async fn keys(self: &Arc<Self>, database: u8, from: &[u8], limit: usize) -> Result<Page> {
        let page = self.page(&StoredKey::new(database, from), Some(&[database + 1]), limit).await?;
        Ok(without_database(page))
    }

    /// The same for a caller that has time: see [`weir_model::engine::Reads::scan_in_background`].
    ///
    /// # Errors
    /// As [`Partition::keys`].
    pub async fn keys_in_background(self: &Arc<Self>, database: u8, from: &[u8], limit: usize) -> Result<Page> {
        self.publish_all().await;
        let range = page_range(&StoredKey::new(database, from), Some(&[database + 1]));
        Ok(without_database(self.page_of(self.engine.scan_in_background(range), limit).await?))
    }

    /// A page of the parts in `range`, as of now, for a command that only reads: as [`Partition::page`].
    ///
    /// # Errors
    /// Errors of the disk; `Corruption` where stored data is damaged.
    pub async fn parts(self: &Arc<Self>, range: PartRange, limit: usize) -> Result<PartPage> {
        self.publish_all().await;
        let scan = self.engine.scan(scan_range(&range), None);
        self.part_page(scan, range, limit).await
    }

    /// The same for a caller that needs only the number of parts.
    ///
    /// # Errors
    /// As [`Partition::parts`].
    pub async fn count_parts(self: &Arc<Self>, range: PartRange, limit: usize) -> Result<PartCount> {
        self.publish_all().await;
        let scan = self.engine.scan(scan_range(&range), None);
        self.part_count(scan, range, limit).await
    }

    /// How many parts `scan`, a scan of `range`, finds.
    pub(super) async fn part_count(&self, scan: Scan, range: PartRange, limit: usize) -> Result<PartCount> {
        let mut page = PageUnderWay::counting(scan, range, limit);
        while !page.take() {
            page.load().await?;
        }
        Ok(page.end_count(self).0)
    }

    /// A page of the parts that `scan`, a scan of `range`, finds.
    pub(super) async fn part_page(&self, scan: Scan, range: PartRange, limit: usize) -> Result<PartPage> {
        let mut page = PageUnderWay::new(scan, range, limit);
        while !page.take() {
            page.load().await?;
        }
        Ok(page.end(self).0)
    }

    /// The row that a user asked for, booked as read.
    #[inline]
    pub(super) fn booked(&self, row: Option<Row>) -> Option<Row> {
        self.account.book_user(Direction::Read, row.as_ref().map_or(0, |row| row.bytes() as u64));
        row
    }

    /// The row of `key`, if it lives at `now_ms`, or by the clock if no time is given.
    ///
    /// # Errors
    /// `Corruption`: it has a head that is none.
    #[inline]
    pub(super) fn living(&self, key: &[u8], found: Option<Found>, now_ms: Option<u64>) -> Result<Option<Row>> {
        let Some(found) = found.filter(|found| found.kind.is_value()) else { return Ok(None) };
        // The wall clock is read only for values that can expire.
        if found.expire_at_ms != 0 && found.is_expired(now_ms.unwrap_or_else(|| self.clock.unix_ms())) {
            return Ok(None);
        }
        let expire_at_ms = (found.expire_at_ms != 0).then_some(found.expire_at_ms);
        Ok(Some(match head_of(key, &found)? {
            None => Row::string(found.value, expire_at_ms),
            Some(head) => Row::of_parts(head, expire_at_ms),
        }))
    }

    /// Waits until everything written so far is published, or until the log has failed. In the latter case everything
    /// acknowledged is published, and the rest was refused.
    pub(super) async fn publish_all(self: &Arc<Self>) {
        if self.sync != SyncMode::None {
            drop(self.published(self.engine.applied_seq()).await);
        }
    }

    /// Waits until change `seq` is published. Its own writer may have gone away, so the caller drives the log.
    ///
    /// # Errors
    /// The log has failed, and the caller leaves the change out. The repair, which has begun when this returns, tells
    /// clients at its end. If it began with a later look at the log, another member of a shared log might have had that
    /// replaced by then, and nobody would be told.
    async fn published(self: &Arc<Self>, seq: Seq) -> Result<()> {
        if self.engine.published() >= seq {
            return Ok(());
        }
        // Not only up to `seq`, which may stand in the middle of a batch: nobody may see half of a batch. And every
        // change that is applied by now is in a log record that has an index by now.
        let applied = self.engine.applied_seq();
        let mut waiting = Waiting { partition: self, index: self.log.last(), waiter: Waiter::default() };
        poll_fn(|cx| Pin::new(&mut waiting).get_mut().poll(cx)).await.inspect_err(|_| self.kick_repair())?;
        self.engine.publish(applied);
        Ok(())
    }
}

/// The same page, with keys as users know them.
fn without_database(mut page: Page) -> Page {
    for key in page.keys.iter_mut().chain(&mut page.next) {
        key.remove(0);
    }
    page
}

/// From `from` on, up to `to`.
fn page_range(from: &[u8], to: Option<&[u8]>) -> Range {
    let to = to.map_or(Bound::Unbounded, |to| Bound::Excluded(to.into()));
    Range { from: Bound::Included(from.into()), to, reverse: false }
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
