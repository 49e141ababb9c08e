//! The rows of a tenant as commands read them, whoever owns them.

use std::collections::BTreeMap;

use weir_io::Result;
pub use weir_io::Waiting;
use weir_model::engine::Passed;
use weir_model::parts::RowType;
use weir_model::{Row, StoredKey, Value};

use crate::stored_parts::StoredParts;

/// The answer to a read: ready, or pending.
#[must_use]
pub enum Read<'a> {
    /// The answer came from memory.
    Ready(Result<Option<Row>>),
    /// The device is asked, or a write that the read has seen has yet to be committed.
    Pending(Waiting<'a, Result<Option<Row>>>),
}

impl Read<'_> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// The row cannot be read.
    pub async fn wait(self) -> Result<Option<Row>> {
        match self {
            Read::Ready(row) => row,
            Read::Pending(row) => row.await,
        }
    }
}

/// What [`Rows::member_at_once`] has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberAtOnce {
    /// There is no row.
    NoRow,
    /// The row is packed: its members stand in its head.
    Packed {
        /// About how many bytes the head has.
        head_bytes: usize,
        /// How many members were passed.
        passed: usize,
        /// How many of their names were compared with the one that was looked for.
        compared: usize,
        /// The member's value, if there is such a member.
        value: Option<Value>,
    },
    /// The members have keys of their own.
    Spread {
        /// About how many bytes the head has.
        head_bytes: usize,
        /// The member's value, if there is such a member.
        value: Option<Value>,
    },
}

/// A bounded step through the keys of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Living keys, ascending, as users know them.
    pub keys: Vec<Vec<u8>>,
    /// The types of those keys that are no strings, by their index among the keys.
    pub kinds: BTreeMap<usize, RowType>,
    /// Where to go on; `None` at the end.
    pub next: Option<Vec<u8>>,
    /// Everything that was passed for this page, including what is deleted or outdated.
    pub passed: Passed,
}

/// A range of parts, given by their stored keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartRange {
    /// The first key of the range.
    pub from: Vec<u8>,
    /// The first key behind the range.
    pub to: Vec<u8>,
    /// The largest key comes first.
    pub reverse: bool,
}

/// A bounded step through the parts of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartPage {
    /// Living parts, in the order that was asked for.
    pub parts: StoredParts,
    /// What is left of the range; `None` at the end.
    pub next: Option<PartRange>,
    /// Everything that was passed for this page: see [`Page::passed`].
    pub passed: Passed,
}

/// How many parts a bounded step has met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartCount {
    /// How many living parts there were.
    pub parts: usize,
    /// What is left of the range; `None` at the end.
    pub next: Option<PartRange>,
    /// Everything that was passed for this count: see [`Page::passed`].
    pub passed: Passed,
}

impl From<PartPage> for PartCount {
    fn from(page: PartPage) -> Self {
        Self { parts: page.parts.len(), next: page.next, passed: page.passed }
    }
}

/// Rows as they were at one moment, for as long as somebody reads them: a snapshot.
pub trait Moment: Send + Sync {
    /// What was at the stored key `key`, if it lives at `now_ms`.
    fn read(&self, key: StoredKey, now_ms: u64) -> Read<'static>;

    /// As [`Rows::parts`].
    fn parts(&self, range: PartRange, limit: usize) -> Waiting<'static, Result<PartPage>>;

    /// As [`Rows::count_parts`].
    fn count_parts(&self, range: PartRange, limit: usize) -> Waiting<'static, Result<PartCount>> {
        let page = self.parts(range, limit);
        Box::pin(async move { Ok(page.await?.into()) })
    }
}

/// The rows of a tenant, for commands to read.
pub trait Rows: Send + Sync {
    /// The row whose key is `key`, if it lives at `now_ms` (milliseconds since 1970).
    fn get<'a>(&'a self, database: u8, key: &'a [u8], now_ms: u64) -> Read<'a>;

    /// Up to `limit` keys of `database` from the place `from` on. The work is bounded: a page may be empty although
    /// more follow.
    fn page<'a>(&'a self, database: u8, from: &'a [u8], limit: usize) -> Waiting<'a, Result<Page>>;

    /// The part with the stored key `part` of the row that its users know as `key`, if the part lives at `now_ms`. It
    /// is read as a string.
    fn part<'a>(&'a self, _key: &'a [u8], _part: &'a [u8], _now_ms: u64) -> Read<'a> {
        Read::Ready(Err(without_parts()))
    }

    /// The member `name` of the row of `key`, which is a hash, a set or a sorted set, as `kind` says. Row and member
    /// are of the same moment. `None` if the answer is not known at once, or is not so simple. Nothing was done then,
    /// and the caller has to read the row and the part.
    fn member_at_once(
        &self,
        _database: u8,
        _key: &[u8],
        _kind: RowType,
        _name: &[u8],
        _now_ms: u64,
    ) -> Option<MemberAtOnce> {
        None
    }

    /// Up to `limit` parts of `range`, which belongs to the row that its users know as `key`. The work is bounded: a
    /// page may be empty although parts of the range are left.
    fn parts<'a>(&'a self, _key: &'a [u8], _range: PartRange, _limit: usize) -> Waiting<'a, Result<PartPage>> {
        Box::pin(std::future::ready(Err(without_parts())))
    }

    /// How many parts a step as that of [`Rows::parts`] meets. None of them is copied.
    fn count_parts<'a>(&'a self, key: &'a [u8], range: PartRange, limit: usize) -> Waiting<'a, Result<PartCount>> {
        let page = self.parts(key, range, limit);
        Box::pin(async move { Ok(page.await?.into()) })
    }

    /// A snapshot of what is committed now, of the rows that are where the row of `key` is. `None` if nobody writes
    /// while the command runs.
    fn moment<'a>(&'a self, _key: &'a [u8]) -> Waiting<'a, Result<Option<Box<dyn Moment>>>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// A number for the state of the row of `key` and of the rows that are where it is, if all writes to them are
    /// committed. As long as the number stays the same, all reads there see the same moment. `None` if the number is
    /// not known at once.
    fn settled(&self, _key: &[u8]) -> Option<u64> {
        None
    }

    /// A version for a row of many parts that is made by a command whose rows are locked. The owner of the rows gives
    /// each version out once.
    fn new_version(&self) -> u64 {
        1
    }

    /// The place from which [`Rows::page`] begins at `key`, or at the first key behind it.
    fn place(&self, key: &[u8]) -> Vec<u8> {
        key.to_vec()
    }
}

/// No rows: for commands that write whatever was there before.
pub struct NoRows;

impl Rows for NoRows {
    fn get<'a>(&'a self, _: u8, _: &'a [u8], _: u64) -> Read<'a> {
        Read::Ready(Err(unreadable()))
    }

    fn page<'a>(&'a self, _: u8, _: &'a [u8], _: usize) -> Waiting<'a, Result<Page>> {
        Box::pin(std::future::ready(Err(unreadable())))
    }
}

fn without_parts() -> weir_io::Error {
    weir_io::Error::new(weir_io::ErrorKind::Invalid, "read", "the rows", "there are no rows of many parts here")
}

fn unreadable() -> weir_io::Error {
    let message = "a command that writes blindly has read";
    weir_io::Error::new(weir_io::ErrorKind::Invalid, "read", "the rows", message)
}
