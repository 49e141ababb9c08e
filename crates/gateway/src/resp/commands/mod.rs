//! What the commands do, one file per family.

pub(super) mod acl;
pub(super) mod bitfield;
pub(super) mod bitmap;
pub(super) mod client;
pub(super) mod cluster;
pub(super) mod config;
pub(super) mod connection;
pub(super) mod diagnose;
pub(super) mod dump;
pub(super) mod expiry;
pub(super) mod hello;
pub(super) mod info;
pub(super) mod introspect;
pub(super) mod keys;
mod kill;
pub(super) mod lcs;
mod modes;
pub(super) mod moves;
pub(super) mod numbers;
pub(super) mod object;
pub(super) mod ranges;
pub(super) mod scan;
pub(super) mod sort;
pub(super) mod strings;
pub(super) mod transactions;

use tokio::task::yield_now;
use weir_model::VALUE_BYTES_MAX;

use super::connection::Connection;
use super::error::{Error, NOT_AN_INTEGER, Outcome};
use super::number::parse_i64;
use super::table::Command;
use crate::store::Store;

/// Keys that a command looks at or changes between two turns (S14). A turn ends with tokio's own `yield_now`: it lets the event loop
/// look for what others have sent, which one that only goes to the end of the queue does not.
const TURN_KEYS: usize = 1000;

/// Keys, or fields of a value, that a command can look at and change as one: they are one turn, however long it is.
const ONE_TURN_KEYS_MAX: usize = 10_000;

/// Words that a command compares with each of a list of ours.
const WORDS_MAX: usize = 1000;

/// Words of a command that does not name many keys or fields: options, which are gone through in one piece.
const OPTION_WORDS_MAX: usize = 2048;

/// More than the longest word that means something.
const KEYWORD_BYTES_MAX: usize = 24;

/// To be called before the key number `index` is looked at: after [`TURN_KEYS`] of them others are served.
pub(super) async fn end_turn(index: usize) {
    if index % TURN_KEYS == TURN_KEYS - 1 {
        yield_now().await;
    }
}

/// Refuses more words than `command` can mean anything by: whatever there are, they are gone through in one piece.
pub(super) fn check_options(command: &Command, count: usize) -> Outcome {
    if count <= OPTION_WORDS_MAX || command.takes_many() {
        return Ok(());
    }
    let name = command.name.to_uppercase();
    Err(Error::bytes(format!("ERR {name} takes at most {OPTION_WORDS_MAX} words").into_bytes()))
}

/// A word that may be one of the protocol's. One that is too long is none, and is not looked at: a client may send words of many megabytes.
#[derive(Default)]
pub(super) struct Keyword {
    bytes: [u8; KEYWORD_BYTES_MAX],
    len: usize,
}

impl Keyword {
    fn of(word: &[u8], change: impl Fn(&u8) -> u8) -> Self {
        let mut keyword = Self::default();
        if word.len() <= KEYWORD_BYTES_MAX {
            keyword.bytes.iter_mut().zip(word).for_each(|(byte, from)| *byte = change(from));
            keyword.len = word.len();
        }
        keyword
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// `word` in small letters.
pub(super) fn lower(word: &[u8]) -> Keyword {
    Keyword::of(word, u8::to_ascii_lowercase)
}

/// `word` in capitals.
fn upper(word: &[u8]) -> Keyword {
    Keyword::of(word, u8::to_ascii_uppercase)
}

/// Refuses more than [`WORDS_MAX`] `words` (what they are called) of `command`.
fn check_words(count: usize, command: &str, words: &str) -> Outcome {
    if count <= WORDS_MAX {
        return Ok(());
    }
    Err(Error::bytes(format!("ERR {command} takes at most {WORDS_MAX} {words} at a time").into_bytes()))
}

/// A whole number among the arguments.
fn integer(arg: &[u8]) -> Outcome<i64> {
    parse_i64(arg).ok_or(NOT_AN_INTEGER)
}

/// The longest value a client may build up: the same as it may send at once.
fn value_bytes_max<S: Store>(connection: &Connection<S>) -> usize {
    connection.server.settings.limits.bulk_bytes_max.min(VALUE_BYTES_MAX)
}
