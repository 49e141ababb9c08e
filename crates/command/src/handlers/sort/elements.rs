//! The elements of a row that is being sorted.

use std::ops::Range;

use weir_model::parts::RowType;

use super::ELEMENT_BYTES;
use crate::collection::{Collection, Walk};
use crate::context::Context;
use crate::error::Outcome;
use crate::room::Room;
use crate::turn::sort_in_turns;

/// The types that can be sorted.
const KINDS: [RowType; 3] = [RowType::List, RowType::Set, RowType::SortedSet];

/// The row of `key`, if its type can be sorted.
pub(super) async fn row<'k>(cx: &mut Context<'_>, key: &'k [u8]) -> Outcome<Option<Collection<'k>>> {
    cx.collection_of(key, &KINDS).await
}

/// All elements, in any order.
pub(super) async fn all(cx: &mut Context<'_>, row: &Collection<'_>, room: &mut Room) -> Outcome<Vec<Vec<u8>>> {
    if row.kind() == RowType::List {
        return values(cx, row, 0..row.len(), false, room).await;
    }
    // The size of the row is known before it is read.
    room.take((row.len() as usize).saturating_mul(ELEMENT_BYTES).saturating_add(row.bytes() as usize))?;
    let mut elements = Vec::new();
    row.tell_members(cx, |_, member, _| elements.push(member.to_vec())).await?;
    cx.copied_parts(elements.len());
    Ok(elements)
}

/// The elements with the numbers in `range` of the row's own order. A sorted set has the order of its scores. If
/// `reverse` is set, the last elements come first. Sets have no order, and ignore that.
pub(super) async fn in_their_order(
    cx: &mut Context<'_>,
    row: &Collection<'_>,
    range: Range<usize>,
    reverse: bool,
    room: &mut Room,
) -> Outcome<Vec<Vec<u8>>> {
    match row.kind() {
        RowType::List => {
            let (start, end) = (range.start as u64, range.end as u64);
            let range = if reverse { row.len() - end..row.len() - start } else { start..end };
            values(cx, row, range, reverse, room).await
        }
        RowType::SortedSet => {
            let mut scored = Vec::new();
            room.take((row.len() as usize).saturating_mul(ELEMENT_BYTES).saturating_add(row.bytes() as usize))?;
            // The bytes of a score sort as scores do.
            row.tell_members(cx, |_, member, score| scored.push((score.to_vec(), member.to_vec()))).await?;
            cx.copied_parts(2 * scored.len());
            cx.ordered(scored.len());
            (scored, _) = sort_in_turns(cx.yields(), scored, Ord::cmp).await;
            if reverse {
                scored.reverse();
            }
            Ok(scored.into_iter().map(|(_, member)| member).skip(range.start).take(range.len()).collect())
        }
        _ => Ok(all(cx, row, room).await?.into_iter().skip(range.start).take(range.len()).collect()),
    }
}

/// The values of a list with the numbers in `range`.
async fn values(
    cx: &mut Context<'_>,
    list: &Collection<'_>,
    range: Range<u64>,
    reverse: bool,
    room: &mut Room,
) -> Outcome<Vec<Vec<u8>>> {
    let (mut elements, mut walk) = (Vec::new(), Walk::new(range, reverse));
    while !walk.is_done() {
        let some = list.some_values(cx, &mut walk).await?;
        cx.copied_parts(some.len());
        for value in some {
            room.take(ELEMENT_BYTES + value.len())?;
            elements.push(value.to_vec());
        }
        cx.yields().now().await;
    }
    Ok(elements)
}
