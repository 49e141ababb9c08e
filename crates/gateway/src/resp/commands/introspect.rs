//! `COMMAND`: the table of commands, for clients that look them up.

use weir_command::error::{Error, Outcome, SYNTAX};
use weir_command::glob::{self, Glob};
use weir_command::number::parse_i64;
use weir_command::reply::Replies;
use weir_command::table::key_specs::{self, Begin, Find, KeySpec};
use weir_command::table::subcommands::{self, Subcommand};
use weir_command::table::{self, COMMANDS, Categories, Command, redis_facts};
use weir_command::{Args, lower};

use super::end_turn;
use crate::resp::session::Session;
use crate::store::Store;

pub(in crate::resp) async fn command<S: Store>(session: &mut Session<S>, args: Args<'_>) -> Outcome {
    let Some(subcommand) = args.get(1).map(lower) else {
        session.outbox.replies.array(COMMANDS.len());
        COMMANDS.iter().for_each(|command| describe(&mut session.outbox.replies, Some(Described::Command(command))));
        return Ok(());
    };
    let replies = &mut session.outbox.replies;
    match subcommand.as_slice() {
        b"count" => replies.integer(COMMANDS.len() as i64),
        b"info" if args.len() == 2 => {
            replies.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| describe(replies, Some(Described::Command(command))));
        }
        b"info" => {
            replies.array(args.len() - 2);
            for (index, name) in args.iter_from(2).enumerate() {
                end_turn(index).await;
                describe(&mut session.outbox.replies, Described::find(name));
                session.outbox.flush_if_long().await?;
            }
        }
        b"docs" => {
            if args.len() == 2 {
                replies.map(COMMANDS.len());
                COMMANDS.iter().for_each(|command| document(replies, Described::Command(command)));
                return Ok(());
            }
            let mut known = 0;
            for (index, name) in args.iter_from(2).enumerate() {
                end_turn(index).await;
                known += usize::from(Described::find(name).is_some());
            }
            session.outbox.replies.map(known);
            for (index, command) in args.iter_from(2).map(Described::find).enumerate() {
                end_turn(index).await;
                let Some(command) = command else { continue };
                document(&mut session.outbox.replies, command);
                session.outbox.flush_if_long().await?;
            }
        }
        b"list" => list(replies, args)?,
        b"getkeys" => get_keys(replies, args, false).await?,
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

/// A command, or a subcommand, that is described.
#[derive(Clone, Copy)]
enum Described {
    Command(&'static Command),
    Subcommand(&'static Subcommand),
}

impl Described {
    /// The command with this name, or the subcommand, whose name stands after that of its command and a bar.
    fn find(name: &[u8]) -> Option<Self> {
        let Some(bar) = name.iter().position(|&byte| byte == b'|') else {
            return table::find(name).map(Described::Command);
        };
        let container = table::find(&name[..bar])?;
        subcommands::find(container.name, &name[bar + 1..]).map(Described::Subcommand)
    }

    /// All commands and subcommands.
    fn all() -> impl Iterator<Item = Self> {
        COMMANDS.iter().flat_map(|command| {
            let below = subcommands::of(command.name).map(Described::Subcommand);
            std::iter::once(Described::Command(command)).chain(below)
        })
    }

    fn name(self) -> String {
        match self {
            Described::Command(command) => command.name.to_owned(),
            Described::Subcommand(subcommand) => subcommand.full_name(),
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Described::Command(command) => command.flags,
            Described::Subcommand(subcommand) => subcommand.flags,
        }
    }

    fn categories(self) -> Categories {
        match self {
            Described::Command(command) => command.categories,
            Described::Subcommand(subcommand) => subcommand.categories,
        }
    }
}

/// The ten fields of `COMMAND INFO`.
fn describe(replies: &mut Replies, described: Option<Described>) {
    let Some(described) = described else { return replies.null() };
    let name = described.name();
    replies.array(10);
    replies.bulk(name.as_bytes());
    let (arity, keys) = match described {
        Described::Command(command) => (command.arity, command.channels.unwrap_or(command.keys)),
        Described::Subcommand(Subcommand { arity, key_use: Some(_), .. }) => (*arity, (2, 2, 1)),
        Described::Subcommand(subcommand) => (subcommand.arity, (0, 0, 0)),
    };
    replies.integer(i64::from(arity));
    replies.set(described.flags().len());
    described.flags().iter().for_each(|flag| replies.simple(flag));
    for position in [keys.0, keys.1, keys.2] {
        replies.integer(i64::from(position));
    }
    let categories = described.categories();
    replies.set(categories.names().count());
    categories.names().for_each(|category| replies.simple(&format!("@{category}")));
    let tips = redis_facts::tips(&name);
    replies.set(tips.len());
    tips.iter().for_each(|tip| replies.bulk(tip.as_bytes()));
    match described {
        Described::Command(command) => {
            let specs = key_specs::of(command.name);
            if specs.is_empty() && keys.0 > 0 && command.channels.is_none() {
                // A command of a later version of Redis: describes what the table knows of its keys.
                let flags = command.key_use.words(0, std::iter::empty());
                let last = if keys.1 < 0 { keys.1 } else { keys.1 - keys.0 };
                let find = Find::Range(i64::from(last), i64::from(keys.2), 0);
                replies.set(1);
                tell_spec(replies, &KeySpec { flags, begin: Begin::Index(i64::from(keys.0)), find });
            } else {
                replies.set(specs.len());
                specs.iter().for_each(|spec| tell_spec(replies, spec));
            }
            let below = subcommands::of(command.name);
            let count = below.count();
            // Redis answers with a set if there are none, and with an array if there are some.
            if count == 0 {
                replies.set(0)
            } else {
                replies.array(count)
            }
            for subcommand in subcommands::of(command.name) {
                describe(replies, Some(Described::Subcommand(subcommand)));
            }
        }
        Described::Subcommand(subcommand) => {
            replies.set(usize::from(subcommand.key_use.is_some()));
            if let Some(key_use) = subcommand.key_use {
                let flags = key_use.words(0, std::iter::empty());
                tell_spec(replies, &KeySpec { flags, begin: Begin::Index(2), find: Find::Range(0, 1, 0) });
            }
            replies.set(0);
        }
    }
}

/// Writes a key specification.
fn tell_spec(replies: &mut Replies, spec: &KeySpec) {
    let part = |replies: &mut Replies, name: &str, kind: &str, numbers: &[(&str, i64)]| {
        replies.bulk(name.as_bytes());
        replies.map(2);
        replies.bulk(b"type");
        replies.bulk(kind.as_bytes());
        replies.bulk(b"spec");
        replies.map(numbers.len());
        for (name, number) in numbers {
            replies.bulk(name.as_bytes());
            replies.integer(*number);
        }
    };
    replies.map(3);
    replies.bulk(b"flags");
    replies.set(spec.flags.len());
    spec.flags.iter().for_each(|flag| replies.simple(flag));
    match spec.begin {
        Begin::Index(index) => part(replies, "begin_search", "index", &[("index", index)]),
        Begin::Unknown => part(replies, "begin_search", "unknown", &[]),
        Begin::Keyword(keyword, from) => {
            replies.bulk(b"begin_search");
            replies.map(2);
            replies.bulk(b"type");
            replies.bulk(b"keyword");
            replies.bulk(b"spec");
            replies.map(2);
            replies.bulk(b"keyword");
            replies.bulk(keyword.as_bytes());
            replies.bulk(b"startfrom");
            replies.integer(from);
        }
    }
    match spec.find {
        Find::Range(last, step, limit) => {
            part(replies, "find_keys", "range", &[("lastkey", last), ("keystep", step), ("limit", limit)]);
        }
        Find::Number(number, first, step) => {
            part(replies, "find_keys", "keynum", &[("keynumidx", number), ("firstkey", first), ("keystep", step)]);
        }
        Find::Unknown => part(replies, "find_keys", "unknown", &[]),
    }
}

/// Writes a summary of our own, the version since when the command exists, and its group.
fn document(replies: &mut Replies, described: Described) {
    let name = described.name();
    let (summary, group) = match described {
        Described::Command(command) => (command.summary, command.group),
        Described::Subcommand(subcommand) => match table::find(subcommand.container.as_bytes()) {
            Some(command) => (command.summary, command.group),
            None => return,
        },
    };
    let below = match described {
        Described::Command(command) => subcommands::of(command.name).count(),
        Described::Subcommand(_) => 0,
    };
    let since = redis_facts::since(&name);
    replies.bulk(name.as_bytes());
    replies.map(2 + usize::from(since.is_some()) + usize::from(below > 0));
    for (field, text) in [("summary", Some(summary)), ("since", since), ("group", Some(group))] {
        if let Some(text) = text {
            replies.bulk(field.as_bytes());
            replies.bulk(text.as_bytes());
        }
    }
    if let Described::Command(command) = described
        && below > 0
    {
        replies.bulk(b"subcommands");
        replies.map(below);
        subcommands::of(command.name).for_each(|subcommand| document(replies, Described::Subcommand(subcommand)));
    }
}

fn list(replies: &mut Replies, args: Args<'_>) -> Outcome {
    let all = Described::all;
    let found: Vec<Described> = match (args.len(), args.get(2), args.get(3)) {
        (2, _, _) => all().collect(),
        (5, Some(filter), Some(by)) if filter.eq_ignore_ascii_case(b"FILTERBY") => {
            let wanted = args.at(4);
            match lower(by).as_slice() {
                b"pattern" => {
                    let pattern = Glob::new(&glob::checked(wanted)?.to_ascii_lowercase());
                    all().filter(|described| pattern.matches(described.name().as_bytes())).collect()
                }
                b"aclcat" => {
                    let category = Categories::find(wanted);
                    all().filter(|one| category.is_some_and(|place| one.categories().has(place))).collect()
                }
                // There are no modules.
                b"module" => Vec::new(),
                _ => return Err(SYNTAX),
            }
        }
        _ => return Err(SYNTAX),
    };
    replies.array(found.len());
    found.iter().for_each(|described| replies.bulk(described.name().as_bytes()));
    Ok(())
}

/// Positions of the first and the last key that a `MIGRATE` of `len` words names. They stand after its `KEYS` if its
/// key is empty.
fn migrated_keys<'a>(word: impl Fn(usize) -> &'a [u8], len: usize) -> Outcome<(usize, usize)> {
    let mut at = 6;
    // A `KEYS` at the end names no keys.
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

/// Writes a key, and what the command does to it if that is asked for.
fn tell_key(replies: &mut Replies, key: &[u8], words: Option<&[&str]>) {
    let Some(words) = words else { return replies.bulk(key) };
    replies.array(2);
    replies.bulk(key);
    replies.set(words.len());
    words.iter().for_each(|word| replies.simple(word));
}

/// The same for a command that has the number of its keys among its words, or its keys after the word `STREAMS`.
async fn get_counted_keys(replies: &mut Replies, command: &Command, args: Args<'_>, flags: bool) -> Outcome {
    const INVALID: Error = Error::new("ERR Invalid arguments specified for command");
    let asked = args.with_spans(&args.spans()[2..]);
    if !command.takes(asked.len()) {
        return Err(Error::new("ERR Invalid number of arguments specified for command"));
    }
    if command.reads_streams {
        command.streams_keys(asked).filter(|keys| !keys.is_empty()).ok_or(INVALID)?;
    } else {
        let number = command.counted.and_then(|place| asked.get(place)).and_then(parse_i64);
        if number == Some(0) && command.flags.contains(&"no_mandatory_keys") {
            replies.array(0);
            return Ok(());
        }
        let counted = command.counted_keys(asked).ok_or(INVALID)?;
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
