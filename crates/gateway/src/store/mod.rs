//! What the gateway asks of the data behind it.
//!
//! The protocol knows it only through one small trait, so that it can be tested against a map in memory and served from
//! a partition.

mod tenant;

use std::future::{Future, ready};
use std::sync::{Arc, Weak};

use weir_command::error::{Error, Outcome};
use weir_command::events::{Classes, Witness};
use weir_command::{Args, Call, Command, Context, Headless, Host, Page, Request, Rows, Transaction, run, table};
use weir_io::Result;
use weir_model::{Batch, Databases, VALUE_BYTES_MAX};
use weir_node::{EngineKind, Expirations, Quota, RowWatch};

pub use tenant::{Commits, TenantStore};

/// A tenant's rows. Reads see every write whose `write` or `execute` has returned, and never an expired row. Every call
/// may wait, and none holds a thread while it does.
///
/// A store is a handle: cheap to clone, and all clones see the same data.
pub trait Store: Clone + Send + Sync + 'static {
    /// Resolves when a write is as durable as the sync mode promises. An error means that the write may be lost: do not
    /// acknowledge it.
    type Commit: Future<Output = Result<()>> + Send + Unpin;

    /// The rows, for commands that only read. They see only committed changes, which cannot be taken back.
    fn rows(&self) -> &dyn Rows;

    /// Tells which keys of the database with this number will be read next, one after the other, so that the store can
    /// prepare for them. Only the time that the reads take depends on it.
    fn prefetch(&self, _database: u8, _keys: &[&[u8]]) {}

    /// The same for members of hashes, sets and sorted sets, given as the keys of their rows and the names of the
    /// members.
    fn prefetch_members(&self, _database: u8, _members: &[(&[u8], &[u8])]) {}

    /// As [`Rows::page`], for a caller who has time: the device serves others first.
    fn page_in_background(&self, database: u8, from: &[u8], limit: usize) -> impl Future<Output = Result<Page>> + Send {
        async move { self.rows().page(database, from, limit).await }
    }

    /// Applies `batch` as one. The changes are visible to everybody when this returns.
    fn write(&self, batch: &Batch) -> impl Future<Output = Result<Self::Commit>> + Send;

    /// Whether [`write_together`](Store::write_together) may ever write something.
    fn takes_groups(&self) -> bool {
        false
    }

    /// Applies `batch`, which `writers` connections have gathered, as one if that can be done at once, and adds a
    /// commit for each of them to `commits`. `false`: nothing was written, and each connection must
    /// [write](Store::write) its own part.
    fn write_together(&self, _batch: &Batch, _writers: usize, _commits: &mut Vec<Self::Commit>) -> bool {
        false
    }

    /// Runs `command`, one [of rows](Command::is_of_rows) whose keys are in one partition, with no other write to its
    /// rows in between. The answer may be sent when the commit, if there is one, is done.
    ///
    /// # Errors
    /// Nothing was written, or it may be lost.
    fn execute(
        &self,
        command: &'static Command,
        args: Args<'_>,
        host: &mut dyn Host,
        call: &mut Call,
    ) -> impl Future<Output = Result<(Outcome, Option<Self::Commit>)>> + Send;

    /// Runs `transaction`, whose rows are in the same partition as the row of `key`, with no other write to them in
    /// between. The answer may be sent when the commit, if there is one, is done.
    ///
    /// # Errors
    /// Nothing was written, or it may be lost.
    fn transact(
        &self,
        key: &[u8],
        transaction: &mut dyn Transaction,
    ) -> impl Future<Output = Result<Option<Self::Commit>>> + Send;

    /// Runs a request on rows that no connection has brought. Returns its answer, in the protocol of `host`, when it
    /// may be sent.
    ///
    /// # Errors
    /// The errors of [`Store::execute`], and of the commit.
    fn answer(&self, request: &Request, host: &mut Headless) -> impl Future<Output = Result<Vec<u8>>> + Send {
        async move {
            let args = request.args();
            let command = match table::find(args.at(0)).filter(|command| command.is_of_rows) {
                None => return Ok(host.take_answer(&Err(Error::unknown_command(args.at(0), args.iter_from(1))))),
                Some(command) if !command.takes(args.len()) => {
                    return Ok(host.take_answer(&Err(Error::arity(command.name))));
                }
                Some(command) => command,
            };
            let mut call = request.call(VALUE_BYTES_MAX);
            (call.wants, call.databases) = (self.wants(), self.databases());
            if !command.writes_with(args) {
                let finished = run(command, Context::reading(self.rows(), host, &mut call), args).await;
                return Ok(host.take_answer(&finished.outcome));
            }
            let (outcome, commit) = self.execute(command, args, host, &mut call).await?;
            if let Some(commit) = commit {
                commit.await?;
            }
            Ok(host.take_answer(&outcome))
        }
    }

    /// The bytes that the tenant may hold on disk, if it holds that much already: then commands that store more must be
    /// refused.
    fn disk_limit_reached(&self) -> Option<u64> {
        None
    }

    /// The bytes of memory that the tenant's rows may take; 0 = not limited, or the rows are on disk.
    fn memory_bytes_max(&self) -> u64 {
        0
    }

    /// Waits, for a bounded time, while the limit is reached and space is being given back.
    ///
    /// # Errors
    /// The limit, if there is no room.
    fn room_on_disk(&self) -> impl Future<Output = std::result::Result<(), u64>> + Send {
        ready(self.disk_limit_reached().map_or(Ok(()), Err))
    }

    /// Empties all databases of the tenant at once. What was written before is gone, and what is written afterwards
    /// stays; each write that is under way counts as one or the other. `false` if the store cannot do that; then it has
    /// deleted nothing. `held` is dropped when this is done or has failed, even if the caller has gone.
    fn clear(&self, _held: impl Send + 'static) -> impl Future<Output = Result<bool>> + Send {
        ready(Ok(false))
    }

    /// Closes what is open, and opens it again at the next request. Only what is on disk survives.
    fn reopen(&self) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// From now on `witness`, instead of any witness before, is told what happens to the tenant's keys. It is told in
    /// the order of the changes, when they are applied. Every read that begins after this call sees the changes that
    /// `witness` is not told of.
    fn be_witnessed(&self, _witness: Weak<dyn Witness>) {}

    /// The classes of events that the witness of the tenant's keys wants to be told of.
    fn wants(&self) -> Classes {
        Classes::NONE
    }

    /// Watches the row of `key` in the database with this number. Every read that begins after this call sees the
    /// changes that the watch does not count. If a read of the row leaves out a refused change, which may yet count,
    /// the watch counts it.
    ///
    /// # Errors
    /// The row cannot be reached.
    fn watch(&self, database: u8, key: &[u8]) -> impl Future<Output = Result<RowWatch>> + Send;

    /// What becomes of rows that have expired; `None` if nobody deletes them.
    fn expirations(&self) -> Option<&Expirations> {
        None
    }

    /// The capacity units that pay for the requests to this store. The store itself charges nothing: commands do,
    /// before they run ([`crate::resp`]). `None` if nobody counts.
    fn quota(&self) -> Option<&Arc<Quota>> {
        None
    }

    /// The number under which each database is stored.
    fn databases(&self) -> Databases {
        Databases::AS_NAMED
    }

    /// The partition that has `key`, by the number that the quota uses.
    fn partition_of(&self, _key: &[u8]) -> u32 {
        0
    }

    /// The engine that holds the rows.
    fn engine(&self) -> EngineKind {
        EngineKind::default()
    }

    /// Whether keys of different hash slots may be in different partitions. If so, commands on several keys must stay
    /// in one slot.
    fn is_spread(&self) -> bool {
        false
    }

    /// Whether all partitions are open, so that going through the keys wakes none.
    fn is_awake(&self) -> bool {
        true
    }

    /// Facts for `INFO`, as section, name and value.
    fn facts(&self) -> Vec<(&'static str, &'static str, String)>;
}
