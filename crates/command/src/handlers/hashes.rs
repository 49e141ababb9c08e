//! Hashes: fields with values.

use weir_model::parts::RowType;

use super::members::signed_count;
use super::numbers::EXTENDED_FRACTIONS;
use super::{integer, members};
use crate::args::Args;
use crate::collection::{Collection, Member, room_to_choose};
use crate::context::Context;
use crate::error::{Error, NOT_A_FLOAT, NOT_A_NUMBER, Outcome, SYNTAX, WOULD_OVERFLOW};
use crate::extended::Extended;
use crate::number::{parse_i64, push_i64};
use crate::reply::{Protocol, Replies};
use crate::turn::end_turn;

const HASH_NOT_AN_INTEGER: Error = Error::new("ERR hash value is not an integer");
const HASH_NOT_A_FLOAT: Error = Error::new("ERR hash value is not a float");
const NOT_FINITE: Error = Error::new("ERR value is NaN or Infinity");
const OUT_OF_RANGE: Error = Error::new("ERR value is out of range");

pub(super) async fn hash<'k>(cx: &mut Context<'_>, key: &'k [u8]) -> Outcome<Option<Collection<'k>>> {
    cx.collection(key, RowType::Hash).await
}

/// Redis keeps a hash in one piece up to this many fields, and bytes of each field and value, by its defaults.
const SMALL_FIELDS: u64 = 128;
const SMALL_BYTES: usize = 64;

/// Puts `value` at `field`, in the place of `before`, which may have expired already.
pub(super) fn put(
    cx: &mut Context<'_>,
    hash: &mut Collection<'_>,
    before: Option<&Member>,
    field: &[u8],
    value: &[u8],
    expire_at_ms: Option<u64>,
) -> Outcome {
    if field.len().max(value.len()) > SMALL_BYTES || hash.len() + u64::from(before.is_none()) > SMALL_FIELDS {
        hash.note_large();
    }
    hash.put_field(cx, before, field, value, expire_at_ms)
}

/// Puts the fields and values from word 2 on; gives how many fields are new.
async fn put_all(cx: &mut Context<'_>, args: Args<'_>, name: &str) -> Outcome<i64> {
    if !args.len().is_multiple_of(2) {
        return Err(Error::arity(name));
    }
    let mut hash = cx.collection_or_new(args.at(1), RowType::Hash).await?;
    let (now_ms, mut new) = (cx.now_ms(), 0);
    for (index, (field, value)) in args.iter_from(2).step_by(2).zip(args.iter_from(3).step_by(2)).enumerate() {
        end_turn(cx.yields(), index).await;
        let old = hash.field(cx, field).await?;
        new += i64::from(!old.as_ref().is_some_and(|old| old.lives(now_ms)));
        put(cx, &mut hash, old.as_ref(), field, value, None)?;
    }
    cx.save_hash(&mut hash).await?;
    Ok(new)
}

pub async fn hset(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let new = put_all(cx, args, "hset").await?;
    cx.replies().integer(new);
    Ok(())
}

pub async fn hmset(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    put_all(cx, args, "hmset").await?;
    cx.replies().ok();
    Ok(())
}

pub async fn hsetnx(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut hash = cx.collection_or_new(args.at(1), RowType::Hash).await?;
    let now_ms = cx.now_ms();
    let old = hash.field(cx, args.at(2)).await?;
    let is_new = !old.as_ref().is_some_and(|old| old.lives(now_ms));
    if is_new {
        put(cx, &mut hash, old.as_ref(), args.at(2), args.at(3), None)?;
        cx.save_hash(&mut hash).await?;
    }
    cx.replies().integer(i64::from(is_new));
    Ok(())
}

/// The field and its value, if there is a hash that has it.
async fn value_of(cx: &mut Context<'_>, hash: Option<&Collection<'_>>, field: &[u8]) -> Outcome<Option<Member>> {
    match hash {
        Some(hash) => hash.member(cx, field).await,
        None => Ok(None),
    }
}

pub async fn hget(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match cx.value_of_member(args.at(1), RowType::Hash, args.at(2)).await? {
        Some(value) => cx.replies().bulk_value(value),
        None => cx.replies().null(),
    }
    Ok(())
}

pub async fn hmget(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let hash = hash(cx, args.at(1)).await?;
    cx.replies().array(args.len() - 2);
    for (index, field) in args.iter_from(2).enumerate() {
        end_turn(cx.yields(), index).await;
        match value_of(cx, hash.as_ref(), field).await? {
            Some(member) => cx.replies().bulk_value(member.value),
            None => cx.replies().null(),
        }
        cx.drain().await?;
    }
    Ok(())
}

pub async fn hexists(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let found = cx.value_of_member(args.at(1), RowType::Hash, args.at(2)).await?;
    cx.replies().integer(i64::from(found.is_some()));
    Ok(())
}

pub async fn hstrlen(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let found = cx.value_of_member(args.at(1), RowType::Hash, args.at(2)).await?;
    cx.replies().integer(found.map_or(0, |value| value.len()) as i64);
    Ok(())
}

pub async fn hlen(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let hash = counted(cx, args.at(1)).await?;
    cx.replies().integer(hash.map_or(0, |hash| hash.len()) as i64);
    Ok(())
}

pub async fn hdel(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Some(mut hash) = hash(cx, args.at(1)).await? else {
        cx.replies().integer(0);
        return Ok(());
    };
    let mut gone = 0;
    for (index, field) in args.iter_from(2).enumerate() {
        end_turn(cx.yields(), index).await;
        if let Some(member) = hash.member(cx, field).await? {
            hash.remove_field(cx, &member)?;
            gone += 1;
        }
    }
    cx.save_hash(&mut hash).await?;
    cx.replies().integer(gone);
    Ok(())
}

/// The hash of `key`, with its expired fields counted, so that it knows how many fields it has.
async fn counted<'k>(cx: &mut Context<'_>, key: &'k [u8]) -> Outcome<Option<Collection<'k>>> {
    let mut hash = hash(cx, key).await?;
    if let Some(hash) = &mut hash {
        hash.count_expired(cx).await?;
    }
    Ok(hash)
}

pub async fn hgetall(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let hash = counted(cx, args.at(1)).await?;
    cx.replies().map(hash.as_ref().map_or(0, Collection::len) as usize);
    if let Some(hash) = hash {
        let tell = |replies: &mut Replies, field: &[u8], value: &[u8]| {
            replies.bulk(field);
            replies.bulk(value);
        };
        hash.tell_members(cx, tell).await?;
    }
    Ok(())
}

pub async fn hkeys(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let hash = counted(cx, args.at(1)).await?;
    cx.replies().array(hash.as_ref().map_or(0, Collection::len) as usize);
    match hash {
        Some(hash) => hash.tell_members(cx, |replies, field, _| replies.bulk(field)).await,
        None => Ok(()),
    }
}

pub async fn hvals(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let hash = counted(cx, args.at(1)).await?;
    cx.replies().array(hash.as_ref().map_or(0, Collection::len) as usize);
    match hash {
        Some(hash) => hash.tell_members(cx, |replies, _, value| replies.bulk(value)).await,
        None => Ok(()),
    }
}

/// Puts `value` at `field`, in the place of `before`. The field keeps its deadline, unless it has expired.
async fn replace(
    cx: &mut Context<'_>,
    hash: &mut Collection<'_>,
    before: Option<&Member>,
    field: &[u8],
    value: &[u8],
) -> Outcome {
    let now_ms = cx.now_ms();
    let kept = before.and_then(|member| member.expire_at_ms).filter(|&at| at > now_ms);
    put(cx, hash, before, field, value, kept)?;
    cx.save_hash(hash).await
}

pub async fn hincrby(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let increment = integer(args.at(3))?;
    let mut hash = cx.collection_or_new(args.at(1), RowType::Hash).await?;
    let (now_ms, before) = (cx.now_ms(), hash.field(cx, args.at(2)).await?);
    let old = match before.as_ref().filter(|member| member.lives(now_ms)) {
        Some(member) => parse_i64(&member.value).ok_or(HASH_NOT_AN_INTEGER)?,
        None => 0,
    };
    let sum = old.checked_add(increment).ok_or(WOULD_OVERFLOW)?;
    let mut value = Vec::with_capacity(20);
    push_i64(&mut value, sum);
    replace(cx, &mut hash, before.as_ref(), args.at(2), &value).await?;
    cx.replies().integer(sum);
    Ok(())
}

pub async fn hincrbyfloat(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let increment = Extended::parse(args.at(3)).ok_or(NOT_A_FLOAT)?;
    // An increment that is not finite is refused before there is anything to add it to.
    if Extended::ZERO.plus(increment).is_none() {
        return Err(NOT_FINITE);
    }
    let mut hash = cx.collection_or_new(args.at(1), RowType::Hash).await?;
    let (now_ms, before) = (cx.now_ms(), hash.field(cx, args.at(2)).await?);
    let old = match before.as_ref().filter(|member| member.lives(now_ms)) {
        Some(member) => Extended::parse(&member.value).ok_or(HASH_NOT_A_FLOAT)?,
        None => Extended::ZERO,
    };
    let sum = old.plus(increment).ok_or(NOT_A_NUMBER)?.to_text();
    cx.fractions(EXTENDED_FRACTIONS);
    replace(cx, &mut hash, before.as_ref(), args.at(2), &sum).await?;
    cx.replies().bulk(&sum);
    Ok(())
}

/// Random fields: without a number, one field; with a number, that many different fields; with a negative number, that
/// many fields that may repeat. In RESP3, each field with its value is an array of its own.
pub async fn hrandfield(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Some(word) = args.get(2) else {
        let hash = hash(cx, args.at(1)).await?;
        let member = match &hash {
            Some(hash) => hash.random_member(cx).await?,
            None => None,
        };
        match member {
            Some(member) => cx.replies().bulk(&member.name),
            None => cx.replies().null(),
        }
        return Ok(());
    };
    let count = signed_count(word)?;
    let with_values = match args.get(3) {
        None => false,
        Some(word) if args.len() == 4 && word.eq_ignore_ascii_case(b"WITHVALUES") => true,
        Some(_) => return Err(SYNTAX),
    };
    if with_values && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
        return Err(OUT_OF_RANGE);
    }
    let hash = counted(cx, args.at(1)).await?;
    let Some(hash) = hash.filter(|_| count != 0) else {
        cx.replies().array(0);
        return Ok(());
    };
    let is_paired = with_values && cx.replies().protocol == Protocol::Resp3;
    let tell = |replies: &mut Replies, member: &Member| {
        if is_paired {
            replies.array(2);
        }
        replies.bulk(&member.name);
        if with_values {
            replies.bulk(&member.value);
        }
    };
    let elements = |count: usize| if with_values && !is_paired { count * 2 } else { count };
    if count > 0 {
        let mut room = room_to_choose(cx);
        let members = hash.random_members(cx, count as u64, &mut room).await?;
        cx.replies().array(elements(members.len()));
        for member in &members {
            tell(cx.replies(), member);
            cx.drain().await?;
        }
        return Ok(());
    }
    let count = usize::try_from(count.unsigned_abs()).map_err(|_| OUT_OF_RANGE)?;
    cx.replies().array(elements(count));
    for index in 0..count {
        end_turn(cx.yields(), index).await;
        if let Some(member) = hash.random_member(cx).await? {
            tell(cx.replies(), &member);
        }
        cx.drain().await?;
    }
    Ok(())
}

pub async fn hscan(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    members::scan(cx, args, RowType::Hash, 1, |replies, field| replies.bulk(&field.value)).await
}
