//! The types of values in dump files: the byte in front of each.

#![allow(missing_docs, reason = "the names say it")]

pub const STRING: u8 = 0;
pub const LIST: u8 = 1;
pub const SET: u8 = 2;
/// With scores as text.
pub const SORTED_SET: u8 = 3;
pub const HASH: u8 = 4;
/// With scores in binary.
pub const SORTED_SET_2: u8 = 5;
/// Of a module, in a form that only it can read.
pub const MODULE: u8 = 6;
/// Of a module, in a form that others can skip.
pub const MODULE_2: u8 = 7;
pub const HASH_ZIPMAP: u8 = 9;
pub const LIST_ZIPLIST: u8 = 10;
pub const SET_INTSET: u8 = 11;
pub const SORTED_SET_ZIPLIST: u8 = 12;
pub const HASH_ZIPLIST: u8 = 13;
/// Several ziplists, one behind the other.
pub const QUICKLIST: u8 = 14;
/// What Redis 5 and 6 write: without what was deleted and read.
pub const STREAM_LISTPACKS: u8 = 15;
pub const HASH_LISTPACK: u8 = 16;
pub const SORTED_SET_LISTPACK: u8 = 17;
/// Several listpacks, or values alone, one behind the other.
pub const QUICKLIST_2: u8 = 18;
/// What is written, by Redis 7.0 and here.
pub const STREAM_LISTPACKS_2: u8 = 19;
/// By Redis 7.2, as is the next one.
pub const SET_LISTPACK: u8 = 20;
/// With the moment at which each consumer last got something.
pub const STREAM_LISTPACKS_3: u8 = 21;
/// A hash whose fields have deadlines, since 7.4: the first deadline, then of each field how much later its own is, and
/// one more, or 0 where it has none; the field; the value.
pub const HASH_METADATA: u8 = 24;
/// The same in a listpack: field, value, deadline or 0. The first deadline is in front of it, too.
pub const HASH_LISTPACK_EX: u8 = 25;
