//! Keys as such: `DEL`, `EXISTS`, `TYPE`.

use tokio::task::yield_now;

use super::{TURN_KEYS, end_turn};
use crate::resp::connection::Connection;
use crate::resp::error::Outcome;
use crate::resp::frame::Args;
use crate::store::Store;

/// `DEL` and `UNLINK`: the same here, because freeing memory is never on the path of a command. Up to [`TURN_KEYS`] keys go as
/// one; more go in so many turns, because whoever holds the store's lock for long holds up his neighbours.
pub(in crate::resp) async fn del<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let (mut deleted, mut all) = (0, args.iter_from(1));
    loop {
        // Sorted a turn at a time: a key that comes again is gone by then.
        let mut keys: Vec<&[u8]> = all.by_ref().take(TURN_KEYS).collect();
        if keys.is_empty() {
            break;
        }
        let is_full = keys.len() == TURN_KEYS;
        keys.sort_unstable();
        keys.dedup();
        let keys = &keys;
        deleted += connection
            .update(keys, |entries, batch| {
                let existing = keys.iter().zip(entries).filter(|(_, entry)| entry.is_some());
                existing.for_each(|(key, _)| batch.delete(key));
                batch.len()
            })
            .await?;
        if is_full {
            yield_now().await;
        }
    }
    connection.replies.integer(deleted as i64);
    Ok(())
}

/// A key named twice counts twice.
pub(in crate::resp) async fn exists<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let mut found = 0;
    for (index, key) in args.iter_from(1).enumerate() {
        end_turn(index).await;
        found += i64::from(connection.get(key).await?.is_some());
        connection.let_go();
    }
    connection.replies.integer(found);
    Ok(())
}

pub(in crate::resp) async fn type_of<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let exists = connection.get(args.at(1)).await?.is_some();
    connection.replies.simple(if exists { "string" } else { "none" });
    Ok(())
}
