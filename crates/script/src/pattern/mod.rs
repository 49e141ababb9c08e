//! Patterns of Lua 5.1, for `string.find` and its kin.
//!
//! Lua's own library cannot be interrupted, and fills the thread's stack: a pattern of a few bytes that tries one way
//! after the other would hold a thread for years, and a long one would end the process. This implementation counts its
//! steps. It keeps the places to come back to on the heap, and there are at most as many of them as the pattern has
//! items.
//!
//! | | |
//! |---|---|
//! | [`parse`] | a pattern as a list of items |
//! | [`find`] | where items match |
//! | [`functions`] | the functions that scripts call |

mod find;
mod functions;
mod parse;
#[cfg(test)]
mod tests;

pub(crate) use functions::put;
