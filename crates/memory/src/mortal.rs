//! Values that expire: about how many bytes of them there are, and about how many have expired.
//!
//! Expired rows stay until a record of the log deletes them, as if a client had deleted them. So they stay gone
//! whatever the clock does afterwards, also after a restart, which reads an older snapshot. A [walk](crate::job) over
//! all rows finds them. It is due when it is worth its cost.

use weir_io::Nanos;
use weir_model::engine::{Counter, Deadlines, Kind, Urgency};
use weir_model::parts::HeadRef;

use crate::key::Key;
use crate::version::Version;

/// A walk is due only for at least this many bytes.
const WALK_BYTES_MIN: u64 = 64 << 10;
/// The bytes that a part of a row is assumed to take.
const PART_BYTES: u64 = 128;
/// After this time, in nanoseconds, rows that a walk has found and nobody has deleted are looked for again.
const RETRY_NANOS: Nanos = 60_000_000_000;

/// Counts the values that expire. Guarded by the writer's lock.
#[derive(Default)]
pub(crate) struct Mortal {
    counter: Counter,
    bytes: u64,
    /// Bytes added since the last walk began. The counter knows least about values that are written long after it was
    /// made.
    added: u64,
    /// Bytes found by walks, and still there.
    found: u64,
    walk: Option<Walk>,
    walked_at: Nanos,
}

/// About how many bytes a row of `row` bytes with this newest version would free. The parts of a row of many parts are
/// not measured: they are assumed to be small.
fn weight(version: &Version, row: u64) -> u64 {
    let parts = match version.kind {
        Kind::Head => {
            let spread = HeadRef::parse(&version.value).filter(|head| head.packed.is_none());
            spread.map_or(0, |head| head.parts_about())
        }
        _ => 0,
    };
    row + version.bytes() + parts.saturating_mul(PART_BYTES)
}

/// A walk under way, which counts anew.
struct Walk {
    /// The last key that it has passed; `None` at the beginning.
    at: Option<Key>,
    counter: Counter,
}

impl Walk {
    fn has_passed(&self, key: &[u8]) -> bool {
        self.at.as_ref().is_some_and(|at| key <= &**at)
    }
}

impl Mortal {
    /// Notes that `version` is the newest of `key` from now on, in a row of `row` bytes.
    pub fn add(&mut self, key: &[u8], version: &Version, row: u64) {
        if version.expire_at_ms == 0 {
            return;
        }
        let bytes = weight(version, row);
        self.bytes += bytes;
        self.added += bytes;
        self.counter.add(version.expire_at_ms, bytes);
        if let Some(walk) = self.walk.as_mut().filter(|walk| walk.has_passed(key)) {
            walk.counter.add(version.expire_at_ms, bytes);
        }
    }

    /// Notes that `version` is not the newest of `key` any more.
    pub fn remove(&mut self, key: &[u8], version: &Version, row: u64) {
        if version.expire_at_ms == 0 {
            return;
        }
        let bytes = weight(version, row);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.found = self.found.saturating_sub(bytes);
        self.counter.remove(version.expire_at_ms, bytes);
        if let Some(walk) = self.walk.as_mut().filter(|walk| walk.has_passed(key)) {
            walk.counter.remove(version.expire_at_ms, bytes);
        }
    }

    /// Bytes that are known to have expired.
    pub fn expired(&self, now_ms: u64) -> u64 {
        self.counter.expired_bytes(now_ms).min(self.bytes)
    }

    /// When the values expire.
    pub fn deadlines(&self) -> Deadlines {
        self.counter.finish()
    }

    /// Whether to walk over `stored` bytes: if an eighth of them (less where space is short) is known to have expired,
    /// or if so many bytes were written since the last walk that an eighth may have.
    pub fn is_walk_due(&self, stored: u64, urgency: Urgency, now: Nanos, now_ms: u64) -> bool {
        let share = match urgency {
            Urgency::Idle => 8,
            Urgency::Near => 16,
            Urgency::Full => 64,
        };
        let found = if now < self.walked_at + RETRY_NANOS { self.found } else { 0 };
        self.walk.is_some()
            || self.expired(now_ms).saturating_sub(found) >= (stored / share).max(WALK_BYTES_MIN)
            || self.added.min(self.bytes) >= (stored / 8).max(WALK_BYTES_MIN)
    }

    /// Where to walk on: behind this key, or at the beginning.
    pub fn walk_from(&mut self, now_ms: u64) -> Option<Key> {
        if self.walk.is_none() {
            (self.added, self.found) = (0, 0);
        }
        self.walk.get_or_insert_with(|| Walk { at: None, counter: Counter::new(now_ms) }).at.clone()
    }

    /// Notes that the walk has come to `key`. Returns whether its value has expired.
    pub fn walk_to(&mut self, key: &Key, version: &Version, row: u64, now_ms: u64) -> bool {
        let Some(walk) = &mut self.walk else { return false };
        walk.at = Some(key.clone());
        if version.expire_at_ms == 0 {
            return false;
        }
        let bytes = weight(version, row);
        walk.counter.add(version.expire_at_ms, bytes);
        let is_expired = weir_model::engine::is_expired(version.expire_at_ms, now_ms);
        self.found += if is_expired { bytes } else { 0 };
        is_expired
    }

    /// Notes that the walk has passed all rows.
    pub fn end_walk(&mut self, now: Nanos) {
        if let Some(walk) = self.walk.take() {
            (self.counter, self.walked_at) = (walk.counter, now);
        }
    }
}
