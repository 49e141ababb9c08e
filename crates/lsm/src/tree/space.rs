//! How much space a tree takes, how much of that lives, and how much its owner minds.

use weir_model::engine::{Counter, Space};

use super::Tree;
use crate::version::{LEVELS, TableFile, Version};

impl Tree {
    /// What it takes now. Looks at the facts of each table, and at no data. What a newer *table* overwrites counts as
    /// living until a merge finds it, and so does what is covered but seen by a snapshot.
    pub(super) fn measure(&self) -> Space {
        let (view, now_ms) = (self.view(), self.env.clock.unix_ms());
        let version = &view.version;
        let (mut stored_bytes, mut dead_bytes, mut present_bytes, mut entries) = (0, 0, 0, 0);
        let mut deadlines = Counter::new(now_ms);
        let (covered, mut raw_bytes) = (self.covered(version), 0_u64);
        for (level, table) in version.tables() {
            let meta = &table.meta;
            let present = meta.present_bytes(now_ms);
            (stored_bytes, present_bytes) = (stored_bytes + meta.bytes, present_bytes + present);
            dead_bytes += meta.bytes - present + deleted_by(version, level, table, now_ms) + covered.bytes_of(meta);
            raw_bytes += meta.raw_bytes;
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
        let table_bytes = stored_bytes;
        let sealed = view.sealed.iter().map(|sealed| &sealed.memtable);
        for memtable in sealed.chain([&view.memtable]).filter(|memtable| !memtable.is_empty()) {
            let dead = memtable.dead(now_ms);
            let deleted = (dead.tombstones.saturating_mul(present_bytes) / entries.max(1)).min(present_bytes);
            stored_bytes += memtable.bytes() as u64;
            let covered = u128::from(dead.covered_bytes) * u128::from(table_bytes) / u128::from(raw_bytes.max(1));
            dead_bytes += dead.bytes + deleted + u64::try_from(covered).unwrap_or(u64::MAX).min(table_bytes);
        }
        Space { stored_bytes, dead_bytes: dead_bytes.min(stored_bytes), deadlines: deadlines.finish() }
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
