//! A command on rows that is run: what it begins with, and what it has done.

use weir_model::Databases;

use crate::bill::OwnBill;
use crate::events::Classes;

/// Entries of a stream that Redis keeps in one node, unless it is told otherwise.
const STREAM_NODE_ENTRIES: u64 = 100;

/// What is known of a command before it runs, and what it has done so far.
#[derive(Clone, Debug)]
pub struct Call {
    /// What the database is called that its keys are in.
    pub database: u8,
    /// Under which number each database is stored, while the command runs.
    pub databases: Databases,
    /// The moment that it is judged by, in milliseconds since 1970: what has expired then does not exist.
    pub now_ms: u64,
    /// The longest value that may be built up, in bytes.
    pub value_bytes_max: usize,
    /// Entries of a stream that go together where it is trimmed approximately.
    pub stream_node_entries: u64,
    /// What it costs.
    pub bill: OwnBill,
    /// Keys that were found, and that were not. Of commands that write, nothing.
    pub hits: u64,
    /// See [`Call::hits`].
    pub misses: u64,
    /// It is no command that writes, though its rows are locked: it runs as one with others that do.
    pub only_reads: bool,
    /// It has waited, and runs again because a row was written to.
    pub is_again: bool,
    /// A script asks for it.
    pub is_scripted: bool,
    /// What it changes of counts of sorted sets is [counted](crate::settle_counts) behind it, by whoever runs it.
    pub counts_later: bool,
    /// The longest value that it has met, in bytes.
    pub longest: usize,
    /// It has written something.
    pub wrote: bool,
    /// It has found nothing, and what it has answered is for whoever does not wait.
    pub wait: Option<Wait>,
    /// What somebody wants to be told of what it does to keys.
    pub wants: Classes,
    /// Whose it is: the number of a connection; 0 = nobody's.
    pub by: u64,
}

/// How long a command that has found nothing would wait for its rows to be filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// In milliseconds; `None` = for ever.
    pub timeout_ms: Option<u64>,
    /// What it takes is not there for others. (Who reads a stream takes nothing.)
    pub takes: bool,
    /// Words that mean something else when the command runs again, by their place, and what is to stand there instead.
    pub resolved: Vec<(usize, Vec<u8>)>,
}

impl Call {
    /// A command on `database` at `now_ms` that has not done anything yet.
    pub fn new(database: u8, now_ms: u64, value_bytes_max: usize) -> Self {
        Self {
            database,
            databases: Databases::AS_NAMED,
            now_ms,
            value_bytes_max,
            stream_node_entries: STREAM_NODE_ENTRIES,
            bill: OwnBill::default(),
            hits: 0,
            misses: 0,
            only_reads: false,
            is_again: false,
            is_scripted: false,
            counts_later: false,
            longest: 0,
            wrote: false,
            wait: None,
            wants: Classes::NONE,
            by: 0,
        }
    }
}
