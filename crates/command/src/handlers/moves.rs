//! Keys that get another name or place: `RENAME`, `COPY`, `MOVE`.

use weir_model::{Row, StringRow};

use super::database;
use crate::args::Args;
use crate::context::Context;
use crate::error::{Error, NO_SUCH_KEY, Outcome, SYNTAX};

const SAME: Error = Error::new("ERR source and destination objects are the same");

/// The parts of a row have its key in theirs: another key would take as long as the row is large.
const PARTS_STAY: Error =
    Error::new("ERR only keys that are strings can be renamed, copied or moved to another database yet");

/// `row`, of which a copy is to be made.
fn movable(row: Option<Row>) -> Outcome<Option<StringRow>> {
    row.map(|row| row.into_string().ok_or(PARTS_STAY)).transpose()
}

/// Whether it was done: not where the new name exists and `only_new` is set.
async fn rename_to(cx: &mut Context<'_>, args: Args<'_>, only_new: bool) -> Outcome<bool> {
    let (from, to) = (args.at(1), args.at(2));
    let source = cx.get(from).await?;
    let target = cx.get(to).await?;
    let source = source.ok_or(NO_SUCH_KEY)?;
    if only_new && target.is_some() {
        return Ok(false);
    }
    if from != to {
        let StringRow { value, expire_at_ms } = source.into_string().ok_or(PARTS_STAY)?;
        cx.delete(from)?;
        cx.put(to, &value, expire_at_ms)?;
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

/// The database that the second row of a `COPY` or `MOVE` is in; `None` where the command will fail.
pub fn other_database(args: Args<'_>, chosen: u8) -> Option<u8> {
    match args.at(0).len() {
        // There are two such commands, and both names have four letters.
        4 if args.at(0).eq_ignore_ascii_case(b"MOVE") => database(args.at(2)).ok(),
        _ => CopyOptions::parse(args, chosen).ok().map(|options| options.database),
    }
}

pub async fn copy(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (from, to) = (args.at(1), args.at(2));
    let options = CopyOptions::parse(args, cx.database())?;
    if options.database == cx.database() && from == to {
        return Err(SAME);
    }
    let source = cx.get(from).await?;
    let target = cx.get_in(options.database, to).await?;
    let row = movable(source.filter(|_| options.replace || target.is_none()))?;
    if let Some(StringRow { value, expire_at_ms }) = &row {
        cx.put_in(options.database, to, value, *expire_at_ms)?;
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
    let row = movable(source.filter(|_| target.is_none()))?;
    if let Some(StringRow { value, expire_at_ms }) = &row {
        cx.put_in(other, key, value, *expire_at_ms)?;
        cx.delete(key)?;
    }
    cx.replies().integer(i64::from(row.is_some()));
    Ok(())
}
