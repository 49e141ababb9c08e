//! Values as numbers.

use super::integer;
use crate::args::Args;
use crate::context::Context;
use crate::error::{DECREMENT_OVERFLOW, NOT_A_FLOAT, NOT_A_NUMBER, NOT_AN_INTEGER, Outcome, WOULD_OVERFLOW};
use crate::extended::Extended;
use crate::number::{parse_i64, push_i64};

/// The cost of adding two numbers as Redis does, in more digits than a `double` has, counted in numbers with a
/// fraction. Both numbers are read and their sum is written, each of which is as much work as several such numbers.
pub(super) const EXTENDED_FRACTIONS: usize = 16;

async fn add(cx: &mut Context<'_>, key: &[u8], increment: i64) -> Outcome {
    let row = cx.string(key).await?;
    let old = match &row {
        Some(row) => parse_i64(&row.value).ok_or(NOT_AN_INTEGER)?,
        None => 0,
    };
    let sum = old.checked_add(increment).ok_or(WOULD_OVERFLOW)?;
    let mut value = Vec::with_capacity(20);
    push_i64(&mut value, sum);
    cx.put(key, &value, row.and_then(|row| row.expire_at_ms))?;
    cx.replies().integer(sum);
    Ok(())
}

pub async fn incr(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    add(cx, args.at(1), 1).await
}

pub async fn decr(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    add(cx, args.at(1), -1).await
}

pub async fn incrby(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    add(cx, args.at(1), integer(args.at(2))?).await
}

pub async fn decrby(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let decrement = integer(args.at(2))?.checked_neg().ok_or(DECREMENT_OVERFLOW)?;
    add(cx, args.at(1), decrement).await
}

pub async fn incrbyfloat(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.at(1);
    let row = cx.string(key).await?;
    let old = match &row {
        Some(row) => Extended::parse(&row.value).ok_or(NOT_A_FLOAT)?,
        None => Extended::ZERO,
    };
    let increment = Extended::parse(args.at(2)).ok_or(NOT_A_FLOAT)?;
    let sum = old.plus(increment).ok_or(NOT_A_NUMBER)?.to_text();
    cx.fractions(EXTENDED_FRACTIONS);
    cx.put(key, &sum, row.and_then(|row| row.expire_at_ms))?;
    cx.replies().bulk(&sum);
    Ok(())
}
