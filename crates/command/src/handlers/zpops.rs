//! Taking members from an end of a sorted set.

use super::integer;
use super::zranges::{begin, tell};
use super::zsets::zset;
use crate::args::Args;
use crate::collection::{AT_ONCE_BYTES_MAX, Collection, Scored, Stretch, TOO_MANY_AT_ONCE, weight};
use crate::context::Context;
use crate::error::{Error, Outcome, SYNTAX};
use crate::keyword::lower;
use crate::room::Room;
use crate::turn::end_turn;

const NOT_POSITIVE: Error = Error::new("ERR value is out of range, must be positive");
const NO_KEYS: Error = Error::new("ERR numkeys should be greater than 0");
const NO_COUNT: Error = Error::new("ERR count should be greater than 0");

/// Room for the members that a command takes out.
fn room_to_take(cx: &Context<'_>) -> Room {
    cx.room(AT_ONCE_BYTES_MAX, TOO_MANY_AT_ONCE)
}

/// Takes out up to `count` members of `zset`, the row of `key`, the last ones first if `from_end` is set.
async fn take(
    cx: &mut Context<'_>,
    key: &[u8],
    mut zset: Collection<'_>,
    from_end: bool,
    count: u64,
    room: &mut Room,
) -> Outcome<Vec<Scored>> {
    let count = usize::try_from(count.min(zset.len())).unwrap_or(usize::MAX);
    let takes_all = count as u64 == zset.len();
    let (mut taken, mut left) = (Vec::new(), Some(Stretch::ALL));
    while let Some(stretch) = left.take_if(|_| taken.len() < count) {
        let missing = count - taken.len();
        // Also reads the next member, which is the outermost one afterwards.
        let (mut members, rest) = zset.scored_page(cx, stretch, from_end, missing.saturating_add(1)).await?;
        let next = if members.len() > missing { members.pop() } else { None };
        room.take(members.iter().map(|member| weight(&member.name)).sum())?;
        if !takes_all {
            zset.remove_scored(cx, &members, next.as_ref()).await?;
            zset.count_some(cx).await?;
        }
        taken.extend(members);
        left = rest;
        cx.end_step(left.is_some() && taken.len() < count).await;
    }
    if takes_all {
        cx.delete(key)?
    } else {
        cx.save_sorted(&mut zset).await?
    }
    Ok(taken)
}

async fn pop(cx: &mut Context<'_>, args: Args<'_>, from_end: bool) -> Outcome {
    if args.len() > 3 {
        return Err(SYNTAX);
    }
    let count = match args.get(2) {
        Some(word) => Some(u64::try_from(integer(word).map_err(|_| NOT_POSITIVE)?).map_err(|_| NOT_POSITIVE)?),
        None => None,
    };
    let zset = zset(cx, args.at(1)).await?;
    let Some(zset) = zset.filter(|_| count != Some(0)) else {
        cx.replies().array(0);
        return Ok(());
    };
    let mut room = room_to_take(cx);
    let members = take(cx, args.at(1), zset, from_end, count.unwrap_or(1), &mut room).await?;
    if count.is_none() {
        // In both protocols, one member and its score are a flat answer.
        cx.replies().array(2 * members.len());
        for member in &members {
            cx.replies().bulk(&member.name);
            cx.tell_f64(member.score);
        }
        return Ok(());
    }
    begin(cx.replies(), members.len(), true);
    tell(cx, &members, true);
    Ok(())
}

pub async fn zpopmin(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop(cx, args, false).await
}

pub async fn zpopmax(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop(cx, args, true).await
}

/// Which end, and how many members: the words behind the keys of a `ZMPOP`, from word `at` on.
fn end_and_count(args: Args<'_>, at: usize) -> Outcome<(bool, u64)> {
    let from_end = match lower(args.get(at).ok_or(SYNTAX)?).as_slice() {
        b"min" => false,
        b"max" => true,
        _ => return Err(SYNTAX),
    };
    let (mut count, mut words) = (None, args.iter_from(at + 1));
    while let Some(word) = words.next() {
        let value = words.next().filter(|_| count.is_none() && word.eq_ignore_ascii_case(b"COUNT")).ok_or(SYNTAX)?;
        count = Some(positive(value).ok_or(NO_COUNT)?);
    }
    Ok((from_end, count.unwrap_or(1)))
}

fn positive(word: &[u8]) -> Option<u64> {
    u64::try_from(integer(word).ok()?).ok().filter(|&number| number > 0)
}

pub async fn zmpop(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    zmpop_from(cx, args, 1).await?;
    Ok(())
}

/// Takes out the member at an end of the sorted set of `key`, for a command that may wait for it; `None` if there is
/// none.
pub(super) async fn pop_first(cx: &mut Context<'_>, key: &[u8], from_end: bool) -> Outcome<Option<Scored>> {
    let found = zset(cx, key).await;
    let Some(zset) = cx.or_pass_over(found)? else { return Ok(None) };
    let mut room = room_to_take(cx);
    Ok(take(cx, key, zset, from_end, 1, &mut room).await?.pop())
}

/// Runs the words of a `ZMPOP` from word `at` on, which is the number of its keys; `false` if all sets are empty.
pub(super) async fn zmpop_from(cx: &mut Context<'_>, args: Args<'_>, at: usize) -> Outcome<bool> {
    let keys = positive(args.at(at)).ok_or(NO_KEYS)?;
    let first = at + 1;
    let behind = usize::try_from(keys).unwrap_or(usize::MAX).saturating_add(first);
    let (from_end, count) = end_and_count(args, behind)?;
    for (index, key) in args.iter_from(first).take(behind - first).enumerate() {
        end_turn(cx.yields(), index).await;
        let found = zset(cx, key).await;
        let Some(zset) = cx.or_pass_over(found)? else { continue };
        let mut room = room_to_take(cx);
        let members = take(cx, key, zset, from_end, count, &mut room).await?;
        let replies = cx.replies();
        replies.array(2);
        replies.bulk(key);
        replies.array(members.len());
        for member in &members {
            cx.replies().array(2);
            cx.replies().bulk(&member.name);
            cx.tell_f64(member.score);
        }
        return Ok(true);
    }
    cx.replies().null_array();
    Ok(false)
}
