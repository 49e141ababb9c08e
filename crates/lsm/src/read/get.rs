//! A point read: memtables, then tables newest first; only a miss in the block cache waits.

use std::sync::Arc;

use weir_io::{Class, Result};
use weir_model::engine::{Found, Kind, Lookup, SEQ_MAX, Seq};

use super::view::View;
use crate::memtable::{Memtable, PREFETCHED_MAX};
use crate::table::{BlockAddress, Table, TableGet, filter};
use crate::version::LEVELS;

/// Blocks of the levels down to this one are pinned in the cache when a point read fetches them.
pub const PINNED_LEVEL_MAX: usize = 1;

/// The next table to look into: level and, in level 0, the index of the run.
#[derive(Clone, Copy)]
struct TablePosition {
    level: usize,
    run: usize,
}

impl TablePosition {
    const START: TablePosition = TablePosition { level: 0, run: 0 };

    fn after(self) -> TablePosition {
        match self.level {
            0 => TablePosition { level: 0, run: self.run + 1 },
            level => TablePosition { level: level + 1, run: 0 },
        }
    }
}

enum Outcome {
    Done(Option<Found>),
    Load { table: Arc<Table>, address: BlockAddress, place: TablePosition },
}

/// The newest version of `key` at or before `at` in the memtables of `view`.
fn in_memory(view: &View, key: &[u8], hash: u64, at: Seq) -> Option<Found> {
    memtables(view).find_map(|memtable| memtable.get_hashed(key, hash, at))
}

/// The newest first.
fn memtables(view: &View) -> impl Iterator<Item = &Arc<Memtable>> {
    std::iter::once(&view.memtable).chain(view.sealed.iter().map(|sealed| &sealed.memtable))
}

/// Looks through the tables of `view` from `place` on, as far as the block cache has what it needs.
fn in_tables(view: &View, key: &[u8], hash: u64, at: Seq, mut place: TablePosition) -> Result<Outcome> {
    while place.level < LEVELS {
        let file = match place.level {
            0 => match view.version.level(0).get(place.run) {
                None => {
                    place = TablePosition { level: 1, run: 0 };
                    continue;
                }
                Some(run) => Some(run).filter(|run| run.meta.overlaps(key, key)),
            },
            level => view.version.find(level, key),
        };
        if let Some(file) = file {
            match file.table.get(key, hash, at)? {
                TableGet::Absent => {}
                TableGet::Found(found) => return Ok(Outcome::Done(Some(found))),
                TableGet::Load(address) => {
                    return Ok(Outcome::Load { table: Arc::clone(&file.table), address, place });
                }
            }
        }
        place = place.after();
    }
    Ok(Outcome::Done(None))
}

/// Has the processor fetch what reads of `keys` will touch in the memtables and in the tables' filters. Changes nothing
/// but how long these reads take.
pub fn prefetch(view: &View, keys: &[&[u8]]) {
    // A single key has no other to wait with.
    for keys in keys.chunks(PREFETCHED_MAX).filter(|keys| keys.len() > 1) {
        let mut hashes = [0; PREFETCHED_MAX];
        hashes.iter_mut().zip(keys).for_each(|(hash, key)| *hash = filter::hash(key));
        let mut missing = (1_u32 << keys.len()) - 1;
        for memtable in memtables(view) {
            missing &= !memtable.prefetch(keys, &hashes, missing);
            if missing == 0 {
                break;
            }
        }
        for (place, key) in keys.iter().enumerate() {
            if missing >> place & 1 == 1 {
                let upper = view.version.level(0).iter().filter(|run| run.meta.overlaps(key, key));
                let deeper = (1..LEVELS).filter_map(|level| view.version.find(level, key));
                upper.chain(deeper).for_each(|file| file.table.prefetch(hashes[place]));
            }
        }
    }
}

/// Whether there is a head or a cover anywhere in `view`. Costs a few loads.
#[inline]
pub fn holds_heads(view: &View) -> bool {
    view.version.holds_heads() || memtables(view).any(|memtable| memtable.holds_heads())
}

/// Whether the newest version of `key` may be a head: certain if a memtable has the key, otherwise as filters say.
/// Reads nothing.
pub fn may_hold_head(view: &View, key: &[u8]) -> bool {
    if !holds_heads(view) {
        return false;
    }
    let hash = filter::hash(key);
    if let Some(newest) = in_memory(view, key, hash, SEQ_MAX) {
        return newest.kind == Kind::Head;
    }
    let upper = view.version.level(0).iter().filter(|run| run.meta.overlaps(key, key));
    let deeper = (1..LEVELS).filter_map(|level| view.version.find(level, key));
    upper.chain(deeper).any(|file| file.table.holds_heads() && file.table.may_contain(hash))
}

/// Starts a point read of `key` in `view` as of `at`; a tombstone is no answer. Never waits: a read that must wait
/// becomes a pending lookup.
#[inline]
pub fn get(view: &Arc<View>, key: &[u8], at: Seq) -> Lookup {
    let live = |found: Option<Found>| found.filter(|found| found.kind.is_value());
    match get_version(view, key, at) {
        Lookup::Ready(answer) => Lookup::Ready(answer.map(|answer| answer.map(live))),
        Lookup::Pending(future) => Lookup::Pending(Box::pin(async move { future.await.map(live) })),
    }
}

/// Like [`get`], tombstones included.
#[inline]
pub fn get_version(view: &Arc<View>, key: &[u8], at: Seq) -> Lookup {
    let hash = filter::hash(key);
    if let Some(found) = in_memory(view, key, hash, at) {
        return Lookup::Ready(Some(Ok(Some(found))));
    }
    match in_tables(view, key, hash, at, TablePosition::START) {
        Err(error) => Lookup::Ready(Some(Err(error))),
        Ok(Outcome::Done(answer)) => Lookup::Ready(Some(Ok(answer))),
        Ok(Outcome::Load { table, address, place }) => {
            Lookup::Pending(Box::pin(finish(Arc::clone(view), key.into(), hash, at, table, address, place)))
        }
    }
}

/// Goes on with a read whose block was missing.
async fn finish(
    view: Arc<View>,
    key: Box<[u8]>,
    hash: u64,
    at: Seq,
    mut table: Arc<Table>,
    mut address: BlockAddress,
    mut place: TablePosition,
) -> Result<Option<Found>> {
    loop {
        let block = table.load(address, Class::Read, place.level <= PINNED_LEVEL_MAX).await?;
        if let Some(found) = table.get_in(&block, address, &key, at)? {
            return Ok(Some(found));
        }
        match in_tables(&view, &key, hash, at, place.after())? {
            Outcome::Done(answer) => return Ok(answer),
            Outcome::Load { table: next_table, address: next_address, place: next_place } => {
                (table, address, place) = (next_table, next_address, next_place);
            }
        }
    }
}
