//! Lists: values in the order in which they were added.

use std::ops::Range;

use weir_model::Value;
use weir_model::parts::RowType;

use super::integer;
use crate::args::Args;
use crate::collection::{Collection, End, Walk};
use crate::context::Context;
use crate::error::{Error, NO_SUCH_KEY, Outcome, SYNTAX};
use crate::events::Classes;

const INDEX: Error = Error::new("ERR index out of range");
const NOT_POSITIVE: Error = Error::new("ERR value is out of range, must be positive");

/// The list of `key`.
pub(super) async fn list<'k>(cx: &mut Context<'_>, key: &'k [u8]) -> Outcome<Option<Collection<'k>>> {
    cx.collection(key, RowType::List).await
}

/// Pushes the words from number 2 on at an end, one after the other. If there is no list, makes one only if `makes` is
/// set.
async fn push(cx: &mut Context<'_>, args: Args<'_>, end: End, makes: bool) -> Outcome {
    let mut list = cx.collection_or_new(args.at(1), RowType::List).await?;
    if makes || !list.is_empty() {
        list.push_values(cx, end, args.iter_from(2)).await?;
        cx.save(&mut list)?;
    }
    cx.replies().integer(list.len() as i64);
    Ok(())
}

pub async fn lpush(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    push(cx, args, End::Front, true).await
}

pub async fn rpush(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    push(cx, args, End::Back, true).await
}

pub async fn lpushx(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    push(cx, args, End::Front, false).await
}

pub async fn rpushx(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    push(cx, args, End::Back, false).await
}

/// Takes out one value at an end; or as many as word 2 says, which are answered as an array.
async fn pop(cx: &mut Context<'_>, args: Args<'_>, end: End, name: &str) -> Outcome {
    if args.len() > 3 {
        return Err(Error::arity(name));
    }
    let count = match args.get(2) {
        None => None,
        Some(word) => Some(integer(word).ok().and_then(|count| u64::try_from(count).ok()).ok_or(NOT_POSITIVE)?),
    };
    let Some(mut list) = list(cx, args.at(1)).await? else {
        match count {
            None => cx.replies().null(),
            Some(_) => cx.replies().null_array(),
        }
        return Ok(());
    };
    let Some(count) = count else {
        let value = list.pop_value(cx, end).await?;
        cx.save(&mut list)?;
        tell_or_null(cx, value);
        return Ok(());
    };
    let values = list.pop_values(cx, end, count).await?;
    if count > 0 {
        cx.save(&mut list)?;
    }
    tell_all(cx, values);
    Ok(())
}

fn tell_or_null(cx: &mut Context<'_>, value: Option<Value>) {
    match value {
        Some(value) => cx.replies().bulk_value(value),
        None => cx.replies().null(),
    }
}

pub(super) fn tell_all(cx: &mut Context<'_>, values: Vec<Value>) {
    let replies = cx.replies();
    replies.array(values.len());
    values.into_iter().for_each(|value| replies.bulk_value(value));
}

pub async fn lpop(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop(cx, args, End::Front, "lpop").await
}

pub async fn rpop(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop(cx, args, End::Back, "rpop").await
}

pub async fn llen(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let len = cx.head(args.at(1), RowType::List).await?.map_or(0, |(head, _)| head.count);
    cx.replies().integer(len as i64);
    Ok(())
}

/// The number of the value that a client calls `index`, which counts from the end if it is negative; `None` if there is
/// no such value.
fn resolve(index: i64, len: u64) -> Option<u64> {
    let index = if index < 0 { len.checked_sub(index.unsigned_abs())? } else { index as u64 };
    (index < len).then_some(index)
}

/// The numbers from `first` to `last`, both of which count from the end if they are negative.
fn resolve_range(first: i64, last: i64, len: u64) -> Range<u64> {
    let from_front = |index: i64| if index < 0 { index.saturating_add_unsigned(len) } else { index };
    let start = u64::try_from(from_front(first)).unwrap_or(0);
    let end = u64::try_from(from_front(last).saturating_add(1)).unwrap_or(0).min(len);
    start..end.max(start)
}

pub async fn lrange(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (first, last) = (integer(args.at(2))?, integer(args.at(3))?);
    let Some(list) = list(cx, args.at(1)).await? else {
        cx.replies().array(0);
        return Ok(());
    };
    let range = resolve_range(first, last, list.len());
    cx.replies().array((range.end - range.start) as usize);
    list.tell_values(cx, range).await
}

pub async fn lindex(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Some(list) = list(cx, args.at(1)).await? else {
        cx.replies().null();
        return Ok(());
    };
    let value = match resolve(integer(args.at(2))?, list.len()) {
        Some(index) => Some(list.value(cx, index).await?),
        None => None,
    };
    tell_or_null(cx, value);
    Ok(())
}

pub async fn lset(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut list = list(cx, args.at(1)).await?.ok_or(NO_SUCH_KEY)?;
    let index = resolve(integer(args.at(2))?, list.len()).ok_or(INDEX)?;
    let before = list.value(cx, index).await?;
    list.set_value(cx, index, &before, args.at(3)).await?;
    cx.save(&mut list)?;
    cx.replies().ok();
    Ok(())
}

/// The number of the first value that is equal to `element`.
async fn find(cx: &mut Context<'_>, list: &Collection<'_>, element: &[u8]) -> Outcome<Option<u64>> {
    let mut walk = Walk::new(0..list.len(), false);
    while !walk.is_done() {
        let numbers = walk.numbers();
        for (index, value) in numbers.zip(list.some_values(cx, &mut walk).await?) {
            if value[..] == *element {
                return Ok(Some(index));
            }
        }
        cx.yields().now().await;
    }
    Ok(None)
}

pub async fn linsert(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let behind = match args.at(2) {
        word if word.eq_ignore_ascii_case(b"AFTER") => 1,
        word if word.eq_ignore_ascii_case(b"BEFORE") => 0,
        _ => return Err(SYNTAX),
    };
    let len = match list(cx, args.at(1)).await? {
        None => 0,
        Some(mut list) => match find(cx, &list, args.at(3)).await? {
            None => -1,
            Some(pivot) => {
                list.insert_value(cx, pivot + behind, args.at(4)).await?;
                cx.save(&mut list)?;
                list.len() as i64
            }
        },
    };
    cx.replies().integer(len);
    Ok(())
}

pub async fn lrem(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let count = integer(args.at(2))?;
    let removed = match list(cx, args.at(1)).await? {
        None => 0,
        Some(mut list) => {
            let limit = if count == 0 { u64::MAX } else { count.unsigned_abs() };
            let removed = list.remove_equal(cx, args.at(3), limit, count < 0).await?;
            cx.save(&mut list)?;
            removed
        }
    };
    cx.replies().integer(removed as i64);
    Ok(())
}

pub async fn ltrim(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (first, last) = (integer(args.at(2))?, integer(args.at(3))?);
    if let Some(mut list) = list(cx, args.at(1)).await? {
        // Told even if all values stay.
        cx.tell(Classes::CHANGED, "", args.at(1));
        cx.tell(Classes::LIST, "ltrim", args.at(1));
        let kept = resolve_range(first, last, list.len());
        if kept != (0..list.len()) {
            list.keep_values(cx, kept).await?;
            cx.save(&mut list)?;
        }
    }
    cx.replies().ok();
    Ok(())
}
