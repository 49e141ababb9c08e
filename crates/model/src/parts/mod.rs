//! Rows of many parts: hashes, lists, sets, sorted sets, streams. Their bytes are described in `docs/format/rows.md`.
//!
//! - A row's [`Head`] stands at the row's own key, where a string has its value, and says what the row is.
//! - Its parts are keys of their own, in a region of the tree that no head is in. Each has the row's [version](Head) in
//!   its key, and a row that is made anew gets a larger one: so a read never meets a part of an earlier life.
//! - A *cover* in front of a row's parts says below which version they are dead. So a row of a million parts goes by
//!   two changes; merges drop what is covered, and reads need not know of covers.

mod head;
mod key;
mod shape;
mod subkey;

pub use head::{DETAIL_BYTES_MAX, Head, RowType, VERSION_MAX};
pub use key::{
    COVER_BYTES, Life, PART_KEY_BYTES_MAX, Part, below, cover_key, cover_value, is_part, prefix_end, prefix_of,
};
pub use shape::{Mapped, NotARow, Shape};
pub use subkey::{UnorderedNumber, put_bytes, put_f64, put_i64, put_u64, take_bytes, take_f64, take_i64, take_u64};
