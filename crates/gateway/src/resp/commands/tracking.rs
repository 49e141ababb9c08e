//! `CLIENT TRACKING` and its kin: a client keeps values, and is told when they are no longer true.

use std::sync::{Arc, Weak};

use weir_command::error::{Error, Outcome, SYNTAX};
use weir_command::{Args, integer, lower};

use super::was_cut;
use crate::key_events::Teller;
use crate::mailbox::Recipient;
use crate::resp::outbox::YIELD;
use crate::resp::session::Session;
use crate::resp::tracked::Tracked;
use crate::store::Store;
use crate::tenant::account::Account;
use crate::tracking::Mode;

/// How many prefixes one connection may have, and how many bytes each of them: all are gone through for every key that
/// changes.
const PREFIXES_MAX: usize = 100;
const PREFIX_BYTES_MAX: usize = 1 << 10;

const NO_MODE: Error = Error::new(
    "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
);

/// Tells all connections of the session's tenant that keep values to forget them: all keys are gone.
pub(super) async fn tell_flushed<S: Store>(session: &mut Session<S>, account: &Account) {
    let now = session.outbox.server.clock.now();
    let mut teller = Teller::new(&account.key_events, &account.pubsub, now, YIELD);
    teller.tell(account.tracking.flushed()).await;
    was_cut(session, teller.cut);
}

/// Forgets keys until the table is within its limits, and tells those who keep their values. Other connections are
/// served in between.
pub(in crate::resp) async fn shrink_table<S: Store>(session: &mut Session<S>) {
    let Ok(account) = session.account().map(Arc::clone) else { return };
    let now = session.outbox.server.clock.now();
    let mut teller = Teller::new(&account.key_events, &account.pubsub, now, YIELD);
    while let Some(messages) = account.tracking.evict() {
        teller.tell(messages).await;
        teller.has_worked(1);
        teller.end_turn().await;
    }
    was_cut(session, teller.cut);
}

pub(super) fn tracking<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let (mut mode, mut prefixes) = (Mode::default(), Vec::new());
    let mut place = 3;
    while let Some(word) = args.get(place) {
        match (lower(word).as_slice(), args.get(place + 1)) {
            (b"redirect", Some(id)) => {
                if mode.redirect.is_some() {
                    return Err(Error::new("ERR A client can only redirect to a single other client"));
                }
                // A negative number becomes 0, which no connection has.
                mode.redirect = Some(u64::try_from(integer(id)?).unwrap_or(0));
                place += 1;
                target(session, mode.redirect)?;
            }
            (b"bcast", _) => mode.broadcast = true,
            (b"optin", _) => mode.opt_in = true,
            (b"optout", _) => mode.opt_out = true,
            (b"noloop", _) => mode.no_loop = true,
            (b"prefix", Some(prefix)) => {
                prefixes.push(prefix);
                place += 1;
            }
            _ => return Err(SYNTAX),
        }
        place += 1;
    }
    match lower(args.at(2)).as_slice() {
        b"on" => enable(session, mode, &prefixes)?,
        b"off" => session.tracked = None,
        _ => return Err(SYNTAX),
    }
    session.outbox.replies.ok();
    Ok(())
}

/// The connection that receives messages in the place of the session's own.
fn target<S: Store>(session: &Session<S>, redirect: Option<u64>) -> Outcome<Option<Weak<dyn Recipient>>> {
    let Some(id) = redirect else { return Ok(None) };
    let found = session.outbox.server.clients.find(session.account()?.tenant, id);
    let client = found.ok_or(Error::new("ERR The client ID you want redirect to does not exist"))?;
    let recipient: Arc<dyn Recipient> = client;
    Ok(Some(Arc::downgrade(&recipient)))
}

fn enable<S: Store>(session: &mut Session<S>, mode: Mode, prefixes: &[&[u8]]) -> Outcome {
    if !mode.broadcast && !prefixes.is_empty() {
        return Err(Error::new("ERR PREFIX option requires BCAST mode to be enabled"));
    }
    if session.tracked.as_ref().is_some_and(|tracked| tracked.mode.broadcast != mode.broadcast) {
        return Err(Error::new(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.",
        ));
    }
    if mode.broadcast && (mode.opt_in || mode.opt_out) {
        return Err(Error::new("ERR OPTIN and OPTOUT are not compatible with BCAST"));
    }
    if mode.opt_in && mode.opt_out {
        return Err(Error::new("ERR You can't specify both OPTIN mode and OPTOUT mode"));
    }
    let switches = |before: &Mode| (mode.opt_in && before.opt_out) || (mode.opt_out && before.opt_in);
    if session.tracked.as_ref().is_some_and(|tracked| switches(&tracked.mode)) {
        return Err(Error::new(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.",
        ));
    }
    let (account, id) = (Arc::clone(session.account()?), session.outbox.client.id);
    check_prefixes(&account.tracking.prefixes(id), prefixes)?;
    let target = target(session, mode.redirect)?;
    // Others must be able to find this connection, to send it messages.
    session.subscriptions()?;
    let store = session.store()?.clone();
    if !account.tracking.enable(id, mode.clone(), target, prefixes) {
        return Err(Error::new("ERR the connections of a tenant track at most 10000 prefixes"));
    }
    account.key_events.track(&account.tracking);
    // Last, because changes from here on are told.
    store.be_witnessed(account.key_events.witness());
    match &mut session.tracked {
        Some(tracked) => (tracked.mode, tracked.caching) = (mode, None),
        None => session.tracked = Some(Box::new(Tracked::new(mode, account, id))),
    }
    Ok(())
}

/// No prefix of a connection may be the beginning of another.
fn check_prefixes(known: &[Arc<[u8]>], new: &[&[u8]]) -> Outcome {
    if known.len() + new.len() > PREFIXES_MAX || new.iter().any(|prefix| prefix.len() > PREFIX_BYTES_MAX) {
        return Err(Error::new("ERR a connection tracks at most 100 prefixes of at most 1024 bytes"));
    }
    let overlap = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
    let refusal = |one: &[u8], which: &str, other: &[u8]| {
        let parts = [b"ERR Prefix '", one, b"' overlaps with ", which.as_bytes(), b" prefix '", other];
        let end = b"'. Prefixes for a single client must not overlap.";
        Error::bytes([&parts.concat()[..], end].concat())
    };
    for (place, one) in new.iter().enumerate() {
        if let Some(other) = known.iter().find(|other| overlap(one, other)) {
            return Err(refusal(one, "an existing", other));
        }
        if let Some(other) = new[place + 1..].iter().find(|other| overlap(one, other)) {
            return Err(refusal(one, "another provided", other));
        }
    }
    Ok(())
}

pub(super) fn caching<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let tracked = session.tracked.as_mut().ok_or(NO_MODE)?;
    match lower(args.at(2)).as_slice() {
        b"yes" if tracked.mode.opt_in => tracked.caching = Some(true),
        b"yes" => {
            return Err(Error::new("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."));
        }
        b"no" if tracked.mode.opt_out => tracked.caching = Some(false),
        b"no" => {
            return Err(Error::new("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."));
        }
        _ => return Err(SYNTAX),
    }
    session.outbox.replies.ok();
    Ok(())
}

/// The connection that receives messages in the place of this one: 0 = none, -1 = this one does not track.
fn redirect<S: Store>(session: &Session<S>) -> i64 {
    session.tracked.as_ref().map_or(-1, |tracked| tracked.mode.redirect.unwrap_or(0) as i64)
}

pub(super) fn getredir<S: Store>(session: &mut Session<S>) {
    let redirect = redirect(session);
    session.outbox.replies.integer(redirect);
}

pub(super) fn trackinginfo<S: Store>(session: &mut Session<S>) -> Outcome {
    let (redirect, id) = (redirect(session), session.outbox.client.id);
    let account = Arc::clone(session.account()?);
    let mut flags = Vec::new();
    match &session.tracked {
        None => flags.push("off"),
        Some(tracked) => {
            let Mode { broadcast, opt_in, opt_out, no_loop, .. } = tracked.mode;
            flags.push("on");
            flags.extend(broadcast.then_some("bcast"));
            flags.extend(opt_in.then_some("optin"));
            flags.extend(tracked.caching.filter(|_| opt_in).map(|_| "caching-yes"));
            flags.extend(opt_out.then_some("optout"));
            flags.extend(tracked.caching.filter(|_| opt_out).map(|_| "caching-no"));
            flags.extend(no_loop.then_some("noloop"));
            let is_broken = account.tracking.tracks(id).is_some_and(|tracks| tracks.is_broken);
            flags.extend(is_broken.then_some("broken_redirect"));
        }
    }
    let prefixes = account.tracking.prefixes(id);
    let replies = &mut session.outbox.replies;
    replies.map(3);
    replies.bulk(b"flags");
    replies.set(flags.len());
    flags.iter().for_each(|flag| replies.bulk(flag.as_bytes()));
    replies.bulk(b"redirect");
    replies.integer(redirect);
    replies.bulk(b"prefixes");
    replies.array(prefixes.len());
    prefixes.iter().for_each(|prefix| replies.bulk(prefix));
    Ok(())
}
