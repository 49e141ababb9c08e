//! `CLUSTER` and its kin: to clients this is one server, not a cluster. What needs none is answered: the slot of a key.

use weir_command::error::{Error, Outcome};
use weir_command::table::takes;
use weir_command::{Args, lower};
use weir_model::slot;

use crate::resp::session::Session;
use crate::store::Store;

const DISABLED: Error = Error::new("ERR This instance has cluster support disabled");

/// What Redis knows. None of it means anything here. With the number of arguments, as in the table of commands.
const SUBCOMMANDS: [(&str, i32); 26] = [
    ("addslots", -3),
    ("addslotsrange", -4),
    ("bumpepoch", 2),
    ("count-failure-reports", 3),
    ("countkeysinslot", 3),
    ("delslots", -3),
    ("delslotsrange", -4),
    ("failover", -2),
    ("flushslots", 2),
    ("forget", 3),
    ("getkeysinslot", 4),
    ("info", 2),
    ("keyslot", 3),
    ("links", 2),
    ("meet", -4),
    ("myid", 2),
    ("nodes", 2),
    ("replicas", 3),
    ("replicate", 3),
    ("reset", -2),
    ("saveconfig", 2),
    ("set-config-epoch", 3),
    ("setslot", -4),
    ("shards", 2),
    ("slaves", 3),
    ("slots", 2),
];

const HELP: [&str; 3] = [
    "KEYSLOT <key>: the hash slot of a key; keys of one slot are in one partition.",
    "(any other): an error, this is one server.",
    "HELP: this text.",
];

pub(in crate::resp) async fn cluster<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let subcommand = lower(args.at(1));
    if subcommand.as_slice() == b"help" {
        session.outbox.replies.help("CLUSTER", &HELP);
        return Ok(());
    }
    if subcommand.as_slice() == b"keyslot" && args.len() == 3 {
        session.outbox.replies.integer(i64::from(slot(args.at(2))));
        return Ok(());
    }
    let known = SUBCOMMANDS.iter().find(|(name, _)| name.as_bytes() == subcommand.as_slice());
    Err(match known {
        None => Error::unknown_subcommand("cluster", args.at(1)),
        Some((_, arity)) if takes(*arity, args.len()) => DISABLED,
        Some((name, _)) => Error::arity(&format!("cluster|{name}")),
    })
}

/// `READONLY`, `READWRITE`, `ASKING`.
pub(in crate::resp) async fn disabled<S: Store>(_: &mut Session<S>, _: Args<'_>) -> Outcome {
    Err(DISABLED)
}
