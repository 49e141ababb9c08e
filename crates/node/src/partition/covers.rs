//! Rows of many parts that end: a batch that deletes or overwrites such a row also writes a cover for it.
//!
//! A hash whose fields expire also has an entry in the agenda, at the deadline of the first field. The batch that
//! changes this deadline moves the entry, too. So the agenda is right at any time, whatever command changed the row.
//!
//! Nobody else has to think of covers. Commands, blind writes and burials change the entry at a row's key. Here, where
//! their rows are locked, it is found out which of these entries were heads, and a cover is added for each. If the
//! engine has no head at all, which it knows at once, nothing is looked at. If it has some, only keys that may belong
//! to heads are read.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use weir_io::plant::{Plant, is_planted};
use weir_io::{Error, Result, Waiting};
use weir_model::engine::{Engine, Found, Kind};
use weir_model::parts::fields::agenda_key;
use weir_model::parts::{Head, HeadRef, cover_key, is_part};
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
    /// Bytes of the keys and values of its parts, about.
    bytes: u64,
}

impl Spread {
    /// The life of a row that has `head`; `None` if its parts have no keys of their own.
    fn of(head: HeadRef<'_>) -> Option<Self> {
        head.packed.is_none().then_some(Self { version: head.version, bytes: head.parts_bytes_about() })
    }

    /// Adds the cover of this life, which ends.
    fn cover(self, batch: &mut Batch) {
        batch.push(Change::Cover { key: &cover_key(self.version), bytes: self.bytes });
    }
}

/// What a row has in addition to the entry at its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Elsewhere {
    /// Parts with keys of their own.
    life: Option<Spread>,
    /// An entry in the agenda: the time at which the first of its fields expires.
    first_ms: Option<u64>,
}

impl Elsewhere {
    fn of(head: HeadRef<'_>) -> Self {
        Self { life: Spread::of(head), first_ms: head.mortal().map(|mortal| mortal.first_ms) }
    }

    /// What a row has elsewhere whose entry `found` was found at `key`.
    ///
    /// # Errors
    /// As [`head_of`].
    pub(super) fn found(key: &[u8], found: &Found) -> Result<Self> {
        if found.kind != Kind::Head {
            return Ok(Self::default());
        }
        Ok(Self::of(HeadRef::parse(&found.value).ok_or_else(|| damaged(key))?))
    }

    /// Whether `change`, of a row that has this elsewhere, goes on with the row's life and leaves its place on the
    /// agenda.
    fn stays_with(self, change: &Change<'_>) -> bool {
        let Change::Head { head, .. } = change else { return false };
        let now = HeadRef::parse(head).map(Self::of);
        let version = |elsewhere: Self| elsewhere.life.map(|life| life.version);
        now.is_some_and(|now| version(now) == version(self) && now.first_ms == self.first_ms)
    }

    /// Adds the deletion of `key`, whose row has this elsewhere, and of everything that the row has elsewhere.
    pub(super) fn bury(self, batch: &mut Batch, key: &[u8]) {
        batch.delete(key);
        if let Some(life) = self.life {
            life.cover(batch);
        }
        if let Some(first_ms) = self.first_ms {
            batch.delete(&agenda_key(first_ms, key));
        }
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

/// Rows as they are before a batch. Nobody else writes to them meanwhile.
pub(super) trait Lives: Sync {
    /// The same as [`Lives::elsewhere`], if it is known because the row was read.
    fn known(&self, key: &[u8]) -> Option<Elsewhere>;

    /// What the row at `key`, expired or not, has elsewhere.
    fn elsewhere<'a>(&'a self, key: &'a [u8]) -> Waiting<'a, Result<Elsewhere>>;
}

/// A batch with all that goes with it.
#[derive(Clone, Default)]
pub(super) struct Whole {
    pub batch: Batch,
    /// The first deadline among those that it puts on the agenda.
    pub due_ms: Option<u64>,
}

/// The changes of a row in the course of a batch.
struct Course {
    before: Elsewhere,
    now: Elsewhere,
}

/// `batch`, with a cover for each life that it ends: each life that a row had before or has in its course, and that no
/// row has in the end. (A row that is renamed takes its life with it.) The batch also gets the changes of the agenda.
///
/// # Errors
/// Those of `lives`.
pub(super) async fn with_covers(engine: &dyn Engine, mut batch: Batch, lives: &dyn Lives) -> Result<Whole> {
    // Most commands on rows of many parts read the head and write it again.
    let goes_on = |change: Change<'_>| {
        is_part(change.key()) || lives.known(change.key()).is_some_and(|before| before.stays_with(&change))
    };
    if batch.as_ref().iter().all(goes_on) {
        return Ok(Whole { batch, due_ms: None });
    }
    let makes_heads = || batch.as_ref().iter().any(|change| matches!(change, Change::Head { .. }));
    if !may_end_lives(engine, &batch) && !makes_heads() {
        return Ok(Whole { batch, due_ms: None });
    }
    let mut rows: BTreeMap<Vec<u8>, Course> = BTreeMap::new();
    let mut ended: BTreeMap<u64, Spread> = BTreeMap::new();
    for change in batch.as_ref().iter().filter(|change| !is_part(change.key())) {
        let row = match rows.entry(change.key().to_vec()) {
            Entry::Occupied(row) => row.into_mut(),
            Entry::Vacant(vacant) => {
                let is_known = may_end_life(engine, &change);
                let before = if is_known { lives.elsewhere(change.key()).await? } else { Elsewhere::default() };
                vacant.insert(Course { before, now: before })
            }
        };
        let next = match change {
            Change::Head { head, .. } => HeadRef::parse(head).map(Elsewhere::of).unwrap_or_default(),
            _ => Elsewhere::default(),
        };
        let before = std::mem::replace(&mut row.now, next);
        ended.extend(before.life.map(|life| (life.version, life)));
    }
    for life in rows.values().filter_map(|row| row.now.life) {
        ended.remove(&life.version);
    }
    ended.into_values().for_each(|life| life.cover(&mut batch));
    let mut due_ms: Option<u64> = None;
    for (key, Course { before, now }) in rows.iter().filter(|(_, row)| row.before.first_ms != row.now.first_ms) {
        if let Some(first_ms) = before.first_ms.filter(|_| !is_planted(Plant::AgendaLeft)) {
            batch.delete(&agenda_key(first_ms, key));
        }
        if let Some(first_ms) = now.first_ms {
            batch.put(&agenda_key(first_ms, key), b"");
            due_ms = due_ms.into_iter().chain([first_ms]).min();
        }
    }
    Ok(Whole { batch, due_ms })
}
