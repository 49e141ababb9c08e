//! Values as a whole: `GET`, `SET` and their kin.

use std::ops::Deref;

use tokio::task::yield_now;
use weir_model::{Batch, Change, KEY_BYTES_MAX};

use super::expiry::{Expiry, Unit};
use super::{ONE_TURN_KEYS_MAX, TURN_KEYS, end_turn};
use crate::resp::connection::Connection;
use crate::resp::error::{Error, KEY_TOO_LONG, Outcome, SYNTAX};
use crate::resp::frame::Args;
use crate::store::{Entry, Store};

pub(in crate::resp) async fn get<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    match connection.get(args.at(1)).await? {
        Some(entry) => connection.replies.bulk_value(entry.value),
        None => connection.replies.null(),
    }
    Ok(())
}

pub(in crate::resp) async fn mget<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    connection.submit().await;
    connection.replies.array(args.len() - 1);
    for (index, key) in args.iter_from(1).enumerate() {
        end_turn(index).await;
        match connection.get(key).await? {
            Some(entry) => connection.replies.bulk_value(entry.value),
            None => connection.replies.null(),
        }
        connection.flush_if_long().await?;
    }
    Ok(())
}

/// `NX` and `XX` of `SET`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Absent,
    Present,
}

/// The words behind `SET key value`.
/// The same unit may be given twice, as in Redis: the last time counts.
#[derive(Default)]
struct SetOptions<'a> {
    expiry: Option<(Unit, &'a [u8])>,
    condition: Option<Condition>,
    keep_ttl: bool,
    give_old: bool,
}

impl<'a> SetOptions<'a> {
    fn parse(args: Args<'a>) -> Outcome<Self> {
        let mut options = Self::default();
        let mut words = args.iter_from(3);
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case(b"NX") && options.condition != Some(Condition::Present) {
                options.condition = Some(Condition::Absent);
            } else if word.eq_ignore_ascii_case(b"XX") && options.condition != Some(Condition::Absent) {
                options.condition = Some(Condition::Present);
            } else if word.eq_ignore_ascii_case(b"GET") {
                options.give_old = true;
            } else if word.eq_ignore_ascii_case(b"KEEPTTL") && options.expiry.is_none() {
                options.keep_ttl = true;
            } else if let Some(unit) = Unit::parse(word)
                && !options.keep_ttl
                && options.expiry.is_none_or(|(earlier, _)| earlier == unit)
            {
                options.expiry = Some((unit, words.next().ok_or(SYNTAX)?));
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(options)
    }
}

pub(in crate::resp) async fn set<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let (key, value) = (args.at(1), args.at(2));
    if args.len() == 3 {
        let change = Change::Put { key, value, expire_at_ms: None };
        return connection.put_blindly(std::iter::once(change)).await;
    }
    let options = SetOptions::parse(args)?;
    let expire_at_ms = match options.expiry {
        Some((unit, time)) => Some(Expiry::parse(unit, time, connection.server.clock.unix_ms(), "set")?),
        None => None,
    };
    if options.condition.is_none() && !options.keep_ttl && !options.give_old {
        return connection.put_blindly(std::iter::once(Change::Put { key, value, expire_at_ms })).await;
    }
    let (set, old) = connection
        .update(&[key], |entries, batch| {
            let old = entries[0].as_ref();
            let set = match options.condition {
                None => true,
                Some(Condition::Absent) => old.is_none(),
                Some(Condition::Present) => old.is_some(),
            };
            if set {
                let kept = old.and_then(|entry| entry.expire_at_ms).filter(|_| options.keep_ttl);
                batch.push(Change::Put { key, value, expire_at_ms: expire_at_ms.or(kept) });
            }
            (set, old.filter(|_| options.give_old).map(copied))
        })
        .await?;
    match (options.give_old, old) {
        (true, Some(old)) => connection.replies.bulk_value(old),
        (false, _) if set => connection.replies.ok(),
        _ => connection.replies.null(),
    }
    Ok(())
}

fn copied<V: Deref<Target = [u8]>>(entry: &Entry<V>) -> Vec<u8> {
    entry.value.to_vec()
}

pub(in crate::resp) async fn setex<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    set_expiring(connection, args, Unit::InSeconds, "setex").await
}

pub(in crate::resp) async fn psetex<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    set_expiring(connection, args, Unit::InMillis, "psetex").await
}

async fn set_expiring<S: Store>(
    connection: &mut Connection<S>,
    args: Args<'_>,
    unit: Unit,
    name: &'static str,
) -> Outcome {
    let expire_at_ms = Some(Expiry::parse(unit, args.at(2), connection.server.clock.unix_ms(), name)?);
    let change = Change::Put { key: args.at(1), value: args.at(3), expire_at_ms };
    connection.put_blindly(std::iter::once(change)).await
}

pub(in crate::resp) async fn setnx<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let (key, value) = (args.at(1), args.at(2));
    let set = connection
        .update(&[key], |entries, batch| {
            if entries[0].is_none() {
                batch.put(key, value);
            }
            entries[0].is_none()
        })
        .await?;
    connection.replies.integer(i64::from(set));
    Ok(())
}

pub(in crate::resp) async fn getset<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let (key, value) = (args.at(1), args.at(2));
    let old = connection
        .update(&[key], |entries, batch| {
            batch.put(key, value);
            entries[0].as_ref().map(copied)
        })
        .await?;
    reply_value(connection, old);
    Ok(())
}

pub(in crate::resp) async fn getdel<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let key = args.at(1);
    let old = connection
        .update(&[key], |entries, batch| {
            let old = entries[0].as_ref()?;
            batch.delete(key);
            Some(copied(old))
        })
        .await?;
    reply_value(connection, old);
    Ok(())
}

fn reply_value<S: Store>(connection: &mut Connection<S>, value: Option<Vec<u8>>) {
    match value {
        Some(value) => connection.replies.bulk_value(value),
        None => connection.replies.null(),
    }
}

pub(in crate::resp) async fn getex<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let key = args.at(1);
    let (mut persist, mut expiry) = (false, None);
    let mut words = args.iter_from(2);
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case(b"PERSIST") && expiry.is_none() {
            persist = true;
        } else if let Some(unit) = Unit::parse(word)
            && !persist
            && expiry.is_none_or(|(earlier, _)| earlier == unit)
        {
            expiry = Some((unit, words.next().ok_or(SYNTAX)?));
        } else {
            return Err(SYNTAX);
        }
    }
    if !persist && expiry.is_none() {
        return get(connection, args).await;
    }
    let now_ms = connection.server.clock.unix_ms();
    let old = connection
        .try_update(&[key], |entries, batch| {
            // A key that does not exist is answered before the time is looked at.
            let Some(entry) = &entries[0] else { return Ok(None) };
            let value = &entry.value[..];
            let expire_at_ms = match expiry {
                Some((unit, time)) => Some(Expiry::parse(unit, time, now_ms, "getex")?),
                None => None,
            };
            if expire_at_ms.is_some_and(|at| at <= now_ms) {
                batch.delete(key);
            } else if expire_at_ms != entry.expire_at_ms {
                batch.push(Change::Put { key, value, expire_at_ms });
            }
            Ok(Some(value.to_vec()))
        })
        .await?;
    reply_value(connection, old);
    Ok(())
}

/// The pairs of `MSET` and `MSETNX` as changes.
fn pairs<'a>(args: Args<'a>) -> impl Iterator<Item = Change<'a>> + Clone {
    (1..args.len()).step_by(2).map(move |index| Change::Put {
        key: args.at(index),
        value: args.at(index + 1),
        expire_at_ms: None,
    })
}

pub(in crate::resp) async fn mset<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err(Error::arity("mset"));
    }
    if args.len() <= 1 + 2 * TURN_KEYS {
        return connection.put_blindly(pairs(args)).await;
    }
    if pairs(args).any(|change| change.key().len() > KEY_BYTES_MAX) {
        return Err(KEY_TOO_LONG);
    }
    // More go in so many turns, each as one.
    let (mut batch, mut all) = (Batch::new(), pairs(args));
    loop {
        batch.restart(connection.store()?.key_prefix());
        all.by_ref().take(TURN_KEYS).for_each(|change| batch.push(change));
        if batch.is_empty() {
            break;
        }
        connection.write(&batch).await?;
        yield_now().await;
    }
    connection.replies.ok();
    Ok(())
}

pub(in crate::resp) async fn msetnx<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    if args.len().is_multiple_of(2) {
        return Err(Error::arity("msetnx"));
    }
    if args.len() > 1 + 2 * ONE_TURN_KEYS_MAX {
        return Err(Error::new("ERR MSETNX sets at most 10000 keys at a time: all or none means in one turn"));
    }
    let keys: Vec<&[u8]> = pairs(args).map(|change| change.key()).collect();
    let set = connection
        .update(&keys, |entries, batch| {
            let set = entries.iter().all(Option::is_none);
            if set {
                pairs(args).for_each(|change| batch.push(change));
            }
            set
        })
        .await?;
    connection.replies.integer(i64::from(set));
    Ok(())
}
