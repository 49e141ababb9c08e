//! A node whose rows are written by commands: every value of a workload becomes a row of some type, cut into fields,
//! members, values or entries, and a batch becomes one transaction of many commands.
//!
//! So all runs that know keys and values also try what commands make of rows: the rows' counts, orders, deadlines and
//! groups after power cuts and faults, and that a transaction is there as a whole or not at all. A value decides what
//! becomes of its row: which type the row gets, and whether the row that is there is changed or replaced. A read asks
//! by commands again, and every way to ask must give the same. Before a node is opened, its files are checked off line
//! as `weir check` does: each head against its parts, and the agenda of fields that expire.

mod family;
mod making;
mod reader;
mod words;

use std::path::Path;
use std::sync::Arc;

use weir_io::{BoxFuture, Clock, Error, ErrorKind, Result};
use weir_model::Batch;
use weir_node::NodeConfig;

use self::making::Making;
use self::reader::Reader;
use crate::model::Visible;
use crate::node_store::{DIR, NodeStore, placed};
use crate::span::Span;
use crate::store::{Sent, Store, World};

/// The database that the rows are in.
const DATABASE: u8 = 0;
/// The database in which every transaction leaves a mark: no transaction is empty.
const MARKS: u8 = 1;
const MARK: &[u8] = b"transactions";
/// A HyperLogLog in the same database, of the numbers of the last transactions. It begins anew now and then: a long one
/// would be most of what is written.
const SEEN: &[u8] = b"seen";
const SEEN_MAX: i64 = 64;
/// The name of a row while it is renamed or copied.
const ELSEWHERE: &[u8] = b"\xff\xffelsewhere";
/// A field whose value is its deadline. It says nothing of the row's value.
const DECOY: &[u8] = b"decoy";

/// A node and its first partition, as a [`Store`] whose writes are commands.
pub struct ByCommand {
    store: Arc<NodeStore>,
    clock: Arc<dyn Clock>,
}

impl ByCommand {
    fn reader(&self) -> Reader {
        Reader { partition: Arc::clone(self.store.partition()), clock: Arc::clone(&self.clock) }
    }
}

impl Store for ByCommand {
    type Options = NodeConfig;
    /// There are none: commands read what is there now.
    type Snapshot = ();

    async fn open(world: World, config: NodeConfig) -> Result<Arc<Self>> {
        // A directory that is not made yet, or that cannot be read, is for the node to judge.
        if let Ok(found) = weir_node::check(&world.fs, Path::new(DIR), |_, _| ()).await {
            let problems = found.partitions.into_iter().flat_map(|partition| partition.problems);
            if let Some(problem) = problems.into_iter().find(is_of_rows) {
                return Err(problem);
            }
        }
        let clock = Arc::clone(&world.clock);
        Ok(Arc::new(Self { store: NodeStore::open(world, config).await?, clock }))
    }

    fn write(&self, batch: &Batch) -> Sent {
        let (partition, mut making) =
            (Arc::clone(self.store.partition()), Making { batch: batch.clone(), now_ms: self.clock.unix_ms() });
        placed(Box::pin(async move { Ok(partition.transact(&mut making).await?.expect("it leaves its mark")) }))
    }

    fn get(&self, key: &[u8]) -> BoxFuture<Result<Option<Vec<u8>>>> {
        let (reader, key) = (self.reader(), key.to_vec());
        Box::pin(async move { reader.row(&key).await })
    }

    fn get_at(&self, key: &[u8], (): &()) -> BoxFuture<Result<Option<Vec<u8>>>> {
        self.get(key)
    }

    fn scan(&self, span: &Span, _: Option<&()>) -> BoxFuture<Result<Visible>> {
        let (reader, span) = (self.reader(), span.clone());
        Box::pin(async move { reader.span(span).await })
    }

    fn snapshot(&self) -> Option<()> {
        None
    }

    fn seal(&self) {
        self.store.seal();
    }

    fn close(self: Arc<Self>) -> BoxFuture<Result<()>> {
        Arc::clone(&self.store).close()
    }
}

/// Whether the problem is about rows, and not about files.
pub(crate) fn is_of_rows(problem: &Error) -> bool {
    let text = problem.to_string();
    problem.kind() == ErrorKind::Corruption && ["row ", "life ", "the agenda "].iter().any(|word| text.contains(word))
}
