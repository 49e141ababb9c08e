//! Entries: the content of memtables and tables.
//!
//! Order everywhere in the tree: key ascending (bytewise), then sequence number *descending*, so that the newest
//! version of a key comes first.

use std::cmp::Ordering;

use weir_io::plant::{Plant, is_planted};

/// Sequence number of a change within its tree: the first is 1, each change of a batch has its own. Below 2^56.
pub type Seq = u64;

/// The largest sequence number: a read at `SEQ_MAX` sees everything.
pub const SEQ_MAX: Seq = (1 << 56) - 1;

/// The effect of a change on its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A tombstone.
    #[default]
    Delete = 0,
    /// A value.
    Put = 1,
    /// The head of a row of many parts: a value that describes the parts. Merges do not drop an expired head: nobody
    /// would know of the parts then.
    Head = 2,
    /// Stands in front of the parts of a row: the parts below the version that is the cover's value are dead
    /// ([`crate::parts`]).
    Cover = 3,
}

impl Kind {
    /// Whether the key has a value or a head, until it expires.
    #[inline]
    pub fn is_value(self) -> bool {
        matches!(self, Kind::Put | Kind::Head)
    }
}

/// One version of one key, borrowed from the memory that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The user's key.
    pub key: &'a [u8],
    /// When it was written.
    pub seq: Seq,
    /// Put or delete.
    pub kind: Kind,
    /// First millisecond since 1970 at which the value no longer exists; 0 = lives for ever.
    pub expire_at_ms: u64,
    /// Empty for a tombstone; for a cover, its version.
    pub value: &'a [u8],
}

impl Entry<'_> {
    /// Whether the entry has expired at the wall-clock time `now_ms`.
    pub fn is_expired(&self, now_ms: u64) -> bool {
        is_expired(self.expire_at_ms, now_ms)
    }
}

/// Whether a value that expires at `expire_at_ms` (0 = never) is gone at the wall-clock time `now_ms`.
pub fn is_expired(expire_at_ms: u64, now_ms: u64) -> bool {
    let now_ms = if is_planted(Plant::ExpiryOffByOne) { now_ms.saturating_sub(1) } else { now_ms };
    expire_at_ms != 0 && expire_at_ms <= now_ms
}

/// The tree's order of (key, seq) pairs.
#[inline]
pub fn compare(a: (&[u8], Seq), b: (&[u8], Seq)) -> Ordering {
    a.0.cmp(b.0).then(b.1.cmp(&a.1))
}
