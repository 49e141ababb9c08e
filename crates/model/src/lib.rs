//! What data is, whatever the protocol.
//!
//! A [`Batch`] is the common currency of log, engine and (later) replication: a few record changes that become
//! visible together. Its bytes are the payload of a log record, described in `docs/format/log.md`.

mod batch;
pub mod varint;

pub use batch::{Batch, BatchRef, Change, DecodeError};

/// The longest key in bytes. Large enough for any sane client, small enough that sixteen fit a block's index.
pub const KEY_BYTES_MAX: usize = 64 * 1024;

/// The longest value in bytes (the Redis protocol's own limit for a string).
pub const VALUE_BYTES_MAX: usize = 512 << 20;

/// Position of a record in its partition's log: 1 for the first ever written, no gaps. 0 means "nothing yet".
/// When a partition is replicated this is the Raft index.
pub type LogIndex = u64;
