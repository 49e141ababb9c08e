//! `COMMAND`: the table, for clients that look it up.

use weir_command::error::{Error, Outcome, SYNTAX};
use weir_command::glob::{self, Glob};
use weir_command::number::parse_i64;
use weir_command::reply::Replies;
use weir_command::table::{self, COMMANDS, Command};
use weir_command::{Args, lower};

use super::end_turn;
use crate::resp::session::Session;
use crate::store::Store;

pub(in crate::resp) async fn command<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let Some(subcommand) = args.get(1).map(lower) else {
        session.outbox.replies.array(COMMANDS.len());
        COMMANDS.iter().for_each(|command| describe(&mut session.outbox.replies, Some(command)));
        return Ok(());
    };
    let replies = &mut session.outbox.replies;
    match subcommand.as_slice() {
        b"count" if args.len() == 2 => replies.integer(COMMANDS.len() as i64),
        b"count" => return Err(Error::arity("command|count")),
        b"info" if args.len() == 2 => {
            replies.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| describe(replies, Some(command)));
        }
        b"info" => {
            replies.array(args.len() - 2);
            for (index, name) in args.iter_from(2).enumerate() {
                end_turn(index).await;
                describe(&mut session.outbox.replies, table::find(name));
                session.outbox.flush_if_long().await?;
            }
        }
        b"docs" => {
            if args.len() == 2 {
                replies.map(COMMANDS.len());
                COMMANDS.iter().for_each(|command| document(replies, command));
                return Ok(());
            }
            let mut known = 0;
            for (index, name) in args.iter_from(2).enumerate() {
                end_turn(index).await;
                known += usize::from(table::find(name).is_some());
            }
            session.outbox.replies.map(known);
            for (index, command) in args.iter_from(2).map(table::find).enumerate() {
                end_turn(index).await;
                let Some(command) = command else { continue };
                document(&mut session.outbox.replies, command);
                session.outbox.flush_if_long().await?;
            }
        }
        b"list" => list(replies, args)?,
        b"getkeys" if args.len() < 4 => return Err(Error::arity("command|getkeys")),
        b"getkeys" => get_keys(replies, args, false).await?,
        b"getkeysandflags" if args.len() < 4 => return Err(Error::arity("command|getkeysandflags")),
        b"getkeysandflags" => get_keys(replies, args, true).await?,
        b"help" => session.outbox.replies.help("COMMAND", &HELP),
        _ => return Err(Error::unknown_subcommand("command", args.at(1))),
    }
    Ok(())
}

const HELP: [&str; 8] = [
    "(no subcommand): details of all commands.",
    "COUNT: the number of commands.",
    "DOCS [<name> ...]: a line about each command.",
    "GETKEYS <full-command>: the keys in a command.",
    "GETKEYSANDFLAGS <full-command>: the keys, and what is done to them.",
    "INFO [<name> ...]: details of commands.",
    "LIST [FILTERBY PATTERN <pattern> | ACLCAT <category> | MODULE <name>]: names of commands.",
    "HELP: this text.",
];

/// The ten fields of `COMMAND INFO`; categories, tips, key specifications and subcommands are left empty.
fn describe(replies: &mut Replies, command: Option<&Command>) {
    let Some(command) = command else { return replies.null() };
    replies.array(10);
    replies.bulk(command.name.as_bytes());
    replies.integer(i64::from(command.arity));
    replies.set(command.flags.len());
    command.flags.iter().for_each(|flag| replies.simple(flag));
    let (first, last, step) = command.channels.unwrap_or(command.keys);
    for position in [first, last, step] {
        replies.integer(i64::from(position));
    }
    replies.set(0);
    replies.array(0);
    replies.array(0);
    replies.array(0);
}

fn document(replies: &mut Replies, command: &Command) {
    replies.bulk(command.name.as_bytes());
    replies.map(3);
    for (field, text) in [("summary", command.summary), ("since", "1.0.0"), ("group", command.group)] {
        replies.bulk(field.as_bytes());
        replies.bulk(text.as_bytes());
    }
}

fn list(replies: &mut Replies, args: Args<'_>) -> Outcome {
    let all = || COMMANDS.iter();
    let found: Vec<&Command> = match (args.len(), args.get(2), args.get(3)) {
        (2, _, _) => all().collect(),
        (5, Some(filter), Some(by)) if filter.eq_ignore_ascii_case(b"FILTERBY") => {
            let wanted = args.at(4);
            match lower(by).as_slice() {
                b"pattern" => {
                    let pattern = Glob::new(&glob::checked(wanted)?.to_ascii_lowercase());
                    all().filter(|command| pattern.matches(command.name.as_bytes())).collect()
                }
                b"aclcat" => all().filter(|command| command.is_in_category(wanted)).collect(),
                // There are no modules.
                b"module" => Vec::new(),
                _ => return Err(SYNTAX),
            }
        }
        _ => return Err(SYNTAX),
    };
    replies.array(found.len());
    found.iter().for_each(|command| replies.bulk(command.name.as_bytes()));
    Ok(())
}

/// Positions of the first and the last key that a `MIGRATE` of `len` words names: behind its `KEYS`, where its key is
/// empty.
fn migrated_keys<'a>(word: impl Fn(usize) -> &'a [u8], len: usize) -> Outcome<(usize, usize)> {
    let mut at = 6;
    // A `KEYS` at the end names none.
    while at + 1 < len {
        at += match lower(word(at)).as_slice() {
            b"keys" if word(3).is_empty() => return Ok((at + 1, len - 1)),
            b"keys" => return Err(Error::new("ERR Invalid arguments specified for command")),
            b"auth" => 2,
            b"auth2" => 3,
            _ => 1,
        };
    }
    Ok((3, 3))
}

/// `GETKEYS`, and with `flags` `GETKEYSANDFLAGS`, for cluster clients, which ask where the keys of a command are.
async fn get_keys(replies: &mut Replies, args: Args<'_>, flags: bool) -> Outcome {
    let Some(command) = table::find(args.at(2)) else { return Err(Error::new("ERR Invalid command specified")) };
    let len = args.len() - 2;
    let (first, last, step) = command.keys_with(args.get(3));
    if command.counted.is_some() || command.reads_streams {
        return get_counted_keys(replies, command, args, flags).await;
    }
    if first == 0 {
        return Err(Error::new("ERR The command has no key arguments"));
    }
    if !command.takes(len) || len <= first as usize {
        return Err(Error::new("ERR Invalid number of arguments specified for command"));
    }
    let last = if last < 0 { len - last.unsigned_abs() as usize } else { last as usize };
    let (first, last) = match command.name {
        "migrate" => migrated_keys(|position| args.at(position + 2), len)?,
        _ => (first as usize, last),
    };
    let keys = (first..last + 1).step_by(step.max(1) as usize);
    let count = keys.clone().count();
    let keys = keys.enumerate();
    let keys = keys.map(|(position, index)| (args.at(index + 2), command.key_flags(position, args.iter_from(4))));
    let stored = command.stored_key(args.with_spans(&args.spans()[2..])).map(|key| (key, &["OW", "update"][..]));
    replies.array(count + usize::from(stored.is_some()));
    for (index, (key, words)) in keys.chain(stored).enumerate() {
        end_turn(index).await;
        tell_key(replies, key, flags.then_some(words));
    }
    Ok(())
}

/// A key, with what is done to it where that is asked for.
fn tell_key(replies: &mut Replies, key: &[u8], words: Option<&[&str]>) {
    let Some(words) = words else { return replies.bulk(key) };
    replies.array(2);
    replies.bulk(key);
    replies.set(words.len());
    words.iter().for_each(|word| replies.simple(word));
}

/// The same of a command whose keys are counted among its words, or stand behind the word `STREAMS`.
async fn get_counted_keys(replies: &mut Replies, command: &Command, args: Args<'_>, flags: bool) -> Outcome {
    const INVALID: Error = Error::new("ERR Invalid arguments specified for command");
    let asked = args.with_spans(&args.spans()[2..]);
    if !command.takes(asked.len()) {
        return Err(Error::new("ERR Invalid number of arguments specified for command"));
    }
    if command.reads_streams {
        command.streams_keys(asked).filter(|keys| !keys.is_empty()).ok_or(INVALID)?;
    } else {
        let counted = command.counted_keys(asked).ok_or(INVALID)?;
        let number = command.counted.and_then(|place| asked.get(place)).and_then(parse_i64);
        if number != i64::try_from(counted.len()).ok() {
            return Err(INVALID);
        }
    }
    let keys = command.keys_in(asked);
    replies.array(keys.clone().count());
    for (position, key) in keys.enumerate() {
        end_turn(position).await;
        let words = command.key_flags(position, asked.iter_from(2));
        tell_key(replies, key, flags.then_some(words));
    }
    Ok(())
}
