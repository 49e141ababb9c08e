//! What a memtable holds that nobody can read any more.

use weir_model::engine::{Counter, Entry, Kind};
use weir_model::parts::covered_bytes;

/// Counted by every insert. Bytes are those of keys and values. Heads do not expire here, as merges keep them; covers
/// count as living.
#[derive(Debug, Default)]
pub(super) struct Census {
    bytes: u64,
    tombstones: u64,
    tombstone_bytes: u64,
    overwritten_bytes: u64,
    covered_bytes: u64,
    deadlines: Counter,
}

/// What is dead in a memtable at some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemtableDead {
    /// Bytes of the memtable that belong to tombstones, expired values, and versions for which it has a newer one. A
    /// snapshot may still see such versions; they count as dead all the same.
    pub bytes: u64,
    /// Tombstones of keys of which the memtable has no older version: what they delete lies below, if anywhere.
    pub tombstones: u64,
    /// About how many bytes of keys and values its covers say are dead: in tables, in other memtables, or here.
    pub covered_bytes: u64,
}

impl Census {
    /// `from_ms` is the wall clock.
    pub fn new(from_ms: u64) -> Self {
        Self { deadlines: Counter::new(from_ms), ..Self::default() }
    }

    /// `entry` is inserted; `older` is the version of its key that it hides.
    #[inline]
    pub fn add(&mut self, entry: &Entry<'_>, older: Option<Entry<'_>>) {
        let bytes = bytes(entry);
        self.bytes += bytes;
        if entry.kind == Kind::Delete {
            self.tombstone_bytes += bytes;
            self.tombstones += u64::from(older.is_none());
        } else if entry.kind == Kind::Put && entry.expire_at_ms != 0 {
            self.deadlines.add(entry.expire_at_ms, bytes);
        } else if entry.kind == Kind::Cover && older.is_none() {
            self.covered_bytes = self.covered_bytes.saturating_add(covered_bytes(entry.value).unwrap_or(0));
        }
        if let Some(older) = older.filter(|older| older.kind != Kind::Delete) {
            self.overwritten_bytes += self::bytes(&older);
            if older.kind == Kind::Put && older.expire_at_ms != 0 {
                self.deadlines.remove(older.expire_at_ms, self::bytes(&older));
            }
        }
    }

    /// What is dead at `now_ms`, in a memtable of `used` bytes.
    pub fn dead(&self, used: u64, now_ms: u64) -> MemtableDead {
        let dead = self.tombstone_bytes + self.overwritten_bytes + self.deadlines.expired_bytes(now_ms);
        let share = u128::from(used) * u128::from(dead) / u128::from(self.bytes.max(1));
        let bytes = u64::try_from(share).unwrap_or(used).min(used);
        MemtableDead { bytes, tombstones: self.tombstones, covered_bytes: self.covered_bytes }
    }
}

fn bytes(entry: &Entry<'_>) -> u64 {
    (entry.key.len() + entry.value.len()) as u64
}
