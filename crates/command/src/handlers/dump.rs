//! `DUMP`, `RESTORE` and `MIGRATE`: values that move between servers.

use weir_model::Content;
use weir_model::parts::{Head, RowType};

use super::{hashes, integer, stream_dump};
use crate::args::Args;
use crate::collection::{Collection, End, Member, Stream, Stretch};
use crate::context::Context;
use crate::error::{Error, Outcome, SYNTAX, TOO_LONG};
use crate::keyword::upper;
use crate::rdb::{self, Field, Loaded, Refusal, kind, push_len, push_long_len, push_string};
use crate::turn::end_turn;

const BAD_FORMAT: Error = Error::new("ERR Bad data format");
const TOO_LARGE: Error = Error::new("ERR the key is too large for DUMP: its parts have more than 64 MB");
const BEFORE_THE_FIRST: Error = Error::new("ERR internal error: a field expires before the first one that expires");
const TOO_MANY: Error = Error::new("ERR the payload has more than 4194304 elements");

/// Most bytes of parts that can be dumped: the payload is gathered as a whole.
const DUMPED_BYTES_MAX: u64 = 64 << 20;

/// A row with more bytes than this in its parts is dumped page by page: gathered in a list, short elements take many
/// times the bytes that they take in the payload.
const WHOLE_BYTES_MAX: u64 = 1 << 20;

/// How many members are read at once.
const PAGE_MEMBERS: usize = 500;

pub async fn dump(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let payload = match cx.row_of_one_moment(args.at(1)).await?.map(|row| row.content) {
        None => {
            cx.replies().null();
            return Ok(());
        }
        Some(Content::String(value)) => encoded(cx, &Loaded::String(value.to_vec())).await,
        Some(Content::Parts(head)) if head.bytes > WHOLE_BYTES_MAX && head.kind != RowType::Stream => {
            paged(cx, args.at(1), *head).await?
        }
        Some(Content::Parts(head)) => {
            let loaded = whole_row(cx, args.at(1), *head).await?;
            encoded(cx, &loaded).await
        }
    };
    // One step for each byte of the checksum.
    cx.computed(payload.len());
    cx.replies().bulk_value(payload);
    Ok(())
}

async fn encoded(cx: &mut Context<'_>, loaded: &Loaded) -> Vec<u8> {
    cx.copied_parts(loaded.texts());
    rdb::encode(loaded, cx.yields()).await
}

/// The payload for the row of `key`, which has `head` and is no stream, written page by page.
///
/// # Errors
/// As [`whole_row`].
async fn paged(cx: &mut Context<'_>, key: &[u8], head: Head) -> Outcome<Vec<u8>> {
    if head.bytes > DUMPED_BYTES_MAX {
        return Err(TOO_LARGE);
    }
    let (of, first_ms) = (head.kind, head.mortal().map(|mortal| mortal.first_ms));
    let row = Collection::found(key, (head, None), cx.now_ms());
    let mut body = vec![match of {
        RowType::List => kind::LIST,
        RowType::Set => kind::SET,
        RowType::SortedSet => kind::SORTED_SET_2,
        RowType::Hash if first_ms.is_some() => kind::HASH_METADATA,
        RowType::Hash => kind::HASH,
        RowType::Stream => return Err(Error::new("ERR internal error: streams are dumped as wholes")),
    }];
    body.extend(first_ms.map(u64::to_le_bytes).into_iter().flatten());
    // The longest form of a length, whose last bytes are written once the elements are counted.
    push_len(&mut body, u32::MAX as usize);
    let start = body.len();
    let count = match of {
        RowType::List => put_values(cx, &row, &mut body).await?,
        RowType::SortedSet => put_scores(cx, &row, &mut body).await?,
        _ => put_members(cx, &row, first_ms, &mut body).await?,
    };
    body[start - 4..start].copy_from_slice(&count.to_be_bytes());
    let version = if first_ms.is_some() { rdb::VERSION_OF_DEADLINES } else { rdb::VERSION };
    Ok(rdb::seal(body, version, cx.yields()).await)
}

/// Appends the values of a list; gives how many there are.
async fn put_values(cx: &mut Context<'_>, row: &Collection<'_>, body: &mut Vec<u8>) -> Outcome<u32> {
    let mut count = 0;
    while count < row.len() {
        let some = row.some_values(cx, count..row.len(), false).await?;
        some.iter().for_each(|value| push_string(body, value));
        count += some.len() as u64;
        cx.copied_parts(some.len());
        cx.yields().now().await;
    }
    Ok(count as u32)
}

/// Appends the members of a sorted set with their scores; gives how many there are.
async fn put_scores(cx: &mut Context<'_>, row: &Collection<'_>, body: &mut Vec<u8>) -> Outcome<u32> {
    let (mut count, mut left) = (0, Some(Stretch::ALL));
    while let Some(stretch) = left {
        let (members, rest) = row.scored_page(cx, stretch, false, PAGE_MEMBERS).await?;
        for member in &members {
            push_string(body, &member.name);
            body.extend_from_slice(&member.score.to_le_bytes());
        }
        count += members.len() as u32;
        left = rest;
        cx.copied_parts(2 * members.len());
        cx.yields().now().await;
    }
    Ok(count)
}

/// Appends the members of a set, or the fields of a hash with their values, and with their deadlines if there is a
/// first one; gives how many there are.
async fn put_members(
    cx: &mut Context<'_>,
    row: &Collection<'_>,
    first_ms: Option<u64>,
    body: &mut Vec<u8>,
) -> Outcome<u32> {
    let (mut count, mut next) = (0, Some(0));
    let texts = if row.kind() == RowType::Hash { 2 } else { 1 };
    while let Some(from) = next {
        let page = row.members_from(cx, from, PAGE_MEMBERS).await?;
        for Member { name, value, expire_at_ms } in &page.members {
            if let Some(first_ms) = first_ms {
                let later = expire_at_ms.map_or(Some(0), |at| Some(at.checked_sub(first_ms)? + 1));
                push_long_len(body, later.ok_or(BEFORE_THE_FIRST)?);
            }
            push_string(body, name);
            if texts == 2 {
                push_string(body, value);
            }
        }
        count += page.members.len() as u32;
        next = page.next;
        cx.copied_parts(texts * page.members.len());
        cx.yields().now().await;
    }
    Ok(count)
}

/// All of the row of `key`, which has `head`, as [`Context::row_of_one_moment`] gave it. The row is not looked up
/// again: a row whose parts are in its head may be gone by now, or may be another one.
///
/// # Errors
/// The row cannot be read, or is too large.
pub async fn whole_row(cx: &mut Context<'_>, key: &[u8], head: Head) -> Outcome<Loaded> {
    if head.bytes > DUMPED_BYTES_MAX {
        return Err(TOO_LARGE);
    }
    let kind = head.kind;
    let row = Collection::found(key, (head, None), cx.now_ms());
    match kind {
        RowType::Hash => {
            let members = all_members(cx, &row).await?;
            cx.copied_parts(members.len());
            let fields = members.into_iter().map(|Member { name, value, expire_at_ms }| Field {
                name,
                value: value.to_vec(),
                expire_at_ms,
            });
            Ok(Loaded::Hash(fields.collect()))
        }
        RowType::Set => {
            let members = all_members(cx, &row).await?;
            Ok(Loaded::Set(members.into_iter().map(|member| member.name).collect()))
        }
        RowType::List => {
            let mut values = Vec::new();
            while (values.len() as u64) < row.len() {
                let some = row.some_values(cx, values.len() as u64..row.len(), false).await?;
                cx.copied_parts(some.len());
                values.extend(some.iter().map(|value| value.to_vec()));
                cx.yields().now().await;
            }
            Ok(Loaded::List(values))
        }
        RowType::SortedSet => {
            let (mut scores, mut left) = (Vec::new(), Some(Stretch::ALL));
            while let Some(stretch) = left {
                let (members, rest) = row.scored_page(cx, stretch, false, PAGE_MEMBERS).await?;
                scores.extend(members.into_iter().map(|member| (member.name, member.score)));
                left = rest;
                cx.yields().now().await;
            }
            Ok(Loaded::SortedSet(scores))
        }
        RowType::Stream => Ok(Loaded::Stream(Box::new(stream_dump::whole(cx, &Stream::of(row)?).await?))),
    }
}

async fn all_members(cx: &mut Context<'_>, row: &Collection<'_>) -> Outcome<Vec<Member>> {
    let (mut members, mut next) = (Vec::new(), Some(0));
    while let Some(from) = next {
        let page = row.members_from(cx, from, PAGE_MEMBERS).await?;
        members.extend(page.members);
        next = page.next;
        cx.yields().now().await;
    }
    Ok(members)
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
    let loaded = match rdb::decode(args.at(3), cx.value_bytes_max(), cx.yields()).await {
        Ok(loaded) => loaded,
        Err(Refusal::VersionOrChecksum) => return Err(Error::new("ERR DUMP payload version or checksum are wrong")),
        Err(Refusal::TooLong) => return Err(TOO_LONG),
        Err(Refusal::TooMany) => return Err(TOO_MANY),
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
        Loaded::Stream(stream) => return stream_dump::put(cx, key, &stream, expire_at_ms).await,
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
