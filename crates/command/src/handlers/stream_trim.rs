//! The words of `XADD` in front of its fields, and those of `XTRIM`: how a stream is trimmed.

use super::integer;
use super::stream_ids::{self, NewId};
use crate::args::Args;
use crate::collection::{Keep, Trim};
use crate::error::{Error, Outcome, SYNTAX};

const BOTH: Error = Error::new("ERR syntax error, MAXLEN and MINID options at the same time are not compatible");
const MAXLEN: Error = Error::new("ERR The MAXLEN argument must be >= 0.");
const LIMIT: Error = Error::new("ERR The LIMIT argument must be >= 0.");
const LIMIT_ALONE: Error = Error::new("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy");
const LIMIT_EXACT: Error = Error::new("ERR syntax error, LIMIT cannot be used without the special ~ option");
const NO_STRATEGY: Error = Error::new("ERR syntax error, XTRIM must be called with a trimming strategy");

/// Most entries that an approximate trim without a limit removes, as in Redis: in nodes; in entries, if all entries are
/// in one node; and in entries, however long nodes are.
const LIMIT_NODES: u64 = 100;
const LIMIT_OF_ONE: u64 = 10_000;
const LIMIT_MAX: u64 = 1_000_000;

/// Most entries that an approximate trim without a limit removes if a node has `node` entries.
fn usual_limit(node: u64) -> u64 {
    if node == 0 { LIMIT_OF_ONE } else { node.saturating_mul(LIMIT_NODES).min(LIMIT_MAX) }
}

/// The options of an `XADD`.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The id that the entry is to have.
    pub id: NewId,
    /// Nothing is done if there is no stream.
    pub makes_none: bool,
    /// How the stream is trimmed afterwards.
    pub trim: Option<Trim>,
    /// The position of the fields.
    pub end: usize,
}

/// What was read of the words so far.
#[derive(Default)]
struct Words {
    keep: Option<Keep>,
    is_approximate: bool,
    limit: Option<u64>,
}

impl Words {
    /// Reads the option at `place`; gives the position of the next one, or `None` if the option is not about trimming.
    fn take(&mut self, args: Args<'_>, place: usize) -> Outcome<Option<usize>> {
        let is =
            |place: usize, name: &str| args.get(place).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()));
        let has_more = args.len() > place + 1;
        let is_len = is(place, "MAXLEN");
        if has_more && (is_len || is(place, "MINID")) {
            // As in Redis, this is also the answer if one of them is given twice.
            if self.keep.is_some() {
                return Err(BOTH);
            }
            let has_sign = args.len() > place + 2 && (is(place + 1, "~") || is(place + 1, "="));
            self.is_approximate = has_sign && is(place + 1, "~");
            let value = place + 1 + usize::from(has_sign);
            self.keep = Some(if is_len {
                Keep::Last(u64::try_from(integer(args.at(value))?).map_err(|_| MAXLEN)?)
            } else {
                Keep::From(stream_ids::exact(args.at(value), 0)?)
            });
            return Ok(Some(value + 1));
        }
        if has_more && is(place, "LIMIT") {
            self.limit = Some(u64::try_from(integer(args.at(place + 1))?).map_err(|_| LIMIT)?);
            return Ok(Some(place + 2));
        }
        Ok(None)
    }

    /// Gives the trim that the words ask for, or the error that Redis names first.
    fn trim(self, is_needed: bool, node: u64) -> Outcome<Option<Trim>> {
        let Self { keep, is_approximate, limit } = self;
        match (keep, limit) {
            (None, Some(1..)) => return Err(LIMIT_ALONE),
            (None, _) if is_needed => return Err(NO_STRATEGY),
            (_, Some(_)) if !is_approximate => return Err(LIMIT_EXACT),
            _ => {}
        }
        // 0 = all.
        let limit =
            if is_approximate { Some(limit.unwrap_or(usual_limit(node))).filter(|&limit| limit > 0) } else { None };
        Ok(keep.map(|keep| Trim { keep, is_approximate, limit }))
    }
}

impl Options {
    /// The options in the words of an `XADD`, where a node has `node` entries.
    ///
    /// # Errors
    /// The words are wrong.
    pub fn of_xadd(args: Args<'_>, node: u64) -> Outcome<Self> {
        let (mut words, mut makes_none, mut place) = (Words::default(), false, 2);
        while let Some(word) = args.get(place) {
            if word == b"*" {
                return Ok(Self { id: NewId::ByClock, makes_none, trim: words.trim(false, node)?, end: place + 1 });
            }
            if let Some(next) = words.take(args, place)? {
                place = next;
            } else if word.eq_ignore_ascii_case(b"NOMKSTREAM") {
                makes_none = true;
                place += 1;
            } else {
                let id = stream_ids::new_id(word)?;
                return Ok(Self { id, makes_none, trim: words.trim(false, node)?, end: place + 1 });
            }
        }
        // There is no id, and so there are no fields.
        Ok(Self { id: NewId::ByClock, makes_none, trim: words.trim(false, node)?, end: args.len() })
    }
}

/// How an `XTRIM` trims, where a node has `node` entries.
///
/// # Errors
/// The words are wrong.
pub fn of_xtrim(args: Args<'_>, node: u64) -> Outcome<Trim> {
    let (mut words, mut place) = (Words::default(), 2);
    while place < args.len() {
        place = words.take(args, place)?.ok_or(SYNTAX)?;
    }
    words.trim(true, node)?.ok_or(NO_STRATEGY)
}
