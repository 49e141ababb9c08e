//! Writing: one batch at a time.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_epoch::{self as epoch, Guard};
use weir_model::engine::{Applied, Kind, Records, Seq};
use weir_model::parts::{cover_end, cover_value, version_of};
use weir_model::{BatchRef, Change, LogIndex};

use super::Store;
use crate::covers::{Covers, Dropped, Rows};
use crate::index::{PREFETCHED_MAX, Place, row_bytes};
use crate::mortal::Mortal;
use crate::snapshot::SnapshotMeta;
use crate::stale::Stale;
use crate::version::{Horizons, Version};

/// About how many bytes a log record takes besides its batch.
const RECORD_BYTES: u64 = 32;
/// Most bytes that the row of a change takes besides those of its key and its value: where these are stored elsewhere,
/// they are padded, and a key has two counters.
const CHANGE_BYTES_MAX: u64 = row_bytes(0) + Version::bytes_of(0) + 4 * size_of::<u64>() as u64;
/// How many rows a batch frees of what no reader needs any more, besides two for each of its changes: more than it
/// adds.
const CLEANED_ROWS: usize = 2;

/// The state that the writer's lock guards.
#[derive(Default)]
pub(crate) struct Writer {
    /// Sequence number of the last change applied.
    pub last_seq: Seq,
    /// Log index of the last record applied.
    pub applied: LogIndex,
    /// A snapshot of everything up to here has been asked for.
    pub asked: LogIndex,
    pub stale: Stale,
    pub covers: Covers,
    /// Parts that were dropped because of covers, and that no job has reported yet.
    pub dropped: Dropped,
    pub mortal: Mortal,
}

impl Records for Store {
    fn has_room_for(&self, batch: BatchRef<'_>) -> bool {
        // Most batches have room, which shows without a look at the rows that exist. Where there is plenty, it shows
        // even without a look at the changes: the batch has their keys and values, and each takes a little more.
        let budget = self.booked.budget();
        let most = batch.as_bytes().len() as u64 + batch.len() as u64 * CHANGE_BYTES_MAX;
        if !budget.is_exceeded_by(most) {
            return true;
        }
        if !budget.is_exceeded_by(batch.iter().map(|change| bytes_of(&change)).sum()) {
            return true;
        }
        // What each row takes before the batch and after it. A batch may change a row several times: the row frees what
        // it has only once, and takes room only for the last change. A row that is deleted also frees its place in the
        // index. Otherwise a sweep of fields could be refused for what it moves on the agenda.
        let mut rows: BTreeMap<&[u8], [u64; 2]> = BTreeMap::new();
        let present = |key: &[u8]| self.index.newest(key).map_or(0, |newest| row_bytes(key.len()) + newest.bytes());
        for change in batch.iter() {
            let [_, after] = rows.entry(change.key()).or_insert_with_key(|key| [present(key), 0]);
            *after = bytes_of(&change);
        }
        let [less, more] = [0, 1].map(|side| rows.values().map(|row| row[side]).sum::<u64>());
        let grows = more.saturating_sub(less);
        if grows == 0 || !budget.is_exceeded_by(grows) {
            return true;
        }
        // A list that is cut to a few values begins a new life with these, and the parts of the old one end.
        let grows = grows.saturating_sub(self.bytes_ended(batch, &rows, grows));
        grows == 0 || !budget.is_exceeded_by(grows)
    }

    fn apply(&self, index: LogIndex, batch: BatchRef<'_>) -> Applied {
        let mut writer = self.writer.lock();
        let horizons = self.horizons();
        // Before the changes: rows that become smaller can make a snapshot due as well as the log can.
        let was_due = self.is_snapshot_due();
        let mut changes = batch.iter();
        loop {
            let mut together = [None; PREFETCHED_MAX];
            for (place, change) in together.iter_mut().zip(changes.by_ref()) {
                *place = Some(change);
            }
            let together = || together.iter().flatten();
            if together().next().is_none() {
                break;
            }
            let guard = epoch::pin();
            let mut places = self.index.places(together().map(Change::key), &guard);
            for (index, change) in together().enumerate() {
                let (before, place) = places.split_at_mut(index);
                let place = &mut place[0];
                // An earlier change may have added the row, or taken it away.
                if !before.iter().all(|before| before.differs(place)) {
                    *place = self.index.place(change.key());
                }
                // As in a tree: a row's version is never larger than the sequence number of its head or cover.
                writer.last_seq = writer.last_seq.max(change.newest_version()) + 1;
                self.put_change(&mut writer, &horizons, change, place, &guard);
            }
        }
        writer.applied = index;
        let last_seq = writer.last_seq;
        self.applied.store(last_seq, Ordering::Release);
        let most = CLEANED_ROWS + 2 * batch.len();
        writer.stale.clean(&self.index, &self.booked, &horizons, most);
        self.drop_covered(&mut writer, &horizons, most);
        self.logged_bytes.fetch_add(batch.as_bytes().len() as u64 + RECORD_BYTES, Ordering::Relaxed);
        Applied { last_seq, is_job_due: !was_due && self.is_snapshot_due() }
    }

    fn publish(&self, seq: Seq) {
        self.published.fetch_max(seq, Ordering::Release);
    }

    fn published(&self) -> Seq {
        self.published.load(Ordering::Acquire)
    }

    fn applied_seq(&self) -> Seq {
        self.applied.load(Ordering::Acquire)
    }

    fn persisted(&self) -> LogIndex {
        self.files.lock().persisted()
    }

    fn seal(&self) {
        let mut writer = self.writer.lock();
        writer.asked = writer.applied;
    }
}

impl Store {
    /// Bytes of the parts that end with the covers of `batch`, without those that are among its `rows`. No more parts
    /// are looked at when these are `enough`.
    fn bytes_ended(&self, batch: BatchRef<'_>, rows: &BTreeMap<&[u8], [u64; 2]>, enough: u64) -> u64 {
        let mut bytes = 0;
        for change in batch.iter() {
            let Change::Cover { key, .. } = change else { continue };
            let end = version_of(key).map(cover_end).unwrap_or_default();
            self.index.walk(Bound::Excluded(key), Bound::Excluded(&end), false, |entry, newest| {
                let key: &[u8] = &entry.key;
                if !rows.contains_key(key) {
                    bytes += row_bytes(key.len()) + newest.bytes();
                }
                bytes < enough
            });
        }
        bytes
    }

    /// Puts `change`, which has the last sequence number, at the `place` of its key.
    fn put_change(
        &self,
        writer: &mut Writer,
        horizons: &Horizons,
        change: &Change<'_>,
        place: &mut Place,
        guard: &Guard,
    ) {
        let cover;
        let (kind, expire_at_ms, value) = match *change {
            Change::Put { value, expire_at_ms, .. } => (Kind::Put, expire_at_ms, value),
            Change::Delete { .. } => (Kind::Delete, None, &[][..]),
            Change::Head { head, expire_at_ms, .. } => (Kind::Head, expire_at_ms, head),
            Change::Cover { bytes, .. } => {
                cover = cover_value(bytes);
                (Kind::Cover, None, &cover[..])
            }
        };
        let version = Version::new(writer.last_seq, kind, expire_at_ms.unwrap_or(0), value, None);
        self.put(writer, horizons, change.key(), version, place, guard);
    }

    fn put(
        &self,
        writer: &mut Writer,
        horizons: &Horizons,
        key: &[u8],
        version: Arc<Version>,
        place: &mut Place,
        guard: &Guard,
    ) {
        let kind = version.kind;
        // A row that has been removed is not in the index any more: only the writer removes rows.
        let before = place.row.as_ref().and_then(|row| row.newest.get(guard));
        if before.is_none() && kind == Kind::Delete {
            // A key that has no row has nothing to delete: every reader finds nothing, before and after.
            return;
        }
        let row_bytes = row_bytes(key.len());
        writer.mortal.add(key, &version, row_bytes);
        self.booked.head_added(kind);
        if kind == Kind::Cover {
            writer.covers.add(writer.last_seq, key);
        }
        let (Some(row), Some(before)) = (&place.row, before) else {
            self.booked.row_added(row_bytes, version.bytes());
            self.index.insert(key, place, version);
            return;
        };
        writer.mortal.remove(key, before, row_bytes);
        self.booked.head_removed(before.kind);
        self.booked.replaced(before.bytes(), version.bytes());
        let was_stale = Stale::has(before);
        row.newest.put_in_front(version, |version| &version.older);
        if was_stale {
            let newest = row.newest.get(guard);
            let trimmed = newest.map_or(0, |newest| newest.trim_behind(before, horizons, guard));
            self.booked.trimmed(trimmed);
            writer.stale.left_out(trimmed, guard);
            // The version behind one that is not published yet stays, and so does the row on the list, where it is
            // once.
            debug_assert!(newest.is_some_and(|newest| !newest.is_alone()), "the newest version is never published");
        } else if let Some(row) = place.row.take() {
            // A later change of the same key looks for its place anew.
            writer.stale.add(writer.last_seq, row);
        }
    }

    /// Removes at most `most` parts of rows that covers say are dead.
    pub(crate) fn drop_covered(&self, writer: &mut Writer, horizons: &Horizons, most: usize) {
        let mut rows = Rows { index: &self.index, booked: &self.booked, mortal: &mut writer.mortal };
        let Dropped { entries, bytes } = writer.covers.clean(&mut rows, horizons, most);
        writer.dropped.entries += entries;
        writer.dropped.bytes += bytes;
    }

    /// Takes in a row of a snapshot, while the store is being opened: every reader sees it.
    pub(super) fn load(&self, kind: Kind, key: &[u8], expire_at_ms: u64, value: &[u8]) {
        let everywhere = Horizons { published: 0, held: Vec::new() };
        let (mut writer, guard) = (self.writer.lock(), epoch::pin());
        let version = Version::new(writer.last_seq, kind, expire_at_ms, value, None);
        self.put(&mut writer, &everywhere, key, version, &mut self.index.place(key), &guard);
    }

    /// Notes that all rows of the snapshot are in memory, if there is one.
    pub(super) fn loaded(&self, snapshot: Option<SnapshotMeta>) {
        let Some(SnapshotMeta { end, .. }) = snapshot else { return };
        let mut writer = self.writer.lock();
        (writer.last_seq, writer.applied, writer.asked) = (end.seq, end.persisted, end.persisted);
    }
}

/// Bytes that the row of a change takes afterwards.
fn bytes_of(change: &Change<'_>) -> u64 {
    match change {
        Change::Put { key, value, .. } | Change::Head { key, head: value, .. } => {
            row_bytes(key.len()) + Version::bytes_of(value.len())
        }
        Change::Delete { .. } | Change::Cover { .. } => 0,
    }
}
