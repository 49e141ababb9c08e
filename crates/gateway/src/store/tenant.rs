//! A tenant as a store: finds the partition of each key, and wakes partitions that are asleep.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use weir_command::error::Outcome;
use weir_command::events::{Classes, Witness};
use weir_command::{
    Args, Call, Command, Host, MemberAtOnce, Moment, Page, PartCount, PartPage, PartRange, Read, Rows, Transaction,
    Waiting,
};
use weir_io::{Error, ErrorKind, Result};
use weir_model::parts::RowType;
use weir_model::{Batch, Databases, StoredKey};
use weir_node::{Commit, EngineKind, Expirations, Node, Partition, PartitionSlot, Quota, RowWatch, Tenant};

use super::Store;

/// The data of one tenant, as a [`Store`].
#[derive(Clone)]
pub struct TenantStore {
    tenant: Arc<Tenant>,
    /// Weak, because sessions must not keep alive a node that ends.
    node: Weak<Node>,
}

/// What a write waits for: a commit in each partition that it went to.
pub struct Commits(Outstanding);

enum Outstanding {
    One(Commit),
    Several(Vec<Commit>),
}

impl Future for Commits {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        match &mut self.0 {
            Outstanding::One(commit) => Pin::new(commit).poll(cx),
            Outstanding::Several(commits) => {
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
    /// The data of `tenant`, one of `node`'s.
    pub fn new(node: &Arc<Node>, tenant: Arc<Tenant>) -> Self {
        Self { tenant, node: Arc::downgrade(node) }
    }

    /// The tenant whose data this is.
    pub fn tenant(&self) -> &Arc<Tenant> {
        &self.tenant
    }

    /// Writes `batch`, all of whose keys belong to `slot`. A partition that is just going to sleep writes nothing; it
    /// is asked again when it is awake.
    async fn write_to(&self, slot: &Arc<PartitionSlot>, batch: &Batch) -> Result<Commit> {
        loop {
            let partition = slot.partition().await?;
            match partition.write(batch).await {
                Err(error) if error.kind() == ErrorKind::Closed && !slot.has(&partition) => {}
                outcome => return outcome,
            }
        }
    }

    /// As [`Rows::page`]. With `in_background`, the caller has time.
    async fn page_as(&self, in_background: bool, database: u8, from: &[u8], limit: usize) -> Result<Page> {
        let slots = self.tenant.partitions();
        let is_spread = slots.len() > 1;
        let (index, from) = match (is_spread, from.split_first()) {
            (true, Some((&index, key))) => (usize::from(index), key),
            _ => (0, from),
        };
        let Some(slot) = slots.get(index) else { return Ok(Page::default()) };
        let mut page = match slot.partition_to_read().await? {
            Some(partition) if in_background => partition.keys_in_background(database, from, limit).await?,
            Some(partition) => partition.keys(database, from, limit).await?,
            None => Page::default(),
        };
        page.next = match page.next {
            // A tenant has at most 256 partitions, so the index fits into a byte.
            Some(key) if is_spread => Some([&[index as u8], &key[..]].concat()),
            None if index + 1 < slots.len() => Some(vec![index as u8 + 1]),
            next => next,
        };
        Ok(page)
    }

    /// Splits `batch` into one part for each partition that it has keys of, in the order of the partitions.
    fn split(&self, batch: &Batch) -> Vec<(usize, Batch)> {
        let mut parts: Vec<(usize, Batch)> = Vec::new();
        for change in batch.as_ref().iter() {
            // The number of the database stands in front of a user's key. Plain writes only write whole rows, never
            // parts.
            let index = self.tenant.index_of(&change.key()[1..]);
            let place = parts.binary_search_by_key(&index, |(index, _)| *index).unwrap_or_else(|place| {
                parts.insert(place, (index, Batch::new()));
                place
            });
            parts[place].1.push(change);
        }
        parts
    }
}

impl Rows for TenantStore {
    #[inline]
    fn get<'a>(&'a self, database: u8, key: &'a [u8], now_ms: u64) -> Read<'a> {
        let slot = self.tenant.slot_of(key);
        let stored = StoredKey::new(database, key);
        if let Some(partition) = &*slot.awake() {
            return Partition::row(partition, &stored, now_ms);
        }
        Read::Pending(Box::pin(async move {
            let Some(partition) = slot.partition_to_read().await? else { return Ok(None) };
            partition.row(&stored, now_ms).wait().await
        }))
    }

    fn part<'a>(&'a self, key: &'a [u8], part: &'a [u8], now_ms: u64) -> Read<'a> {
        let slot = self.tenant.slot_of(key);
        if let Some(partition) = &*slot.awake() {
            return Partition::row(partition, part, now_ms);
        }
        Read::Pending(Box::pin(async move {
            let Some(partition) = slot.partition_to_read().await? else { return Ok(None) };
            partition.row(part, now_ms).wait().await
        }))
    }

    fn member_at_once(
        &self,
        database: u8,
        key: &[u8],
        kind: RowType,
        name: &[u8],
        now_ms: u64,
    ) -> Option<MemberAtOnce> {
        let awake = self.tenant.slot_of(key).awake();
        awake.as_ref()?.member_at_once(&StoredKey::new(database, key), kind, name, now_ms)
    }

    fn parts<'a>(&'a self, key: &'a [u8], range: PartRange, limit: usize) -> Waiting<'a, Result<PartPage>> {
        Box::pin(async move {
            match self.tenant.slot_of(key).partition_to_read().await? {
                Some(partition) => partition.parts(range, limit).await,
                None => Ok(PartPage::default()),
            }
        })
    }

    fn count_parts<'a>(&'a self, key: &'a [u8], range: PartRange, limit: usize) -> Waiting<'a, Result<PartCount>> {
        Box::pin(async move {
            match self.tenant.slot_of(key).partition_to_read().await? {
                Some(partition) => partition.count_parts(range, limit).await,
                None => Ok(PartCount::default()),
            }
        })
    }

    fn settled(&self, key: &[u8]) -> Option<u64> {
        self.tenant.slot_of(key).awake().as_ref().and_then(|partition| partition.settled())
    }

    fn moment<'a>(&'a self, key: &'a [u8]) -> Waiting<'a, Result<Option<Box<dyn Moment>>>> {
        Box::pin(async move {
            Ok(match self.tenant.slot_of(key).partition_to_read().await? {
                Some(partition) => Some(partition.moment().await),
                None => None,
            })
        })
    }

    /// A position is a user's key. If there are several partitions, a byte in front of it says which of the tenant's
    /// partitions the position is in.
    fn page<'a>(&'a self, database: u8, from: &'a [u8], limit: usize) -> Waiting<'a, Result<Page>> {
        Box::pin(self.page_as(false, database, from, limit))
    }

    fn place(&self, key: &[u8]) -> Vec<u8> {
        match self.tenant.partitions().len() {
            1 => key.to_vec(),
            _ => [&[self.tenant.index_of(key) as u8], key].concat(),
        }
    }
}

impl Store for TenantStore {
    type Commit = Commits;

    fn rows(&self) -> &dyn Rows {
        self
    }

    /// With several partitions, keys that follow one another may be anywhere, so nothing is prepared.
    fn prefetch(&self, database: u8, keys: &[&[u8]]) {
        if let [slot] = self.tenant.partitions()
            && let Some(partition) = &*slot.awake()
        {
            let stored: Vec<StoredKey> = keys.iter().map(|key| StoredKey::new(database, key)).collect();
            let stored: Vec<&[u8]> = stored.iter().map(|key| &**key).collect();
            partition.prefetch(&stored);
        }
    }

    fn prefetch_members(&self, database: u8, members: &[(&[u8], &[u8])]) {
        if let [slot] = self.tenant.partitions()
            && let Some(partition) = &*slot.awake()
        {
            partition.prefetch_members(database, members);
        }
    }

    async fn write(&self, batch: &Batch) -> Result<Commits> {
        let slots = self.tenant.partitions();
        if slots.len() == 1 {
            return Ok(Commits(Outstanding::One(self.write_to(&slots[0], batch).await?)));
        }
        let mut commits = Vec::new();
        for (index, part) in self.split(batch) {
            commits.push(self.write_to(&slots[index], &part).await?);
        }
        Ok(Commits(Outstanding::Several(commits)))
    }

    /// With one partition, the writes that several connections gather go to it as they are. With several, the group
    /// would have to be split first, and nobody would gain.
    fn takes_groups(&self) -> bool {
        self.tenant.partitions().len() == 1
    }

    fn write_together(&self, batch: &Batch, writers: usize, commits: &mut Vec<Commits>) -> bool {
        let [slot] = self.tenant.partitions() else { return false };
        let commit = slot.awake().as_ref().and_then(|partition| partition.try_write_together(batch, writers));
        let Some(commit) = commit else { return false };
        commits.extend((1..writers).map(|_| Commits(Outstanding::One(commit.another()))));
        commits.push(Commits(Outstanding::One(commit)));
        true
    }

    async fn execute(
        &self,
        command: &'static Command,
        args: Args<'_>,
        host: &mut dyn Host,
        call: &mut Call,
    ) -> Result<(Outcome, Option<Commits>)> {
        let mut keys = command.keys_in(args);
        let slot = self.tenant.slot_of(keys.next().unwrap_or_default());
        if self.is_spread() && !keys.all(|key| Arc::ptr_eq(self.tenant.slot_of(key), slot)) {
            return Err(Error::new(ErrorKind::Invalid, "execute", "the tenant", "the keys are in several partitions"));
        }
        let (before, answer) = (call.clone(), host.replies().mark());
        loop {
            let partition = slot.partition().await?;
            match partition.execute(command, args, host, call).await {
                // The partition was going to sleep. It has written nothing, and is asked again.
                Err(error) if error.kind() == ErrorKind::Closed && !slot.has(&partition) => {
                    *call = before.clone();
                    host.replies().restart(answer);
                }
                outcome => {
                    let (outcome, commit) = outcome?;
                    return Ok((outcome, commit.map(|commit| Commits(Outstanding::One(commit)))));
                }
            }
        }
    }

    async fn transact(&self, key: &[u8], transaction: &mut dyn Transaction) -> Result<Option<Commits>> {
        let slot = self.tenant.slot_of(key);
        loop {
            let partition = slot.partition().await?;
            match partition.transact(transaction).await {
                // The partition was going to sleep. It has written nothing, and is asked again.
                Err(error) if error.kind() == ErrorKind::Closed && !slot.has(&partition) => {}
                outcome => return Ok(outcome?.map(|commit| Commits(Outstanding::One(commit)))),
            }
        }
    }

    fn disk_limit_reached(&self) -> Option<u64> {
        self.tenant.disk_limit_reached()
    }

    fn memory_bytes_max(&self) -> u64 {
        match self.tenant.engine() {
            EngineKind::Memory => self.tenant.settings().memory_bytes_max,
            EngineKind::Lsm | EngineKind::SpLsm => 0,
        }
    }

    async fn room_on_disk(&self) -> std::result::Result<(), u64> {
        self.tenant.room_on_disk().await
    }

    async fn page_in_background(&self, database: u8, from: &[u8], limit: usize) -> Result<Page> {
        self.page_as(true, database, from, limit).await
    }

    async fn clear(&self, held: impl Send + 'static) -> Result<bool> {
        let Some(node) = self.node.upgrade() else { return Ok(false) };
        node.clear(&self.tenant, held).await?;
        Ok(true)
    }

    async fn reopen(&self) {
        for slot in self.tenant.partitions() {
            slot.sleep().await;
        }
    }

    fn engine(&self) -> EngineKind {
        self.tenant.engine()
    }

    fn be_witnessed(&self, witness: Weak<dyn Witness>) {
        self.tenant.be_witnessed(witness);
    }

    fn wants(&self) -> Classes {
        self.tenant.wants()
    }

    async fn watch(&self, database: u8, key: &[u8]) -> Result<RowWatch> {
        self.tenant.watch(database, key).await
    }

    fn expirations(&self) -> Option<&Expirations> {
        Some(self.tenant.expirations())
    }

    fn quota(&self) -> Option<&Arc<Quota>> {
        Some(self.tenant.quota())
    }

    fn databases(&self) -> Databases {
        self.tenant.databases()
    }

    fn partition_of(&self, key: &[u8]) -> u32 {
        self.tenant.index_of(key) as u32
    }

    fn is_spread(&self) -> bool {
        self.tenant.partitions().len() > 1
    }

    fn is_awake(&self) -> bool {
        self.tenant.partitions().iter().all(|slot| slot.awake().is_some())
    }

    fn facts(&self) -> Vec<(&'static str, &'static str, String)> {
        let (mut awake, mut memtables, mut tables, mut bytes, mut debt) = (0, 0, 0, 0, 0);
        for partition in self.tenant.partitions().iter().filter_map(|slot| slot.awake().clone()) {
            let engine = partition.metrics().engine;
            let shape = engine.shape();
            awake += 1;
            memtables += engine.unflushed_bytes;
            tables += shape.levels.iter().map(|level| level.tables).sum::<usize>();
            bytes += shape.levels.iter().map(|level| level.bytes).sum::<u64>();
            debt += engine.debt_bytes;
        }
        // What waits for a snapshot is in the rows.
        let rows = self.tenant.memory_use().unwrap_or(0).saturating_sub(memtables);
        vec![
            // The cache belongs to everybody.
            ("Memory", "used_memory", (memtables + rows).to_string()),
            ("Memory", "maxmemory", self.memory_bytes_max().to_string()),
            ("Memory", "engine", self.tenant.engine().to_string()),
            ("Memory", "memtable_bytes", memtables.to_string()),
            ("Stats", "expired_keys", self.tenant.expirations().deleted().to_string()),
            ("Persistence", "partitions", self.tenant.partitions().len().to_string()),
            ("Persistence", "partitions_awake", awake.to_string()),
            ("Persistence", "tables", tables.to_string()),
            ("Persistence", "table_bytes", bytes.to_string()),
            ("Persistence", "compaction_debt_bytes", debt.to_string()),
        ]
    }
}
