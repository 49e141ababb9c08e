//! What a command asks for: a row or a part of one, either stored or written by the command itself.

use weir_model::parts::Head;
use weir_model::{Change, Row, StoredKey, Value};

use crate::draft::Draft;
use crate::rows::{Read, Rows};

/// What is to be read.
#[derive(Clone, Copy)]
pub(super) enum Asked<'k> {
    /// The row of a key in the database with a number.
    Row(u8, &'k [u8]),
    /// A part of the row of a key, by its stored key.
    Part(&'k [u8], &'k [u8]),
}

impl<'k> Asked<'k> {
    /// The row's key.
    pub fn key(self) -> &'k [u8] {
        match self {
            Asked::Row(_, key) | Asked::Part(key, _) => key,
        }
    }

    pub fn stored(self) -> StoredKey {
        match self {
            Asked::Row(database, key) => StoredKey::new(database, key),
            Asked::Part(_, part) => StoredKey::of(part),
        }
    }

    #[inline]
    pub fn of(self, rows: &'k dyn Rows, now_ms: u64) -> Read<'k> {
        match self {
            Asked::Row(database, key) => rows.get(database, key, now_ms),
            Asked::Part(key, part) => rows.part(key, part, now_ms),
        }
    }
}

/// What `draft` has made of the row or part that is asked for.
pub(super) fn own_write(draft: &mut Draft, asked: Asked<'_>, now_ms: u64) -> Option<Option<Row>> {
    let change = match asked {
        Asked::Row(database, key) => draft.last_of(&StoredKey::new(database, key))?,
        Asked::Part(_, part) => draft.last_of(part)?,
    };
    let row = match change {
        Change::Put { value, expire_at_ms, .. } => Row::string(Value::copy_of(value), expire_at_ms),
        Change::Head { head, expire_at_ms, .. } => {
            Row::of_parts(Head::decode(head).expect("a head of this command"), expire_at_ms)
        }
        Change::Delete { .. } | Change::Cover { .. } => return Some(None),
    };
    Some(Some(row).filter(|_| lives(&change, now_ms)))
}

/// Whether `change` leaves something that exists at `now_ms`.
pub(super) fn lives(change: &Change<'_>, now_ms: u64) -> bool {
    match change {
        Change::Put { expire_at_ms, .. } | Change::Head { expire_at_ms, .. } => {
            expire_at_ms.is_none_or(|at| at > now_ms)
        }
        Change::Delete { .. } | Change::Cover { .. } => false,
    }
}
