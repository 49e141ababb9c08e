//! Commands that wait until one of their rows has something. Each tries once, and says how long it would wait.
//!
//! The caller decides what happens then: a connection waits and runs the command again, a transaction does not.

use super::list_moves::{end, lmpop_from, move_value};
use super::lists::list;
use super::zpops::{pop_first, zmpop_from};
use crate::args::Args;
use crate::collection::End;
use crate::context::{Context, Wait};
use crate::error::{Error, Outcome, WRONG_TYPE};
use crate::turn::end_turn;

const NOT_A_TIME: Error = Error::new("ERR timeout is not a float or out of range");
const NEGATIVE: Error = Error::new("ERR timeout is negative");

/// How long a command waits, in milliseconds; `None` = for ever. `word` is in seconds.
fn timeout_ms(word: &[u8]) -> Outcome<Option<u64>> {
    let text = std::str::from_utf8(word).map_err(|_| NOT_A_TIME)?;
    let seconds: f64 = text.parse().map_err(|_| NOT_A_TIME)?;
    let ms = (seconds * 1000.0).ceil();
    if ms.is_nan() || ms > i64::MAX as f64 {
        return Err(NOT_A_TIME);
    }
    if ms < 0.0 { Err(NEGATIVE) } else { Ok(Some(ms as u64).filter(|&ms| ms > 0)) }
}

/// Asks to wait, because nothing was found.
fn wait(cx: &mut Context<'_>, timeout_ms: Option<u64>) {
    cx.wait_for_rows(Wait { timeout_ms, takes: true, resolved: Vec::new() });
}

/// The keys in front of the last word.
fn keys(args: Args<'_>) -> impl Iterator<Item = &[u8]> {
    args.iter_from(1).take(args.len() - 2)
}

async fn pop(cx: &mut Context<'_>, args: Args<'_>, end: End) -> Outcome {
    let timeout = timeout_ms(args.at(args.len() - 1))?;
    for (index, key) in keys(args).enumerate() {
        end_turn(cx.yields(), index).await;
        let found = list(cx, key).await;
        let Some(mut list) = cx.or_pass_over(found)? else { continue };
        let Some(value) = list.pop_value(cx, end).await? else { continue };
        cx.save(&mut list)?;
        cx.replies().array(2);
        cx.replies().bulk(key);
        cx.replies().bulk_value(value);
        return Ok(());
    }
    cx.replies().null_array();
    wait(cx, timeout);
    Ok(())
}

pub async fn blpop(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop(cx, args, End::Front).await
}

pub async fn brpop(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop(cx, args, End::Back).await
}

pub async fn blmove(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (from, to, timeout) = (end(args.at(3))?, end(args.at(4))?, timeout_ms(args.at(5))?);
    move_or_wait(cx, args, (from, to), timeout).await
}

pub async fn brpoplpush(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let timeout = timeout_ms(args.at(3))?;
    move_or_wait(cx, args, (End::Back, End::Front), timeout).await
}

/// A command that has waited fails if its target is no list. If its source is no list, it goes on waiting.
async fn move_or_wait(cx: &mut Context<'_>, args: Args<'_>, ends: (End, End), timeout_ms: Option<u64>) -> Outcome {
    if cx.is_again() && list(cx, args.at(1)).await.is_err_and(|error| error == WRONG_TYPE) {
        cx.replies().null();
        // Others that wait may find something.
        cx.wait_for_rows(Wait { timeout_ms, takes: false, resolved: Vec::new() });
        return Ok(());
    }
    if !move_value(cx, args, ends.0, ends.1).await? {
        wait(cx, timeout_ms);
    }
    Ok(())
}

pub async fn blmpop(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let timeout = timeout_ms(args.at(1))?;
    if !lmpop_from(cx, args, 2).await? {
        wait(cx, timeout);
    }
    Ok(())
}

async fn pop_scored(cx: &mut Context<'_>, args: Args<'_>, from_end: bool) -> Outcome {
    let timeout = timeout_ms(args.at(args.len() - 1))?;
    for (index, key) in keys(args).enumerate() {
        end_turn(cx.yields(), index).await;
        if let Some(member) = pop_first(cx, key, from_end).await? {
            cx.replies().array(3);
            cx.replies().bulk(key);
            cx.replies().bulk(&member.name);
            cx.tell_f64(member.score);
            return Ok(());
        }
    }
    cx.replies().null_array();
    wait(cx, timeout);
    Ok(())
}

pub async fn bzpopmin(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop_scored(cx, args, false).await
}

pub async fn bzpopmax(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    pop_scored(cx, args, true).await
}

pub async fn bzmpop(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let timeout = timeout_ms(args.at(1))?;
    if !zmpop_from(cx, args, 2).await? {
        wait(cx, timeout);
    }
    Ok(())
}
