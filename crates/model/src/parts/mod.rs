//! Rows of many parts: hashes, lists, sets, sorted sets, streams. Their bytes are described in `docs/format/rows.md`.
//!
//! - A row's [`Head`] stands at the row's own key, where a string has its value, and describes the row.
//! - A small row stands in its head as a whole ([`Packed`]).
//! - The parts of a larger row have keys of their own, in a region of the tree that has no heads. These keys begin with
//!   the row's [version](Head), which a partition gives out once. So a read never meets a part of an earlier life, and
//!   a row is renamed by its head alone.
//! - A *cover* in front of the parts of a life says that they are dead. So a row of a million parts is deleted by two
//!   changes; merges drop the covered parts, and reads need not know of covers.

pub mod audit;
pub mod fields;
mod head;
mod key;
pub mod list;
mod order_detail;
mod packed;
mod placed;
mod shape;
pub mod stream;
mod stream_shape;
mod subkey;
mod tally;

pub use fields::{HashDetail, MortalFields};
pub use head::{DETAIL_BYTES_MAX, Head, HeadRef, RowType, VERSION_MAX};
pub use key::{
    COVER_KEY_BYTES, ELEMENT_SPACE, Life, PART_KEY_BYTES_MAX, Part, SPACES, SUBKEY_BYTES_MAX, cover_end, cover_key,
    cover_value, covered_bytes, is_part, version_of,
};
pub use order_detail::{ORDER_BOUND_BYTES_MAX, OrderDetail, OrderEnds};
pub use packed::{Packed, PackedPart, PackedSearch};
pub use placed::{PLACE_BYTES, is_placed, moved_subkey, place_of, placed};
pub use shape::{Mapped, NotARow, Shape, scored};
pub use stream_shape::{GroupShape, StreamShape};
pub use subkey::{
    UnorderedNumber, ordered_i64, put_bytes, put_f64, put_i64, put_u64, score_of, score_value, take_bytes, take_f64,
    take_i64, take_u64,
};
pub use tally::{Bucket, DamagedTally, Recounted, TALLY_LEVELS_MAX, Tally, TallyBucket, tally_space};
