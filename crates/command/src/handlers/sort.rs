//! `SORT`: the elements of a list, set or sorted set in order, or what other keys say about the elements.
//!
//! All that a `SORT` holds is bounded, because all of it has to be there before the first element is answered.

mod elements;
mod options;
mod order;
mod pattern;

use weir_model::Value;
use weir_model::parts::RowType;

use self::options::{By, Options};
use self::pattern::Pattern;
use crate::args::Args;
use crate::collection::End;
use crate::context::Context;
use crate::error::{Error, Outcome};
use crate::room::Room;
use crate::turn::end_turn;

/// Most bytes that are held at once: elements, what they are sorted by, what is answered for them, and the events that
/// keys are missing.
const IN_HAND_BYTES_MAX: usize = 64 << 20;
/// How many bytes an element takes beside its own.
const ELEMENT_BYTES: usize = 128;
const TOO_MUCH: Error =
    Error::new("ERR SORT has at most 64 MB in hand: the elements, or what belongs to them, are more");

pub async fn sort(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let options = Options::parse(args, true)?;
    let mut room = cx.room(IN_HAND_BYTES_MAX, TOO_MUCH);
    let told = sorted(cx, args.at(1), &options, &mut room).await?;
    match options.store {
        None => tell(cx, told).await,
        Some(target) => store(cx, target, told).await,
    }
}

pub async fn sort_ro(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let options = Options::parse(args, false)?;
    let mut room = cx.room(IN_HAND_BYTES_MAX, TOO_MUCH);
    let told = sorted(cx, args.at(1), &options, &mut room).await?;
    tell(cx, told).await
}

/// What is answered for the row of `key`, in order; `None` where another key has no value.
async fn sorted(
    cx: &mut Context<'_>,
    key: &[u8],
    options: &Options<'_>,
    room: &mut Room,
) -> Outcome<Vec<Option<Value>>> {
    if !cx.is_of_one_moment() && options.names_others() {
        cx.hold_moment(key).await?;
    }
    let Some(row) = elements::row(cx, key).await? else { return Ok(Vec::new()) };
    // The elements of a set need a fixed order if they are stored, or if a script sees them.
    let is_fixed = options.store.is_some() || cx.is_scripted();
    let stored_set = [By::Itself { alpha: true }];
    let by = match &options.by {
        By::Nothing if row.kind() == RowType::Set && is_fixed => &stored_set[0],
        by => by,
    };
    let range = options.range(row.len());
    let elements = match by {
        By::Nothing => elements::in_their_order(cx, &row, range, options.descending, room).await?,
        by => {
            let elements = elements::all(cx, &row, room).await?;
            let elements = order::sort(cx, elements, by, options.descending, room).await?;
            elements.into_iter().skip(range.start).take(range.len()).collect()
        }
    };
    if options.get.is_empty() {
        // Each element becomes a value, which goes into the answer.
        cx.copied_values(2 * elements.len());
        return Ok(elements.into_iter().map(|element| Some(element.into())).collect());
    }
    let mut told = Vec::new();
    for element in &elements {
        for pattern in &options.get {
            // Not only the elements may be many, but also the keys for each of them.
            end_turn(cx.yields(), told.len()).await;
            let value = pattern.look_up(cx, element, room).await?;
            room.take(ELEMENT_BYTES + value.as_ref().map_or(0, |value| value.len()))?;
            told.push(value);
        }
    }
    Ok(told)
}

async fn tell(cx: &mut Context<'_>, told: Vec<Option<Value>>) -> Outcome {
    cx.replies().array(told.len());
    for (index, value) in told.into_iter().enumerate() {
        end_turn(cx.yields(), index).await;
        match value {
            Some(value) => cx.replies().bulk_value(value),
            None => cx.replies().null(),
        }
        cx.drain().await?;
    }
    Ok(())
}

/// Makes a list of `told` at `target`.
async fn store(cx: &mut Context<'_>, target: &[u8], told: Vec<Option<Value>>) -> Outcome {
    if told.is_empty() {
        if cx.exists(cx.number(), target).await? {
            cx.delete(target)?;
        }
    } else {
        let mut list = cx.new_collection(target, RowType::List);
        list.push_values(cx, End::Back, told.iter().map(|value| value.as_deref().unwrap_or_default())).await?;
        cx.save(&mut list)?;
    }
    cx.replies().integer(told.len() as i64);
    Ok(())
}
