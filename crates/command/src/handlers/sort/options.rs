//! The words behind `SORT key`.

use std::ops::Range;

use super::Pattern;
use crate::args::Args;
use crate::error::{Outcome, SYNTAX};
use crate::handlers::integer;
use crate::keyword::upper;

/// What elements are sorted by.
pub(super) enum By<'a> {
    /// The elements keep the order that they have.
    Nothing,
    /// The elements themselves.
    Itself {
        /// The elements are compared as text, and not as numbers.
        alpha: bool,
    },
    /// What another key says.
    Other {
        /// The pattern that names that key.
        pattern: Pattern<'a>,
        /// As in [`By::Itself`].
        alpha: bool,
    },
}

/// What a `SORT` asks for.
pub(super) struct Options<'a> {
    pub(super) by: By<'a>,
    pub(super) descending: bool,
    /// The number of the first element that is answered, and how many are; all if that is negative.
    limit: (i64, i64),
    /// What is answered for each element; if this is empty, the element itself.
    pub(super) get: Vec<Pattern<'a>>,
    pub(super) store: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    pub(super) fn parse(args: Args<'a>, may_store: bool) -> Outcome<Self> {
        let (mut by, mut alpha) = (None, false);
        let mut options = Self { by: By::Nothing, descending: false, limit: (0, -1), get: Vec::new(), store: None };
        let mut is_sorted = true;
        let mut words = args.iter_from(2);
        while let Some(word) = words.next() {
            match upper(word).as_slice() {
                b"ASC" => options.descending = false,
                b"DESC" => options.descending = true,
                b"ALPHA" => alpha = true,
                b"LIMIT" => {
                    let (start, count) = (words.next().ok_or(SYNTAX)?, words.next().ok_or(SYNTAX)?);
                    options.limit = (integer(start)?, integer(count)?);
                }
                b"STORE" if may_store => options.store = Some(words.next().ok_or(SYNTAX)?),
                b"BY" => {
                    let pattern = Pattern::new(words.next().ok_or(SYNTAX)?);
                    // A pattern that names the same key for all elements leaves their order alone, whatever follows.
                    is_sorted &= pattern.has_star();
                    by = Some(pattern);
                }
                b"GET" => options.get.push(Pattern::new(words.next().ok_or(SYNTAX)?)),
                _ => return Err(SYNTAX),
            }
        }
        options.by = match by {
            _ if !is_sorted => By::Nothing,
            Some(pattern) => By::Other { pattern, alpha },
            None => By::Itself { alpha },
        };
        Ok(options)
    }

    /// Whether the command reads other keys.
    pub(super) fn names_others(&self) -> bool {
        matches!(self.by, By::Other { .. }) || self.get.iter().any(|pattern| pattern.has_star())
    }

    /// The numbers of the elements that are answered, out of `len`.
    pub(super) fn range(&self, len: u64) -> Range<usize> {
        let len = len as usize;
        let (start, count) = self.limit;
        let start = usize::try_from(start).unwrap_or(0).min(len);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        start..start.saturating_add(count).min(len)
    }
}
