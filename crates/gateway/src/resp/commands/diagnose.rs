//! Commands for looking at the server: `SLOWLOG`, `LATENCY`, `MEMORY`.

use weir_command::error::{Error, Outcome};
use weir_command::number::parse_i64;
use weir_command::{Args, end_turn_of, lower};

use crate::resp::outbox::YIELD;
use crate::resp::session::Session;
use crate::store::Store;

/// How many entries `SLOWLOG GET` returns if no number is given.
const SLOWLOG_ENTRIES: usize = 10;

/// How many entries are written between two turns; each has up to 32 words.
const TURN_ENTRIES: usize = 50;

pub(in crate::resp) async fn slowlog<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let subcommand = lower(args.at(1));
    match subcommand.as_slice() {
        b"get" if args.len() > 3 => {
            return Err(Error::subcommand("slowlog", args.at(1)));
        }
        b"get" => {
            let count = match args.get(2).map(parse_i64) {
                None => SLOWLOG_ENTRIES,
                Some(Some(-1)) => usize::MAX,
                Some(count) => count
                    .and_then(|count| usize::try_from(count).ok())
                    .ok_or(Error::new("ERR count should be greater than or equal to -1"))?,
            };
            let entries = session.slowlog().last(count);
            session.outbox.replies.array(entries.len());
            for (index, entry) in entries.iter().enumerate() {
                end_turn_of(YIELD, TURN_ENTRIES, index).await;
                let replies = &mut session.outbox.replies;
                replies.array(6);
                replies.integer(entry.id as i64);
                replies.integer(entry.second as i64);
                replies.integer(entry.micros as i64);
                replies.array(entry.args.len());
                entry.args.iter().for_each(|arg| replies.bulk(arg));
                replies.bulk(entry.peer.as_bytes());
                replies.bulk(&entry.client_name);
            }
        }
        b"len" => {
            let len = session.slowlog().len();
            session.outbox.replies.integer(len as i64);
        }
        b"reset" => {
            session.slowlog().reset();
            session.outbox.replies.ok();
        }
        b"help" => session.outbox.replies.help(
            "SLOWLOG",
            &[
                "GET [<count>]: the last slow commands (10).",
                "LEN: how many there are.",
                "RESET: forgets them.",
                "HELP: this text.",
            ],
        ),
        _ => return Err(Error::unknown_subcommand("slowlog", args.at(1))),
    }
    Ok(())
}

/// The subcommands of `MEMORY` but `USAGE`, which works on rows.
pub(in crate::resp) async fn memory<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let subcommand = lower(args.at(1));
    match subcommand.as_slice() {
        b"doctor" => {
            session
                .outbox
                .replies
                .text("Memory is bounded by the configuration, and values live on disk: nothing to mend.\n");
        }
        b"malloc-stats" => session.outbox.replies.text("Stats not supported for the current allocator"),
        b"purge" => session.outbox.replies.ok(),
        b"stats" => {
            let facts = session.facts()?;
            let facts: Vec<_> = facts.iter().filter(|(section, ..)| *section == "Memory").collect();
            session.outbox.replies.map(facts.len());
            for (_, name, value) in facts {
                session.outbox.replies.bulk(name.as_bytes());
                match parse_i64(value.as_bytes()) {
                    Some(number) => session.outbox.replies.integer(number),
                    None => session.outbox.replies.bulk(value.as_bytes()),
                }
            }
        }
        b"help" => session.outbox.replies.help(
            "MEMORY",
            &[
                "DOCTOR | MALLOC-STATS | PURGE: for tools that ask.",
                "STATS: what the store holds in memory.",
                "USAGE <key> [SAMPLES <count>]: bytes of key and value, with all its parts, and 64.",
                "HELP: this text.",
            ],
        ),
        _ => return Err(Error::unknown_subcommand("memory", args.at(1))),
    }
    Ok(())
}
