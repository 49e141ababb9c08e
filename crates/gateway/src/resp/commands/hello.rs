//! `HELLO` and `AUTH`. There are no passwords yet: the user is `default`, and any password is right for it.

use std::sync::atomic::Ordering;

use super::client::check_name;
use crate::resp::connection::Connection;
use crate::resp::error::{Error, NO_PROTO, Outcome, SYNTAX, WRONG_PASS};
use crate::resp::frame::Args;
use crate::resp::number::parse_i64;
use crate::resp::reply::Protocol;
use crate::store::Store;

/// The Redis whose behaviour is followed: clients decide by it what they may use.
pub(super) const REDIS_VERSION: &str = "7.0.15";

fn check_user(user: &[u8]) -> Outcome {
    if user == b"default" { Ok(()) } else { Err(WRONG_PASS) }
}

pub(in crate::resp) async fn auth<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    match args.len() {
        2 => {
            return Err(Error::new(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ));
        }
        3 => check_user(args.at(1))?,
        _ => return Err(SYNTAX),
    }
    connection.replies.ok();
    Ok(())
}

pub(in crate::resp) async fn hello<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let protocol = match args.get(1).map(parse_i64) {
        None => connection.replies.protocol,
        Some(Some(2)) => Protocol::Resp2,
        Some(Some(3)) => Protocol::Resp3,
        Some(Some(_)) => return Err(NO_PROTO),
        Some(None) => return Err(Error::new("ERR Protocol version is not an integer or out of range")),
    };
    let mut name = None;
    let mut index = 2;
    while let Some(word) = args.get(index) {
        match (args.get(index + 1), args.get(index + 2)) {
            (Some(user), Some(_)) if word.eq_ignore_ascii_case(b"AUTH") => {
                check_user(user)?;
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
    if let Some(name) = name {
        connection.client.names.lock().name = name.to_vec();
    }
    connection.replies.protocol = protocol;
    connection.client.resp3.store(protocol == Protocol::Resp3, Ordering::Relaxed);
    let id = connection.client.id as i64;
    let replies = &mut connection.replies;
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
