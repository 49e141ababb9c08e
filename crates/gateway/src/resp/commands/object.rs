//! `OBJECT`: how Redis would keep a value. Nothing here is kept that way, so the answers follow from the value alone.

use super::introspect::help;
use super::lower;
use crate::resp::connection::Connection;
use crate::resp::error::{Error, Outcome};
use crate::resp::frame::Args;
use crate::resp::number::parse_i64;
use crate::store::Store;

/// Redis keeps a value up to this length in one piece with its header.
const EMBEDDED_BYTES_MAX: usize = 44;
/// Redis keeps the whole numbers below this once for all keys.
const SHARED_NUMBERS: i64 = 10_000;

const HELP: [&str; 5] = [
    "ENCODING <key>: int, embstr or raw, as Redis would keep a value that is set as a whole.",
    "FREQ <key>: not tracked.",
    "IDLETIME <key>: 0, it is not tracked.",
    "REFCOUNT <key>: 1, or the highest number for what Redis shares.",
    "HELP: this text.",
];

fn encoding(value: &[u8]) -> &'static str {
    match value.len() {
        _ if parse_i64(value).is_some() => "int",
        ..=EMBEDDED_BYTES_MAX => "embstr",
        _ => "raw",
    }
}

pub(in crate::resp) async fn object<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let subcommand = lower(args.at(1));
    let name = match subcommand.as_slice() {
        b"help" if args.len() == 2 => {
            help(connection, "OBJECT", &HELP);
            return Ok(());
        }
        b"encoding" => "encoding",
        b"freq" => "freq",
        b"idletime" => "idletime",
        b"refcount" => "refcount",
        b"help" => return Err(Error::arity("object|help")),
        _ => return Err(Error::unknown_subcommand("object", args.at(1))),
    };
    if args.len() != 3 {
        return Err(Error::arity(&format!("object|{name}")));
    }
    let Some(entry) = connection.get(args.at(2)).await? else {
        connection.replies.null();
        return Ok(());
    };
    match name {
        "encoding" => connection.replies.bulk(encoding(&entry.value).as_bytes()),
        "idletime" => connection.replies.integer(0),
        "refcount" => {
            let is_shared = parse_i64(&entry.value).is_some_and(|number| (0..SHARED_NUMBERS).contains(&number));
            connection.replies.integer(if is_shared { i64::from(i32::MAX) } else { 1 });
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
