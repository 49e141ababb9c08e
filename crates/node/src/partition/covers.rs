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
use weir_model::parts::{Head, cover_key, is_part};
use weir_model::{Batch, Change};

/// The head that was found at `key`; `None` if it was something else.
///
/// # Errors
/// `Corruption`: the engine has a head that is none.
pub(super) fn head_of(key: &[u8], found: &Found) -> Result<Option<Head>> {
    if found.kind != Kind::Head {
        return Ok(None);
    }
    let damaged =
        || Error::corruption("the partition", 0, format!("the head of row {} is damaged", key.escape_ascii()));
    Head::decode(&found.value).map(Some).ok_or_else(damaged)
}

/// Adds the cover of a row whose life `version` ends.
pub(super) fn cover(batch: &mut Batch, key: &[u8], version: u64) {
    batch.push(Change::Cover { prefix: &cover_key(key), below: version + 1 });
}

/// Whether `batch` may end a life of a row of many parts that `engine` has. Reads nothing.
pub(super) fn may_end_lives(engine: &dyn Engine, batch: &Batch) -> bool {
    engine.holds_heads() && batch.as_ref().iter().any(|change| may_end_life(engine, &change))
}

fn may_end_life(engine: &dyn Engine, change: &Change<'_>) -> bool {
    !is_part(change.key()) && engine.may_hold_head(change.key())
}

/// Rows as they are before a batch; nobody else writes to them meanwhile.
pub(super) trait Heads: Sync {
    /// The head that stands at `key`, expired or not; `None` if something else does, or nothing.
    fn head<'a>(&'a self, key: &'a [u8]) -> Waiting<'a, Result<Option<Head>>>;
}

/// What became of a row in the course of a batch.
#[derive(Default)]
struct Course {
    /// The version that it has, where it is of many parts.
    lives: Option<u64>,
    /// The last version that it has not any more.
    ended: Option<u64>,
}

/// `batch`, with a cover for each row of many parts that it ends.
///
/// # Errors
/// Those of `heads`.
pub(super) async fn with_covers(engine: &dyn Engine, mut batch: Batch, heads: &dyn Heads) -> Result<Batch> {
    let makes_heads = || batch.as_ref().iter().any(|change| matches!(change, Change::Head { .. }));
    if !may_end_lives(engine, &batch) && !makes_heads() {
        return Ok(batch);
    }
    let mut courses: BTreeMap<Vec<u8>, Course> = BTreeMap::new();
    for change in batch.as_ref().iter().filter(|change| !is_part(change.key())) {
        let course = match courses.entry(change.key().to_vec()) {
            Entry::Occupied(course) => course.into_mut(),
            Entry::Vacant(vacant) => {
                let before = if may_end_life(engine, &change) { heads.head(change.key()).await? } else { None };
                vacant.insert(Course { lives: before.map(|head| head.version), ended: None })
            }
        };
        let next = match change {
            Change::Head { head, .. } => Head::decode(head).map(|head| head.version),
            _ => None,
        };
        if course.lives != next {
            course.ended = course.lives.or(course.ended);
            course.lives = next;
        }
    }
    for (key, course) in &courses {
        if let Some(version) = course.ended {
            cover(&mut batch, key, version);
        }
    }
    Ok(batch)
}
