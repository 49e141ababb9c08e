//! `RU`, a command of Weir's own: shows what commands cost in request units.

use weir_command::error::{Error, Outcome};
use weir_command::reply::Replies;
use weir_command::{Args, lower};
use weir_node::request_units::{Dimension, MILLI, Price, Work};

use crate::resp::cost::Sum;
use crate::resp::session::Session;
use crate::store::Store;

pub(in crate::resp) async fn ru<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let subcommand = lower(args.at(1));
    match (subcommand.as_slice(), args.len()) {
        (b"last", 2) => tell_last(session),
        (b"sum", 2) => tell_sum(session),
        (b"reset", 2) => {
            session.sum = Some(Box::default());
            session.outbox.replies.ok();
        }
        (b"attributes", 3) => {
            session.tells_cost = match lower(args.at(2)).as_slice() {
                b"on" => true,
                b"off" => false,
                _ => return Err(Error::new("ERR RU ATTRIBUTES takes ON or OFF")),
            };
            session.outbox.replies.ok();
        }
        (b"help", 2) => session.outbox.replies.help(
            "RU",
            &[
                "LAST: what the last command of this connection has cost, by dimension and module.",
                "SUM: what its commands have cost in all, since SUM or RESET was asked for first.",
                "RESET: SUM begins anew.",
                "ATTRIBUTES ON|OFF: replies in RESP3 say what they have cost, in an attribute.",
                "HELP: this text.",
            ],
        ),
        (b"last" | b"sum" | b"reset" | b"attributes" | b"help", _) => {
            return Err(Error::arity(&format!("ru|{}", String::from_utf8_lossy(subcommand.as_slice()))));
        }
        _ => return Err(Error::unknown_subcommand("ru", args.at(1))),
    }
    Ok(())
}

/// Writes a map: the command, its units, what it took by dimension, and how often it went through each module.
fn tell_last<S: Store>(session: &mut Session<S>) {
    let (last, replies) = (&session.last, &mut session.outbox.replies);
    replies.map(1 + COST_PAIRS);
    replies.bulk(b"command");
    replies.bulk(last.command.as_bytes());
    tell_cost(replies, &last.price, last.work());
}

/// The same for all commands since this was first asked for, with their number.
fn tell_sum<S: Store>(session: &mut Session<S>) {
    let Sum { commands, price, work } = &**session.sum.get_or_insert_default();
    let replies = &mut session.outbox.replies;
    replies.map(1 + COST_PAIRS);
    replies.bulk(b"commands");
    replies.integer(i64::try_from(*commands).unwrap_or(i64::MAX));
    tell_cost(replies, price, work);
}

/// How many pairs [`tell_cost`] writes.
const COST_PAIRS: usize = 2 + Dimension::ALL.len();

fn tell_cost(replies: &mut Replies, price: &Price, work: &Work) {
    replies.bulk(b"units");
    replies.double(price.milli_units as f64 / MILLI as f64);
    for dimension in Dimension::ALL {
        replies.bulk(unit_of(dimension));
        replies.integer(i64::try_from(price.resources.whole(dimension)).unwrap_or(i64::MAX));
    }
    replies.bulk(b"modules");
    replies.map(work.counts().count());
    for (module, count) in work.counts() {
        replies.bulk(module.name().as_bytes());
        replies.integer(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

fn unit_of(dimension: Dimension) -> &'static [u8] {
    match dimension {
        Dimension::Cpu => b"cpu_nanos",
        Dimension::Memory => b"memory_bytes",
        Dimension::Io => b"io_bytes",
        Dimension::Network => b"network_bytes",
    }
}
