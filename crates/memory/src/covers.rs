//! Covers: they say which parts of rows are dead because the row was deleted. Deleting a million parts is two changes.
//! The parts go in bounded steps when every reader sees the cover: some with every write, the rest by the sweep.
//!
//! Nothing is logged for that. A cover is a row of its own, and stays until its parts are gone. A snapshot has the
//! cover and none of its parts, gone or not.

use std::collections::VecDeque;
use std::ops::Bound;

use crossbeam_epoch as epoch;
use weir_io::plant::{Plant, is_planted};
use weir_model::engine::{Kind, Seq};
use weir_model::parts;

use crate::bytes::Booked;
use crate::index::{Index, row_bytes};
use crate::key::Key;
use crate::mortal::Mortal;
use crate::version::{Horizons, Version};

/// The covers whose parts are still to go, in order. Guarded by the writer's lock.
#[derive(Default)]
pub(crate) struct Covers(VecDeque<Cover>);

struct Cover {
    seq: Seq,
    key: Key,
}

/// What covers work on.
pub(crate) struct Rows<'a> {
    pub index: &'a Index,
    pub booked: &'a Booked,
    pub mortal: &'a mut Mortal,
}

/// The parts that were dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub entries: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
}

impl Covers {
    /// Notes that a cover stands at `key` from now on.
    pub fn add(&mut self, seq: Seq, key: &[u8]) {
        self.0.push_back(Cover { seq, key: Key::new(key) });
    }

    /// Whether [`Covers::clean`] would find something to do.
    pub fn is_due(&self, horizons: &Horizons) -> bool {
        self.0.front().is_some_and(|cover| cover.seq <= horizons.oldest())
    }

    /// Removes at most `most` rows, those of spent covers among them. Returns the parts that were dropped.
    pub fn clean(&mut self, rows: &mut Rows<'_>, horizons: &Horizons, most: usize) -> Dropped {
        let mut dropped = Dropped::default();
        let mut left = most;
        while left > 0 && self.is_due(horizons) {
            let Some(cover) = self.0.front() else { break };
            let end = parts::version_of(&cover.key).map(parts::cover_end).unwrap_or_default();
            let mut dead = Vec::new();
            let is_last = rows.index.walk(Bound::Excluded(&cover.key), Bound::Excluded(&end), false, |entry, _| {
                // Only the writer removes rows, and this is the writer: the row is still there.
                dead.extend(entry.row.newest.load().map(|newest| (entry.key.clone(), newest)));
                dead.len() < left
            });
            for (key, newest) in &dead {
                dropped.entries += 1;
                dropped.bytes += (key.len() + newest.value.len()) as u64;
                rows.remove(key, newest, horizons);
            }
            left -= dead.len();
            if is_last || is_planted(Plant::DroppedCover) {
                left = left.saturating_sub(1);
                let Some(cover) = self.0.pop_front() else { break };
                // The same cover may have been written again.
                let newest = rows.index.newest(&cover.key);
                if let Some(newest) = newest.filter(|newest| newest.kind == Kind::Cover && newest.seq <= cover.seq) {
                    rows.remove(&cover.key, &newest, horizons);
                }
            }
        }
        dropped
    }
}

impl Rows<'_> {
    /// Removes a row that every reader knows to be dead.
    fn remove(&mut self, key: &[u8], newest: &std::sync::Arc<Version>, horizons: &Horizons) {
        let row = row_bytes(key.len());
        self.mortal.remove(key, newest, row);
        let alone = Horizons { published: newest.seq.max(horizons.published), held: Vec::new() };
        self.booked.trimmed(newest.trim(&alone, &epoch::pin()));
        self.index.remove(key);
        self.booked.row_removed(row, newest.bytes());
        self.booked.head_removed(newest.kind);
    }
}
