//! Data, independent of any protocol.
//!
//! A [`Batch`] is the common currency of log, engine and (later) replication: a few record changes that become
//! visible together. Its bytes are the payload of a log record, described in `docs/format/log.md`.

pub mod as_is;
mod batch;
mod databases;
pub mod engine;
pub mod parts;
pub mod prefetch;
mod row;
mod slot;
mod stored_key;
mod tenant;
mod value;
pub mod varint;

pub use batch::{Batch, BatchMark, BatchRef, Change, DecodeError};
pub use databases::Databases;
pub use row::{Content, Row, StringRow};
pub use slot::{SLOTS, partition_of, slot};
pub use stored_key::StoredKey;
pub use tenant::{InvalidName, TENANT_NAME_BYTES_MAX, TenantId, TenantName};
pub use value::{Holder, Value};

/// The longest key of a user in bytes. Large enough for any sane client, small enough that sixteen fit a block's index.
pub const KEY_BYTES_MAX: usize = 64 * 1024;

/// The longest key as stored: that of a [part](parts). The keys of strings and heads are a user's key behind the number
/// of its database.
pub const STORED_KEY_BYTES_MAX: usize = parts::PART_KEY_BYTES_MAX;

/// Databases of a tenant (`SELECT 0` to `SELECT 15`). In the tree a key stands behind one byte with the number of its
/// database, which [`Databases`] gives.
pub const DATABASES: u8 = 16;

/// The number in front of the keys of data that a tenant keeps beside its databases: functions. No command shows them.
pub const OWN_DATABASE: u8 = DATABASES;

/// The longest value in bytes (the Redis protocol's own limit for a string).
pub const VALUE_BYTES_MAX: usize = 512 << 20;

/// Position of a record in its partition's log: 1 for the first ever written, no gaps. 0 means "nothing yet".
/// When a partition is replicated this is the Raft index.
pub type LogIndex = u64;
