//! Values as numbers.

use weir_model::Change;

use super::integer;
use crate::resp::connection::Connection;
use crate::resp::error::{DECREMENT_OVERFLOW, NOT_A_FLOAT, NOT_A_NUMBER, NOT_AN_INTEGER, Outcome, WOULD_OVERFLOW};
use crate::resp::extended::Extended;
use crate::resp::frame::Args;
use crate::resp::number::{parse_i64, push_i64};
use crate::store::Store;

async fn add<S: Store>(connection: &mut Connection<S>, key: &[u8], increment: i64) -> Outcome {
    let sum = connection
        .try_update(&[key], |entries, batch| {
            let (old, expire_at_ms) = match &entries[0] {
                Some(entry) => (parse_i64(&entry.value).ok_or(NOT_AN_INTEGER)?, entry.expire_at_ms),
                None => (0, None),
            };
            let sum = old.checked_add(increment).ok_or(WOULD_OVERFLOW)?;
            let mut value = Vec::with_capacity(20);
            push_i64(&mut value, sum);
            batch.push(Change::Put { key, value: &value, expire_at_ms });
            Ok(sum)
        })
        .await?;
    connection.replies.integer(sum);
    Ok(())
}

pub(in crate::resp) async fn incr<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    add(connection, args.at(1), 1).await
}

pub(in crate::resp) async fn decr<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    add(connection, args.at(1), -1).await
}

pub(in crate::resp) async fn incrby<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    add(connection, args.at(1), integer(args.at(2))?).await
}

pub(in crate::resp) async fn decrby<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let decrement = integer(args.at(2))?.checked_neg().ok_or(DECREMENT_OVERFLOW)?;
    add(connection, args.at(1), decrement).await
}

pub(in crate::resp) async fn incrbyfloat<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let key = args.at(1);
    let sum = connection
        .try_update(&[key], |entries, batch| {
            let (old, expire_at_ms) = match &entries[0] {
                Some(entry) => (Extended::parse(&entry.value).ok_or(NOT_A_FLOAT)?, entry.expire_at_ms),
                None => (Extended::ZERO, None),
            };
            let increment = Extended::parse(args.at(2)).ok_or(NOT_A_FLOAT)?;
            let sum = old.plus(increment).ok_or(NOT_A_NUMBER)?.to_text();
            batch.push(Change::Put { key, value: &sum, expire_at_ms });
            Ok(sum)
        })
        .await?;
    connection.replies.bulk(&sum);
    Ok(())
}
