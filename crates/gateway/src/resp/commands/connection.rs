//! The connection itself.

use std::sync::atomic::Ordering;

use weir_command::error::{Error, Outcome};
use weir_command::number::parse_i64;
use weir_command::reply::Protocol;
use weir_command::{Args, database, integer};

use super::gone;
use crate::resp::outbox::ReplyMode;
use crate::resp::session::Session;
use crate::resp::ticket::Blocked;
use crate::store::Store;

pub(in crate::resp) async fn ping<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    match (args.len(), args.get(1)) {
        (1 | 2, message) if session.is_in_subscribed_state() => {
            // In the form of the messages among which it stands.
            session.outbox.replies.array(2);
            session.outbox.replies.bulk(b"pong");
            session.outbox.replies.bulk(message.unwrap_or_default());
        }
        (1, _) => session.outbox.replies.simple("PONG"),
        (2, Some(message)) => session.outbox.replies.bulk(message),
        _ => return Err(Error::arity("ping")),
    }
    Ok(())
}

pub(in crate::resp) async fn echo<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    session.outbox.replies.bulk(args.at(1));
    Ok(())
}

/// As in Redis, the connection no longer counts once its client hears that it may go. It stays open a little longer, so
/// that the client does hear that.
pub(in crate::resp) async fn quit<S: Store>(session: &mut Session<S>, _: Args<'_>) -> Outcome {
    session.end_subscriptions().await;
    session.outbox.client.leave();
    session.outbox.replies.ok();
    session.outbox.closing = true;
    Ok(())
}

pub(in crate::resp) async fn select<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    session.select(database(args.at(1))?)?;
    session.outbox.replies.ok();
    Ok(())
}

/// No replica ever acknowledges. A client that asks for none is answered at once; one that asks for some waits as long
/// as it says, or for ever.
pub(in crate::resp) async fn wait<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let wanted = integer(args.at(1))?;
    let timeout = parse_i64(args.at(2)).ok_or(Error::new("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 {
        return Err(Error::new("ERR timeout is negative"));
    }
    if wanted <= 0 {
        session.outbox.replies.integer(0);
        return Ok(());
    }
    let now = session.outbox.server.clock.now();
    let until = (timeout > 0).then(|| now.saturating_add((timeout as u64).saturating_mul(1_000_000)));
    let later = session.outbox.client.block();
    session.blocked = Some(Blocked { later, until, timed_out: b":0\r\n".to_vec(), rows: None });
    Ok(())
}

/// From now on the connection receives every command of its tenant.
pub(in crate::resp) async fn monitor<S: Store>(session: &mut Session<S>, _: Args<'_>) -> Outcome {
    session.subscriptions()?.monitor();
    session.outbox.client.is_monitor.store(true, Ordering::Relaxed);
    session.outbox.replies.ok();
    Ok(())
}

pub(in crate::resp) async fn reset<S: Store>(session: &mut Session<S>, _: Args<'_>) -> Outcome {
    // Messages that were sent before go out in the protocol that is valid until now.
    session.end_subscriptions().await;
    session.outbox.take_mail().await.map_err(gone)?;
    session.forget_who();
    session.outbox.client.names.lock().name.clear();
    session.outbox.client.resp3.store(false, Ordering::Relaxed);
    session.outbox.replies.protocol = Protocol::Resp2;
    session.outbox.reply_mode = ReplyMode::On;
    session.knows_partitions = false;
    session.tells_cost = false;
    session.sum = None;
    session.outbox.replies.simple("RESET");
    Ok(())
}

pub(in crate::resp) async fn time<S: Store>(session: &mut Session<S>, _: Args<'_>) -> Outcome {
    let now_ms = session.outbox.server.clock.unix_ms();
    session.outbox.replies.array(2);
    session.outbox.replies.bulk((now_ms / 1000).to_string().as_bytes());
    session.outbox.replies.bulk((now_ms % 1000 * 1000).to_string().as_bytes());
    Ok(())
}
