//! Patterns of Lua 5.1, for `string.find` and its kin.
//!
//! The library that Lua comes with cannot be interrupted, and fills the thread's stack: a pattern of a few bytes that
//! tries one way after the other would hold a thread for years, and a long one would end the process. This one counts
//! its steps, and keeps what it has to come back to on the heap, in as many places as the pattern has items.
//!
//! | | |
//! |---|---|
//! | [`parse`] | a pattern as a list of items |
//! | [`find`] | where they match |
//! | [`functions`] | what scripts call |

mod find;
mod functions;
mod parse;
#[cfg(test)]
mod tests;

pub(crate) use functions::put;
