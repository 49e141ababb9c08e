//! The connection itself.

use std::sync::atomic::Ordering;

use super::integer;
use crate::resp::connection::{Connection, ReplyMode};
use crate::resp::error::{DB_INDEX, Error, Outcome};
use crate::resp::frame::Args;
use crate::resp::number::parse_i64;
use crate::resp::reply::Protocol;
use crate::store::Store;

pub(in crate::resp) async fn ping<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    match (args.len(), args.get(1)) {
        (1, _) => connection.replies.simple("PONG"),
        (2, Some(message)) => connection.replies.bulk(message),
        _ => return Err(Error::arity("ping")),
    }
    Ok(())
}

pub(in crate::resp) async fn echo<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    connection.replies.bulk(args.at(1));
    Ok(())
}

pub(in crate::resp) async fn quit<S: Store>(connection: &mut Connection<S>, _: Args<'_>) -> Outcome {
    connection.replies.ok();
    connection.closing = true;
    Ok(())
}

/// Databases of a tenant.
pub(super) const DATABASES: u8 = 16;

/// A database's number.
pub(super) fn database(arg: &[u8]) -> Outcome<u8> {
    let number = integer(arg)?;
    if i32::try_from(number).is_err() {
        return Err(Error::new("ERR value is out of range, value must between -2147483648 and 2147483647"));
    }
    u8::try_from(number).ok().filter(|&number| number < DATABASES).ok_or(DB_INDEX)
}

pub(in crate::resp) async fn select<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let number = database(args.at(1))?;
    if !connection.select(number).await? {
        return Err(DB_INDEX);
    }
    connection.replies.ok();
    Ok(())
}

/// No replica ever acknowledges: that is known at once, so nobody waits for the timeout.
pub(in crate::resp) async fn wait<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    integer(args.at(1))?;
    let timeout = parse_i64(args.at(2)).ok_or(Error::new("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 {
        return Err(Error::new("ERR timeout is negative"));
    }
    connection.replies.integer(0);
    Ok(())
}

/// There are no snapshots: what is answered is safe as the configuration promises, so the last one is always now.
pub(in crate::resp) async fn lastsave<S: Store>(connection: &mut Connection<S>, _: Args<'_>) -> Outcome {
    let now_ms = connection.server.clock.unix_ms();
    connection.replies.integer((now_ms / 1000) as i64);
    Ok(())
}

/// A primary without replicas.
pub(in crate::resp) async fn role<S: Store>(connection: &mut Connection<S>, _: Args<'_>) -> Outcome {
    connection.replies.array(3);
    connection.replies.bulk(b"master");
    connection.replies.integer(0);
    connection.replies.array(0);
    Ok(())
}

pub(in crate::resp) async fn reset<S: Store>(connection: &mut Connection<S>, _: Args<'_>) -> Outcome {
    connection.submit().await;
    connection.forget_who().inspect_err(|_| connection.closing = true)?;
    connection.client.names.lock().name.clear();
    connection.client.resp3.store(false, Ordering::Relaxed);
    connection.replies.protocol = Protocol::Resp2;
    connection.reply_mode = ReplyMode::On;
    connection.in_transaction = false;
    connection.replies.simple("RESET");
    Ok(())
}

pub(in crate::resp) async fn time<S: Store>(connection: &mut Connection<S>, _: Args<'_>) -> Outcome {
    let now_ms = connection.server.clock.unix_ms();
    connection.replies.array(2);
    connection.replies.bulk((now_ms / 1000).to_string().as_bytes());
    connection.replies.bulk((now_ms % 1000 * 1000).to_string().as_bytes());
    Ok(())
}
