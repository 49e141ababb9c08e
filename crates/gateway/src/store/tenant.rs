//! One database of a tenant as a store: keys find their partitions, and partitions are woken where they sleep.
//!
//! In the tree a key stands behind one byte with the number of its database; nobody above this file sees that byte, and nobody can name
//! a key of another database or tenant.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use weir_io::{Error, ErrorKind, Result};
use weir_model::{Batch, Change, DATABASES};
use weir_node::{Commit, Home, Node, Partition, Quota, Record, Tenant, Value};

use super::key::StoredKey;
use super::{Entry, Page, Store, Transfer};

impl From<Record> for Entry<Value> {
    fn from(record: Record) -> Self {
        Entry { value: record.value, expire_at_ms: record.expire_at_ms }
    }
}

/// See the module.
#[derive(Clone)]
pub struct TenantStore {
    tenant: Arc<Tenant>,
    /// Not held: sessions must not keep a node that ends.
    node: Weak<Node>,
    database: u8,
}

/// What a write waits for: a commit in each partition that it went to.
pub struct Commits(Waiting);

enum Waiting {
    One(Commit),
    Several(Vec<Commit>),
}

impl Future for Commits {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        match &mut self.0 {
            Waiting::One(commit) => Pin::new(commit).poll(cx),
            Waiting::Several(commits) => {
                while let Some(commit) = commits.last_mut() {
                    match Pin::new(commit).poll(cx) {
                        Poll::Ready(Ok(())) => drop(commits.pop()),
                        other => return other,
                    }
                }
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl TenantStore {
    /// Database 0 of `tenant`, one of `node`'s.
    pub fn new(node: &Arc<Node>, tenant: Arc<Tenant>) -> Self {
        Self { tenant, node: Arc::downgrade(node), database: 0 }
    }

    /// Whose it is.
    pub fn tenant(&self) -> &Arc<Tenant> {
        &self.tenant
    }

    /// Writes `batch`, all of whose keys belong to `home`. A partition that is just going to sleep writes nothing, and is asked again
    /// when it is awake.
    async fn write_to(&self, home: &Arc<Home>, batch: &Batch) -> Result<Commit> {
        loop {
            let partition = home.partition().await?;
            match partition.write(batch).await {
                Err(error) if error.kind() == ErrorKind::Closed && !home.has(&partition) => {}
                outcome => return outcome,
            }
        }
    }

    /// As [`Store::update`], for keys as they are stored.
    async fn update_at<R: Send>(
        &self,
        home: &Arc<Home>,
        keys: &[&[u8]],
        change: impl FnOnce(&[Option<Entry<Value>>], &mut Batch) -> R + Send,
    ) -> Result<(R, Option<Commits>)> {
        let mut change = Some(|records: &[Option<Record>], batch: &mut Batch| {
            let entries: Vec<Option<Entry<Value>>> =
                records.iter().map(|record| record.clone().map(Entry::from)).collect();
            change(&entries, batch)
        });
        loop {
            let partition = home.partition().await?;
            let batch = Batch::in_database(self.database);
            match partition.try_update(keys, batch, &mut change).await {
                Err(error) if error.kind() == ErrorKind::Closed && !home.has(&partition) => {}
                outcome => {
                    let (answer, commit) = outcome?;
                    return Ok((answer, commit.map(|commit| Commits(Waiting::One(commit)))));
                }
            }
        }
    }

    /// `batch` in parts, one for each partition that it has keys of, in the order of the partitions.
    fn split(&self, batch: &Batch) -> Result<Vec<(usize, Batch)>> {
        let skipped = usize::from(batch.database().is_some());
        if batch.database().is_some_and(|database| database != self.database) {
            return Err(Error::new(ErrorKind::Invalid, "write to", "the database", "the batch is another database's"));
        }
        let mut parts: Vec<(usize, Batch)> = Vec::new();
        for change in batch.as_ref().iter() {
            let key = &change.key()[skipped..];
            let index = self.tenant.index_of(key);
            let place = parts.binary_search_by_key(&index, |(index, _)| *index).unwrap_or_else(|place| {
                parts.insert(place, (index, Batch::in_database(self.database)));
                place
            });
            parts[place].1.push(match change {
                Change::Put { value, expire_at_ms, .. } => Change::Put { key, value, expire_at_ms },
                Change::Delete { .. } => Change::Delete { key },
            });
        }
        Ok(parts)
    }
}

impl Store for TenantStore {
    type Value = Value;
    type Commit = Commits;

    async fn get(&self, key: &[u8]) -> Result<Option<Entry<Value>>> {
        let stored = StoredKey::new(self.database, key);
        let home = self.tenant.home_of(key);
        let awake = home.awake();
        if let Some(partition) = &*awake {
            return Ok(Partition::get(partition, &stored).await?.map(Entry::from));
        }
        drop(awake);
        match home.partition_to_read().await? {
            Some(partition) => Ok(partition.get(&stored).await?.map(Entry::from)),
            None => Ok(None),
        }
    }

    /// Where there are several partitions, the keys that follow one another are anywhere, and nothing is made ready.
    fn foresee(&self, keys: &[&[u8]]) {
        if let [home] = self.tenant.partitions()
            && let Some(partition) = &*home.awake()
        {
            let stored: Vec<StoredKey> = keys.iter().map(|key| StoredKey::new(self.database, key)).collect();
            let stored: Vec<&[u8]> = stored.iter().map(|key| &**key).collect();
            partition.foresee(&stored);
        }
    }

    async fn write(&self, batch: &Batch) -> Result<Commits> {
        let homes = self.tenant.partitions();
        if homes.len() == 1 && batch.database() == Some(self.database) {
            return Ok(Commits(Waiting::One(self.write_to(&homes[0], batch).await?)));
        }
        let mut commits = Vec::new();
        for (index, part) in self.split(batch)? {
            commits.push(self.write_to(&homes[index], &part).await?);
        }
        Ok(Commits(Waiting::Several(commits)))
    }

    async fn update<R: Send>(
        &self,
        keys: &[&[u8]],
        change: impl FnOnce(&[Option<Entry<Value>>], &mut Batch) -> R + Send,
    ) -> Result<(R, Option<Commits>)> {
        let home = self.tenant.home_of(keys.first().copied().unwrap_or_default());
        if let [key] = keys {
            return self.update_at(home, &[&StoredKey::new(self.database, key)], change).await;
        }
        if !keys.iter().all(|key| Arc::ptr_eq(self.tenant.home_of(key), home)) {
            return Err(Error::new(ErrorKind::Invalid, "update", "the tenant", "the keys are in several partitions"));
        }
        let stored: Vec<StoredKey> = keys.iter().map(|key| StoredKey::new(self.database, key)).collect();
        let stored: Vec<&[u8]> = stored.iter().map(|key| &**key).collect();
        self.update_at(home, &stored, change).await
    }

    async fn transfer(&self, transfer: Transfer<'_>) -> Result<(Option<usize>, Option<Commits>)> {
        let home = self.tenant.home_of(transfer.key);
        if !Arc::ptr_eq(self.tenant.home_of(transfer.to), home) {
            return Err(Error::new(ErrorKind::Invalid, "carry in", "the tenant", "the keys are in several partitions"));
        }
        let from = StoredKey::new(self.database, transfer.key);
        let to = StoredKey::new(transfer.database, transfer.to);
        self.update_at(home, &[&from, &to], |entries, batch| {
            let entry = entries[0].as_ref().filter(|_| transfer.replace || entries[1].is_none())?;
            // Two databases: the keys are pushed as they are stored.
            batch.restart(None);
            batch.push(Change::Put { key: &to, value: &entry.value[..], expire_at_ms: entry.expire_at_ms });
            if transfer.moved {
                batch.delete(&from);
            }
            Some(entry.value.len())
        })
        .await
    }

    fn disk_limit_reached(&self) -> Option<u64> {
        self.tenant.disk_limit_reached()
    }

    async fn room_on_disk(&self) -> std::result::Result<(), u64> {
        self.tenant.room_on_disk().await
    }

    async fn clear(&self) -> Result<bool> {
        let Some(node) = self.node.upgrade() else { return Ok(false) };
        node.clear(&self.tenant).await?;
        Ok(true)
    }

    fn place(&self, key: &[u8]) -> Vec<u8> {
        match self.tenant.partitions().len() {
            1 => key.to_vec(),
            _ => [&[self.tenant.index_of(key) as u8], key].concat(),
        }
    }

    /// A place is a user's key; where there are several partitions, behind one byte with the partition's place in the tenant.
    async fn scan(&self, from: &[u8], limit: usize) -> Result<Page> {
        let homes = self.tenant.partitions();
        let is_spread = homes.len() > 1;
        let (index, from) = match (is_spread, from.split_first()) {
            (true, Some((&index, key))) => (usize::from(index), key),
            _ => (0, from),
        };
        let Some(home) = homes.get(index) else { return Ok(Page::default()) };
        let (first, end) = (StoredKey::new(self.database, from), [self.database + 1]);
        let mut page = match home.partition_to_read().await? {
            Some(partition) => partition.page(&first, Some(&end), limit).await?,
            None => weir_node::Page::default(),
        };
        // Taking the database's number off.
        for key in page.keys.iter_mut().chain(&mut page.next) {
            key.remove(0);
        }
        let next = match page.next {
            // One partition of 256 fits a byte.
            Some(key) if is_spread => Some([&[index as u8], &key[..]].concat()),
            None if index + 1 < homes.len() => Some(vec![index as u8 + 1]),
            next => next,
        };
        Ok(Page { keys: page.keys, next, passed_bytes: page.passed_bytes })
    }

    fn database(&self, number: u8) -> Option<Self> {
        (number < DATABASES).then(|| Self { database: number, ..self.clone() })
    }

    fn key_prefix(&self) -> Option<u8> {
        Some(self.database)
    }

    fn quota(&self) -> Option<&Arc<Quota>> {
        Some(self.tenant.quota())
    }

    fn partition_of(&self, key: &[u8]) -> u32 {
        self.tenant.index_of(key) as u32
    }

    fn is_spread(&self) -> bool {
        self.tenant.partitions().len() > 1
    }

    fn is_awake(&self) -> bool {
        self.tenant.partitions().iter().all(|home| home.awake().is_some())
    }

    fn facts(&self) -> Vec<(&'static str, &'static str, String)> {
        let (mut awake, mut memtables, mut tables, mut bytes, mut debt) = (0, 0, 0, 0, 0);
        for partition in self.tenant.partitions().iter().filter_map(|home| home.awake().clone()) {
            let shape = partition.metrics().shape;
            awake += 1;
            memtables += shape.memtable_bytes + shape.sealed_bytes;
            tables += shape.levels.iter().map(|level| level.tables).sum::<usize>();
            bytes += shape.levels.iter().map(|level| level.bytes).sum::<u64>();
            debt += shape.debt_bytes;
        }
        vec![
            // The cache is everybody's.
            ("Memory", "used_memory", memtables.to_string()),
            ("Memory", "memtable_bytes", memtables.to_string()),
            ("Persistence", "partitions", self.tenant.partitions().len().to_string()),
            ("Persistence", "partitions_awake", awake.to_string()),
            ("Persistence", "tables", tables.to_string()),
            ("Persistence", "table_bytes", bytes.to_string()),
            ("Persistence", "compaction_debt_bytes", debt.to_string()),
        ]
    }
}
