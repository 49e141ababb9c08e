//! What commands on hashes, sets and sorted sets have in common: stepping through members.

use weir_model::parts::RowType;

use super::integer;
use crate::args::Args;
use crate::collection::{Collection, Member};
use crate::context::Context;
use crate::error::{Error, INVALID_CURSOR, Outcome, SYNTAX};
use crate::glob::{self, Glob};
use crate::number::parse_u64;
use crate::reply::Replies;

/// Most members that one step looks at, whatever its `COUNT` is: the client is told where to go on.
const SCAN_MEMBERS_MAX: usize = 10_000;

/// How a client steps through the members of a row: `NAME key cursor [MATCH pattern] [COUNT count]`.
struct ScanOptions {
    pattern: Option<Glob>,
    count: usize,
}

impl ScanOptions {
    fn parse(args: Args<'_>) -> Outcome<Self> {
        let mut options = Self { pattern: None, count: 10 };
        let mut words = args.iter_from(3);
        while let Some(word) = words.next() {
            let value = words.next().ok_or(SYNTAX)?;
            if word.eq_ignore_ascii_case(b"MATCH") {
                options.pattern = Some(glob::checked(value)?).filter(|pattern| pattern != b"*").map(Glob::new);
            } else if word.eq_ignore_ascii_case(b"COUNT") {
                options.count = usize::try_from(integer(value)?).ok().filter(|&count| count > 0).ok_or(SYNTAX)?;
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(options)
    }
}

/// How many members are wanted; negative if members may repeat.
///
/// # Errors
/// The word is no number, or has no positive counterpart.
pub fn signed_count(word: &[u8]) -> Outcome<i64> {
    const OUT_OF_RANGE: Error =
        Error::new("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807");
    integer(word).and_then(|count| if count == i64::MIN { Err(OUT_OF_RANGE) } else { Ok(count) })
}

/// Answers a step through the members of the row at word 1, which has to be of the type `kind`. Each member is answered
/// with its name, and with the `extra` elements that `tell` writes. As in Redis, the options are not checked if there
/// is no such row.
///
/// # Errors
/// The words are wrong; the row is of another type, or cannot be read.
pub async fn scan(
    cx: &mut Context<'_>,
    args: Args<'_>,
    kind: RowType,
    extra: usize,
    tell: impl Fn(&mut Replies, &Member),
) -> Outcome {
    scan_of(cx, args, kind, extra, |replies, member, _| tell(replies, member)).await
}

/// As [`scan`], with a `tell` that also gets the row.
///
/// # Errors
/// As [`scan`].
pub async fn scan_of(
    cx: &mut Context<'_>,
    args: Args<'_>,
    kind: RowType,
    extra: usize,
    tell: impl Fn(&mut Replies, &Member, &Collection<'_>),
) -> Outcome {
    let cursor = parse_u64(args.at(2)).ok_or(INVALID_CURSOR)?;
    let Some(row) = cx.collection(args.at(1), kind).await? else {
        cx.replies().array(2);
        cx.replies().bulk(b"0");
        cx.replies().array(0);
        return Ok(());
    };
    let options = ScanOptions::parse(args)?;
    // A number that no step has returned leads to the end, or near it.
    let from = u32::try_from(cursor).unwrap_or(u32::MAX);
    let page = row.members_from(cx, from, options.count.min(SCAN_MEMBERS_MAX)).await?;
    let mut turn = glob::Turn::new(cx.yields());
    let mut found = Replies::default();
    found.protocol = cx.replies().protocol;
    let mut count = 0;
    for member in &page.members {
        let is_found = match &options.pattern {
            None => true,
            Some(pattern) => pattern.matches_in_turns(&member.name, &mut turn).await,
        };
        if is_found {
            found.bulk(&member.name);
            tell(&mut found, member, &row);
            count += 1;
        }
    }
    cx.replies().array(2);
    cx.replies().bulk(page.next.unwrap_or(0).to_string().as_bytes());
    cx.replies().array(count * (1 + extra));
    cx.replies().append(found);
    Ok(())
}
