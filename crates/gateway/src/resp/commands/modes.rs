//! `CLIENT` subcommands that change how a connection is served: `REPLY`, `PAUSE`, `TRACKING`.

use weir_command::error::{Error, Outcome, SYNTAX};
use weir_command::number::parse_i64;
use weir_command::{Args, integer, lower};

use super::tracking;
use crate::resp::outbox::ReplyMode;
use crate::resp::session::Session;
use crate::resp::ticket::Ending;
use crate::store::Store;

/// The longest pause of expiry, in milliseconds. A client that wants a longer one asks again meanwhile: once the client
/// is gone, the tenant must not keep for long what has expired.
const EXPIRY_PAUSE_MS_MAX: u64 = 60_000;
const LONG_EXPIRY_PAUSE: Error = Error::new("ERR expiry is paused for at most 60000 milliseconds at a time");
const NOTHING_EXPIRES: Error = Error::new("ERR expiry cannot be paused here");
const UNBLOCKED: Error = Error::new("UNBLOCKED client unblocked via CLIENT UNBLOCK");

/// Runs the subcommand; `false` if it is not one of these.
pub(super) fn run<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome<bool> {
    let subcommand = lower(args.at(1));
    let name = subcommand.as_slice();
    let words_max = if name == b"pause" { 5 } else { 4 };
    if matches!(name, b"pause" | b"unblock") && args.len() > words_max {
        return Err(Error::subcommand("client", args.at(1)));
    }
    match name {
        b"caching" => tracking::caching(session, args)?,
        b"getredir" => tracking::getredir(session),
        b"pause" => pause(session, args)?,
        b"reply" => reply(session, args)?,
        b"tracking" => tracking::tracking(session, args)?,
        b"trackinginfo" => tracking::trackinginfo(session)?,
        b"unblock" => unblock(session, args)?,
        b"unpause" => {
            session.pause().end();
            hold_expired(session, 0);
            session.outbox.replies.ok();
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn pause<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let all = match (args.get(3), args.get(4)) {
        (Some(mode), Some(at)) if mode.eq_ignore_ascii_case(b"EXPIRY") => return pause_expiry(session, args.at(2), at),
        (_, Some(_)) => return Err(Error::subcommand("client", args.at(1))),
        (None, None) => true,
        (Some(mode), None) if mode.eq_ignore_ascii_case(b"ALL") => true,
        (Some(mode), None) if mode.eq_ignore_ascii_case(b"WRITE") => false,
        (Some(_), None) => return Err(Error::new("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let millis = duration(args.at(2))?;
    let now = session.outbox.server.clock.now();
    let until = session.pause().begin(now, now.saturating_add(millis.saturating_mul(1_000_000)), all);
    hold_expired(session, until);
    session.outbox.replies.ok();
    Ok(())
}

/// How long a pause is to be, in milliseconds.
fn duration(word: &[u8]) -> Outcome<u64> {
    let millis = parse_i64(word).ok_or(Error::new("ERR timeout is not an integer or out of range"))?;
    u64::try_from(millis).map_err(|_| Error::new("ERR timeout is negative"))
}

/// For so many milliseconds nothing of the tenant's expires that had not expired at the moment `at`, in milliseconds
/// since 1970; 0 ends such a pause.
fn pause_expiry<S: Store>(session: &mut Session<S>, millis: &[u8], at: &[u8]) -> Outcome {
    let at_ms = u64::try_from(integer(at)?).map_err(|_| Error::new("ERR the moment is negative"))?;
    let millis = duration(millis)?;
    if millis > EXPIRY_PAUSE_MS_MAX {
        return Err(LONG_EXPIRY_PAUSE);
    }
    let now = session.outbox.server.clock.now();
    let until = if millis == 0 { 0 } else { now.saturating_add(millis * 1_000_000) };
    session.store()?.expirations().ok_or(NOTHING_EXPIRES)?.pause_at(at_ms, until);
    session.outbox.replies.ok();
    Ok(())
}

/// As in Redis, what expires during a pause is no longer visible, but is deleted, told and counted only after the
/// pause.
fn hold_expired<S: Store>(session: &Session<S>, until: u64) {
    if let Some(expirations) = session.store().ok().and_then(Store::expirations) {
        expirations.hold_until(until);
    }
}

fn reply<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    match lower(args.at(2)).as_slice() {
        b"on" => {
            session.outbox.reply_mode = ReplyMode::On;
            session.outbox.replies.ok();
        }
        b"off" => session.outbox.reply_mode = ReplyMode::Off,
        b"skip" if session.outbox.reply_mode != ReplyMode::Off => session.outbox.reply_mode = ReplyMode::SkipNext,
        b"skip" => {}
        _ => return Err(SYNTAX),
    }
    Ok(())
}

/// Ends the wait of one of the tenant's own connections. A connection that waits for nothing is left alone.
fn unblock<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let known = |reason: &[u8]| reason.eq_ignore_ascii_case(b"TIMEOUT") || reason.eq_ignore_ascii_case(b"ERROR");
    if args.get(3).is_some_and(|reason| !known(reason)) {
        return Err(Error::new("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
    }
    // A negative number becomes 0, which no connection has.
    let id = u64::try_from(integer(args.at(2))?).unwrap_or(0);
    let client = session.outbox.server.clients.find(session.account()?.tenant, id);
    let ticket = client.and_then(|client| client.take_ticket());
    session.outbox.replies.integer(i64::from(ticket.is_some()));
    if let Some(ticket) = ticket {
        let fails = args.get(3).is_some_and(|reason| reason.eq_ignore_ascii_case(b"ERROR"));
        ticket.answer(if fails { Ending::Failed(UNBLOCKED) } else { Ending::TimedOut });
    }
    Ok(())
}
