//! The handlers of the commands on rows, one file for each family.

pub mod bitfield;
pub mod bitmap;
pub mod blocking;
pub mod dump;
pub mod expiry;
pub mod field_expiry;
pub mod field_values;
pub mod geo;
pub mod geosearch;
pub mod hashes;
pub mod hyperloglogs;
pub mod keys;
pub mod lcs;
pub mod list_moves;
pub mod list_search;
pub mod lists;
pub mod members;
pub mod memory;
pub mod moves;
pub mod numbers;
pub mod object;
pub mod ranges;
pub mod scan;
pub mod set_operations;
pub mod sets;
pub mod sort;
pub mod stream_claims;
pub mod stream_groups;
pub mod stream_ids;
pub mod stream_info;
pub mod stream_reads;
pub mod stream_replies;
pub mod stream_restore;
pub mod stream_trim;
pub mod streams;
pub mod strings;
pub mod zcombine;
pub mod zpops;
pub mod zrange;
pub mod zranges;
pub mod zsets;

pub use weir_model::DATABASES;

use crate::error::{DB_INDEX, Error, NOT_AN_INTEGER, Outcome};
use crate::number::parse_i64;

/// What `TYPE` calls a string.
const STRING: &str = "string";

/// Most keys, or fields of a value, that a command looks at and changes at once. They are one turn, however long it
/// takes.
const ONE_TURN_KEYS_MAX: usize = 10_000;

/// The whole number that `word` is.
///
/// # Errors
/// It is no whole number.
pub fn integer(word: &[u8]) -> Outcome<i64> {
    parse_i64(word).ok_or(NOT_AN_INTEGER)
}

/// The database number that `word` is.
///
/// # Errors
/// There is no such database.
pub fn database(word: &[u8]) -> Outcome<u8> {
    let number = integer(word)?;
    if i32::try_from(number).is_err() {
        return Err(Error::new("ERR value is out of range, value must between -2147483648 and 2147483647"));
    }
    u8::try_from(number).ok().filter(|&number| number < DATABASES).ok_or(DB_INDEX)
}
