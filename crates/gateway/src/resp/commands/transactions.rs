//! `MULTI` and its kin. `EXEC` is not among them: the connection itself runs the queued commands.

use weir_command::error::{Error, KEY_TOO_LONG, Outcome};
use weir_command::{Args, glob};
use weir_model::KEY_BYTES_MAX;

use super::end_turn;
use crate::resp::outbox::YIELD;
use crate::resp::session::Session;
use crate::resp::transaction::{Queue, WATCHED_MAX, Watched, watched_bytes};
use crate::store::Store;

const TOO_MUCH: Error = Error::new("ERR the tenant's clients watch too many bytes of keys: watch fewer at a time");

pub(in crate::resp) async fn multi<S: Store>(session: &mut Session<S>, _: Args<'_>) -> Outcome {
    if session.transaction.is_some() {
        return Err(Error::new("ERR MULTI calls can not be nested"));
    }
    let hold = session.account()?.unfinished.hold();
    session.transaction = Some(Box::new(Queue::new(hold)));
    session.outbox.replies.ok();
    Ok(())
}

pub(in crate::resp) async fn discard<S: Store>(session: &mut Session<S>, _: Args<'_>) -> Outcome {
    if session.transaction.is_none() {
        return Err(Error::new("ERR DISCARD without MULTI"));
    }
    session.end_transaction();
    session.outbox.replies.ok();
    Ok(())
}

pub(in crate::resp) async fn watch<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    if session.transaction.is_some() {
        return Err(Error::new("ERR WATCH inside MULTI is not allowed"));
    }
    if session.watched.len() + args.len() - 1 > WATCHED_MAX {
        return Err(Error::new("ERR a connection watches at most 10000 keys"));
    }
    let bytes: u64 = args.iter_from(1).map(watched_bytes).sum();
    let mut held = session.account()?.watched.try_hold(bytes).ok_or(TOO_MUCH)?;
    let mut turn = glob::Turn::new(YIELD);
    let (database, number, upheavals) = (session.database(), session.number(), session.account()?.upheavals());
    for (index, key) in args.iter_from(1).enumerate() {
        end_turn(index).await;
        if key.len() > KEY_BYTES_MAX {
            return Err(KEY_TOO_LONG);
        }
        // The key is compared with all that are watched.
        turn.spend(session.watched.len()).await;
        if session.watched.iter().any(|watched| watched.database == database && watched.key == key) {
            continue;
        }
        // The watch begins before the row is read, so the read sees every change that the watch does not count. If the
        // read leaves out a refused change, which may yet count, the watch counts it.
        let watch = session.store()?.watch(number, key).await?;
        let existed = session.get(key).await?.is_some();
        let held = held.split(watched_bytes(key));
        let key = key.to_vec();
        session.watched.push(Watched { database, number, key, watch, existed, upheavals, _held: held });
    }
    session.outbox.replies.ok();
    Ok(())
}

pub(in crate::resp) async fn unwatch<S: Store>(session: &mut Session<S>, _: Args<'_>) -> Outcome {
    session.watched = Vec::new();
    session.outbox.replies.ok();
    Ok(())
}
