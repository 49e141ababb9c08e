//! Commands as data: what a request means, whoever brought it.
//!
//! [`table`] has all facts of every command. Commands that work on rows have their handlers in `handlers`, one file for
//! each family. A handler sees only a [`Context`] and the words of its request ([`Args`]), so the same code runs for a
//! connection, as one of several commands in a transaction, for bytes that another process sent, and in virtual time.
//! [`run`] is the entry point; the owner of the rows calls it.

pub mod acl;
mod args;
pub mod bill;
mod chunk_in_hand;
mod collection;
mod context;
mod derived;
mod draft;
mod dumped;
pub mod error;
pub mod events;
mod extended;
mod field_sweep;
pub mod float;
mod geo;
pub mod glob;
mod handlers;
mod headless;
mod host;
mod hyperloglog;
mod in_hand;
mod keyword;
pub mod number;
mod page_ahead;
#[cfg(test)]
mod polled;
pub mod rdb;
pub mod reply;
mod request;
mod room;
mod rows;
mod run;
mod settle_counts;
pub mod snapshot;
mod stored_parts;
pub mod stream_lag;
pub mod table;
mod transaction;
mod turn;
mod uncounted;

pub use args::{Args, Span};
pub use context::{Call, Context, Finished, LONG_VALUE_BYTES, Part, PartsPage, Subkeys, Wait};
pub use draft::Draft;
pub use field_sweep::FieldSweep;
pub use handlers::scan::PAGE_KEYS;
pub use handlers::{DATABASES, database, integer};
pub use headless::Headless;
pub use host::Host;
pub use in_hand::letting_go;
pub use keyword::{Keyword, lower, upper};
pub use request::Request;
pub use room::ResultLimit;
pub use rows::{MemberAtOnce, Moment, NoRows, Page, PartCount, PartPage, PartRange, Read, Rows, Waiting};
pub use run::{is_plain, rows_of, run};
pub use settle_counts::{must_settle_counts, settle_counts};
pub use stored_parts::{StoredPart, StoredParts};
pub use table::{Command, Split};
pub use transaction::Transaction;
pub use turn::{TURN_KEYS, end_turn, end_turn_of};
