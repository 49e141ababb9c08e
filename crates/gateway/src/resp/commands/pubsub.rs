//! `SUBSCRIBE`, `PUBLISH` and their kin.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_command::error::{Error, Outcome};
use weir_command::reply::Replies;
use weir_command::{Args, glob, lower, table};
use weir_node::request_units::Module;

use super::{check_words, end_turn, gone};
use crate::notices::{Notice, What};
use crate::pubsub::{Kind, PubSub};
use crate::resp::outbox::YIELD;
use crate::resp::rights::Origin;
use crate::resp::session::Session;
use crate::store::Store;

/// Compiling a pattern takes a step for every byte that one of its elements may be.
const STEPS_PER_BYTE: usize = 256;

pub(in crate::resp) async fn subscribe<S: Store>(session: &mut Session<S>, args: Args<'_>, kind: Kind) -> Outcome {
    let what = match kind {
        Kind::Channel => "subscribe",
        Kind::Pattern => "psubscribe",
        Kind::ShardChannel => "ssubscribe",
    };
    let mut held = session.subscriptions()?.make_room(kind, args.iter_from(1))?;
    let mut turn = glob::Turn::new(YIELD);
    for (index, name) in args.iter_from(1).enumerate() {
        end_turn(index).await;
        if kind == Kind::Pattern {
            turn.spend(name.len() * STEPS_PER_BYTE).await;
        }
        session.subscriptions()?.add(kind, name, &mut held);
        let count = session.subscribed().told(kind);
        session.outbox.confirm(what, Some(name), count).await?;
    }
    // If the user's rights changed meanwhile, the search for listeners that the user may no longer have may have missed
    // this one.
    if let Some(command) = table::find(args.at(0))
        && session.denied_now(command, args, Origin::Client).await.is_some()
    {
        session.outbox.closing = true;
    }
    Ok(())
}

pub(in crate::resp) async fn unsubscribe<S: Store>(session: &mut Session<S>, args: Args<'_>, kind: Kind) -> Outcome {
    if args.len() > 1 {
        for (index, name) in args.iter_from(1).enumerate() {
            end_turn(index).await;
            leave(session, kind, name).await?;
        }
        return Ok(());
    }
    let names = session.subscriptions()?.names(kind);
    if names.is_empty() {
        let count = session.subscribed().told(kind);
        return session.outbox.confirm(left(kind), None, count).await;
    }
    for (index, name) in names.iter().enumerate() {
        end_turn(index).await;
        leave(session, kind, name).await?;
    }
    Ok(())
}

fn left(kind: Kind) -> &'static str {
    match kind {
        Kind::Channel => "unsubscribe",
        Kind::Pattern => "punsubscribe",
        Kind::ShardChannel => "sunsubscribe",
    }
}

/// No longer listens to `name`. Messages that were sent before are put in front of the answer, and none comes after it.
async fn leave<S: Store>(session: &mut Session<S>, kind: Kind, name: &[u8]) -> Outcome {
    session.subscriptions()?.remove(kind, name);
    session.outbox.take_mail().await.map_err(gone)?;
    let count = session.subscribed().told(kind);
    session.outbox.confirm(left(kind), Some(name), count).await
}

pub(in crate::resp) async fn publish<S: Store>(session: &mut Session<S>, args: Args<'_>, kind: Kind) -> Outcome {
    kind.check(args.at(1))?;
    session.bill.work.count(Module::Published, 1);
    let receivers = send(session, kind, args.at(1), args.at(2)).await?;
    session.outbox.replies.integer(receivers as i64);
    Ok(())
}

/// Sends `message` to all who listen to `channel`, which is of this `kind`. Returns how many they are.
async fn send<S: Store>(session: &mut Session<S>, kind: Kind, channel: &[u8], message: &[u8]) -> Outcome<u64> {
    let receivers = deliver(session, kind, channel, message).await?;
    // As in Redis, a client that listens to its own messages gets them before it is told how many listeners got them.
    // But a message never stands within the answer to `EXEC`.
    if session.in_transaction.is_none() {
        session.outbox.take_mail().await.map_err(gone)?;
    }
    Ok(receivers)
}

/// The same, but the session gets its own message later.
pub(in crate::resp) async fn deliver<S: Store>(
    session: &mut Session<S>,
    kind: Kind,
    channel: &[u8],
    message: &[u8],
) -> Outcome<u64> {
    let account = Arc::clone(session.account()?);
    let now = session.outbox.server.clock.now();
    let published = account.pubsub.publish(kind, channel, message, now, YIELD).await;
    was_cut(session, published.cut);
    Ok(published.receivers)
}

/// Counts and logs that connections of the session's tenant at these addresses were cut, because they do not take what
/// is sent to them.
pub(in crate::resp) fn was_cut<S: Store>(session: &Session<S>, addresses: Vec<IpAddr>) {
    let Ok(account) = session.account() else { return };
    let server = &session.outbox.server;
    let now = server.clock.now();
    for address in addresses {
        for stats in [&server.stats, &account.stats] {
            stats.slow_listeners.fetch_add(1, Ordering::Relaxed);
        }
        let tenant = Some(Arc::clone(&account.name));
        server.notices.tell(Notice { what: What::SlowListener, tenant, address: Some(address) }, now);
    }
}

const HELP: [&str; 6] = [
    "CHANNELS [<pattern>]: the channels that somebody listens to.",
    "NUMPAT: how many patterns somebody listens to.",
    "NUMSUB [<channel> ...]: how many listen to each of these channels, without those who listen to patterns.",
    "SHARDCHANNELS [<pattern>]: the channels of hash slots that somebody listens to.",
    "SHARDNUMSUB [<channel> ...]: how many listen to each of these channels of hash slots.",
    "HELP: this text.",
];

pub(in crate::resp) async fn pubsub<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let account = Arc::clone(session.account()?);
    match lower(args.at(1)).as_slice() {
        subcommand @ (b"channels" | b"shardchannels") if args.len() <= 3 => {
            let kind = if subcommand == b"channels" { Kind::Channel } else { Kind::ShardChannel };
            let pattern = args.get(2).map(glob::checked).transpose()?;
            let channels = account.pubsub.channels(kind, pattern, YIELD).await;
            session.outbox.replies.array(channels.len());
            for (index, channel) in channels.iter().enumerate() {
                end_turn(index).await;
                session.outbox.replies.bulk(channel);
                session.outbox.flush_if_long().await?;
            }
        }
        b"channels" | b"shardchannels" => return Err(Error::subcommand("pubsub", args.at(1))),
        b"help" => session.outbox.replies.help("PUBSUB", &HELP),
        _ if count_listeners(&mut session.outbox.replies, &account.pubsub, args)? => {}
        _ => return Err(Error::unknown_subcommand("pubsub", args.at(1))),
    }
    Ok(())
}

/// The subcommands of `PUBSUB` that count, which scripts may use, too; `false` if it is not one of these.
pub(in crate::resp) fn count_listeners(replies: &mut Replies, pubsub: &PubSub, args: Args<'_>) -> Outcome<bool> {
    match lower(args.at(1)).as_slice() {
        subcommand @ (b"numsub" | b"shardnumsub") => {
            let kind = if subcommand == b"numsub" { Kind::Channel } else { Kind::ShardChannel };
            check_words(
                args.len() - 2,
                &format!("PUBSUB {}", args.at(1).to_ascii_uppercase().escape_ascii()),
                "channels",
            )?;
            replies.array(2 * (args.len() - 2));
            for channel in args.iter_from(2) {
                replies.bulk(channel);
                replies.integer(pubsub.listeners(kind, channel) as i64);
            }
        }
        b"numpat" => replies.integer(pubsub.counts().patterns as i64),
        _ => return Ok(false),
    }
    Ok(true)
}
