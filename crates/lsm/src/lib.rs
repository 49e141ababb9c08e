//! One log-structured merge tree.

pub mod cache;
pub mod cursor;
pub mod entry;
pub mod memtable;
pub mod table;
pub mod value;
