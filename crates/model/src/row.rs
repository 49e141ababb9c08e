//! Rows: a user's key and the content it holds (XS-3).

use crate::Value;
use crate::parts::{Head, RowType};

/// The content of a living key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The string, or the head.
    pub content: Content,
    /// First millisecond since 1970 at which the key no longer exists; `None` = it does not expire.
    pub expire_at_ms: Option<u64>,
}

/// The content of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The bytes, shared with the memory that holds them.
    String(Value),
    /// A row of many parts: its head.
    Parts(Box<Head>),
}

/// A row that is a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StringRow {
    /// The bytes, shared with the memory that holds them.
    pub value: Value,
    /// As in a [`Row`].
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

    /// A row of many parts; its `head` was written with the deadline `stored_ms`.
    pub fn of_parts(head: Head, stored_ms: Option<u64>) -> Self {
        let expire_at_ms = head.row_ms(stored_ms);
        Self { content: Content::Parts(Box::new(head)), expire_at_ms }
    }

    /// When the row is gone. A hash whose fields all expire goes with the last of them.
    #[inline]
    pub fn end_ms(&self) -> Option<u64> {
        match &self.content {
            Content::String(_) => self.expire_at_ms,
            Content::Parts(head) => head.end_ms(self.expire_at_ms),
        }
    }

    /// The row as a string; `None` if it is not one.
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

    /// Bytes of the content at the row's key: of a string its value, of a head about its bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        match &self.content {
            Content::String(value) => value.len(),
            Content::Parts(head) => head.stored_bytes(),
        }
    }

    /// About how many bytes the row has in all, with the parts of a row of many parts.
    pub fn bytes_with_parts(&self) -> u64 {
        match &self.content {
            Content::String(value) => value.len() as u64,
            Content::Parts(head) => head.bytes_with_parts(),
        }
    }
}
