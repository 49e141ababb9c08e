//! Rows of many parts that give way: whoever deletes or overwrites one writes a cover with it, in the same batch.
//!
//! Nobody else has to think of it. Commands, blind writes and burials change what stands at a row's key; here, where
//! their rows are locked, it is found out which of these were heads, and a cover is added for each. Where the engine
//! has no head at all, which it knows at once, nothing is looked at; and where it has some, only keys that may be
//! theirs are read.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use weir_io::{Error, Result, Waiting};
use weir_model::engine::{Engine, Found, Kind};
use weir_model::parts::{Head, HeadRef, Life, cover_key, is_part};
use weir_model::{Batch, Change};

/// The head that was found at `key`; `None` if it was something else.
///
/// # Errors
/// `Corruption`: the engine has a head that is none.
pub(super) fn head_of(key: &[u8], found: &Found) -> Result<Option<Head>> {
    if found.kind != Kind::Head {
        return Ok(None);
    }
    Head::decode(&found.value).map(Some).ok_or_else(|| damaged(key))
}

/// A life whose parts have keys of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spread {
    version: u64,
    /// Of the keys and values of its parts, about.
    bytes: u64,
}

impl Spread {
    /// The life of a row that has `head`; `None` if its parts have no keys of their own.
    fn of(head: HeadRef<'_>) -> Option<Self> {
        let bytes = head.bytes + head.count * Life::SUBKEY_AT as u64;
        head.packed.is_none().then_some(Self { version: head.version, bytes })
    }

    /// The life of what was found at `key`, if there is such one.
    ///
    /// # Errors
    /// As [`head_of`].
    pub(super) fn found(key: &[u8], found: &Found) -> Result<Option<Self>> {
        if found.kind != Kind::Head {
            return Ok(None);
        }
        Ok(Self::of(HeadRef::parse(&found.value).ok_or_else(|| damaged(key))?))
    }

    /// Adds its cover: it ends.
    pub(super) fn cover(self, batch: &mut Batch) {
        batch.push(Change::Cover { key: &cover_key(self.version), bytes: self.bytes });
    }
}

#[cold]
fn damaged(key: &[u8]) -> Error {
    Error::corruption("the partition", 0, format!("the head of row {} is damaged", key.escape_ascii()))
}

/// Whether `batch` may end a life of a row of many parts that `engine` has. Reads nothing.
pub(super) fn may_end_lives(engine: &dyn Engine, batch: &Batch) -> bool {
    engine.holds_heads() && batch.as_ref().iter().any(|change| may_end_life(engine, &change))
}

fn may_end_life(engine: &dyn Engine, change: &Change<'_>) -> bool {
    !is_part(change.key()) && engine.may_hold_head(change.key())
}

/// Rows as they are before a batch; nobody else writes to them meanwhile.
pub(super) trait Lives: Sync {
    /// The life whose parts have keys of their own of what stands at `key`, expired or not; `None` if it has no such
    /// parts.
    fn life<'a>(&'a self, key: &'a [u8]) -> Waiting<'a, Result<Option<Spread>>>;
}

/// `batch`, with a cover for each life that it ends: one that a row had before or has in its course, and none has in
/// the end. (A row that is renamed takes its life with it.)
///
/// # Errors
/// Those of `lives`.
pub(super) async fn with_covers(engine: &dyn Engine, mut batch: Batch, lives: &dyn Lives) -> Result<Batch> {
    let makes_heads = || batch.as_ref().iter().any(|change| matches!(change, Change::Head { .. }));
    if !may_end_lives(engine, &batch) && !makes_heads() {
        return Ok(batch);
    }
    // The life that each row has now.
    let mut now: BTreeMap<Vec<u8>, Option<Spread>> = BTreeMap::new();
    let mut ended: BTreeMap<u64, Spread> = BTreeMap::new();
    for change in batch.as_ref().iter().filter(|change| !is_part(change.key())) {
        let life = match now.entry(change.key().to_vec()) {
            Entry::Occupied(life) => life.into_mut(),
            Entry::Vacant(vacant) => {
                let before = if may_end_life(engine, &change) { lives.life(change.key()).await? } else { None };
                vacant.insert(before)
            }
        };
        let next = match change {
            Change::Head { head, .. } => HeadRef::parse(head).and_then(Spread::of),
            _ => None,
        };
        ended.extend(std::mem::replace(life, next).map(|life| (life.version, life)));
    }
    for life in now.into_values().flatten() {
        ended.remove(&life.version);
    }
    ended.into_values().for_each(|life| life.cover(&mut batch));
    Ok(batch)
}
