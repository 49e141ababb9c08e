//! `XINFO` and `XPENDING`: facts about a stream, its groups and consumers, and pending entries.

use weir_model::parts::stream::EntryId;

use super::integer;
use super::stream_groups::no_such_group;
use super::stream_ids;
use super::stream_reads::no_group;
use super::stream_replies::{Told, page_of, tell_entry, tell_range};
use crate::args::Args;
use crate::collection::{Group, PAGE_ENTRIES, Pending, STREAM_DAMAGED, Stream};
use crate::context::{Context, Subkeys};
use crate::error::{Error, NO_SUCH_KEY, Outcome, SYNTAX};
use crate::keyword::lower;
use crate::reply::Replies;
use crate::stream_lag::lag;
use crate::table::subcommands;

/// How many entries, and pending entries of each group and consumer, `XINFO STREAM FULL` tells if the client does not
/// say.
const FULL_COUNT: u64 = 10;
/// How many entries a node in Redis has; the reported numbers of its tree follow from that.
const NODE_ENTRIES: u64 = 100;

/// Most bytes of an answer that is gathered before its length is known.
const ANSWER_BYTES_MAX: usize = 32 << 20;
const TOO_LONG: Error = Error::new("ERR the answer has more than 32 MB: ask for less");

const HELP: [&str; 4] = [
    "CONSUMERS <key> <group>: the consumers of a group.",
    "GROUPS <key>: the groups of a stream.",
    "STREAM <key> [FULL [COUNT <count>]]: a stream.",
    "HELP: this text.",
];

pub async fn xinfo(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let subcommand = lower(args.at(1));
    subcommands::check("xinfo", args)?;
    match subcommand.as_slice() {
        b"stream" => stream(cx, args).await,
        b"groups" => groups(cx, args).await,
        b"consumers" => consumers(cx, args).await,
        b"help" => {
            cx.replies().help("XINFO", &HELP);
            Ok(())
        }
        _ => Err(Error::unknown_subcommand("xinfo", args.at(1))),
    }
}

/// The field `name` with a number.
fn number(replies: &mut Replies, name: &str, number: u64) {
    replies.bulk(name.as_bytes());
    replies.integer(number as i64);
}

/// The field `name` with an id.
fn id(replies: &mut Replies, name: &str, id: EntryId) {
    replies.bulk(name.as_bytes());
    stream_ids::tell(replies, id);
}

/// The field `name` with a number that may be unknown.
fn known(replies: &mut Replies, name: &str, number: Option<i64>) {
    replies.bulk(name.as_bytes());
    match number {
        Some(number) => replies.integer(number),
        None => replies.null(),
    }
}

async fn stream(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let is_full = args.len() > 3;
    let stream = cx.stream(args.at(2)).await?.ok_or(NO_SUCH_KEY)?;
    let mut count = FULL_COUNT;
    if is_full {
        let wrong = || Error::subcommand("XINFO", args.at(1));
        let is = |place: usize, name: &str| args.at(place).eq_ignore_ascii_case(name.as_bytes());
        if !matches!(args.len(), 4 | 6) || !is(3, "FULL") || (args.len() == 6 && !is(4, "COUNT")) {
            return Err(wrong());
        }
        if args.len() == 6 {
            let number = integer(args.at(5))?;
            // 0 = all.
            count = match u64::try_from(number) {
                Ok(0) => u64::MAX,
                Ok(count) => count,
                Err(_) => FULL_COUNT,
            };
        }
    }
    let (detail, len) = (*stream.detail(), stream.len());
    let replies = cx.replies();
    replies.map(if is_full { 9 } else { 10 });
    let nodes = len.div_ceil(NODE_ENTRIES);
    number(replies, "length", len);
    number(replies, "radix-tree-keys", nodes);
    number(replies, "radix-tree-nodes", nodes + 1);
    id(replies, "last-generated-id", detail.last);
    id(replies, "max-deleted-entry-id", detail.max_deleted);
    number(replies, "entries-added", detail.added);
    id(replies, "recorded-first-entry-id", detail.first);
    if is_full {
        cx.replies().bulk(b"entries");
        let all = stream.range(EntryId::MIN, EntryId::MAX, false);
        tell_range(cx, &stream, Told::Nothing(all), count).await?;
        return full_groups(cx, &stream, count).await;
    }
    number(replies, "groups", detail.groups);
    for (name, reverse) in [("first-entry", false), ("last-entry", true)] {
        cx.replies().bulk(name.as_bytes());
        match stream.first_in(cx, EntryId::MIN, EntryId::MAX, reverse).await? {
            Some(entry) => tell_entry(cx.replies(), entry.as_ref())?,
            None => cx.replies().null(),
        }
    }
    Ok(())
}

/// How many of the elements that an array has announced have yet to be answered. The announced number is what a row
/// says about its parts. If there are more or fewer of them, the row is damaged, and the client must not take the next
/// reply for a part of this one.
struct Untold(u64);

impl Untold {
    /// Begins an array of `count` elements.
    fn announce(cx: &mut Context<'_>, count: u64) -> Self {
        cx.replies().array(count as usize);
        Self(count)
    }

    /// Counts `count` elements that are about to be answered.
    ///
    /// # Errors
    /// There are more than were announced.
    fn tell(&mut self, count: usize) -> Outcome {
        self.0 = self.0.checked_sub(count as u64).ok_or(STREAM_DAMAGED)?;
        Ok(())
    }

    /// Checks that all elements have been answered.
    ///
    /// # Errors
    /// There are fewer than were announced.
    fn end(self) -> Outcome {
        if self.0 == 0 { Ok(()) } else { Err(STREAM_DAMAGED) }
    }
}

/// Iterates over all groups.
struct Groups(Option<Vec<u8>>);

impl Groups {
    async fn next(&mut self, cx: &mut Context<'_>, stream: &Stream<'_>) -> Outcome<Vec<Group>> {
        let page = stream.groups_behind(cx, self.0.as_deref()).await?;
        if let Some(last) = page.last() {
            self.0 = Some(last.name.clone());
        }
        cx.yields().now().await;
        Ok(page)
    }
}

async fn full_groups(cx: &mut Context<'_>, stream: &Stream<'_>, count: u64) -> Outcome {
    cx.replies().bulk(b"groups");
    let mut untold = Untold::announce(cx, stream.detail().groups);
    let mut groups = Groups(None);
    loop {
        let page = groups.next(cx, stream).await?;
        if page.is_empty() {
            return untold.end();
        }
        untold.tell(page.len())?;
        for group in page {
            full_group(cx, stream, &group, count).await?;
            cx.drain().await?;
        }
    }
}

async fn full_group(cx: &mut Context<'_>, stream: &Stream<'_>, group: &Group, count: u64) -> Outcome {
    let replies = cx.replies();
    replies.map(7);
    replies.bulk(b"name");
    replies.bulk(&group.name);
    id(replies, "last-delivered-id", group.value.delivered);
    known(replies, "entries-read", group.value.read.map(|read| read as i64));
    known(replies, "lag", lag(stream.detail(), stream.len(), &group.value));
    number(replies, "pel-count", group.value.pending);
    cx.replies().bulk(b"pending");
    tell_pending(cx, stream, group, None, group.value.pending.min(count)).await?;
    cx.replies().bulk(b"consumers");
    let mut untold = Untold::announce(cx, group.value.consumers);
    let mut behind: Option<Vec<u8>> = None;
    loop {
        let page = stream.consumers_behind(cx, group, behind.as_deref()).await?;
        let Some((last, _)) = page.last() else { return untold.end() };
        behind = Some(last.clone());
        untold.tell(page.len())?;
        for (name, value) in page {
            let replies = cx.replies();
            replies.map(4);
            replies.bulk(b"name");
            replies.bulk(&name);
            number(replies, "seen-time", value.seen_ms);
            number(replies, "pel-count", value.pending);
            replies.bulk(b"pending");
            tell_pending(cx, stream, group, Some(&name), value.pending.min(count)).await?;
            cx.drain().await?;
        }
        cx.yields().now().await;
    }
}

/// Answers with the first `count` pending entries, all of which have to exist: those of the group, with their
/// consumers, or those of one consumer.
async fn tell_pending(
    cx: &mut Context<'_>,
    stream: &Stream<'_>,
    group: &Group,
    consumer: Option<&[u8]>,
    count: u64,
) -> Outcome {
    let mut untold = Untold::announce(cx, count);
    let mut left = Some(stream.pending_range(group, consumer, EntryId::MIN, EntryId::MAX));
    while let Some(range) = left.filter(|_| untold.0 > 0) {
        let page = usize::try_from(untold.0).unwrap_or(usize::MAX);
        let (pending, rest) = stream.pending_page(cx, group, range, page).await?;
        left = rest;
        untold.tell(pending.len())?;
        let replies = cx.replies();
        for Pending { id, value } in pending {
            replies.array(if consumer.is_none() { 4 } else { 3 });
            stream_ids::tell(replies, id);
            if consumer.is_none() {
                replies.bulk(&value.consumer);
            }
            replies.integer(value.delivered_ms as i64);
            replies.integer(value.deliveries as i64);
        }
        cx.drain().await?;
        cx.yields().now().await;
    }
    untold.end()
}

async fn groups(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let stream = cx.stream(args.at(2)).await?.ok_or(NO_SUCH_KEY)?;
    let mut untold = Untold::announce(cx, stream.detail().groups);
    let mut groups = Groups(None);
    loop {
        let page = groups.next(cx, &stream).await?;
        if page.is_empty() {
            return untold.end();
        }
        untold.tell(page.len())?;
        let replies = cx.replies();
        for Group { name, value, .. } in &page {
            replies.map(6);
            replies.bulk(b"name");
            replies.bulk(name);
            number(replies, "consumers", value.consumers);
            number(replies, "pending", value.pending);
            id(replies, "last-delivered-id", value.delivered);
            known(replies, "entries-read", value.read.map(|read| read as i64));
            known(replies, "lag", lag(stream.detail(), stream.len(), value));
        }
        cx.drain().await?;
    }
}

async fn consumers(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let stream = cx.stream(args.at(2)).await?.ok_or(NO_SUCH_KEY)?;
    let group = stream.group(cx, args.at(3)).await?.ok_or_else(|| no_such_group(args.at(2), args.at(3)))?;
    let mut untold = Untold::announce(cx, group.value.consumers);
    let (now_ms, mut behind) = (cx.clock_ms(), None::<Vec<u8>>);
    loop {
        let page = stream.consumers_behind(cx, &group, behind.as_deref()).await?;
        let Some((last, _)) = page.last() else { return untold.end() };
        behind = Some(last.clone());
        untold.tell(page.len())?;
        let replies = cx.replies();
        for (name, value) in page {
            replies.map(3);
            replies.bulk(b"name");
            replies.bulk(&name);
            number(replies, "pending", value.pending);
            number(replies, "idle", now_ms.saturating_sub(value.seen_ms));
        }
        cx.drain().await?;
        cx.yields().now().await;
    }
}

/// The words of an `XPENDING` behind its group.
struct Wanted<'a> {
    idle_min_ms: u64,
    from: EntryId,
    to: EntryId,
    count: u64,
    consumer: Option<&'a [u8]>,
}

impl<'a> Wanted<'a> {
    fn parse(args: Args<'a>) -> Outcome<Self> {
        let (mut place, mut idle_min_ms) = (3, 0);
        if args.at(place).eq_ignore_ascii_case(b"IDLE") {
            idle_min_ms = integer(args.get(4).ok_or(SYNTAX)?)?.max(0) as u64;
            place += 2;
            if args.len() < place + 3 {
                return Err(SYNTAX);
            }
        }
        let count = integer(args.at(place + 2))?.max(0) as u64;
        let (from, to) = (stream_ids::start(args.at(place))?, stream_ids::end(args.at(place + 1))?);
        // As in Redis, words behind the consumer are ignored.
        Ok(Self { idle_min_ms, from, to, count, consumer: args.get(place + 3) })
    }
}

pub async fn xpending(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let wanted = match args.len() {
        3 => None,
        6..=9 => Some(Wanted::parse(args)?),
        _ => return Err(SYNTAX),
    };
    let (key, name) = (args.at(1), args.at(2));
    let stream = cx.stream(key).await?.ok_or_else(|| no_group(key, name))?;
    let group = stream.group(cx, name).await?.ok_or_else(|| no_group(key, name))?;
    match wanted {
        None => summary(cx, &stream, &group).await,
        Some(wanted) => listed(cx, &stream, &group, wanted).await,
    }
}

/// The first pending entry of `range`, or the last one if the range is reversed.
async fn first_of(cx: &mut Context<'_>, stream: &Stream<'_>, group: &Group, range: Subkeys) -> Outcome<EntryId> {
    let mut left = Some(range);
    while let Some(range) = left {
        let (pending, rest) = stream.pending_page(cx, group, range, 1).await?;
        if let Some(pending) = pending.first() {
            return Ok(pending.id);
        }
        left = rest;
        cx.yields().now().await;
    }
    Ok(EntryId::MIN)
}

async fn summary(cx: &mut Context<'_>, stream: &Stream<'_>, group: &Group) -> Outcome {
    cx.replies().array(4);
    cx.replies().integer(group.value.pending as i64);
    if group.value.pending == 0 {
        cx.replies().null();
        cx.replies().null();
        cx.replies().null_array();
        return Ok(());
    }
    for reverse in [false, true] {
        let range = Subkeys { reverse, ..stream.pending_range(group, None, EntryId::MIN, EntryId::MAX) };
        let outermost = first_of(cx, stream, group, range).await?;
        stream_ids::tell(cx.replies(), outermost);
    }
    let (mut consumers, mut count, mut behind) = (Replies::default(), 0, None::<Vec<u8>>);
    consumers.protocol = cx.replies().protocol;
    loop {
        let page = stream.consumers_behind(cx, group, behind.as_deref()).await?;
        let Some((last, _)) = page.last() else { break };
        behind = Some(last.clone());
        for (name, value) in page.into_iter().filter(|(_, value)| value.pending > 0) {
            count += 1;
            consumers.array(2);
            consumers.bulk(&name);
            consumers.bulk(value.pending.to_string().as_bytes());
        }
        if consumers.len() > ANSWER_BYTES_MAX {
            return Err(TOO_LONG);
        }
        cx.yields().now().await;
    }
    cx.replies().array(count);
    cx.replies().append(consumers);
    Ok(())
}

async fn listed(cx: &mut Context<'_>, stream: &Stream<'_>, group: &Group, wanted: Wanted<'_>) -> Outcome {
    let (now_ms, mut told, mut found) = (cx.clock_ms(), 0, Replies::default());
    found.protocol = cx.replies().protocol;
    let mut left =
        (wanted.from <= wanted.to).then(|| stream.pending_range(group, wanted.consumer, wanted.from, wanted.to));
    while let Some(range) = left.filter(|_| told < wanted.count) {
        // Those of one consumer are looked up one by one. If none is left out, no more are read than are wanted.
        let page = if wanted.idle_min_ms == 0 { page_of(wanted.count - told) } else { PAGE_ENTRIES };
        let (pending, rest) = stream.pending_page(cx, group, range, page).await?;
        left = rest;
        for Pending { id, value } in pending {
            let idle_ms = now_ms.saturating_sub(value.delivered_ms);
            if told == wanted.count || idle_ms < wanted.idle_min_ms {
                continue;
            }
            told += 1;
            found.array(4);
            stream_ids::tell(&mut found, id);
            found.bulk(&value.consumer);
            found.integer(idle_ms as i64);
            found.integer(value.deliveries as i64);
        }
        if found.len() > ANSWER_BYTES_MAX {
            return Err(TOO_LONG);
        }
        cx.yields().now().await;
    }
    cx.replies().array(told as usize);
    cx.replies().append(found);
    Ok(())
}
