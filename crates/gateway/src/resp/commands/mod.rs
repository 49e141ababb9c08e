//! What the commands do, one file per family.

pub(super) mod client;
pub(super) mod config;
pub(super) mod connection;
pub(super) mod expiry;
pub(super) mod hello;
pub(super) mod info;
pub(super) mod introspect;
pub(super) mod keys;
pub(super) mod numbers;
pub(super) mod ranges;
pub(super) mod scan;
pub(super) mod strings;

use super::error::{NOT_AN_INTEGER, Outcome};
use super::number::parse_i64;

/// A whole number among the arguments.
fn integer(arg: &[u8]) -> Outcome<i64> {
    parse_i64(arg).ok_or(NOT_AN_INTEGER)
}
