//! What a command reads: the rows of a tenant, whoever has them.

use weir_io::Result;
pub use weir_io::Waiting;
use weir_model::Row;

/// The answer to a read: there at once, or under way.
#[must_use]
pub enum Read<'a> {
    /// From memory.
    Ready(Result<Option<Row>>),
    /// The device is asked, or a write that was seen has yet to be committed.
    Pending(Waiting<'a, Result<Option<Row>>>),
}

impl Read<'_> {
    /// The answer, when it is there.
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

/// A bounded step through the keys of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Living keys, ascending, as users know them.
    pub keys: Vec<Vec<u8>>,
    /// Where to go on; `None` at the end.
    pub next: Option<Vec<u8>>,
    /// Bytes of keys and values that were passed for it, of what is deleted or old as well: about what was read.
    pub passed_bytes: u64,
}

/// See the module.
pub trait Rows: Send + Sync {
    /// The row whose key is `key`, if it lives at `now_ms` (milliseconds since 1970).
    fn get<'a>(&'a self, database: u8, key: &'a [u8], now_ms: u64) -> Read<'a>;

    /// Up to `limit` keys of `database` from the place `from` on. The work is bounded: it may find nothing and still
    /// have a next place.
    fn page<'a>(&'a self, database: u8, from: &'a [u8], limit: usize) -> Waiting<'a, Result<Page>>;

    /// Where a [`Rows::page`] finds `key`, or what is behind it.
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

fn unreadable() -> weir_io::Error {
    let message = "a command that writes blindly has read";
    weir_io::Error::new(weir_io::ErrorKind::Invalid, "read", "the rows", message)
}
