//! Versions of one key that were written one after the other.
//!
//! A leaf has an *anchor* for a key: one version, in its place in the order. Newer versions hang on it in a linked
//! list, newest first, until there are [`DEPTH_MAX`]: the next one is an anchor again. So a write of a key that the
//! memtable has already does not search for its place among all others, and no leaf moves records for it.
//!
//! ```text
//!  leaf        ... | k 61 | k 29 | l 5 | ...      numbers are sequence numbers
//!                     |       |
//!                     70      60
//!                     |       |
//!                     65      41
//!                             |
//!                            ...                  the order is k 70, 65, 61, 60, 41, ... 29, l 5
//! ```
//!
//! All versions of a chain are newer than their anchor, and older than the key's next newer anchor. Only the writer
//! changes links; readers take no lock: a link is stored when the record that it leads to is complete.

use weir_model::engine::Seq;

use super::record::Record;

/// The most versions on an anchor, unless some came out of order. More of them would make fewer leaves, but longer
/// reads at an old snapshot, which step over the newer versions. (Few in tests, so that keys have several anchors.)
pub(super) const DEPTH_MAX: u8 = if cfg!(test) { 3 } else { 32 };

/// The newest version of the chain that hangs on `anchor`, or the anchor.
///
/// # Safety
/// Here and below: records are not null, and of one memtable that is alive; `anchor` is one.
#[inline]
pub(super) unsafe fn newest(anchor: Record) -> Record {
    // SAFETY: the caller's promise.
    let top = unsafe { anchor.link() };
    if top.is_null() { anchor } else { top }
}

/// The version behind `version`, which hangs on `anchor` and is not the anchor.
///
/// # Safety
/// As for [`newest`].
#[inline]
pub(super) unsafe fn older(anchor: Record, version: Record) -> Record {
    // SAFETY: the caller's promise.
    let next = unsafe { version.link() };
    if next.is_null() { anchor } else { next }
}

/// The newest version with a sequence number of at most `at`; null if there is none in this chain.
///
/// # Safety
/// As for [`newest`].
#[inline]
pub(super) unsafe fn newest_at(anchor: Record, at: Seq) -> Record {
    // SAFETY: the caller's promise.
    unsafe {
        let mut version = newest(anchor);
        while version.seq() > at {
            if version == anchor {
                return Record::NULL;
            }
            version = older(anchor, version);
        }
        version
    }
}

/// The oldest version on `anchor` that is newer than `seq`; null if there is none. `seq` must not be older than the
/// anchor.
///
/// # Safety
/// As for [`newest`].
pub(super) unsafe fn oldest_above(anchor: Record, seq: Seq) -> Record {
    // SAFETY: the caller's promise.
    unsafe {
        let mut above = Record::NULL;
        let mut version = newest(anchor);
        while version.seq() > seq {
            debug_assert!(version != anchor, "an anchor is not newer than what is asked for");
            above = version;
            version = older(anchor, version);
        }
        above
    }
}

/// Hangs `record`, a newer version of the anchor's key that nobody has seen yet, on the anchor. Returns the next older
/// version. If there are too many, returns `None` and changes nothing: then the record must become an anchor.
///
/// # Panics
/// If a version with the record's sequence number is there.
///
/// # Safety
/// As for [`newest`]; only the writer may.
#[inline]
pub(super) unsafe fn push(anchor: Record, record: Record) -> Option<Record> {
    // SAFETY: the caller's promise.
    unsafe {
        let (newest, seq) = (newest(anchor), record.seq());
        if newest.seq() < seq {
            if newest.depth() >= DEPTH_MAX {
                return None;
            }
            record.hang(anchor.link(), newest.depth() + 1);
            anchor.set_link(record);
            return Some(newest);
        }
        // Several writers took their numbers first, and insert in another order.
        let above = oldest_above(anchor, seq);
        let below = if above.is_null() { newest } else { older(anchor, above) };
        assert!(below.seq() < seq, "sequence number {seq} is used twice for one key");
        record.hang(above.link(), below.depth().saturating_add(1));
        above.set_link(record);
        Some(below)
    }
}
