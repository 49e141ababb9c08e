//! Reads dump files as streams: never more than one piece of one key is in memory.

mod cut;
mod file;
mod input;
#[cfg(test)]
mod tests;

pub use cut::Part;
pub use file::{Dump, Item, Key, Value, WHOLE_BYTES_MAX};
pub use input::{Bytes, FileBytes, Input};
