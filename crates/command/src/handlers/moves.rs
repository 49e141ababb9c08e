//! Keys that get another name or another database: `RENAME`, `COPY`, `MOVE`.

use weir_model::parts::{Head, Life, SPACES, moved_subkey};
use weir_model::{Content, Row};

use super::database;
use crate::args::Args;
use crate::context::{Context, Subkeys};
use crate::error::{Error, NO_SUCH_KEY, Outcome, SYNTAX};

const SAME: Error = Error::new("ERR source and destination objects are the same");

/// Most bytes of parts that are copied at once.
const COPIED_BYTES_MAX: u64 = 64 << 20;
const TOO_LARGE: Error = Error::new("ERR the key is too large to be copied: its parts have more than 64 MB");

/// How many parts are copied between two turns.
const PAGE_PARTS: usize = 500;

/// Gives whether the row was renamed; it is not if the new name exists and `only_new` is set.
async fn rename_to(cx: &mut Context<'_>, args: Args<'_>, only_new: bool) -> Outcome<bool> {
    let (from, to) = (args.at(1), args.at(2));
    let source = cx.get(from).await?;
    let target = cx.get(to).await?;
    let source = source.ok_or(NO_SUCH_KEY)?;
    if only_new && target.is_some() {
        return Ok(false);
    }
    if from != to {
        // The parts of a large row are found by its version, which goes with the head.
        cx.delete(from)?;
        cx.put_content(cx.database(), to, &source.content, source.expire_at_ms)?;
    }
    Ok(true)
}

pub async fn rename(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    rename_to(cx, args, false).await?;
    cx.replies().ok();
    Ok(())
}

pub async fn renamenx(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let done = rename_to(cx, args, true).await?;
    cx.replies().integer(i64::from(done));
    Ok(())
}

/// The words behind `COPY from to`.
struct CopyOptions {
    replace: bool,
    /// The number of the database that the copy goes to.
    database: u8,
}

impl CopyOptions {
    fn parse(args: Args<'_>, chosen: u8) -> Outcome<Self> {
        let mut options = Self { replace: false, database: chosen };
        let mut words = args.iter_from(3);
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case(b"REPLACE") {
                options.replace = true;
            } else if word.eq_ignore_ascii_case(b"DB") {
                options.database = database(words.next().ok_or(SYNTAX)?)?;
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(options)
    }
}

/// The database of the second row of a `COPY` or `MOVE`; `None` if the command will fail.
pub fn other_database(args: Args<'_>, chosen: u8) -> Option<u8> {
    match args.at(0).len() {
        // There are only these two commands, and both names have four letters.
        4 if args.at(0).eq_ignore_ascii_case(b"MOVE") => database(args.at(2)).ok(),
        _ => CopyOptions::parse(args, chosen).ok().map(|options| options.database),
    }
}

/// A copy of `content`, which is of the row of `key`, with a life of its own.
async fn copied(cx: &mut Context<'_>, key: &[u8], content: &Content) -> Outcome<Content> {
    let Content::Parts(head) = content else { return Ok(content.clone()) };
    let copy = Head { version: cx.new_head(head.kind).version, ..Head::clone(head) };
    if head.packed.is_none() {
        if head.bytes > COPIED_BYTES_MAX {
            return Err(TOO_LARGE);
        }
        copy_parts(cx, key, head, &copy).await?;
    }
    Ok(Content::Parts(Box::new(copy)))
}

/// Copies every part of the row of `key`, which has the head `from`, into the life of `to`.
async fn copy_parts(cx: &mut Context<'_>, key: &[u8], from: &Head, to: &Head) -> Outcome {
    // All that is written waits in memory until the command ends. For short parts it is several times as much as the
    // head counts: each change has a long key, and a sorted set has two parts for each member.
    let mut room = cx.room(usize::MAX, TOO_LARGE);
    for space in 0..SPACES {
        let mut left = Some(Subkeys::all(space));
        while let Some(subkeys) = left {
            let page = cx.parts(key, Life::new(from.version), subkeys, PAGE_PARTS).await?;
            left = page.next;
            let before = cx.written().as_bytes().len();
            for part in page.parts {
                let subkey = moved_subkey(from.kind, space, part.subkey, to.version);
                cx.put_part(Life::new(to.version), space, &subkey, &part.value)?;
            }
            room.take(cx.written().as_bytes().len() - before)?;
            cx.yields().now().await;
        }
    }
    Ok(())
}

pub async fn copy(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (from, to) = (args.at(1), args.at(2));
    let options = CopyOptions::parse(args, cx.database())?;
    if options.database == cx.database() && from == to {
        return Err(SAME);
    }
    let source = cx.get(from).await?;
    let target = cx.get_in(options.database, to).await?;
    let row = source.filter(|_| options.replace || target.is_none());
    if let Some(Row { content, expire_at_ms }) = &row {
        let content = copied(cx, from, content).await?;
        cx.put_content(options.database, to, &content, *expire_at_ms)?;
    }
    cx.replies().integer(i64::from(row.is_some()));
    Ok(())
}

pub async fn move_key(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (key, other) = (args.at(1), database(args.at(2))?);
    if other == cx.database() {
        return Err(SAME);
    }
    let source = cx.get(key).await?;
    let target = cx.get_in(other, key).await?;
    let row = source.filter(|_| target.is_none());
    if let Some(Row { content, expire_at_ms }) = &row {
        cx.put_content(other, key, content, *expire_at_ms)?;
        cx.delete(key)?;
    }
    cx.replies().integer(i64::from(row.is_some()));
    Ok(())
}
