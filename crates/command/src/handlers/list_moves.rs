//! Values that move from one list to another, or are taken out of the first of several lists: `LMOVE`, `RPOPLPUSH`,
//! `LMPOP`.

use weir_model::parts::RowType;

use super::integer;
use super::lists::{list, tell_all};
use crate::args::Args;
use crate::collection::End;
use crate::context::Context;
use crate::error::{Error, Outcome, SYNTAX};
use crate::turn::end_turn;

const KEYS: Error = Error::new("ERR numkeys should be greater than 0");
const COUNT: Error = Error::new("ERR count should be greater than 0");

/// The end of a list that `word` names.
pub(super) fn end(word: &[u8]) -> Outcome<End> {
    match word {
        word if word.eq_ignore_ascii_case(b"LEFT") => Ok(End::Front),
        word if word.eq_ignore_ascii_case(b"RIGHT") => Ok(End::Back),
        _ => Err(SYNTAX),
    }
}

/// Takes a value out of the list at word 1, and puts it into the list at word 2, which may be the same; `false` if
/// there is no value.
pub(super) async fn move_value(cx: &mut Context<'_>, args: Args<'_>, from: End, to: End) -> Outcome<bool> {
    let Some(mut source) = list(cx, args.at(1)).await? else {
        cx.replies().null();
        return Ok(false);
    };
    let mut target = match args.at(1) == args.at(2) {
        true => None,
        false => Some(cx.collection_or_new(args.at(2), RowType::List).await?),
    };
    let Some(value) = source.pop_value(cx, from).await? else {
        cx.replies().null();
        return Ok(false);
    };
    target.as_mut().unwrap_or(&mut source).push_value(cx, to, &value).await?;
    cx.save(&mut source)?;
    if let Some(target) = &mut target {
        cx.save(target)?;
    }
    cx.replies().bulk_value(value);
    Ok(true)
}

pub async fn lmove(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (from, to) = (end(args.at(3))?, end(args.at(4))?);
    move_value(cx, args, from, to).await?;
    Ok(())
}

pub async fn rpoplpush(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    move_value(cx, args, End::Back, End::Front).await?;
    Ok(())
}

pub async fn lmpop(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    lmpop_from(cx, args, 1).await?;
    Ok(())
}

/// Runs `numkeys key [key ...] LEFT|RIGHT [COUNT count]`, which begins at word `at`; `false` if all lists are empty.
pub(super) async fn lmpop_from(cx: &mut Context<'_>, args: Args<'_>, at: usize) -> Outcome<bool> {
    let positive = |word: &[u8]| integer(word).ok().and_then(|number| u64::try_from(number).ok()).filter(|&n| n > 0);
    let keys = positive(args.at(at)).ok_or(KEYS)?;
    let first = at + 1;
    let place = usize::try_from(keys).ok().and_then(|keys| keys.checked_add(first)).ok_or(SYNTAX)?;
    let end = end(args.get(place).ok_or(SYNTAX)?)?;
    let count = match (args.get(place + 1), args.get(place + 2)) {
        (None, _) => 1,
        (Some(word), Some(count)) if word.eq_ignore_ascii_case(b"COUNT") => positive(count).ok_or(COUNT)?,
        _ => return Err(SYNTAX),
    };
    if args.len() > place + 3 {
        return Err(SYNTAX);
    }
    for (index, key) in args.iter_from(first).take(place - first).enumerate() {
        end_turn(cx.yields(), index).await;
        let found = list(cx, key).await;
        if let Some(mut list) = cx.or_pass_over(found)? {
            let values = list.pop_values(cx, end, count).await?;
            cx.save(&mut list)?;
            cx.replies().array(2);
            cx.replies().bulk(key);
            tell_all(cx, values);
            return Ok(true);
        }
    }
    cx.replies().null_array();
    Ok(false)
}
