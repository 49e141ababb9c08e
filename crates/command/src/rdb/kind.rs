//! The types of values in dump files: the byte in front of each.

#![allow(missing_docs, reason = "the names say it")]

pub const STRING: u8 = 0;
pub const LIST: u8 = 1;
pub const SET: u8 = 2;
/// A sorted set with scores as text.
pub const SORTED_SET: u8 = 3;
pub const HASH: u8 = 4;
/// A sorted set with binary scores.
pub const SORTED_SET_2: u8 = 5;
/// A value of a module, in a form that only the module can read.
pub const MODULE: u8 = 6;
/// A value of a module, in a form that others can skip.
pub const MODULE_2: u8 = 7;
pub const HASH_ZIPMAP: u8 = 9;
pub const LIST_ZIPLIST: u8 = 10;
pub const SET_INTSET: u8 = 11;
pub const SORTED_SET_ZIPLIST: u8 = 12;
pub const HASH_ZIPLIST: u8 = 13;
/// Several ziplists, one behind the other.
pub const QUICKLIST: u8 = 14;
/// A stream as Redis 5 and 6 write it: without what is known of deleted and read entries.
pub const STREAM_LISTPACKS: u8 = 15;
pub const HASH_LISTPACK: u8 = 16;
pub const SORTED_SET_LISTPACK: u8 = 17;
/// Several listpacks, or single values, one behind the other.
pub const QUICKLIST_2: u8 = 18;
/// A stream as Redis 7.0 and Weir write it.
pub const STREAM_LISTPACKS_2: u8 = 19;
/// Written by Redis 7.2, as is the next one.
pub const SET_LISTPACK: u8 = 20;
/// A stream with the moment at which each consumer last got something.
pub const STREAM_LISTPACKS_3: u8 = 21;
/// A hash whose fields have deadlines, since 7.4. It begins with the first deadline. Then follow for each field: how
/// much later its own deadline is, plus one, or 0 if it has none; the field; the value.
pub const HASH_METADATA: u8 = 24;
/// The same in a listpack: field, value, and deadline or 0 for each field. The first deadline is in front of it, too.
pub const HASH_LISTPACK_EX: u8 = 25;
