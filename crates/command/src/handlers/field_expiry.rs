//! When fields of hashes expire: `HEXPIRE`, `HTTL` and their kin.

use super::expiry::{Conditions, Unit};
use super::hashes::hash;
use super::integer;
use crate::args::Args;
use crate::collection::{Collection, Member};
use crate::context::Context;
use crate::error::{Error, Outcome};
use crate::events::Classes;
use crate::number::parse_i64;
use crate::rdb::FIELD_DEADLINE_MS_MAX;
use crate::turn::end_turn;

const NO_FIELDS: Error = Error::new("ERR Mandatory argument FIELDS is missing or not at the right position");
const NO_COUNT: Error = Error::new("ERR Parameter `numFields` should be greater than 0");
/// What all other commands on fields say in the place of `NO_COUNT`.
pub(super) const COUNT_NOT_POSITIVE: Error = Error::new("ERR Number of fields must be a positive integer");
const WRONG_COUNT: Error = Error::new("ERR The `numfields` parameter must match the number of arguments");
pub(super) const NEGATIVE: Error = Error::new("ERR invalid expire time, must be >= 0");

/// There is no such field, or no such hash.
const NO_FIELD: i64 = -2;
/// The field lives as long as its row.
const NO_DEADLINE: i64 = -1;

/// What has become of a field.
const NOT_MET: i64 = 0;
const DONE: i64 = 1;
const GONE: i64 = 2;

/// The position of the fields, which follow `FIELDS numfields` at word `at`. Each field is `words_each` words, and
/// nothing may follow the last.
///
/// # Errors
/// The words are different; the two errors are what Redis says about the number.
pub(super) fn fields_at(
    args: Args<'_>,
    at: usize,
    words_each: usize,
    no_count: &Error,
    wrong_count: &Error,
) -> Outcome<usize> {
    if !args.get(at).is_some_and(|word| word.eq_ignore_ascii_case(b"FIELDS")) {
        return Err(NO_FIELDS);
    }
    let count = args.get(at + 1).and_then(parse_i64).and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|&count| count > 0).ok_or_else(|| no_count.clone())?;
    let begin = at + 2;
    let words = count.checked_mul(words_each);
    if words != Some(args.len().saturating_sub(begin)) { Err(wrong_count.clone()) } else { Ok(begin) }
}

/// The deadline that `time` stands for, in milliseconds since 1970.
pub(super) fn deadline(unit: Unit, time: i64, now_ms: u64, command: &'static str) -> Outcome<i64> {
    let at = unit.absolute_ms(time, now_ms).filter(|&at| at <= FIELD_DEADLINE_MS_MAX as i64);
    at.ok_or_else(|| Error::expire(command))
}

/// Answers for each field of `hash` from word `begin` on with what `tell` says about it.
async fn tell_each(
    cx: &mut Context<'_>,
    hash: Option<Collection<'_>>,
    args: Args<'_>,
    begin: usize,
    tell: impl Fn(&Member) -> i64,
) -> Outcome {
    cx.replies().array(args.len() - begin);
    for (index, name) in args.iter_from(begin).enumerate() {
        end_turn(cx.yields(), index).await;
        let field = match &hash {
            Some(hash) => hash.member(cx, name).await?,
            None => None,
        };
        cx.replies().integer(field.as_ref().map_or(NO_FIELD, &tell));
        cx.drain().await?;
    }
    Ok(())
}

async fn expire_in(cx: &mut Context<'_>, args: Args<'_>, unit: Unit, command: &'static str) -> Outcome {
    let found = hash(cx, args.at(1)).await?;
    let time = integer(args.at(2))?;
    if time < 0 {
        return Err(NEGATIVE);
    }
    let new = deadline(unit, time, cx.clock_ms(), command)?;
    let (conditions, at) = match Conditions::of(args.at(3)) {
        Some(conditions) => (conditions, 4),
        None => (Conditions::default(), 3),
    };
    let begin = fields_at(args, at, 1, &NO_COUNT, &WRONG_COUNT)?;
    cx.replies().array(args.len() - begin);
    let Some(mut hash) = found else {
        args.iter_from(begin).for_each(|_| cx.replies().integer(NO_FIELD));
        return Ok(());
    };
    let new_ms = u64::try_from(new).ok().filter(|&at| at > cx.now_ms());
    let mut is_changed = false;
    for (index, name) in args.iter_from(begin).enumerate() {
        end_turn(cx.yields(), index).await;
        let reply = match hash.member(cx, name).await? {
            None => NO_FIELD,
            Some(field) if !conditions.allow(field.expire_at_ms, new) => NOT_MET,
            Some(field) if new_ms.is_none() => {
                hash.remove_field(cx, &field)?;
                GONE
            }
            Some(field) => {
                hash.put_field(cx, Some(&field), name, &field.value, new_ms)?;
                DONE
            }
        };
        is_changed |= matches!(reply, DONE | GONE);
        cx.replies().integer(reply);
    }
    if is_changed {
        cx.tell(Classes::HASH, if new_ms.is_some() { "hexpire" } else { "hdel" }, args.at(1));
    }
    cx.save_hash(&mut hash).await
}

pub async fn hexpire(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    expire_in(cx, args, Unit::InSeconds, "hexpire").await
}

pub async fn hpexpire(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    expire_in(cx, args, Unit::InMillis, "hpexpire").await
}

pub async fn hexpireat(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    expire_in(cx, args, Unit::AtSeconds, "hexpireat").await
}

pub async fn hpexpireat(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    expire_in(cx, args, Unit::AtMillis, "hpexpireat").await
}

pub async fn hpersist(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let found = hash(cx, args.at(1)).await?;
    let begin = fields_at(args, 2, 1, &COUNT_NOT_POSITIVE, &WRONG_COUNT)?;
    cx.replies().array(args.len() - begin);
    let Some(mut hash) = found else {
        args.iter_from(begin).for_each(|_| cx.replies().integer(NO_FIELD));
        return Ok(());
    };
    let mut is_changed = false;
    for (index, name) in args.iter_from(begin).enumerate() {
        end_turn(cx.yields(), index).await;
        let reply = match hash.member(cx, name).await? {
            None => NO_FIELD,
            Some(field) if field.expire_at_ms.is_none() => NO_DEADLINE,
            Some(field) => {
                hash.put_field(cx, Some(&field), name, &field.value, None)?;
                DONE
            }
        };
        is_changed |= reply == DONE;
        cx.replies().integer(reply);
    }
    if is_changed {
        cx.tell(Classes::HASH, "hpersist", args.at(1));
    }
    cx.save_hash(&mut hash).await
}

/// Answers with times that are computed from the deadlines of fields and the current time, both in milliseconds since
/// 1970.
async fn times_of(cx: &mut Context<'_>, args: Args<'_>, time: impl Fn(i64, i64) -> i64) -> Outcome {
    // As in Redis, the type of the key's value is checked before the rest of the words.
    let hash = hash(cx, args.at(1)).await?;
    let begin = fields_at(args, 2, 1, &COUNT_NOT_POSITIVE, &WRONG_COUNT)?;
    let now_ms = cx.clock_ms() as i64;
    let tell = |field: &Member| match field.expire_at_ms {
        None => NO_DEADLINE,
        Some(at) => time(i64::try_from(at).unwrap_or(i64::MAX), now_ms),
    };
    tell_each(cx, hash, args, begin, tell).await
}

/// `millis`, which is not negative, in seconds; a fraction of a second counts as a whole one.
fn seconds(millis: i64) -> i64 {
    (millis as u64).div_ceil(1000) as i64
}

pub async fn httl(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    times_of(cx, args, |at, now| seconds((at - now).max(0))).await
}

pub async fn hpttl(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    times_of(cx, args, |at, now| (at - now).max(0)).await
}

pub async fn hexpiretime(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    times_of(cx, args, |at, _| seconds(at)).await
}

pub async fn hpexpiretime(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    times_of(cx, args, |at, _| at).await
}
