//! `DUMP`, `RESTORE` and `MIGRATE`: values on their way between servers.

use super::integer;
use crate::args::Args;
use crate::context::Context;
use crate::error::{Error, Outcome, SYNTAX, TOO_LONG};
use crate::keyword::upper;
use crate::rdb::{self, Refusal};

const DUMP_OF_PARTS: Error = Error::new("ERR DUMP of a key that is not a string is not supported yet");

pub async fn dump(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match cx.get(args.at(1)).await? {
        Some(row) => {
            let row = row.into_string().ok_or(DUMP_OF_PARTS)?;
            let payload = rdb::encode(&row.value, cx.yields()).await;
            cx.replies().bulk_value(payload);
        }
        None => cx.replies().null(),
    }
    Ok(())
}

/// The words behind `RESTORE key ttl payload`. How long a key was idle and how often it was used is checked and
/// forgotten.
#[derive(Default)]
struct Options {
    replace: bool,
    absolute: bool,
    idle: bool,
    frequency: bool,
}

impl Options {
    fn parse(args: Args<'_>) -> Outcome<Self> {
        let mut options = Self::default();
        let mut words = args.iter_from(4);
        while let Some(word) = words.next() {
            match upper(word).as_slice() {
                b"REPLACE" => options.replace = true,
                b"ABSTTL" => options.absolute = true,
                b"IDLETIME" if !options.frequency => {
                    if integer(words.next().ok_or(SYNTAX)?)? < 0 {
                        return Err(Error::new("ERR Invalid IDLETIME value, must be >= 0"));
                    }
                    options.idle = true;
                }
                b"FREQ" if !options.idle => {
                    if !(0..=255).contains(&integer(words.next().ok_or(SYNTAX)?)?) {
                        return Err(Error::new("ERR Invalid FREQ value, must be >= 0 and <= 255"));
                    }
                    options.frequency = true;
                }
                _ => return Err(SYNTAX),
            }
        }
        Ok(options)
    }
}

/// When the key ends, in milliseconds since 1970, from the `ttl` argument.
fn end_of(ttl: &[u8], options: &Options, now_ms: u64) -> Outcome<Option<u64>> {
    let ttl = u64::try_from(integer(ttl)?).map_err(|_| Error::new("ERR Invalid TTL value, must be >= 0"))?;
    Ok((ttl > 0).then_some(if options.absolute { ttl } else { ttl.saturating_add(now_ms) }))
}

pub async fn restore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.at(1);
    let options = Options::parse(args)?;
    let now_ms = cx.now_ms();
    // Whether the key is there is answered first, whatever the rest is like.
    let is_there = cx.get(key).await?.is_some();
    if is_there && !options.replace {
        return Err(Error::new("BUSYKEY Target key name already exists."));
    }
    let end = end_of(args.at(2), &options, now_ms)?;
    let value = match rdb::decode(args.at(3), cx.value_bytes_max(), cx.yields()).await {
        Ok(value) => value,
        Err(Refusal::VersionOrChecksum) => return Err(Error::new("ERR DUMP payload version or checksum are wrong")),
        Err(Refusal::TooLong) => return Err(TOO_LONG),
        Err(Refusal::Format) => return Err(Error::new("ERR Bad data format")),
    };
    if end.is_none_or(|end| end > now_ms) {
        cx.put(key, &value, end)?;
    } else if is_there {
        cx.delete(key)?;
    }
    cx.replies().ok();
    Ok(())
}

/// A server that opens connections to addresses a client names is a hole in the wall between tenants.
pub async fn migrate(_: &mut Context<'_>, _: Args<'_>) -> Outcome {
    Err(Error::new("ERR MIGRATE is not supported: use DUMP here and RESTORE there"))
}
