//! A range of a sorted set in a client's words, and the stretch of the set's order that it stands for.

use crate::collection::{Collection, Stretch, above, place};
use crate::context::Context;
use crate::error::{Error, Outcome};
use crate::float::parse_end;
use crate::handlers::integer;

const NOT_SCORES: Error = Error::new("ERR min or max is not a float");
const NOT_NAMES: Error = Error::new("ERR min or max not valid string range item");

/// What the ends of a range are given by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Ranks from 0 on; negative ranks count from the end.
    Rank,
    /// Scores.
    Score,
    /// Names of members, all of which have to have the same score.
    Name,
}

/// An end of a range of scores.
#[derive(Clone, Copy, Debug)]
pub struct ScoreEnd {
    score: f64,
    is_excluded: bool,
}

/// An end of a range of names.
#[derive(Clone, Copy, Debug)]
pub enum NameEnd<'a> {
    /// In front of all names.
    First,
    /// Behind all names.
    Last,
    /// A name, and whether it is excluded.
    Name(&'a [u8], bool),
}

impl NameEnd<'_> {
    /// Whether `member` is in front of a range that begins at this end.
    fn is_above(self, member: &[u8]) -> bool {
        match self {
            Self::First => false,
            Self::Last => true,
            Self::Name(name, is_excluded) => member < name || (is_excluded && member == name),
        }
    }

    /// Whether nothing is between this end and `end`, whatever the scores are.
    fn is_behind(self, end: NameEnd<'_>) -> bool {
        match (self, end) {
            (Self::Name(from, from_excluded), NameEnd::Name(to, to_excluded)) => {
                from > to || (from == to && (from_excluded || to_excluded))
            }
            (Self::Last, _) | (_, NameEnd::First) => true,
            (Self::First, _) | (_, NameEnd::Last) => false,
        }
    }

    /// Whether `member` is behind a range that ends at this end.
    fn is_below(self, member: &[u8]) -> bool {
        match self {
            Self::First => true,
            Self::Last => false,
            Self::Name(name, is_excluded) => member > name || (is_excluded && member == name),
        }
    }
}

/// A range.
#[derive(Clone, Copy, Debug)]
pub enum Range<'a> {
    /// From one rank to another, which is included.
    Ranks(i64, i64),
    /// From one score to another.
    Scores(ScoreEnd, ScoreEnd),
    /// From one name to another.
    Names(NameEnd<'a>, NameEnd<'a>),
}

fn score_end(word: &[u8]) -> Outcome<ScoreEnd> {
    let (text, is_excluded) = match word {
        [b'(', text @ ..] => (text, true),
        text => (text, false),
    };
    Ok(ScoreEnd { score: parse_end(text).ok_or(NOT_SCORES)?, is_excluded })
}

fn name_end(word: &[u8]) -> Outcome<NameEnd<'_>> {
    // As in C, a NUL ends the word.
    let (&first, name) = word.split_first().ok_or(NOT_NAMES)?;
    match first {
        b'-' if matches!(name, [] | [0, ..]) => Ok(NameEnd::First),
        b'+' if matches!(name, [] | [0, ..]) => Ok(NameEnd::Last),
        b'[' => Ok(NameEnd::Name(name, false)),
        b'(' => Ok(NameEnd::Name(name, true)),
        _ => Err(NOT_NAMES),
    }
}

/// The place where the members with this score begin.
fn begin_of(score: f64) -> Vec<u8> {
    place(score, b"")
}

/// The place where the members with a larger score begin.
fn end_of(score: f64) -> Vec<u8> {
    let begin = begin_of(score);
    let bits = begin.first_chunk().map_or(u64::MAX, |bits| u64::from_be_bytes(*bits));
    // Even above infinity there is a place: that of a NaN.
    (bits + 1).to_be_bytes().into()
}

/// The stretch that has no members.
const NONE: Stretch = Stretch { from: Vec::new(), to: Some(Vec::new()) };

impl<'a> Range<'a> {
    /// The range from `min` to `max`. Both are in this order even if the range is gone through backwards.
    ///
    /// # Errors
    /// The words are no range.
    pub fn parse(by: By, min: &'a [u8], max: &'a [u8]) -> Outcome<Self> {
        Ok(match by {
            By::Rank => Self::Ranks(integer(min)?, integer(max)?),
            By::Score => Self::Scores(score_end(min)?, score_end(max)?),
            By::Name => Self::Names(name_end(min)?, name_end(max)?),
        })
    }

    /// The first of the ranks that it asks for, and the one behind the last, among `len` members. They ascend even if
    /// ranks are counted from the end (`reverse`). `None` if the range is empty, or is no range of ranks.
    pub fn ranks(self, len: u64, reverse: bool) -> Option<(u64, u64)> {
        let Self::Ranks(start, stop) = self else { return None };
        let (first, end) = ranks(start, stop, len)?;
        Some(if reverse { (len - end, len - first) } else { (first, end) })
    }

    /// The stretch of `zset` that the range stands for; with `reverse`, ranks are counted from the end.
    ///
    /// # Errors
    /// The set cannot be read.
    pub async fn stretch(self, cx: &mut Context<'_>, zset: &Collection<'_>, reverse: bool) -> Outcome<Stretch> {
        match self {
            Self::Ranks(..) => match self.ranks(zset.len(), reverse) {
                None => Ok(NONE),
                Some((first, end)) => zset.stretch_of_ranks(cx, first, end).await,
            },
            Self::Scores(min, max) => {
                let from = if min.is_excluded { end_of(min.score) } else { begin_of(min.score) };
                let to = if max.is_excluded { begin_of(max.score) } else { end_of(max.score) };
                Ok(ordered(from, Some(to)))
            }
            Self::Names(min, max) if min.is_behind(max) => Ok(NONE),
            Self::Names(min, max) => {
                let (first, last) = (zset.outermost(cx, false).await?, zset.outermost(cx, true).await?);
                let (Some(first), Some(last)) = (first, last) else { return Ok(NONE) };
                // If scores differ, names have no order that can be searched. Redis at least returns nothing if the
                // outermost members are on the wrong sides of the range, and so does Weir.
                if min.is_above(&last.name) || max.is_below(&first.name) {
                    return Ok(NONE);
                }
                let from = match min {
                    NameEnd::Name(name, false) => place(first.score, name),
                    NameEnd::Name(name, true) => above(place(first.score, name)),
                    NameEnd::First | NameEnd::Last => Vec::new(),
                };
                let to = match max {
                    NameEnd::Name(name, false) => Some(above(place(last.score, name))),
                    NameEnd::Name(name, true) => Some(place(last.score, name)),
                    NameEnd::First | NameEnd::Last => None,
                };
                Ok(ordered(from, to))
            }
        }
    }
}

fn ordered(from: Vec<u8>, to: Option<Vec<u8>>) -> Stretch {
    if to.as_ref().is_some_and(|to| *to <= from) { NONE } else { Stretch { from, to } }
}

/// The first of the ranks from `start` to `stop`, and the one behind the last, among `len` members; `None` if there are
/// none.
fn ranks(start: i64, stop: i64, len: u64) -> Option<(u64, u64)> {
    let signed = i64::try_from(len).unwrap_or(i64::MAX);
    let from_front = |rank: i64| if rank < 0 { rank.saturating_add(signed) } else { rank };
    let (start, stop) = (from_front(start).max(0), from_front(stop).min(signed - 1));
    (start <= stop).then(|| (start as u64, stop as u64 + 1))
}
