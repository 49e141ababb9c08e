//! `CLIENT` subcommands that change how a connection is served: `REPLY`, `PAUSE`, `TRACKING`.

use super::{integer, lower};
use crate::resp::connection::{Connection, ReplyMode};
use crate::resp::error::{Error, Outcome, SYNTAX};
use crate::resp::frame::Args;
use crate::resp::number::parse_i64;
use crate::store::Store;

/// The names in here with the fewest and the most arguments each may have, those before included.
const SUBCOMMANDS: [(&str, usize, usize); 8] = [
    ("caching", 3, 3),
    ("getredir", 2, 2),
    ("pause", 3, 4),
    ("reply", 3, 3),
    ("tracking", 3, usize::MAX),
    ("trackinginfo", 2, 2),
    ("unblock", 3, 4),
    ("unpause", 2, 2),
];

/// Runs the subcommand; `false` if it is none of these.
pub(super) fn run<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome<bool> {
    let subcommand = lower(args.at(1));
    let Some(&(name, least, most)) = SUBCOMMANDS.iter().find(|(name, ..)| name.as_bytes() == subcommand.as_slice())
    else {
        return Ok(false);
    };
    if args.len() < least || args.len() > most && name != "pause" && name != "unblock" {
        return Err(Error::arity(&format!("client|{name}")));
    }
    if args.len() > most {
        return Err(Error::subcommand("client", args.at(1)));
    }
    match name {
        "caching" => {
            return Err(Error::new(
                "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
            ));
        }
        "getredir" => connection.replies.integer(-1),
        "pause" => pause(connection, args)?,
        "reply" => reply(connection, args)?,
        "tracking" => tracking(connection, args)?,
        "trackinginfo" => {
            let replies = &mut connection.replies;
            replies.map(3);
            replies.bulk(b"flags");
            replies.set(1);
            replies.bulk(b"off");
            replies.bulk(b"redirect");
            replies.integer(-1);
            replies.bulk(b"prefixes");
            replies.array(0);
        }
        "unblock" => unblock(connection, args)?,
        _ => {
            connection.pause().end();
            connection.replies.ok();
        }
    }
    Ok(true)
}

fn pause<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let all = match args.get(3) {
        None => true,
        Some(mode) if mode.eq_ignore_ascii_case(b"ALL") => true,
        Some(mode) if mode.eq_ignore_ascii_case(b"WRITE") => false,
        Some(_) => return Err(Error::new("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let millis = parse_i64(args.at(2)).ok_or(Error::new("ERR timeout is not an integer or out of range"))?;
    let millis = u64::try_from(millis).map_err(|_| Error::new("ERR timeout is negative"))?;
    let now = connection.server.clock.now();
    connection.pause().begin(now, now.saturating_add(millis.saturating_mul(1_000_000)), all);
    connection.replies.ok();
    Ok(())
}

fn reply<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    match lower(args.at(2)).as_slice() {
        b"on" => {
            connection.reply_mode = ReplyMode::On;
            connection.replies.ok();
        }
        b"off" => connection.reply_mode = ReplyMode::Off,
        b"skip" if connection.reply_mode != ReplyMode::Off => connection.reply_mode = ReplyMode::SkipNext,
        b"skip" => {}
        _ => return Err(SYNTAX),
    }
    Ok(())
}

fn tracking<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    match lower(args.at(2)).as_slice() {
        b"off" if args.len() == 3 => connection.replies.ok(),
        b"on" => return Err(Error::new("ERR CLIENT TRACKING is not supported: no invalidations are sent")),
        _ => return Err(SYNTAX),
    }
    Ok(())
}

/// No command blocks, so nobody is ever unblocked.
fn unblock<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let known = |reason: &[u8]| reason.eq_ignore_ascii_case(b"TIMEOUT") || reason.eq_ignore_ascii_case(b"ERROR");
    if args.get(3).is_some_and(|reason| !known(reason)) {
        return Err(Error::new("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
    }
    integer(args.at(2))?;
    connection.replies.integer(0);
    Ok(())
}
