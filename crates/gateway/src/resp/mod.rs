//! The Redis protocol, from bytes to bytes.
//!
//! `input` receives, `parse` finds requests, the table of `weir-command` has the command, it is run by `commands` or by
//! the store that has its rows, `outbox` tells what it has answered; `session` is what a client has said before,
//! `connection` runs the round.

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
