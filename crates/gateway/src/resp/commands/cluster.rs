//! `CLUSTER` and its kin: to clients this is one server, not a cluster. What needs no cluster is answered: the slot of
//! a key.

use weir_command::error::{Error, Outcome};
use weir_command::{Args, lower};
use weir_model::slot;

use crate::resp::session::Session;
use crate::store::Store;

const DISABLED: Error = Error::new("ERR This instance has cluster support disabled");

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
    if subcommand.as_slice() == b"keyslot" {
        session.outbox.replies.integer(i64::from(slot(args.at(2))));
        return Ok(());
    }
    // The other subcommands of Redis mean nothing here.
    Err(DISABLED)
}

/// `READONLY`, `READWRITE`, `ASKING`.
pub(in crate::resp) async fn disabled<S: Store>(_: &mut Session<S>, _: Args<'_>) -> Outcome {
    Err(DISABLED)
}
