//! What commands do to their keys, in Redis' words, for `COMMAND GETKEYSANDFLAGS`.
//!
//! The first word says how the command treats the value: `RO` reads it, `RW` reads and writes it, `OW` overwrites it
//! unseen, `RM` removes it. The other words say what becomes of the data in it: it is returned or used (`access`),
//! changed (`update`), it grows (`insert`), or it is gone (`delete`).

/// Redis' words for what is done to one key.
pub type Words = &'static [&'static str];

/// What a command does to its keys.
#[derive(Clone, Copy, Debug)]
pub enum KeyUse {
    /// It does the same to all of them.
    Each(Words),
    /// It does this to the first, the second, and so on. Keys behind the last entry are treated as that entry says.
    InTurn(&'static [Words]),
    /// It depends on whether one of `words`, in upper or lower case, is among its options.
    Option {
        /// How many words behind the first key are no options.
        values: usize,
        /// The words that decide.
        words: &'static [&'static str],
        /// What the command does if one of them is there.
        with: Words,
        /// What the command does otherwise.
        without: Words,
    },
}

impl KeyUse {
    /// What is done to the key at `position` (in the order of the keys) if `options` follow the first key.
    pub fn words<'a>(&self, position: usize, options: impl Iterator<Item = &'a [u8]>) -> Words {
        match *self {
            KeyUse::Each(words) => words,
            KeyUse::InTurn(turns) => turns.get(position).or(turns.last()).copied().unwrap_or_default(),
            KeyUse::Option { values, words, with, without } => {
                let is_one = |option: &[u8]| words.iter().any(|word| option.eq_ignore_ascii_case(word.as_bytes()));
                if options.skip(values).any(is_one) { with } else { without }
            }
        }
    }
}

/// There are no keys.
pub(super) const NOTHING: KeyUse = KeyUse::Each(&[]);
/// The command looks whether there is a value, and what it is like.
pub(super) const LOOK: KeyUse = KeyUse::Each(&["RO"]);
pub(super) const READ: KeyUse = KeyUse::Each(&["RO", "access"]);
/// The value is used, and changed.
pub(super) const CHANGE: KeyUse = KeyUse::Each(&["RW", "access", "update"]);
/// The value is changed, and its old state is not told.
pub(super) const UPDATE: KeyUse = KeyUse::Each(&["RW", "update"]);
pub(super) const EXTEND: KeyUse = KeyUse::Each(&["RW", "insert"]);
/// The value is read and removed.
pub(super) const TAKE: KeyUse = KeyUse::Each(&["RW", "access", "delete"]);
pub(super) const OVERWRITE: KeyUse = KeyUse::Each(&["OW", "update"]);
/// The value is made where there was none.
pub(super) const INSERT: KeyUse = KeyUse::Each(&["OW", "insert"]);
/// Some of the value's data is removed.
pub(super) const REMOVE: KeyUse = KeyUse::Each(&["RW", "delete"]);
pub(super) const DELETE: KeyUse = KeyUse::Each(&["RM", "delete"]);
/// The value is used, and may be written anew.
pub(super) const REFRESH: KeyUse = KeyUse::Each(&["RW", "access"]);

/// The first key takes the result of the others.
pub(super) const COMBINE: KeyUse = KeyUse::InTurn(&[&["OW", "update"], &["RO", "access"]]);
pub(super) const INTERSECT: KeyUse = KeyUse::InTurn(&[&["RW", "update"], &["RO", "access"]]);
pub(super) const MERGE: KeyUse = KeyUse::InTurn(&[&["RW", "access", "insert"], &["RO", "access"]]);
/// What the first key loses, the second gets.
pub(super) const HAND_OVER: KeyUse = KeyUse::InTurn(&[&["RW", "access", "delete"], &["RW", "insert"]]);
pub(super) const RENAME: KeyUse = KeyUse::InTurn(&[&["RW", "access", "delete"], &["OW", "update"]]);
pub(super) const RENAME_NX: KeyUse = KeyUse::InTurn(&[&["RW", "access", "delete"], &["OW", "insert"]]);
pub(super) const COPY: KeyUse = KeyUse::InTurn(&[&["RO", "access"], &["OW", "update"]]);

pub(super) const SET: KeyUse =
    KeyUse::Option { values: 1, words: &["GET"], with: &["RW", "access", "update"], without: &["OW", "update"] };
pub(super) const BITFIELD: KeyUse = KeyUse::Option {
    values: 0,
    words: &["SET", "INCRBY"],
    with: &["RW", "access", "update"],
    without: &["RO", "access"],
};
