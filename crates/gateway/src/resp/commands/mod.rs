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

use tokio::task::yield_now;
use weir_model::VALUE_BYTES_MAX;

use super::connection::Connection;
use super::error::{Error, NOT_AN_INTEGER, Outcome};
use super::number::parse_i64;
use crate::store::Store;

/// Keys that a command looks at or changes between two turns (S14). A turn ends with tokio's own `yield_now`: it lets the event loop
/// look for what others have sent, which one that only goes to the end of the queue does not.
const TURN_KEYS: usize = 1000;

/// Keys, or fields of a value, that a command can look at and change as one: they are one turn, however long it is.
const ONE_TURN_KEYS_MAX: usize = 10_000;

/// Words that a command compares with each of a list of ours.
const WORDS_MAX: usize = 1000;

/// To be called before the key number `index` is looked at: after [`TURN_KEYS`] of them others are served.
async fn end_turn(index: usize) {
    if index % TURN_KEYS == TURN_KEYS - 1 {
        yield_now().await;
    }
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
