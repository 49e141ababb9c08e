//! What commands do to their keys, in Redis' words, for `COMMAND GETKEYSANDFLAGS`.
//!
//! The first word says how the value is met: `RO` is read, `RW` is read and written, `OW` is overwritten unseen, `RM`
//! is removed. Those behind it say what becomes of its data: it is returned or used (`access`), changed (`update`),
//! grows (`insert`), or is gone (`delete`).

/// Redis' words for what is done to one key.
pub type Words = &'static [&'static str];

/// What a command does to its keys.
#[derive(Clone, Copy, Debug)]
pub enum KeyUse {
    /// The same to all of them.
    Each(Words),
    /// To the first, the second and so on; to those behind the last what is done to that.
    InTurn(&'static [Words]),
    /// It depends on whether one of `words`, in any case, is among its options.
    Option {
        /// Words behind the first key that are no options.
        values: usize,
        /// Such words.
        words: &'static [&'static str],
        /// What it does with one of them.
        with: Words,
        /// And without.
        without: Words,
    },
}

impl KeyUse {
    /// What is done to the key at `position` (in the order of the keys) where `options` stand behind the first key.
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
/// Whether there is a value, and what it is like.
pub(super) const LOOK: KeyUse = KeyUse::Each(&["RO"]);
pub(super) const READ: KeyUse = KeyUse::Each(&["RO", "access"]);
/// Its value counts, and is changed.
pub(super) const CHANGE: KeyUse = KeyUse::Each(&["RW", "access", "update"]);
/// Changed, without a word about what it was.
pub(super) const UPDATE: KeyUse = KeyUse::Each(&["RW", "update"]);
pub(super) const EXTEND: KeyUse = KeyUse::Each(&["RW", "insert"]);
/// Read and gone.
pub(super) const TAKE: KeyUse = KeyUse::Each(&["RW", "access", "delete"]);
pub(super) const OVERWRITE: KeyUse = KeyUse::Each(&["OW", "update"]);
/// Made, where there was none.
pub(super) const INSERT: KeyUse = KeyUse::Each(&["OW", "insert"]);
/// Some of its data goes.
pub(super) const REMOVE: KeyUse = KeyUse::Each(&["RW", "delete"]);
pub(super) const DELETE: KeyUse = KeyUse::Each(&["RM", "delete"]);
/// Its value counts, and may be written anew.
pub(super) const REFRESH: KeyUse = KeyUse::Each(&["RW", "access"]);

/// The first takes the result of the others.
pub(super) const COMBINE: KeyUse = KeyUse::InTurn(&[&["OW", "update"], &["RO", "access"]]);
pub(super) const INTERSECT: KeyUse = KeyUse::InTurn(&[&["RW", "update"], &["RO", "access"]]);
pub(super) const MERGE: KeyUse = KeyUse::InTurn(&[&["RW", "access", "insert"], &["RO", "access"]]);
/// What the first loses the second gets.
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
