//! The write-ahead log of a partition, or of several together.
//!
//! Records of any bytes get consecutive indexes. What [`WriteAheadLog::commit`] promises depends on the [`SyncMode`].
//! The log owns no thread: a task that waits for a commit drives the writes of all. The bytes are described in
//! `docs/format/log.md`.
//!
//! The following holds after any crash:
//!
//! - recovery returns a *prefix* of the records that were appended: never a hole, never a record that was not written;
//! - the prefix contains everything that was durable ([`SyncMode::Always`]: everything acknowledged);
//! - a damaged record that had been durable is an error naming file and offset, not a shorter log. Marks behind a
//!   record say that it had been durable, and so does a [`LogAnchor`] that is kept elsewhere.
//!
//! Many partitions that write little may share one log ([`SharedLog`]): each has a handle that is a log like any other,
//! and the same guarantees hold for the records of each.

mod log;
mod options;
mod reader;
pub mod record;
mod recover;
mod salvage;
mod segment;
mod shared;
mod signposts;
mod state;
mod stats;
mod waiters;
mod write_ahead_log;

pub use log::Log;
pub use options::{LogAnchor, LogOptions, SyncMode};
pub use recover::{Cut, Recovery, check};
pub use salvage::{Beginnings, Salvage, beginnings, copy_beginning, salvage};
pub use segment::{SegmentHeader, decode_segment_header};
pub use shared::{
    ClaimKeeper, MemberId, MemberLog, MemberOpening, RecordTag, SharedClaim, SharedLog, SharedOptions, SharedStats,
    SharedSurvey, TAG_BYTES, bytes_by_member,
};
pub use stats::LogStats;
pub use waiters::Waiters;
pub use weir_model::LogIndex;
pub use write_ahead_log::{Commit, OutsideSync, Waiter, WriteAheadLog};
