//! `SORT`: of lists, sets and sorted sets, of which there are none. What is left is an empty result, or the wrong type.

use super::{integer, upper};
use crate::resp::connection::Connection;
use crate::resp::error::{Outcome, SYNTAX, WRONG_TYPE};
use crate::resp::frame::Args;
use crate::store::Store;

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

pub(in crate::resp) async fn sort<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let Some(target) = target(args, true)? else { return sort_nothing(connection, args).await };
    connection
        .try_update(&[args.at(1), target], |entries, batch| {
            if entries[0].is_some() {
                return Err(WRONG_TYPE);
            }
            if entries[1].is_some() {
                batch.delete(target);
            }
            Ok(())
        })
        .await?;
    connection.replies.integer(0);
    Ok(())
}

pub(in crate::resp) async fn sort_ro<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    target(args, false)?;
    sort_nothing(connection, args).await
}

async fn sort_nothing<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    if connection.get(args.at(1)).await?.is_some() {
        return Err(WRONG_TYPE);
    }
    connection.replies.array(0);
    Ok(())
}
