//! A node whose rows are of many parts: every value of a workload is cut into parts, and read back together.
//!
//! So all runs that know keys and values also try the foundations of rows of many parts: lives that begin, change and
//! end, covers, and the jobs that drop what is covered. Here the store makes such rows itself, as the handler of a type
//! would. The value decides whether a put makes a new row, changes the row that is there, or puts a string in its
//! place. A read whose row lacks parts, or has parts of another life, gives another value than was written.
//!
//! Dead parts are invisible to reads, so a scan of everything also looks at them: each must have a cover in front of
//! it, or it would stay for ever.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use weir_command::PartRange;
use weir_io::{BoxFuture, Clock, Error, Result};
use weir_model::engine::{Found, Kind, Range, Scan, Snapshot};
use weir_model::parts::{Head, Life, Part, RowType, cover_key};
use weir_model::{Batch, Change, Content, Row, StoredKey};
use weir_node::{NodeConfig, Partition};

use crate::model::Visible;
use crate::node_store::{NodeStore, placed};
use crate::span::Span;
use crate::store::{Sent, Store, World};

/// The database that all rows are in.
const DATABASE: u8 = 0;
/// The order of parts that the rows use.
const SPACE: u8 = 0;
/// Bytes of a value that make a part: most values have one or two, some have dozens.
const PART_BYTES: usize = 48;
/// Parts that are asked for at a time: fewer than some rows have.
const PAGE: usize = 7;

/// A node and its first partition, as a [`Store`] whose values are rows of many parts.
pub struct RowsOfParts {
    store: Arc<NodeStore>,
    clock: Arc<dyn Clock>,
}

/// What a put does to the row that is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// The row ends, and a string takes its place.
    String,
    /// The row ends, and a row with other parts takes its place.
    New,
    /// The row lives on with other parts, if there is one.
    Changed,
}

impl Shape {
    fn of(value: &[u8]) -> Self {
        match value.len() % 5 {
            0 => Shape::String,
            1 | 2 => Shape::New,
            _ => Shape::Changed,
        }
    }
}

/// The number of a part, then the row's key, so that a dead part tells to which row it belonged.
fn subkey(number: u64, key: &[u8]) -> Vec<u8> {
    [&number.to_be_bytes()[..], key].concat()
}

/// Adds to `out` the changes that make `value` the content of the row at `key`, which has `head` now; returns the row's
/// new head. `versions` gives out versions.
fn put(
    out: &mut Batch,
    versions: &dyn Fn() -> u64,
    key: &[u8],
    head: Option<Head>,
    value: &[u8],
    expire_at_ms: Option<u64>,
) -> Option<Head> {
    let shape = Shape::of(value);
    if shape == Shape::String {
        out.push_row(DATABASE, Change::Put { key, value, expire_at_ms });
        return None;
    }
    let new = || Head::new(RowType::Hash, versions());
    let mut head = head.filter(|_| shape == Shape::Changed).unwrap_or_else(new);
    let life = Life::new(head.version);
    let before = head.count;
    head.count = 0;
    for part in value.chunks(PART_BYTES) {
        out.put(&life.part(SPACE, &subkey(head.count, key)), part);
        head.count += 1;
    }
    for number in head.count..before {
        out.delete(&life.part(SPACE, &subkey(number, key)));
    }
    out.push_row(DATABASE, Change::Head { key, head: &head.encode(), expire_at_ms });
    Some(head)
}

/// The changes that `batch`, of keys and values, makes to the rows that are `found` at `keys`.
fn translate(batch: &Batch, keys: &[Vec<u8>], found: &[Option<Row>], versions: &dyn Fn() -> u64, out: &mut Batch) {
    let heads = found.iter().map(|row| row.as_ref().and_then(Row::head).cloned());
    let mut heads: BTreeMap<&[u8], Option<Head>> = keys.iter().map(Vec::as_slice).zip(heads).collect();
    for change in batch.as_ref().iter() {
        let before = heads.remove(change.key()).flatten();
        let after = match change {
            Change::Put { key, value, expire_at_ms } => put(out, versions, key, before, value, expire_at_ms),
            Change::Delete { key } => {
                out.push_row(DATABASE, Change::Delete { key });
                None
            }
            Change::Head { .. } | Change::Cover { .. } => unreachable!("workloads know keys and values only"),
        };
        heads.insert(change.key(), after);
    }
}

/// What a read has found at a row's key.
struct Candidate {
    key: Vec<u8>,
    content: Content,
    expire_at_ms: Option<u64>,
}

impl Candidate {
    fn of(key: Vec<u8>, kind: Kind, value: &[u8], expire_at_ms: u64) -> Result<Self> {
        let damaged = || Error::corruption("the partition", 0, "what stands at a row's key is no head");
        let content = match kind {
            Kind::Head => Content::Parts(Box::new(Head::decode(value).ok_or_else(damaged)?)),
            _ => Content::String(value.to_vec().into()),
        };
        Ok(Self { key, content, expire_at_ms: (expire_at_ms != 0).then_some(expire_at_ms) })
    }
}

/// Reads a partition: as of now, or as of a snapshot.
struct Reader {
    partition: Arc<Partition>,
    clock: Arc<dyn Clock>,
    snapshot: Option<Arc<Snapshot>>,
}

impl Reader {
    fn scan_frozen(&self, range: Range) -> Option<Scan> {
        Some(self.partition.engine().scan(range, Some(self.snapshot.as_ref()?)))
    }

    async fn row(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let stored = StoredKey::new(DATABASE, key);
        let candidate = match &self.snapshot {
            None => {
                let row = self.partition.get(&stored).await?;
                row.map(|Row { content, expire_at_ms }| Candidate { key: key.into(), content, expire_at_ms })
            }
            Some(snapshot) => {
                let found = self.partition.engine().get(&stored, Some(snapshot)).await?;
                let candidate = |found: Found| Candidate::of(key.into(), found.kind, &found.value, found.expire_at_ms);
                found.map(candidate).transpose()?
            }
        };
        match candidate {
            Some(candidate) => Ok(self.read([candidate].into()).await?.pop().map(|(_, value)| value)),
            None => Ok(None),
        }
    }

    /// The values of `candidates`. Those that have expired by the end are left out, because their parts may be gone.
    async fn read(&self, candidates: Vec<Candidate>) -> Result<Visible> {
        let mut read = Vec::with_capacity(candidates.len());
        for Candidate { key, content, expire_at_ms } in candidates {
            let value = match content {
                Content::String(value) => value.to_vec(),
                Content::Parts(head) => self.parts(&Life::new(head.version)).await?,
            };
            read.push((key, value, expire_at_ms));
        }
        let now_ms = self.clock.unix_ms();
        let living = read.into_iter().filter(|(.., expire_at_ms)| expire_at_ms.is_none_or(|at| at > now_ms));
        Ok(living.map(|(key, value, _)| (key, value)).collect())
    }

    /// All parts of a life, put together.
    async fn parts(&self, life: &Life) -> Result<Vec<u8>> {
        let (from, to) = life.space(SPACE);
        let mut value = Vec::new();
        let range = Range { from: Bound::Included(from.clone()), to: Bound::Excluded(to.clone()), reverse: false };
        if let Some(mut scan) = self.scan_frozen(range) {
            while let Some(part) = scan.next().await? {
                value.extend_from_slice(part.value);
            }
            return Ok(value);
        }
        let mut next = Some(PartRange { from, to, reverse: false });
        while let Some(range) = next {
            let page = self.partition.parts(range, PAGE).await?;
            page.parts.iter().for_each(|part| value.extend_from_slice(part.value));
            next = page.next;
        }
        Ok(value)
    }

    async fn span(&self, span: Span) -> Result<Visible> {
        let is_all = matches!((&span.from, &span.to), (Bound::Unbounded, Bound::Unbounded));
        let stored = |key: Vec<u8>| StoredKey::new(DATABASE, &key).to_vec();
        let (from, to) = (span.from.map(stored), span.to.map(stored));
        let range = Range {
            from: if from == Bound::Unbounded { Bound::Included(vec![DATABASE]) } else { from },
            to: if to == Bound::Unbounded { Bound::Excluded(vec![DATABASE + 1]) } else { to },
            reverse: span.reverse,
        };
        let mut scan = match self.scan_frozen(range.clone()) {
            Some(scan) => scan,
            None => self.partition.scan(range).await?,
        };
        let mut candidates = Vec::new();
        while candidates.len() < span.limit
            && let Some(entry) = scan.next().await?
        {
            candidates.push(Candidate::of(entry.key[1..].to_vec(), entry.kind, entry.value, entry.expire_at_ms)?);
        }
        drop(scan);
        if is_all && self.snapshot.is_none() {
            self.look_at_dead_parts().await?;
        }
        self.read(candidates).await
    }

    /// Checks that every part belongs to its row's present life, or that a cover says that it is dead.
    async fn look_at_dead_parts(&self) -> Result<()> {
        let mut scan = self.partition.scan(Range { from: Bound::Included(vec![0x80]), ..Range::all() }).await?;
        let mut lives: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        while let Some(entry) = scan.next().await? {
            let part = Part::parse(entry.key);
            let part = part.ok_or_else(|| Error::corruption("the partition", 0, "a key that is no part's"))?;
            lives.entry(part.version).or_insert_with(|| entry.key.to_vec());
        }
        drop(scan);
        let engine = self.partition.engine();
        for (version, part) in lives {
            // An expired row lives until it is buried.
            let row = Part::parse(&part).and_then(|part| part.subkey.get(8..)).unwrap_or_default();
            let head =
                engine.get_latest(&StoredKey::new(DATABASE, row)).await?.filter(|found| found.kind == Kind::Head);
            if head.and_then(|found| Head::decode(&found.value)).is_some_and(|head| head.version == version) {
                continue;
            }
            let cover = engine.get_latest(&cover_key(version)).await?;
            if cover.is_some_and(|found| found.kind == Kind::Cover) {
                continue;
            }
            // A job may have dropped both part and cover since the part was seen.
            if engine.get_latest(&part).await?.is_some_and(|found| found.kind.is_value()) {
                let message = format!("life {version} has ended, and no cover says so");
                return Err(Error::corruption("the partition", 0, message));
            }
        }
        Ok(())
    }
}

impl RowsOfParts {
    fn reader(&self, snapshot: Option<&Arc<Snapshot>>) -> Reader {
        let partition = Arc::clone(self.store.partition());
        Reader { partition, clock: Arc::clone(&self.clock), snapshot: snapshot.cloned() }
    }
}

impl Store for RowsOfParts {
    type Options = NodeConfig;
    type Snapshot = Arc<Snapshot>;

    async fn open(world: World, config: NodeConfig) -> Result<Arc<Self>> {
        let clock = Arc::clone(&world.clock);
        Ok(Arc::new(Self { store: NodeStore::open(world, config).await?, clock }))
    }

    fn write(&self, batch: &Batch) -> Sent {
        let (partition, batch) = (Arc::clone(self.store.partition()), batch.clone());
        placed(Box::pin(async move {
            let mut keys: Vec<Vec<u8>> = batch.as_ref().iter().map(|change| change.key().to_vec()).collect();
            keys.sort_unstable();
            keys.dedup();
            let stored: Vec<StoredKey> = keys.iter().map(|key| StoredKey::new(DATABASE, key)).collect();
            let stored: Vec<&[u8]> = stored.iter().map(|key| &key[..]).collect();
            let change = |found: &[Option<Row>], out: &mut Batch| {
                translate(&batch, &keys, found, &|| partition.new_version(), out);
            };
            Ok(partition.update(&stored, change).await?.1.expect("a batch is not empty"))
        }))
    }

    fn get(&self, key: &[u8]) -> BoxFuture<Result<Option<Vec<u8>>>> {
        let (reader, key) = (self.reader(None), key.to_vec());
        Box::pin(async move { reader.row(&key).await })
    }

    fn get_at(&self, key: &[u8], snapshot: &Arc<Snapshot>) -> BoxFuture<Result<Option<Vec<u8>>>> {
        let (reader, key) = (self.reader(Some(snapshot)), key.to_vec());
        Box::pin(async move { reader.row(&key).await })
    }

    fn scan(&self, span: &Span, snapshot: Option<&Arc<Snapshot>>) -> BoxFuture<Result<Visible>> {
        let (reader, span) = (self.reader(snapshot), span.clone());
        Box::pin(async move { reader.span(span).await })
    }

    fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.store.snapshot().map(Arc::new)
    }

    fn seal(&self) {
        self.store.seal();
    }

    fn close(self: Arc<Self>) -> BoxFuture<Result<()>> {
        Arc::clone(&self.store).close()
    }
}
