//! Rows that hold more than their newest value: older versions, which some reader may need, and tombstones.
//!
//! A row is on the list from the moment it is overwritten or deleted until nothing older is left of it. Each write
//! takes a few rows off, so that the list is no longer than what readers still need. A job takes off what is left when
//! nobody writes.

use std::collections::VecDeque;
use std::sync::Arc;

use crossbeam_epoch::{self as epoch, Guard};
use weir_model::engine::{Kind, Seq};

use crate::bytes::Booked;
use crate::index::{Index, Row, row_bytes};
use crate::version::{Horizons, Version};

/// When this many bytes of older versions have been left out, memory is freed at once, as far as readers let it.
/// Otherwise a few hundred versions would wait for that together, however long they are. Of the shortest, these are as
/// many as are freed at a time (eight bags of `crossbeam_epoch`), so that they cannot gather either.
const FREED_AT_ONCE_BYTES: u64 = 32 << 10;

/// The list of these rows. Guarded by the writer's lock.
#[derive(Default)]
pub(crate) struct Stale {
    rows: VecDeque<(Seq, Arc<Row>)>,
    /// Bytes of older versions that have been left out since memory was last freed at once.
    left_out: u64,
}

impl Stale {
    /// Whether a row with this newest version is on the list.
    pub fn has(newest: &Version) -> bool {
        newest.kind == Kind::Delete || !newest.is_alone()
    }

    /// Adds `row`, which was not on the list and has been overwritten or deleted by change `seq`.
    pub fn add(&mut self, seq: Seq, row: Arc<Row>) {
        self.rows.push_back((seq, row));
    }

    /// Notes that `bytes` bytes of older versions have been left out, and frees memory if they are many by now.
    pub fn left_out(&mut self, bytes: u64, guard: &Guard) {
        self.left_out += bytes;
        if self.left_out >= FREED_AT_ONCE_BYTES {
            guard.flush();
            self.left_out = 0;
        }
    }

    /// Whether [`Stale::clean`] would find something to do.
    pub fn is_due(&self, horizons: &Horizons) -> bool {
        self.rows.front().is_some_and(|(seq, ..)| *seq <= horizons.oldest())
    }

    /// Frees what no reader needs, of at most `most` rows.
    pub fn clean(&mut self, index: &Index, booked: &Booked, horizons: &Horizons, most: usize) {
        for _ in 0..most {
            if !self.is_due(horizons) {
                return;
            }
            let Some((_, row)) = self.rows.pop_front() else { return };
            // Entered anew for each row: entering is what frees, now and then, what earlier rows have left behind.
            let guard = epoch::pin();
            let Some(newest) = row.newest.get(&guard) else { continue };
            let trimmed = newest.trim(horizons, &guard);
            booked.trimmed(trimmed);
            self.left_out(trimmed, &guard);
            if newest.is_alone() && newest.kind != Kind::Delete {
                continue;
            }
            // A read that sees a deletion which is not published yet must still find it.
            if newest.is_alone() && newest.seq <= horizons.published {
                let bytes = newest.bytes();
                drop(guard);
                index.remove(&row.key);
                booked.row_removed(row_bytes(row.key.len()), bytes);
            } else {
                self.rows.push_back((newest.seq, row));
            }
        }
    }
}
