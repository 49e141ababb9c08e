//! The commands that a session has queued since `MULTI`, and the rows that it watches.

use weir_command::error::{Error, Outcome};
use weir_command::{Args, Call, Command, Request, Rows, Span};
use weir_model::{Databases, StoredKey};
use weir_node::RowWatch;

use crate::drop_in_turns::drop_in_turns;
use crate::tenant::account::Upheavals;
use crate::tenant::byte_budget::Hold;
use crate::tenant::byte_limit::Held;

/// How many rows one session may watch.
pub(in crate::resp) const WATCHED_MAX: usize = 10_000;

const NO_ROOM: Error =
    Error::new("ERR the tenant's clients have queued too much: send smaller transactions, or fewer at a time");

/// Bytes that a queued command costs besides its words, and a word besides its own. A command takes a quarter of that
/// while it waits, and up to twice as much once `EXEC` has run it: what it has cost is kept until all have run.
const COMMAND_BYTES: u64 = 512;
const WORD_BYTES: u64 = size_of::<Span>() as u64;

/// Bytes of memory that it takes to keep the words of `args`.
pub(in crate::resp) fn words_bytes(args: Args<'_>) -> u64 {
    args.iter_from(0).map(|word| WORD_BYTES + word.len() as u64).sum()
}

/// A command that waits for `EXEC`.
#[derive(Clone)]
pub(in crate::resp) struct Queued {
    pub(in crate::resp) command: &'static Command,
    /// The words of the command. The database is chosen when it is run.
    pub(in crate::resp) request: Request,
}

/// Commands that wait for `EXEC`. Their memory is booked for their tenant (S12).
pub(in crate::resp) struct Queue {
    pub(in crate::resp) commands: Vec<Queued>,
    /// Whether some command could not be queued. Then nothing will be executed.
    pub(in crate::resp) is_spoiled: bool,
    bytes: u64,
    hold: Hold,
}

impl Queue {
    /// An empty queue. `hold` books what will be queued.
    pub(in crate::resp) fn new(hold: Hold) -> Self {
        Self { commands: Vec::new(), is_spoiled: false, bytes: 0, hold }
    }

    /// Adds a command. As in Redis, a command that follows one which could not be queued is not kept, because it will
    /// not be executed.
    ///
    /// # Errors
    /// The tenant's clients have queued too much.
    pub(in crate::resp) fn add(&mut self, command: &'static Command, args: Args<'_>) -> Outcome {
        if self.is_spoiled {
            return Ok(());
        }
        self.bytes += COMMAND_BYTES + words_bytes(args);
        if !self.hold.try_grow_within(self.bytes) {
            return Err(NO_ROOM);
        }
        self.commands.push(Queued { command, request: Request::new(0, 0, args.iter_from(0)) });
        Ok(())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        drop_in_turns(std::mem::take(&mut self.commands).into_iter(), self.hold.take_all());
    }
}

/// A row that is watched.
pub(in crate::resp) struct Watched {
    /// The name of its database.
    pub(in crate::resp) database: u8,
    /// The number under which the database was stored when the watch began.
    pub(in crate::resp) number: u8,
    pub(in crate::resp) key: Vec<u8>,
    pub(in crate::resp) watch: RowWatch,
    pub(in crate::resp) existed: bool,
    /// The events that had concerned all keys of the tenant by then.
    pub(in crate::resp) upheavals: Upheavals,
    /// Books [`watched_bytes`].
    pub(in crate::resp) _held: Held,
}

/// Bytes of memory that it takes to watch `key`: it is kept here, with the watch, and once for the tenant.
pub(in crate::resp) fn watched_bytes(key: &[u8]) -> u64 {
    512 + 3 * key.len() as u64
}

impl Watched {
    /// The watched row, and the row that it was when the watch began if its database was exchanged since. `databases`
    /// says how databases are stored now.
    pub(in crate::resp) fn rows(&self, databases: Databases) -> impl Iterator<Item = StoredKey> + use<> {
        let now = databases.number(self.database);
        let before = (self.number != now).then(|| StoredKey::new(self.number, &self.key));
        before.into_iter().chain([StoredKey::new(now, &self.key)])
    }

    /// Whether the row was changed, as far as `rows`, which are locked, tell a command that begins with `call`.
    /// `upheavals` are those until now.
    ///
    /// # Errors
    /// The row cannot be read.
    pub(in crate::resp) async fn is_changed(
        &self,
        rows: &dyn Rows,
        call: &Call,
        upheavals: &Upheavals,
    ) -> weir_io::Result<bool> {
        let swaps = |upheavals: &Upheavals| upheavals.swaps[usize::from(self.database)];
        let swaps = swaps(upheavals) - swaps(&self.upheavals);
        let number = call.databases.number(self.database);
        let exists = rows.get(number, &self.key, call.now_ms).wait().await?.is_some();
        if exists != self.existed || (upheavals.flushes != self.upheavals.flushes && exists) {
            return Ok(true);
        }
        // As in Redis, a key that is in neither of two databases is not touched when these are exchanged. Nobody knows
        // what was there between two exchanges.
        if swaps > 1 || (swaps > 0 && exists) {
            return Ok(true);
        }
        Ok(self.watch.is_changed())
    }
}

#[cfg(test)]
mod tests;
