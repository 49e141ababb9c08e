//! `CONFIG GET`: what tools look at before they start. Settings are changed in the configuration file.

use crate::resp::connection::Connection;
use crate::resp::error::{Error, Outcome};
use crate::resp::frame::Args;
use crate::resp::glob;
use crate::store::Store;

pub(in crate::resp) async fn config<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let subcommand = args.at(1).to_ascii_lowercase();
    match subcommand.as_slice() {
        b"get" if args.len() < 3 => Err(Error::arity("config|get")),
        b"get" => get(connection, args),
        b"set" => Err(Error::new("ERR CONFIG SET is not supported: change the configuration file and restart")),
        b"resetstat" => Err(Error::new("ERR CONFIG RESETSTAT is not supported: counters only grow")),
        b"rewrite" => Err(Error::new("ERR CONFIG REWRITE is not supported: the configuration file is yours")),
        b"help" => {
            super::introspect::help(connection, "CONFIG", &["GET <pattern> ...: settings and their values."]);
            Ok(())
        }
        _ => Err(Error::unknown_subcommand("config", args.at(1))),
    }
}

fn get<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let settings = &connection.server.settings;
    let own = [
        ("databases", "1".to_owned()),
        ("maxclients", settings.connections_max.to_string()),
        ("maxmemory", "0".to_owned()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("port", connection.server.port.to_string()),
        ("proto-max-bulk-len", settings.limits.bulk_bytes_max.to_string()),
        // There are no snapshots to schedule; the log is always on.
        ("save", String::new()),
        ("appendonly", "yes".to_owned()),
        ("timeout", settings.patience.idle_seconds.unwrap_or(0).to_string()),
    ];
    let shown = own.iter().map(|(name, value)| (*name, value.as_str()));
    let shown = shown.chain(settings.shown.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let wanted =
        |name: &str| args.iter_from(2).any(|pattern| glob::matches(&pattern.to_ascii_lowercase(), name.as_bytes()));
    let found: Vec<(String, String)> =
        shown.filter(|(name, _)| wanted(name)).map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    connection.replies.map(found.len());
    for (name, value) in found {
        connection.replies.bulk(name.as_bytes());
        connection.replies.bulk(value.as_bytes());
    }
    Ok(())
}
