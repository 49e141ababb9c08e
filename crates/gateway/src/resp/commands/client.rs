//! `CLIENT`: this connection and the others.

use std::sync::Arc;

use weir_command::error::{Error, Outcome, SYNTAX};
use weir_command::number::parse_i64;
use weir_command::{Args, end_turn_of, lower};

use crate::resp::client::Client;
use crate::resp::outbox::YIELD;
use crate::resp::session::Session;
use crate::store::Store;

/// How many lines of a list are written between two turns.
const TURN_LINES: usize = 200;

/// How many bytes a name of a connection or of its library may have, because names appear in every list (S11).
const NAME_BYTES_MAX: usize = 512;

/// A capability of clients that know which hash slots are in one partition of their tenant (slot x partitions / 16384):
/// their transactions may span those.
const PARTITION_TRANSACTIONS: &[u8] = b"partition-transactions";

/// A name must be one word of printable characters, so that lists of clients can be parsed.
pub(super) fn check_name(name: &[u8]) -> Outcome {
    check_printable(name, "Client names cannot contain spaces, newlines or special characters.")
}

fn check_printable(text: &[u8], message: &str) -> Outcome {
    if text.len() > NAME_BYTES_MAX {
        Err(Error::new("ERR Client names are at most 512 bytes long"))
    } else if text.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        Ok(())
    } else {
        Err(Error::bytes(format!("ERR {message}").into_bytes()))
    }
}

pub(in crate::resp) async fn client<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let subcommand = lower(args.at(1));
    match subcommand.as_slice() {
        b"id" => session.outbox.replies.integer(session.outbox.client.id as i64),
        b"setname" => {
            check_name(args.at(2))?;
            session.outbox.client.names.lock().name = args.at(2).to_vec();
            session.outbox.replies.ok();
        }
        b"getname" => {
            let name = session.outbox.client.names.lock().name.clone();
            if name.is_empty() { session.outbox.replies.null() } else { session.outbox.replies.bulk(&name) }
        }
        b"setinfo" => {
            set_info(&session.outbox.client, args)?;
            session.outbox.replies.ok();
        }
        b"info" => {
            let line = session.outbox.client.line(session.outbox.server.second());
            session.outbox.replies.text(&line);
        }
        b"capa" => {
            // As in Valkey, an unknown capability makes no difference.
            session.knows_partitions |= args.iter_from(2).any(|word| word.eq_ignore_ascii_case(PARTITION_TRANSACTIONS));
            session.outbox.replies.ok();
        }
        b"list" => list(session, args).await?,
        b"kill" => super::kill::kill(session, args).await?,
        b"no-evict" => accept_on_or_off(session, args)?,
        b"no-touch" => accept_on_or_off(session, args)?,
        b"help" => session.outbox.replies.help("CLIENT", &HELP),
        _ if super::modes::run(session, args)? => {}
        _ => return Err(Error::unknown_subcommand("client", args.at(1))),
    }
    Ok(())
}

const HELP: [&str; 16] = [
    "CAPA <capability> ...: what the client can; partition-transactions: EXEC may span hash slots of one partition.",
    "CACHING YES|NO | GETREDIR | TRACKINGINFO: about the values that the connection keeps.",
    "TRACKING ON|OFF [REDIRECT <id>] [BCAST] [PREFIX <prefix> ...] [OPTIN] [OPTOUT] [NOLOOP]: tells when values that were read change.",
    "GETNAME | SETNAME <name>: the connection's name.",
    "ID: the connection's number.",
    "INFO: one line about this connection.",
    "KILL <ip:port>: closes a connection.",
    "KILL [ID <id>] [ADDR <ip:port>] [LADDR <ip:port>] [USER <name>] [TYPE normal|pubsub] [SKIPME yes|no]: closes those.",
    "LIST [TYPE normal|pubsub] [ID <id> ...]: one line about each connection.",
    "NO-EVICT ON|OFF: accepted, nothing is evicted.",
    "NO-TOUCH ON|OFF: accepted, nothing is touched.",
    "PAUSE <milliseconds> [ALL|WRITE|EXPIRY <unix-ms>] | UNPAUSE: lets commands wait, or keeps what lived then.",
    "REPLY ON|OFF|SKIP: whether commands are answered.",
    "SETINFO LIB-NAME|LIB-VER <text>: the client library.",
    "UNBLOCK <id> [TIMEOUT|ERROR]: ends the wait of a command that blocks.",
    "HELP: this text.",
];

fn set_info(client: &Client, args: Args<'_>) -> Outcome {
    let attribute = lower(args.at(2));
    let (field, value) = (attribute.as_slice(), args.at(3));
    let mut names = client.names.lock();
    match field {
        b"lib-name" => {
            check_printable(value, "lib-name cannot contain spaces, newlines or special characters.")?;
            names.lib_name = value.to_vec();
        }
        b"lib-ver" => {
            check_printable(value, "lib-ver cannot contain spaces, newlines or special characters.")?;
            names.lib_version = value.to_vec();
        }
        _ => return Err(Error::bytes([b"ERR Unrecognized option '", args.at(2), b"'"].concat())),
    }
    Ok(())
}

fn accept_on_or_off<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let word = args.at(2);
    if !word.eq_ignore_ascii_case(b"on") && !word.eq_ignore_ascii_case(b"off") {
        return Err(SYNTAX);
    }
    session.outbox.replies.ok();
    Ok(())
}

async fn list<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let (server, tenant) = (Arc::clone(&session.outbox.server), session.account()?.tenant);
    let (all, second) = (&server.clients, server.second());
    let mut subscribed = None;
    let clients: Box<dyn Iterator<Item = Arc<Client>> + Send> = match args.get(2) {
        None => Box::new(all.of_tenant(tenant)),
        Some(word) if word.eq_ignore_ascii_case(b"TYPE") && args.len() == 4 => {
            let kind = lower(args.at(3));
            match kind.as_slice() {
                b"normal" => subscribed = Some(false),
                b"pubsub" => subscribed = Some(true),
                b"master" | b"replica" | b"slave" => {}
                _ => return Err(Error::bytes([b"ERR Unknown client type '", args.at(3), b"'"].concat())),
            }
            // There are no other servers.
            if subscribed.is_some() { Box::new(all.of_tenant(tenant)) } else { Box::new(std::iter::empty()) }
        }
        Some(word) if word.eq_ignore_ascii_case(b"ID") && args.len() > 3 => {
            super::check_words(args.len() - 3, "CLIENT LIST ID", "ids")?;
            // A negative number becomes 0, which no connection has.
            let id = |arg| parse_i64(arg).map(|id| u64::try_from(id).unwrap_or(0));
            let ids: Option<Vec<u64>> = args.iter_from(3).map(id).collect();
            let ids = ids.ok_or(Error::new("ERR Invalid client ID"))?;
            // As in Redis, in the order in which they are asked for, and as often.
            Box::new(ids.into_iter().filter_map(|id| all.find(tenant, id)))
        }
        Some(_) => return Err(SYNTAX),
    };
    let mut lines = String::new();
    for (index, client) in clients.enumerate() {
        end_turn_of(YIELD, TURN_LINES, index).await;
        if subscribed.is_none_or(|subscribed| client.is_subscribed() == subscribed) {
            lines.push_str(&client.line(second));
        }
    }
    session.outbox.replies.text(&lines);
    Ok(())
}
