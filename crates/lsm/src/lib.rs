//! One log-structured merge tree.

pub mod cursor;
pub mod entry;
