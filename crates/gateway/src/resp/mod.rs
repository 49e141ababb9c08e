//! The Redis protocol, from bytes to bytes.
//!
//! `input` receives bytes, `parse` finds requests in them, and the table of `weir-command` has the commands. A command
//! is run by `commands`, or by the store that has its rows, and `outbox` sends the answer. `session` is the state that
//! earlier commands have left, and `connection` runs the rounds.

mod ahead;
mod alone;
pub(crate) mod client;
mod commands;
pub(crate) mod connection;
mod cost;
pub(crate) mod cursors;
pub mod frame;
pub(crate) mod hints;
mod inline;
mod input;
pub(crate) mod latency_monitor;
mod monitored;
mod outbox;
mod parse;
#[cfg(test)]
mod parse_tests;
mod part;
pub(crate) mod pause;
pub(crate) mod percentiles;
mod rights;
mod session;
pub(crate) mod slow_replies;
pub(crate) mod slowlog;
mod ticket;
mod tracked;
mod transaction;

pub(crate) use outbox::YIELD;
pub use parse::parse;
