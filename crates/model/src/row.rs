//! Rows: a user's key and what it holds (XS-3).

use std::ops::Deref;

use crate::Value;
use crate::parts::{Head, RowType};

/// What a living key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it is.
    pub content: Content,
    /// First millisecond since 1970 at which the key no longer exists; `None` = it stays.
    pub expire_at_ms: Option<u64>,
}

/// What a row is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The bytes, shared with whoever has them in memory.
    String(Value),
    /// A row of many parts: what is known of them.
    Parts(Box<Head>),
}

/// A row that is a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StringRow {
    /// The bytes, shared with whoever has them in memory.
    pub value: Value,
    /// As of a [`Row`].
    pub expire_at_ms: Option<u64>,
}

impl From<StringRow> for Row {
    fn from(StringRow { value, expire_at_ms }: StringRow) -> Self {
        Self { content: Content::String(value), expire_at_ms }
    }
}

impl Row {
    /// A string.
    #[inline]
    pub fn string(value: Value, expire_at_ms: Option<u64>) -> Self {
        Self { content: Content::String(value), expire_at_ms }
    }

    /// A row of many parts, whose `head` was written with the deadline `stored_ms`.
    pub fn of_parts(head: Head, stored_ms: Option<u64>) -> Self {
        let expire_at_ms = head.row_ms(stored_ms);
        Self { content: Content::Parts(Box::new(head)), expire_at_ms }
    }

    /// When it is gone: a hash whose fields all expire, with the last of them.
    #[inline]
    pub fn end_ms(&self) -> Option<u64> {
        match &self.content {
            Content::String(_) => self.expire_at_ms,
            Content::Parts(head) => head.end_ms(self.expire_at_ms),
        }
    }

    /// The row as a string; `None` if it is none.
    #[inline]
    pub fn into_string(self) -> Option<StringRow> {
        match self.content {
            Content::String(value) => Some(StringRow { value, expire_at_ms: self.expire_at_ms }),
            Content::Parts(_) => None,
        }
    }

    /// The bytes of a string; `None` for a row of many parts.
    pub fn value(&self) -> Option<&Value> {
        match &self.content {
            Content::String(value) => Some(value),
            Content::Parts(_) => None,
        }
    }

    /// The type of a row of many parts; `None` for a string.
    pub fn kind(&self) -> Option<RowType> {
        self.head().map(|head| head.kind)
    }

    /// The head of a row of many parts; `None` for a string.
    pub fn head(&self) -> Option<&Head> {
        match &self.content {
            Content::String(_) => None,
            Content::Parts(head) => Some(head),
        }
    }

    /// Bytes of what stands at the row's key: the value of a string, about those of a head.
    #[inline]
    pub fn bytes(&self) -> usize {
        match &self.content {
            Content::String(value) => value.len(),
            Content::Parts(head) => {
                HEAD_BYTES + head.detail.len() + head.packed.as_ref().map_or(0, |packed| packed.as_bytes().len())
            }
        }
    }
}

/// Bytes of a head without its detail and its packed parts: a few less or more, as its numbers are.
const HEAD_BYTES: usize = 16;

/// Longer keys than this cost an allocation.
const SHORT_BYTES: usize = 127;

/// A user's key as engines know it: behind one byte with the number of its database. Short ones cost no allocation.
#[derive(Clone)]
pub struct StoredKey(Bytes);

#[derive(Clone)]
enum Bytes {
    Short([u8; SHORT_BYTES], usize),
    Long(Vec<u8>),
}

impl StoredKey {
    /// The key that a user knows as `key` in `database`.
    #[inline]
    pub fn new(database: u8, key: &[u8]) -> Self {
        Self::joined([&[database], key])
    }

    /// A key that is as engines know it already.
    pub fn of(stored: &[u8]) -> Self {
        Self::joined([&[], stored])
    }

    #[inline]
    fn joined([front, back]: [&[u8]; 2]) -> Self {
        let len = front.len() + back.len();
        if len > SHORT_BYTES {
            return Self(Bytes::Long([front, back].concat()));
        }
        let mut bytes = [0; SHORT_BYTES];
        bytes[..front.len()].copy_from_slice(front);
        bytes[front.len()..len].copy_from_slice(back);
        Self(Bytes::Short(bytes, len))
    }
}

impl Deref for StoredKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Short(bytes, len) => &bytes[..*len],
            Bytes::Long(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_every_length_stand_behind_their_database() {
        for len in [0, 1, SHORT_BYTES - 1, SHORT_BYTES, 1000] {
            let key = vec![7; len];
            let stored = [&[3], &key[..]].concat();
            assert_eq!(StoredKey::new(3, &key)[..], stored);
            assert_eq!(StoredKey::of(&stored)[..], stored);
        }
    }
}
