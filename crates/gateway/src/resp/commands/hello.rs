//! `HELLO` and `AUTH`: log a client in. A user is a tenant.

use std::sync::atomic::Ordering;

use weir_command::Args;
use weir_command::error::{Error, NO_AUTH_HELLO, NO_PROTO, Outcome, SYNTAX};
use weir_command::number::parse_i64;
use weir_command::reply::Protocol;

use super::client::check_name;
use super::gone;
use crate::resp::session::Session;
use crate::store::Store;

/// The version of Redis whose behaviour Weir follows. Clients decide by it what they may use.
pub(super) const REDIS_VERSION: &str = "7.0.15";

/// The user that is meant if only a password is given.
const DEFAULT_USER: &[u8] = b"default";

pub(in crate::resp) async fn auth<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    match args.len() {
        2 if session.outbox.server.doorman.is_default_open() => {
            return Err(Error::new(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ));
        }
        2 => session.log_in(DEFAULT_USER, args.at(1)).await?,
        3 => session.log_in(args.at(1), args.at(2)).await?,
        _ => return Err(SYNTAX),
    }
    session.be_found_in_resp3()?;
    session.outbox.replies.ok();
    Ok(())
}

pub(in crate::resp) async fn hello<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let protocol = match args.get(1).map(parse_i64) {
        None => session.outbox.replies.protocol,
        Some(Some(2)) => Protocol::Resp2,
        Some(Some(3)) => Protocol::Resp3,
        Some(Some(_)) => return Err(NO_PROTO),
        Some(None) => return Err(Error::new("ERR Protocol version is not an integer or out of range")),
    };
    let (mut name, mut login) = (None, None);
    let mut index = 2;
    while let Some(word) = args.get(index) {
        match (args.get(index + 1), args.get(index + 2)) {
            (Some(user), Some(secret)) if word.eq_ignore_ascii_case(b"AUTH") => {
                login = Some((user, secret));
                index += 3;
            }
            (Some(text), _) if word.eq_ignore_ascii_case(b"SETNAME") => {
                check_name(text)?;
                name = Some(text);
                index += 2;
            }
            _ => {
                return Err(Error::bytes([b"ERR Syntax error in HELLO option '", word, b"'"].concat()));
            }
        }
    }
    if let Some((user, secret)) = login {
        session.log_in(user, secret).await?;
    }
    if !session.is_known() {
        return Err(session.refuse_stranger(NO_AUTH_HELLO));
    }
    if let Some(name) = name {
        session.outbox.client.names.lock().name = name.to_vec();
    }
    // Messages that were sent before go out in the protocol that is valid until now.
    session.outbox.take_mail().await.map_err(gone)?;
    session.outbox.replies.protocol = protocol;
    session.outbox.client.resp3.store(protocol == Protocol::Resp3, Ordering::Relaxed);
    session.be_found_in_resp3()?;
    session.outbox.hold_messages_back();
    let id = session.outbox.client.id as i64;
    let replies = &mut session.outbox.replies;
    replies.map(7);
    replies.bulk(b"server");
    replies.bulk(b"redis");
    replies.bulk(b"version");
    replies.bulk(REDIS_VERSION.as_bytes());
    replies.bulk(b"proto");
    replies.integer(if protocol == Protocol::Resp3 { 3 } else { 2 });
    replies.bulk(b"id");
    replies.integer(id);
    replies.bulk(b"mode");
    replies.bulk(b"standalone");
    replies.bulk(b"role");
    replies.bulk(b"master");
    replies.bulk(b"modules");
    replies.array(0);
    Ok(())
}
