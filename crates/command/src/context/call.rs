//! One run of a command on rows: what it begins with, and what it has done.

use weir_model::Databases;

use crate::bill::OwnBill;
use crate::events::Classes;

/// Entries of a stream that Redis keeps in one node, unless it is told otherwise.
const STREAM_NODE_ENTRIES: u64 = 100;

/// What is known of a command before it runs, and what it has done so far.
#[derive(Clone, Debug)]
pub struct Call {
    /// The name of the database that the command's keys are in.
    pub database: u8,
    /// The number under which each database is stored, while the command runs.
    pub databases: Databases,
    /// The moment that the command is judged by, in milliseconds since 1970: what has expired by then does not exist.
    pub now_ms: u64,
    /// What the wall clock shows, in milliseconds since 1970: times that a command gives or tells count from here.
    /// While expiry is paused, this is later than `now_ms`.
    pub clock_ms: u64,
    /// The longest value that may be built up, in bytes.
    pub value_bytes_max: usize,
    /// How many entries of a stream are removed together where it is trimmed approximately.
    pub stream_node_entries: u64,
    /// What it costs.
    pub bill: OwnBill,
    /// Keys that were found. Commands that write count neither hits nor misses.
    pub hits: u64,
    /// Keys that were not found: see [`Call::hits`].
    pub misses: u64,
    /// What the command reads is priced, and counts as hits and misses, as without locked rows: it does not write, but
    /// runs in a group with others that do. What a script reads is priced beside its writes instead.
    pub counts_as_read: bool,
    /// The command has waited, and runs again because a row was written to.
    pub is_again: bool,
    /// A script asks for the command.
    pub is_scripted: bool,
    /// The caller [counts](crate::settle_counts) afterwards how the command has changed the counts of sorted sets.
    pub counts_later: bool,
    /// The longest value that the command has met, in bytes.
    pub longest: usize,
    /// The command has written something.
    pub wrote: bool,
    /// How the command would wait, if it has found nothing: its answer so far is for a client that does not wait.
    pub wait: Option<Wait>,
    /// Which events on keys somebody wants to be told of.
    pub wants: Classes,
    /// The number of the connection that runs the command; 0 = none.
    pub by: u64,
}

/// How a command that has found nothing waits for its rows to be filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// How long, in milliseconds; `None` = for ever.
    pub timeout_ms: Option<u64>,
    /// The command takes what it finds away from others. (A command that reads a stream takes nothing.)
    pub takes: bool,
    /// Words that would mean something else when the command runs again, by their place, and the words that replace
    /// them.
    pub resolved: Vec<(usize, Vec<u8>)>,
}

impl Call {
    /// A command on `database` at `now_ms` that has not done anything yet.
    pub fn new(database: u8, now_ms: u64, value_bytes_max: usize) -> Self {
        Self {
            database,
            databases: Databases::AS_NAMED,
            now_ms,
            clock_ms: now_ms,
            value_bytes_max,
            stream_node_entries: STREAM_NODE_ENTRIES,
            bill: OwnBill::default(),
            hits: 0,
            misses: 0,
            counts_as_read: false,
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
