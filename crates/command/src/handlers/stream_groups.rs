//! `XGROUP` and `XACK`: making and removing groups of consumers, and acknowledging entries.

use super::integer;
use super::stream_ids;
use super::stream_reads::NAME_TOO_LONG;
use crate::args::Args;
use crate::collection::{Group, NAME_BYTES_MAX, Stream};
use crate::context::Context;
use crate::error::{Error, Outcome};
use crate::events::Classes;
use crate::keyword::lower;
use crate::table::subcommands;
use crate::turn::end_turn;

const NO_STREAM: Error = Error::new(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option \
     to create an empty stream automatically.",
);
const BUSY: Error = Error::new("BUSYGROUP Consumer Group name already exists");
const READ: Error = Error::new("ERR value for ENTRIESREAD must be positive or -1");

const HELP: [&str; 12] = [
    "CREATE <key> <group> <id|$> [option]",
    "    Makes a group that is given what is behind the id. Options are:",
    "    * MKSTREAM",
    "      Makes an empty stream where there is none.",
    "    * ENTRIESREAD <number>",
    "      How many entries it has read, to tell its lag.",
    "CREATECONSUMER <key> <group> <consumer>",
    "    Makes a consumer.",
    "DELCONSUMER <key> <group> <consumer>: ends a consumer, with what is pending for it.",
    "DESTROY <key> <group>: ends a group.",
    "SETID <key> <group> <id|$> [ENTRIESREAD <number>]: what is behind the id is given next.",
    "HELP: this text.",
];

/// The error for a group that does not exist.
pub fn no_such_group(key: &[u8], group: &[u8]) -> Error {
    let front = &b"NOGROUP No such consumer group '"[..];
    Error::bytes([front, group, b"' for key name '", key, b"'"].concat())
}

/// The options behind the id of `CREATE` and `SETID`.
#[derive(Default)]
struct Options {
    makes_stream: bool,
    /// How many entries the group has read; `Some(None)` = not known.
    read: Option<Option<u64>>,
}

impl Options {
    fn parse(args: Args<'_>, is_create: bool) -> Outcome<Self> {
        let mut options = Self::default();
        let mut words = args.iter_from(5);
        while let Some(word) = words.next() {
            if is_create && word.eq_ignore_ascii_case(b"MKSTREAM") {
                options.makes_stream = true;
            } else if word.eq_ignore_ascii_case(b"ENTRIESREAD")
                && let Some(number) = words.next()
            {
                let number = integer(number)?;
                if number < -1 {
                    return Err(READ);
                }
                options.read = Some(u64::try_from(number).ok());
            } else {
                return Err(Error::subcommand("XGROUP", args.at(1)));
            }
        }
        Ok(options)
    }
}

pub async fn xgroup(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let subcommand = lower(args.at(1));
    subcommands::check("xgroup", args)?;
    match subcommand.as_slice() {
        b"create" => create(cx, args).await,
        b"setid" => {
            let options = Options::parse(args, false)?;
            let (mut stream, mut group) = of_key(cx, args).await?;
            group.value.delivered = match args.at(4) {
                b"$" => stream.detail().last,
                word => stream_ids::any(word, 0)?,
            };
            group.value.read = options.read.flatten();
            cx.tell(Classes::STREAM, "xgroup-setid", args.at(2));
            stream.save_group(cx, &mut group)?;
            cx.save_stream(&mut stream)?;
            cx.replies().ok();
            Ok(())
        }
        b"destroy" => destroy(cx, args).await,
        b"createconsumer" => {
            if args.at(4).len() > NAME_BYTES_MAX {
                return Err(NAME_TOO_LONG);
            }
            let (mut stream, mut group) = of_key(cx, args).await?;
            let is_new = stream.consumer(cx, &mut group, args.at(4)).await?.is_none();
            if is_new {
                let now_ms = cx.clock_ms();
                stream.consumer_or_new(cx, &mut group, args.at(4)).await?.value.seen_ms = now_ms;
                stream.save_group(cx, &mut group)?;
                cx.save_stream(&mut stream)?;
            }
            cx.replies().integer(i64::from(is_new));
            Ok(())
        }
        b"delconsumer" => {
            let (mut stream, mut group) = of_key(cx, args).await?;
            let ended = stream.end_consumer(cx, &mut group, args.at(4)).await?;
            if ended.is_some() {
                cx.tell(Classes::STREAM, "xgroup-delconsumer", args.at(2));
                stream.save_group(cx, &mut group)?;
                cx.save_stream(&mut stream)?;
            }
            cx.replies().integer(ended.unwrap_or(0) as i64);
            Ok(())
        }
        b"help" => {
            cx.replies().help("XGROUP", &HELP);
            Ok(())
        }
        _ => Err(Error::unknown_subcommand("xgroup", args.at(1))),
    }
}

/// The stream of word 2, which has to exist, and the group of word 3 in it.
async fn of_key<'k>(cx: &mut Context<'_>, args: Args<'k>) -> Outcome<(Stream<'k>, Group)> {
    let stream = cx.stream(args.at(2)).await?.ok_or(NO_STREAM)?;
    let group = stream.group(cx, args.at(3)).await?.ok_or_else(|| no_such_group(args.at(2), args.at(3)))?;
    Ok((stream, group))
}

async fn create(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let options = Options::parse(args, true)?;
    let (key, name) = (args.at(2), args.at(3));
    if name.len() > NAME_BYTES_MAX {
        return Err(NAME_TOO_LONG);
    }
    let mut stream = match cx.stream(key).await? {
        Some(stream) => stream,
        None if options.makes_stream => cx.new_stream(key),
        None => return Err(NO_STREAM),
    };
    let behind = match args.at(4) {
        b"$" => stream.detail().last,
        word => stream_ids::exact(word, 0)?,
    };
    if stream.group(cx, name).await?.is_some() {
        return Err(BUSY);
    }
    cx.tell(Classes::STREAM, "xgroup-create", key);
    let mut group = stream.new_group(name, behind, options.read.flatten());
    stream.save_group(cx, &mut group)?;
    cx.save_stream(&mut stream)?;
    cx.replies().ok();
    Ok(())
}

async fn destroy(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut stream = cx.stream(args.at(2)).await?.ok_or(NO_STREAM)?;
    let group = stream.group(cx, args.at(3)).await?;
    if let Some(group) = &group {
        stream.end_group(cx, group).await?;
        cx.tell(Classes::STREAM, "xgroup-destroy", args.at(2));
        cx.save_stream(&mut stream)?;
    }
    cx.replies().integer(i64::from(group.is_some()));
    Ok(())
}

pub async fn xack(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let found = match cx.stream(args.at(1)).await? {
        None => None,
        Some(stream) => stream.group(cx, args.at(2)).await?.map(|group| (stream, group)),
    };
    let Some((mut stream, mut group)) = found else {
        cx.replies().integer(0);
        return Ok(());
    };
    let ids = args.iter_from(3).map(|word| stream_ids::exact(word, 0)).collect::<Outcome<Vec<_>>>()?;
    let mut acknowledged = 0;
    for (index, id) in ids.into_iter().enumerate() {
        end_turn(cx.yields(), index).await;
        if let Some(value) = stream.pending(cx, &group, id).await? {
            stream.end_pending(cx, &mut group, id, &value).await?;
            acknowledged += 1;
        }
    }
    if acknowledged > 0 {
        stream.save_group(cx, &mut group)?;
        cx.save_stream(&mut stream)?;
    }
    cx.replies().integer(acknowledged);
    Ok(())
}
