//! `DUMP`, `RESTORE` and `MIGRATE`: values that move between servers.

use weir_model::Content;
use weir_model::parts::RowType;

use super::{hashes, integer, stream_restore};
use crate::args::Args;
use crate::collection::{Collection, End};
use crate::context::Context;
use crate::dumped::{Dumped, Target};
use crate::error::{Error, Outcome, SYNTAX, TOO_LONG, TOO_MANY_RESULTS};
use crate::keyword::upper;
use crate::rdb::{self, Loaded, Refusal, kind, push_string};
use crate::turn::end_turn;

const BAD_FORMAT: Error = Error::new("ERR Bad data format");
const TOO_LARGE: Error = Error::new("ERR the key is too large for DUMP: its parts have more than 64 MB");
const TOO_MANY: Error = Error::new("ERR the payload has more than 4194304 elements");

/// Most bytes of parts that can be dumped: the payload is gathered as a whole.
const DUMPED_BYTES_MAX: usize = 64 << 20;

pub async fn dump(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let payload = match cx.row_of_one_moment(args.at(1)).await?.map(|row| row.content) {
        None => {
            cx.replies().null();
            return Ok(());
        }
        Some(Content::String(value)) => {
            cx.copied_parts(1);
            // The payload is as long as the value, which is booked by itself if it is long.
            let mut room = cx.room(usize::MAX, TOO_LONG);
            room.take(value.len())?;
            let mut body = vec![kind::STRING];
            push_string(&mut body, &value);
            rdb::seal(body, rdb::VERSION, cx.yields()).await
        }
        Some(Content::Parts(head)) => {
            let mut room = cx.room(DUMPED_BYTES_MAX, TOO_LARGE);
            room.take(usize::try_from(head.bytes).unwrap_or(usize::MAX))?;
            // The row is not looked up again: by now it may be gone, or be another one.
            let row = Collection::found(args.at(1), (*head, None), cx.now_ms());
            let row = Dumped::of(cx, row).await?;
            let (version, mut body) = (row.version(), vec![row.kind()]);
            row.push(cx, &mut Target::Memory(&mut body)).await?;
            rdb::seal(body, version, cx.yields()).await
        }
    };
    // One step for each byte of the checksum.
    cx.computed(payload.len());
    cx.replies().bulk_value(payload);
    Ok(())
}

/// The words behind `RESTORE key ttl payload`. The options that say how long a key was idle and how often it was used
/// are checked, and then ignored.
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

/// When the key expires, in milliseconds since 1970, from the `ttl` argument.
fn end_of(ttl: &[u8], options: &Options, now_ms: u64) -> Outcome<Option<u64>> {
    let ttl = u64::try_from(integer(ttl)?).map_err(|_| Error::new("ERR Invalid TTL value, must be >= 0"))?;
    Ok((ttl > 0).then_some(if options.absolute { ttl } else { ttl.saturating_add(now_ms) }))
}

pub async fn restore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let key = args.at(1);
    let options = Options::parse(args)?;
    let now_ms = cx.now_ms();
    // Whether the key exists is answered first, whatever the other words are.
    let is_there = cx.get(key).await?.is_some();
    if is_there && !options.replace {
        return Err(Error::new("BUSYKEY Target key name already exists."));
    }
    let end = end_of(args.at(2), &options, cx.clock_ms())?;
    // A short payload may be a value of millions of elements. Its strings are bounded, and so are its elements.
    let room = cx.room(usize::MAX, TOO_LONG);
    let (loaded, _room) = match rdb::decode_within(args.at(3), cx.value_bytes_max(), cx.yields(), room).await {
        Ok(decoded) => decoded,
        Err(Refusal::VersionOrChecksum) => return Err(Error::new("ERR DUMP payload version or checksum are wrong")),
        Err(Refusal::TooLong) => return Err(TOO_LONG),
        Err(Refusal::TooMany) => return Err(TOO_MANY),
        Err(Refusal::NoRoom) => return Err(TOO_MANY_RESULTS),
        Err(Refusal::Format) => return Err(BAD_FORMAT),
    };
    if end.is_none_or(|end| end > now_ms) {
        put_row(cx, key, loaded, end).await?;
    } else if is_there {
        cx.delete(key)?;
    }
    cx.replies().ok();
    Ok(())
}

/// Puts the dumped value at `key`.
async fn put_row(cx: &mut Context<'_>, key: &[u8], loaded: Loaded, expire_at_ms: Option<u64>) -> Outcome {
    let mut row = match loaded {
        Loaded::String(value) => return cx.put(key, &value, expire_at_ms),
        Loaded::Hash(fields) => {
            let mut row = cx.new_collection(key, RowType::Hash);
            let now_ms = cx.now_ms();
            // Fields that have expired on the way do not exist, as if they had expired here.
            let living = fields.iter().filter(|field| field.expire_at_ms.is_none_or(|at| at > now_ms));
            for (index, field) in living.enumerate() {
                end_turn(cx.yields(), index).await;
                hashes::put(cx, &mut row, None, &field.name, &field.value, field.expire_at_ms)?;
            }
            row.expires_at(expire_at_ms);
            return cx.save_hash(&mut row).await;
        }
        Loaded::Set(members) => {
            let mut row = cx.new_collection(key, RowType::Set);
            for (index, member) in members.iter().enumerate() {
                end_turn(cx.yields(), index).await;
                row.add_new_member(cx, member)?;
            }
            row
        }
        Loaded::List(values) => {
            let mut row = cx.new_collection(key, RowType::List);
            row.push_values(cx, End::Back, values.iter().map(|value| &value[..])).await?;
            row
        }
        Loaded::SortedSet(scores) => {
            let mut row = cx.new_collection(key, RowType::SortedSet);
            for (index, (member, score)) in scores.iter().enumerate() {
                end_turn(cx.yields(), index).await;
                row.put_score(cx, None, member, *score).await?;
            }
            row.expires_at(expire_at_ms);
            return cx.save_sorted(&mut row).await;
        }
        Loaded::Stream(stream) => return stream_restore::put(cx, key, &stream, expire_at_ms).await,
    };
    row.expires_at(expire_at_ms);
    cx.save(&mut row)
}

/// Refused: a server that opens connections to addresses that a client names is a hole in the wall between tenants.
/// Words that Redis would not take are named first.
pub async fn migrate(_: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let mut words = args.iter_from(6);
    while let Some(word) = words.next() {
        match upper(word).as_slice() {
            b"COPY" | b"REPLACE" => {}
            b"AUTH" => {
                words.next().ok_or(SYNTAX)?;
            }
            b"AUTH2" => {
                words.nth(1).ok_or(SYNTAX)?;
            }
            // All other words are keys.
            b"KEYS" if args.at(3).is_empty() => break,
            b"KEYS" => {
                return Err(Error::new(
                    "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
                ));
            }
            _ => return Err(SYNTAX),
        }
    }
    integer(args.at(5))?;
    integer(args.at(4))?;
    Err(Error::new("ERR MIGRATE is not supported: use DUMP here and RESTORE there"))
}
