//! Reading: point look-ups, merges and scans over a view.

mod expected;
pub mod get;
pub mod level;
pub mod merge;
pub mod scan;
pub mod source;
pub mod view;
