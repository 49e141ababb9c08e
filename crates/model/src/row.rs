//! Rows: a user's key and what it holds (XS-3).

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
            Content::Parts(head) => head.stored_bytes(),
        }
    }
}
