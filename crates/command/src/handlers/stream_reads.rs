//! `XREAD` and `XREADGROUP`: new entries of several streams, for a client or for a consumer of a group.

use weir_model::parts::stream::{EntryId, PendingValue};

use super::stream_ids;
use super::stream_replies::{ENTRY_BYTES, Told, page_of, tell_held, tell_range, told_bytes};
use super::{ONE_TURN_KEYS_MAX, integer};
use crate::args::Args;
use crate::collection::{Entry, Group, NAME_BYTES_MAX, Pending, Stream};
use crate::context::{Context, Wait};
use crate::error::{Error, Outcome, SYNTAX, WRONG_TYPE};
use crate::reply::Protocol;
use crate::stream_lag::read_with;
use crate::turn::end_turn;

const NOT_A_TIME: Error = Error::new("ERR timeout is not an integer or out of range");
const NEGATIVE: Error = Error::new("ERR timeout is negative");
const UNBALANCED: Error =
    Error::new("ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.");
const TOO_MANY_STREAMS: Error = Error::new("ERR XREAD takes at most 10000 streams at a time");
const NO_GROUP: Error = Error::new("ERR Missing GROUP option for XREADGROUP");
const ONLY_GROUP: Error = Error::new("ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.");
const ONLY_NOACK: Error = Error::new("ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.");
const ONLY_NEW: Error =
    Error::new("ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.");
const NO_DOLLAR: Error = Error::new(
    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by \
     specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
);
const STREAM_GONE: Error = Error::new("UNBLOCKED the stream key no longer exists");
const GROUP_GONE: Error = Error::new("NOGROUP the consumer group this client was blocked on no longer exists");
pub const NAME_TOO_LONG: Error =
    Error::new("ERR the name of a group or of a consumer is too long: it has at most 8192 bytes");

/// Most bytes of entries that are kept between the look whether there are any and the answer.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Most entries, and bytes of them in the answer, that a consumer is given at once: they are written as pending in one
/// record. A consumer that asks again gets more.
const DELIVERED_MAX: u64 = 10_000;
const DELIVERED_BYTES_MAX: i64 = 16 << 20;
/// How many more bytes the first entries of streams may have, all together: a stream is not left out only because the
/// entries of others are long. An answer that is much longer would be refused.
const FIRST_BYTES_MAX: i64 = 8 << 20;

/// The words in front of the keys.
struct Options<'a> {
    /// How long to wait, in milliseconds; `Some(None)` = for ever.
    block: Option<Option<u64>>,
    /// Most entries of each stream.
    count: u64,
    /// Group and consumer.
    group: Option<(&'a [u8], &'a [u8])>,
    /// Delivered entries do not become pending.
    no_ack: bool,
    /// The position of the first key, and how many keys there are.
    keys: (usize, usize),
}

/// Where a stream is read from.
#[derive(Clone, Copy)]
enum From {
    /// Behind this entry.
    Behind(EntryId),
    /// Behind the last entry that the group was given.
    New,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>, is_of_group: bool) -> Outcome<Self> {
        let mut options = Self { block: None, count: u64::MAX, group: None, no_ack: false, keys: (0, 0) };
        let mut place = 1;
        while let Some(word) = args.get(place) {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            let more = args.len() - place - 1;
            if is("BLOCK") && more > 0 {
                options.block = Some(block_ms(args.at(place + 1))?);
                place += 1;
            } else if is("COUNT") && more > 0 {
                // 0 and less mean all.
                let count = integer(args.at(place + 1))?;
                options.count = u64::try_from(count).ok().filter(|&count| count > 0).unwrap_or(u64::MAX);
                place += 1;
            } else if is("STREAMS") && more > 0 {
                if !more.is_multiple_of(2) {
                    return Err(UNBALANCED);
                }
                options.keys = (place + 1, more / 2);
                break;
            } else if is("GROUP") && more > 1 {
                if !is_of_group {
                    return Err(ONLY_GROUP);
                }
                options.group = Some((args.at(place + 1), args.at(place + 2)));
                place += 2;
            } else if is("NOACK") {
                if !is_of_group {
                    return Err(ONLY_NOACK);
                }
                options.no_ack = true;
            } else {
                return Err(SYNTAX);
            }
            place += 1;
        }
        if options.keys.1 == 0 {
            return Err(SYNTAX);
        }
        if is_of_group && options.group.is_none() {
            return Err(NO_GROUP);
        }
        Ok(options)
    }

    /// Each key, and the position of its id among the words.
    fn streams(&self, args: Args<'a>) -> impl Iterator<Item = (&'a [u8], usize)> + use<'a> {
        let (first, count) = self.keys;
        (first..first + count).map(move |place| (args.at(place), place + count))
    }
}

fn block_ms(word: &[u8]) -> Outcome<Option<u64>> {
    let ms = integer(word).map_err(|_| NOT_A_TIME)?;
    let ms = u64::try_from(ms).map_err(|_| NEGATIVE)?;
    Ok(Some(ms).filter(|&ms| ms > 0))
}

/// Begins the answer of `count` streams.
fn begin(cx: &mut Context<'_>, count: usize) {
    match cx.replies().protocol {
        Protocol::Resp2 => cx.replies().array(count),
        Protocol::Resp3 => cx.replies().map(count),
    }
}

/// Begins the answer of the stream of `key`.
fn begin_stream(cx: &mut Context<'_>, key: &[u8]) {
    if cx.replies().protocol == Protocol::Resp2 {
        cx.replies().array(2);
    }
    cx.replies().bulk(key);
}

/// A stream that `XREAD` reads, and the entry behind which it begins.
struct Source<'k> {
    key: &'k [u8],
    stream: Option<Stream<'k>>,
    behind: EntryId,
}

/// A stream that has new entries, and what was read of it.
type Found<'k> = (&'k [u8], Stream<'k>, Told);

/// Words that would mean something else when the command runs again, by their position, and the words that replace
/// them.
type Resolved = Vec<(usize, Vec<u8>)>;

pub async fn xread(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let options = Options::parse(args, false)?;
    let (first, count) = options.keys;
    // The heads of all of them are held, and a small stream is in its head.
    if count > ONE_TURN_KEYS_MAX {
        return Err(TOO_MANY_STREAMS);
    }
    // Reads of several streams may see a different moment for each of them.
    let before = if count == 1 { cx.judge_behind(args.at(first)) } else { None };
    let mut looked = look(cx, &options, args).await;
    let goes_on = |found: &[Found<'_>]| found.iter().any(|(_, _, told)| told.goes_on(options.count));
    let is_unfinished = matches!(&looked, Ok((found, _)) if goes_on(found));
    if !cx.was_one_moment_so_far(args.at(first), before, is_unfinished).await? {
        looked = look(cx, &options, args).await;
    }
    let (found, resolved) = looked?;
    if found.is_empty() {
        cx.replies().null_array();
        if let Some(timeout_ms) = options.block {
            cx.wait_for_rows(Wait { timeout_ms, takes: false, resolved });
        }
        return Ok(());
    }
    begin(cx, found.len());
    for (key, stream, told) in found {
        begin_stream(cx, key);
        tell_range(cx, &stream, told, options.count).await?;
    }
    Ok(())
}

/// The streams that have entries which `options` ask for.
async fn look<'k>(cx: &mut Context<'_>, options: &Options<'k>, args: Args<'k>) -> Outcome<(Vec<Found<'k>>, Resolved)> {
    let (mut sources, mut resolved) = (Vec::new(), Vec::new());
    for (index, (key, place)) in options.streams(args).enumerate() {
        end_turn(cx.yields(), index).await;
        let found = cx.stream(key).await;
        let stream = cx.or_pass_over(found)?;
        let behind = match args.at(place) {
            // A client that waits for new entries waits for those that are new from now on.
            b"$" => {
                let last = stream.as_ref().map(|stream| stream.detail().last).unwrap_or_default();
                resolved.push((place, stream_ids::text(last).into_bytes()));
                last
            }
            b">" => return Err(ONLY_NEW),
            word => stream_ids::exact(word, 0)?,
        };
        sources.push(Source { key, stream, behind });
    }
    Ok((find(cx, sources, options.count).await?, resolved))
}

/// The streams among `sources` that have new entries, with what was read of each.
async fn find<'k>(cx: &mut Context<'_>, sources: Vec<Source<'k>>, count: u64) -> Outcome<Vec<Found<'k>>> {
    let (mut found, mut kept_bytes) = (Vec::new(), 0);
    for (index, Source { key, stream, behind }) in sources.into_iter().enumerate() {
        end_turn(cx.yields(), index).await;
        let Some(stream) = stream else { continue };
        let whole = behind.next().and_then(|from| stream.range(from, EntryId::MAX, false));
        let mut left = whole.clone();
        while let Some(range) = left {
            let (entries, rest) = stream.entries_page(cx, range, page_of(count)).await?;
            left = rest;
            if entries.len() == 0 {
                cx.yields().now().await;
                continue;
            }
            let bytes: usize = entries.iter().flatten().map(|entry| entry.bytes()).sum();
            let told = if kept_bytes + bytes <= KEPT_BYTES_MAX {
                kept_bytes += bytes;
                Told::Page(entries, left)
            } else {
                Told::Nothing(whole)
            };
            found.push((key, stream, told));
            break;
        }
    }
    Ok(found)
}

/// What a consumer is given of a stream: entries, or the ids of entries that are gone.
type Delivered = Vec<(EntryId, Option<Entry>)>;

/// The consumer that asks, and how much it may be given.
struct Asking<'a> {
    consumer: &'a [u8],
    no_ack: bool,
    count: u64,
    /// How many more bytes may be delivered; negative if the first entries of streams had more.
    bytes: i64,
    /// Something was delivered already.
    has_some: bool,
}

impl Asking<'_> {
    /// Takes `bytes` bytes of an entry from what may be delivered; `false` if there is no room for the entry. There is
    /// always room for the first entry of all, and some more for one that `is_first` of its stream.
    fn take(&mut self, bytes: usize, is_first: bool) -> bool {
        let left = self.bytes.saturating_sub_unsigned(bytes as u64);
        let least = if is_first { -FIRST_BYTES_MAX } else { 0 };
        let has_room = !self.has_some || left >= least;
        if has_room {
            (self.bytes, self.has_some) = (left, true);
        }
        has_room
    }
}

/// The error for a group or a stream that does not exist.
pub fn no_group(key: &[u8], group: &[u8]) -> Error {
    let front = &b"NOGROUP No such key '"[..];
    Error::bytes([front, key, b"' or consumer group '", group, b"'"].concat())
}

/// The stream of `key` and the group in it that `XREADGROUP` is about.
async fn of_group<'k>(cx: &mut Context<'_>, key: &'k [u8], name: &[u8]) -> Outcome<(Stream<'k>, Group)> {
    let is_again = cx.is_again();
    let stream = match cx.stream(key).await {
        Err(error) if error == WRONG_TYPE && is_again => return Err(STREAM_GONE),
        stream => stream?,
    };
    let Some(stream) = stream else {
        return Err(if is_again { STREAM_GONE } else { no_group_to_read(key, name) });
    };
    let Some(group) = stream.group(cx, name).await? else {
        return Err(if is_again { GROUP_GONE } else { no_group_to_read(key, name) });
    };
    Ok((stream, group))
}

fn no_group_to_read(key: &[u8], group: &[u8]) -> Error {
    Error::bytes([no_group(key, group).text(), b" in XREADGROUP with GROUP option"].concat())
}

pub async fn xreadgroup(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let options = Options::parse(args, true)?;
    let Some((group, consumer)) = options.group else { return Err(NO_GROUP) };
    if consumer.len().max(group.len()) > NAME_BYTES_MAX {
        return Err(NAME_TOO_LONG);
    }
    let mut froms = Vec::new();
    for (index, (key, place)) in options.streams(args).enumerate() {
        end_turn(cx.yields(), index).await;
        of_group(cx, key, group).await?;
        let from = match args.at(place) {
            b">" => From::New,
            b"$" => return Err(NO_DOLLAR),
            word => match stream_ids::exact(word, 0)? {
                // As in Redis: nothing is behind the largest id, so it stands for new entries.
                EntryId::MAX => From::New,
                id => From::Behind(id),
            },
        };
        froms.push((key, from));
    }
    let (no_ack, count) = (options.no_ack, options.count);
    let mut asking = Asking { consumer, no_ack, count, bytes: DELIVERED_BYTES_MAX, has_some: false };
    let mut found: Vec<(&[u8], Delivered)> = Vec::new();
    for (index, (key, from)) in froms.into_iter().enumerate() {
        end_turn(cx.yields(), index).await;
        // The stream is read again, because the same stream may be named twice.
        let (mut stream, mut group) = of_group(cx, key, group).await?;
        let delivered = match from {
            From::New => deliver(cx, &mut stream, &mut group, &mut asking).await?,
            From::Behind(id) => history(cx, &mut stream, &mut group, &mut asking, id).await?,
        };
        if let Some(delivered) = delivered {
            stream.save_group(cx, &mut group)?;
            cx.save_stream(&mut stream)?;
            found.push((key, delivered));
        }
    }
    if found.is_empty() {
        cx.replies().null_array();
        if let Some(timeout_ms) = options.block {
            cx.wait_for_rows(Wait { timeout_ms, takes: false, resolved: Vec::new() });
        }
        return Ok(());
    }
    begin(cx, found.len());
    for (key, delivered) in found {
        begin_stream(cx, key);
        cx.replies().array(delivered.len());
        for (id, entry) in delivered {
            match entry {
                Some(entry) => tell_held(cx.replies(), &entry)?,
                None => {
                    cx.replies().array(2);
                    stream_ids::tell(cx.replies(), id);
                    cx.replies().null_array();
                }
            }
        }
        cx.drain().await?;
    }
    Ok(())
}

/// Gives a consumer entries that its group has not been given yet; `None` if there are none.
async fn deliver(
    cx: &mut Context<'_>,
    stream: &mut Stream<'_>,
    group: &mut Group,
    asking: &mut Asking<'_>,
) -> Outcome<Option<Delivered>> {
    let first = group.value.delivered.next();
    let mut left = first.and_then(|from| stream.range(from, EntryId::MAX, false));
    let (mut delivered, mut wanted) = (Delivered::new(), asking.count.min(DELIVERED_MAX));
    // Entries can be pending already only if the group was set back.
    let mut may_be_pending = None;
    'pages: while let Some(range) = left.filter(|_| wanted > 0) {
        let (entries, rest) = stream.entries(cx, range, wanted as usize).await?;
        left = rest;
        for entry in entries {
            if !asking.take(told_bytes(&entry)?, delivered.is_empty()) {
                break 'pages;
            }
            wanted -= 1;
            if !asking.no_ack {
                let may_be = match may_be_pending {
                    Some(may_be) => may_be,
                    None => is_ahead(cx, stream, group).await?,
                };
                may_be_pending = Some(may_be);
                let before = if may_be { stream.pending(cx, group, entry.id).await? } else { None };
                let value =
                    PendingValue { delivered_ms: cx.clock_ms(), deliveries: 1, consumer: asking.consumer.into() };
                stream.put_pending(cx, group, entry.id, before.as_ref(), &value).await?;
            }
            group.value.read = read_with(stream.detail(), stream.len(), group.value.read, entry.id);
            group.value.delivered = entry.id;
            delivered.push((entry.id, Some(entry)));
        }
        cx.end_step(wanted > 0 && left.is_some()).await;
    }
    if delivered.is_empty() {
        return Ok(None);
    }
    stream.consumer_or_new(cx, group, asking.consumer).await?.value.seen_ms = cx.clock_ms();
    Ok(Some(delivered))
}

/// Whether entries are pending that the group, by its position, has yet to be given.
async fn is_ahead(cx: &mut Context<'_>, stream: &Stream<'_>, group: &Group) -> Outcome<bool> {
    let Some(from) = group.value.delivered.next().filter(|_| group.value.pending > 0) else { return Ok(false) };
    let mut left = Some(stream.pending_range(group, None, from, EntryId::MAX));
    while let Some(range) = left {
        let (pending, rest) = stream.pending_page(cx, group, range, 1).await?;
        if !pending.is_empty() {
            return Ok(true);
        }
        left = rest;
    }
    Ok(false)
}

/// The entries behind `id` that a consumer was given and has not acknowledged; `None` if there is no room for the first
/// of them. A stream without any entry in the answer would look as if nothing were pending behind `id`.
async fn history(
    cx: &mut Context<'_>,
    stream: &mut Stream<'_>,
    group: &mut Group,
    asking: &mut Asking<'_>,
    id: EntryId,
) -> Outcome<Option<Delivered>> {
    let now_ms = cx.clock_ms();
    stream.consumer_or_new(cx, group, asking.consumer).await?.value.seen_ms = now_ms;
    let range = id.next().map(|from| stream.pending_range(group, Some(asking.consumer), from, EntryId::MAX));
    let (mut delivered, mut wanted, mut left) = (Delivered::new(), asking.count.min(DELIVERED_MAX), range);
    while let Some(range) = left.filter(|_| wanted > 0) {
        let (pending, rest) = stream.pending_page(cx, group, range, wanted as usize).await?;
        left = rest;
        for Pending { id, value } in pending {
            let entry = stream.entry(cx, id).await?;
            let bytes = entry.as_ref().map_or(Ok(ENTRY_BYTES), told_bytes)?;
            if !asking.take(bytes, delivered.is_empty()) {
                return Ok(Some(delivered).filter(|delivered| !delivered.is_empty()));
            }
            wanted -= 1;
            if entry.is_some() {
                let again = PendingValue {
                    delivered_ms: now_ms,
                    deliveries: value.deliveries.saturating_add(1),
                    ..value.clone()
                };
                stream.put_pending(cx, group, id, Some(&value), &again).await?;
            }
            delivered.push((id, entry));
        }
        cx.end_step(wanted > 0 && left.is_some()).await;
    }
    Ok(Some(delivered))
}
