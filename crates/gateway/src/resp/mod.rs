//! The Redis protocol, from bytes to bytes.
//!
//! `input` receives, `parse` finds requests, `table` finds the command, `commands` serve it, `reply` gathers what is
//! written back; `connection` runs the round.

mod ahead;
mod bill;
pub(crate) mod client;
mod commands;
pub(crate) mod connection;
pub(crate) mod cursors;
mod error;
mod extended;
pub mod frame;
mod glob;
mod in_hand;
mod inline;
mod input;
mod number;
mod parse;
#[cfg(test)]
mod parse_tests;
pub(crate) mod pause;
#[cfg(test)]
pub(crate) mod polled;
mod rdb;
pub mod reply;
pub(crate) mod slow_replies;
pub(crate) mod slowlog;
pub mod table;

pub use parse::parse;
