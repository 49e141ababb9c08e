//! `OBJECT`: how Redis would store a value. Weir does not store values that way, so the answers follow from the value
//! alone.

use weir_model::Content;
use weir_model::parts::RowType;

use crate::args::Args;
use crate::context::Context;
use crate::error::{Error, Outcome};
use crate::hyperloglog::is_hyperloglog;
use crate::keyword::lower;
use crate::number::parse_i64;
use crate::table::subcommands;

/// Redis keeps a value up to this length in one piece with its header.
const EMBEDDED_BYTES_MAX: usize = 44;
/// Redis stores whole numbers below this only once, for all keys.
const SHARED_NUMBERS: i64 = 10_000;

const HELP: [&str; 5] = [
    "ENCODING <key>: int, embstr, raw, listpack, listpackex, intset, hashtable, quicklist, skiplist or stream, as Redis would keep it.",
    "FREQ <key>: not tracked.",
    "IDLETIME <key>: 0, it is not tracked.",
    "REFCOUNT <key>: 1, or the highest number for what Redis shares.",
    "HELP: this text.",
];

fn encoding(content: &Content) -> &'static str {
    match content {
        Content::String(value) if parse_i64(value).is_some() => "int",
        // HyperLogLogs were not put there as a whole.
        Content::String(value) if is_hyperloglog(value) => "raw",
        Content::String(value) if value.len() <= EMBEDDED_BYTES_MAX => "embstr",
        Content::String(_) => "raw",
        // The first byte of the detail says whether Redis would keep the row as a small one.
        Content::Parts(head) => match head.kind {
            RowType::Hash if head.detail.first() == Some(&0) => "listpackex",
            RowType::Hash if head.detail.is_empty() => "listpack",
            RowType::SortedSet if !head.is_large() => "listpack",
            RowType::Set if !head.is_large() => "intset",
            RowType::Hash | RowType::Set => "hashtable",
            RowType::List => "quicklist",
            RowType::SortedSet => "skiplist",
            RowType::Stream => "stream",
        },
    }
}

/// Whether Redis would store the value only once, for all keys.
fn is_shared(content: &Content) -> bool {
    let Content::String(value) = content else { return false };
    parse_i64(value).is_some_and(|number| (0..SHARED_NUMBERS).contains(&number))
}

pub async fn object(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let subcommand = lower(args.at(1));
    subcommands::check("object", args)?;
    if subcommand.as_slice() == b"help" {
        cx.replies().help("OBJECT", &HELP);
        return Ok(());
    }
    let Some(row) = cx.get(args.at(2)).await? else {
        cx.replies().null();
        return Ok(());
    };
    match subcommand.as_slice() {
        b"encoding" => cx.replies().bulk(encoding(&row.content).as_bytes()),
        b"idletime" => cx.replies().integer(0),
        b"refcount" => {
            cx.replies().integer(if is_shared(&row.content) { i64::from(i32::MAX) } else { 1 });
        }
        _ => {
            return Err(Error::new(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
                 switching between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
    }
    Ok(())
}
