//! `SORT`: of lists, sets and sorted sets, of which there are none. What is left is an empty result, or the wrong type.

use super::integer;
use crate::args::Args;
use crate::context::Context;
use crate::error::{Outcome, SYNTAX, WRONG_TYPE};
use crate::keyword::upper;

/// Checks the options; gives the key that takes the result, if it is to be stored.
fn target<'a>(args: Args<'a>, may_store: bool) -> Outcome<Option<&'a [u8]>> {
    let mut target = None;
    let mut words = args.iter_from(2);
    while let Some(word) = words.next() {
        match upper(word).as_slice() {
            b"ASC" | b"DESC" | b"ALPHA" => {}
            b"LIMIT" => {
                let (start, count) = (words.next().ok_or(SYNTAX)?, words.next().ok_or(SYNTAX)?);
                integer(start)?;
                integer(count)?;
            }
            b"STORE" if may_store => target = Some(words.next().ok_or(SYNTAX)?),
            b"BY" | b"GET" => drop(words.next().ok_or(SYNTAX)?),
            _ => return Err(SYNTAX),
        }
    }
    Ok(target)
}

pub async fn sort(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Some(target) = target(args, true)? else { return sort_nothing(cx, args).await };
    if cx.get(args.at(1)).await?.is_some() {
        return Err(WRONG_TYPE);
    }
    if cx.get(target).await?.is_some() {
        cx.delete(target)?;
    }
    cx.replies().integer(0);
    Ok(())
}

pub async fn sort_ro(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    target(args, false)?;
    sort_nothing(cx, args).await
}

async fn sort_nothing(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    if cx.get(args.at(1)).await?.is_some() {
        return Err(WRONG_TYPE);
    }
    cx.replies().array(0);
    Ok(())
}
