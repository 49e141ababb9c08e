//! Keys that get another name or place: `RENAME`, `COPY`, `MOVE`.

use weir_model::{Batch, Change};

use super::connection::database;
use crate::resp::connection::Connection;
use crate::resp::error::{Error, NO_SUCH_KEY, Outcome, SYNTAX};
use crate::resp::frame::Args;
use crate::store::{Entry, Store, Transfer};

const SAME: Error = Error::new("ERR source and destination objects are the same");

fn put<V: std::ops::Deref<Target = [u8]>>(batch: &mut Batch, key: &[u8], entry: &Entry<V>) {
    batch.push(Change::Put { key, value: &entry.value[..], expire_at_ms: entry.expire_at_ms });
}

/// Whether it was done: not where the new name exists and `only_new` is set.
async fn rename_to<S: Store>(connection: &mut Connection<S>, args: Args<'_>, only_new: bool) -> Outcome<bool> {
    let (from, to) = (args.at(1), args.at(2));
    connection
        .try_update(&[from, to], |entries, batch| {
            let source = entries[0].as_ref().ok_or(NO_SUCH_KEY)?;
            if only_new && entries[1].is_some() {
                return Ok(false);
            }
            if from != to {
                batch.delete(from);
                put(batch, to, source);
            }
            Ok(true)
        })
        .await
}

pub(in crate::resp) async fn rename<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    rename_to(connection, args, false).await?;
    connection.replies.ok();
    Ok(())
}

pub(in crate::resp) async fn renamenx<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let done = rename_to(connection, args, true).await?;
    connection.replies.integer(i64::from(done));
    Ok(())
}

pub(in crate::resp) async fn copy<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let (from, to) = (args.at(1), args.at(2));
    let (mut replace, mut number) = (false, connection.database());
    let mut words = args.iter_from(3);
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case(b"REPLACE") {
            replace = true;
        } else if word.eq_ignore_ascii_case(b"DB") {
            number = database(words.next().ok_or(SYNTAX)?)?;
        } else {
            return Err(SYNTAX);
        }
    }
    if number != connection.database() {
        return carry(connection, Transfer { key: from, database: number, to, replace, moved: false }).await;
    }
    if from == to {
        return Err(SAME);
    }
    let done = connection
        .update(&[from, to], |entries, batch| match (&entries[0], &entries[1]) {
            (None, _) => false,
            (Some(_), Some(_)) if !replace => false,
            (Some(source), _) => {
                put(batch, to, source);
                true
            }
        })
        .await?;
    connection.replies.integer(i64::from(done));
    Ok(())
}

pub(in crate::resp) async fn move_key<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let (key, number) = (args.at(1), database(args.at(2))?);
    if number == connection.database() {
        return Err(SAME);
    }
    carry(connection, Transfer { key, database: number, to: key, replace: false, moved: true }).await
}

async fn carry<S: Store>(connection: &mut Connection<S>, transfer: Transfer<'_>) -> Outcome {
    let done = connection.transfer(transfer).await?;
    connection.replies.integer(i64::from(done));
    Ok(())
}
