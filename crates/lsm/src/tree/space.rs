//! How much space a tree takes, how much of that lives, and how much its owner minds.

use std::sync::atomic::Ordering;

use super::Tree;
use crate::deadlines::{Counter, Deadlines};
use crate::pick::Urgency;
use crate::version::{LEVELS, TableFile, Version};

/// Bytes of a tree. What is dead is known (values that have expired, tombstones, what a memtable has a newer version
/// of) but for what tombstones delete, which is estimated by the mean size of what lies below them. What a newer
/// *table* overwrites counts as living until a merge finds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Tables and memtables.
    pub stored_bytes: u64,
    /// What of it is dead.
    pub dead_bytes: u64,
    /// When more of the tables will be, in bytes of their files.
    pub deadlines: Deadlines,
}

impl Space {
    /// What is not known to be dead.
    pub fn living_bytes(&self) -> u64 {
        self.stored_bytes.saturating_sub(self.dead_bytes)
    }

    /// The same space when time has passed and nobody has touched it.
    pub fn dead_bytes_at(&self, now_ms: u64) -> u64 {
        self.dead_bytes.saturating_add(self.deadlines.expired_bytes(now_ms)).min(self.stored_bytes)
    }
}

impl Tree {
    /// What it takes now. Looks at the facts of each table, and at no data.
    pub fn space(&self) -> Space {
        let (view, now_ms) = (self.view(), self.env.clock.unix_ms());
        let version = &view.version;
        let (mut stored_bytes, mut dead_bytes, mut present_bytes, mut entries) = (0, 0, 0, 0);
        let mut deadlines = Counter::new(now_ms);
        for (level, table) in version.tables() {
            let meta = &table.meta;
            let present = meta.present_bytes(now_ms);
            (stored_bytes, present_bytes) = (stored_bytes + meta.bytes, present_bytes + present);
            dead_bytes += meta.bytes - present + deleted_by(version, level, table, now_ms);
            entries += meta.entries;
            let mut before = meta.expired_bytes(now_ms);
            for point in meta.deadlines.points() {
                let bytes = meta.file_bytes(point.bytes);
                if bytes > before {
                    deadlines.add(point.at_ms, bytes - before);
                    before = bytes;
                }
            }
        }
        dead_bytes = dead_bytes.min(stored_bytes);
        let sealed = view.sealed.iter().map(|sealed| &sealed.memtable);
        for memtable in sealed.chain([&view.memtable]).filter(|memtable| !memtable.is_empty()) {
            let dead = memtable.dead(now_ms);
            let deleted = (dead.tombstones.saturating_mul(present_bytes) / entries.max(1)).min(present_bytes);
            stored_bytes += memtable.bytes() as u64;
            dead_bytes += dead.bytes + deleted;
        }
        Space { stored_bytes, dead_bytes: dead_bytes.min(stored_bytes), deadlines: deadlines.finish() }
    }

    /// Says how much it matters that dead bytes are given back. Ask for jobs afterwards.
    pub fn set_urgency(&self, urgency: Urgency) {
        self.urgency.store(urgency as u8, Ordering::Relaxed);
    }

    /// What was said last.
    pub fn urgency(&self) -> Urgency {
        Urgency::ALL[usize::from(self.urgency.load(Ordering::Relaxed))]
    }

    /// Whether dead bytes are being given back, or will be by jobs that are due: flushes, of which tombstones and
    /// expired values are the first part of it, and compactions.
    pub fn is_reclaiming(&self) -> bool {
        let state = self.state().lock();
        let view = self.view();
        if !state.jobs.is_empty() || !view.sealed.is_empty() {
            return true;
        }
        let claims = state.claims(|_| true);
        let picture = self.picture(&view.version, &claims, &state);
        crate::pick::dead::pick(&picture).is_some() || self.pick(&claims, &state, &view.version).is_some()
    }
}

/// Estimates what the tombstones of `table`, of `level`, delete in deeper levels.
fn deleted_by(version: &Version, level: usize, table: &TableFile, now_ms: u64) -> u64 {
    let meta = &table.meta;
    if meta.tombstones == 0 {
        return 0;
    }
    let below = (level + 1..LEVELS).flat_map(|level| version.overlapping(level, &meta.smallest, &meta.largest));
    let (bytes, entries) = below.fold((0_u64, 0_u64), |(bytes, entries), table| {
        (bytes + table.meta.present_bytes(now_ms), entries + table.meta.entries)
    });
    (meta.tombstones.saturating_mul(bytes) / entries.max(1)).min(bytes)
}
