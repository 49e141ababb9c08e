//! Commands about a server as a whole: to save, to follow another one, to load modules, to stop. A tenant's server
//! belongs to its operator, so commands that would change anything are refused. Commands that ask for what is true
//! already succeed.

use weir_command::error::{Error, NOT_AN_INTEGER, Outcome, SYNTAX};
use weir_command::number::parse_i64;
use weir_command::{Args, lower};

use super::hello::REDIS_VERSION;
use crate::resp::session::Session;
use crate::store::Store;

const MODULE_HELP: [&str; 3] = ["LIST: there are no modules.", "LOAD | LOADEX | UNLOAD: refused.", "HELP: this text."];

/// `SAVE`, `BGSAVE`, `BGREWRITEAOF`: acknowledged writes are as safe as the configuration promises, and the log is
/// never rewritten. So this only waits until this connection's own writes are committed.
pub(in crate::resp) async fn save<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let name = lower(args.at(0));
    let is_scheduled = args.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"SCHEDULE"));
    if args.len() > 2 || args.len() == 2 && !is_scheduled {
        return Err(SYNTAX);
    }
    session.outbox.await_commits().await;
    if name.as_slice() != b"bgrewriteaof" {
        session.account()?.stats.save();
    }
    let replies = &mut session.outbox.replies;
    match name.as_slice() {
        b"bgsave" => replies.simple("Background saving started"),
        b"bgrewriteaof" => replies.simple("Background append only file rewriting started"),
        _ => replies.ok(),
    }
    Ok(())
}

/// There are no snapshots. Acknowledged writes are as safe as the configuration promises, so the last save is always
/// now.
pub(in crate::resp) async fn lastsave<S: Store>(session: &mut Session<S>, _: Args<'_>) -> Outcome {
    let now_ms = session.outbox.server.clock.unix_ms();
    session.outbox.replies.integer((now_ms / 1000) as i64);
    Ok(())
}

/// The role is a primary without replicas.
pub(in crate::resp) async fn role<S: Store>(session: &mut Session<S>, _: Args<'_>) -> Outcome {
    session.outbox.replies.array(3);
    session.outbox.replies.bulk(b"master");
    session.outbox.replies.integer(0);
    session.outbox.replies.array(0);
    Ok(())
}

/// `REPLICAOF` and its older name: this server follows nobody.
pub(in crate::resp) async fn replicaof<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    if args.at(1).eq_ignore_ascii_case(b"NO") && args.at(2).eq_ignore_ascii_case(b"ONE") {
        session.outbox.replies.ok();
        return Ok(());
    }
    if !parse_i64(args.at(2)).is_some_and(|port| (0..=65_535).contains(&port)) {
        return Err(Error::new("ERR Invalid master port"));
    }
    Err(Error::new("ERR REPLICAOF is not supported: the server opens no connections to addresses that clients name"))
}

pub(in crate::resp) async fn failover<S: Store>(_: &mut Session<S>, args: Args<'_>) -> Outcome {
    Err(match args.get(1) {
        Some(word) if word.eq_ignore_ascii_case(b"ABORT") && args.len() == 2 => {
            Error::new("ERR No failover in progress.")
        }
        _ => Error::new("ERR FAILOVER requires connected replicas."),
    })
}

pub(in crate::resp) async fn shutdown<S: Store>(_: &mut Session<S>, args: Args<'_>) -> Outcome {
    let mut is_abort = false;
    for word in args.iter_from(1) {
        let word = lower(word);
        match word.as_slice() {
            b"nosave" | b"save" | b"now" | b"force" => {}
            b"abort" if args.len() == 2 => is_abort = true,
            _ => return Err(SYNTAX),
        }
    }
    Err(match is_abort {
        true => Error::new("ERR No shutdown in progress."),
        false => Error::new("NOPERM the server is shared: whoever runs it ends it, with SIGTERM"),
    })
}

pub(in crate::resp) async fn module<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let subcommand = lower(args.at(1));
    let replies = &mut session.outbox.replies;
    match (subcommand.as_slice(), args.len()) {
        (b"list", 2) => replies.array(0),
        (b"load" | b"loadex", 3..) | (b"unload", 3) => {
            return Err(Error::new("ERR MODULE command not allowed: there are no modules, and none can be loaded"));
        }
        (b"help", 2) => replies.help("MODULE", &MODULE_HELP),
        (b"list" | b"load" | b"loadex" | b"unload" | b"help", _) => {
            return Err(Error::arity(&format!("module|{}", String::from_utf8_lossy(subcommand.as_slice()))));
        }
        _ => return Err(Error::unknown_subcommand("module", args.at(1))),
    }
    Ok(())
}

/// The version, in the form with which Redis ends its pictures.
pub(in crate::resp) async fn lolwut<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    if args.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"VERSION"))
        && let Some(version) = args.get(2)
    {
        parse_i64(version).ok_or(NOT_AN_INTEGER)?;
    }
    session.outbox.replies.text(&format!("Redis ver. {REDIS_VERSION}\n"));
    Ok(())
}
