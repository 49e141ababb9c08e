//! Keys as a whole: `DEL`, `EXISTS`, `TYPE`.

use weir_model::parts::RowType;

use super::STRING;
use crate::args::Args;
use crate::context::Context;
use crate::error::Outcome;
use crate::turn::{begins_turn, end_turn};

/// `DEL` and `UNLINK`. In Weir they are the same, because freeing memory is never on the path of a command.
pub async fn del(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    // Sorted, so that repeated keys are neighbours: a key that comes again is gone by then.
    let mut keys: Vec<&[u8]> = args.iter_from(1).collect();
    keys.sort_unstable();
    keys.dedup();
    let mut living = Vec::with_capacity(keys.len());
    for (index, key) in keys.into_iter().enumerate() {
        cx.end_step(begins_turn(index)).await;
        if cx.get(key).await?.is_some() {
            living.push(key);
        }
    }
    for (index, key) in living.iter().enumerate() {
        cx.end_step(begins_turn(index)).await;
        cx.delete(key)?;
    }
    cx.replies().integer(living.len() as i64);
    Ok(())
}

/// A key named twice counts twice.
pub async fn exists(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut found = 0;
    for (index, key) in args.iter_from(1).enumerate() {
        end_turn(cx.yields(), index).await;
        found += i64::from(cx.get(key).await?.is_some());
        cx.let_go();
    }
    cx.replies().integer(found);
    Ok(())
}

pub async fn type_of(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let row = cx.get(args.at(1)).await?;
    cx.replies().simple(row.map_or("none", |row| row.kind().map_or(STRING, RowType::name)));
    Ok(())
}
