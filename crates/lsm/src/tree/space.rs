//! How much space a tree takes, how much of it is dead, and when more of it expires.

use weir_model::engine::{Counter, Space};

use super::Tree;
use crate::version::{LEVELS, TableFile, Version};

impl Tree {
    /// Measures the tree now. Looks only at the facts of each table, at no data. Values that a newer *table* overwrites
    /// count as living until a merge finds them, and so do covered parts that a snapshot still sees.
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

/// Estimates how many bytes of deeper levels the tombstones of `table`, which is in `level`, delete.
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
