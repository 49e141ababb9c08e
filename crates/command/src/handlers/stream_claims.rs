//! `XCLAIM` and `XAUTOCLAIM`: entries that are pending for one consumer are given to another.

use weir_model::parts::stream::{EntryId, PendingValue};

use super::integer;
use super::stream_ids;
use super::stream_reads::{NAME_TOO_LONG, no_group};
use super::stream_replies::{tell_held, told_bytes};
use crate::args::Args;
use crate::collection::{Entry, Group, NAME_BYTES_MAX, PAGE_ENTRIES, Pending, Stream};
use crate::context::Context;
use crate::error::{Error, Outcome, SYNTAX};
use crate::turn::end_turn;

/// How many pending entries `XAUTOCLAIM` looks at for each one that it may claim.
const LOOKS_PER_CLAIM: u64 = 10;
/// How many entries it claims if the client does not say.
const COUNT_USUALLY: u64 = 100;
/// Most entries, and bytes of them in the answer, that are claimed at once.
const CLAIMED_MAX: u64 = 10_000;
const CLAIMED_BYTES_MAX: usize = 16 << 20;
/// The largest `COUNT` that `XAUTOCLAIM` accepts, as in Redis.
const CLAIM_COUNT_MAX: u64 = i64::MAX as u64 / 16;

const TOO_MUCH: Error = Error::new("ERR these entries have more than 16 MB together: claim less at a time");
const TOO_MANY: Error = Error::new("ERR XCLAIM takes at most 10000 entries at a time");

/// A claim: who claims, and what.
struct Claim<'a> {
    consumer: &'a [u8],
    /// Only entries that were delivered at least this long ago.
    idle_min_ms: u64,
    /// Only ids are answered, and the claim does not count as a delivery.
    just_ids: bool,
    /// The time of delivery that is noted, in milliseconds since 1970.
    delivered_ms: u64,
    /// The number of deliveries that is noted, if the client gives one.
    deliveries: Option<u64>,
}

/// What was claimed.
#[derive(Default)]
struct Claimed {
    entries: Vec<(EntryId, Option<Entry>)>,
    bytes: usize,
}

impl Claimed {
    /// Adds an entry; `false` if the answer has no room for it. There is always room for the first one.
    fn add(&mut self, id: EntryId, entry: Option<Entry>) -> Outcome<bool> {
        let bytes = self.bytes + entry.as_ref().map_or(Ok(0), told_bytes)?;
        let has_room = bytes <= CLAIMED_BYTES_MAX || self.entries.is_empty();
        if has_room {
            self.bytes = bytes;
            self.entries.push((id, entry));
        }
        Ok(has_room)
    }

    async fn tell(self, cx: &mut Context<'_>) -> Outcome {
        cx.replies().array(self.entries.len());
        for (id, entry) in self.entries {
            match entry {
                Some(entry) => tell_held(cx.replies(), &entry)?,
                None => stream_ids::tell(cx.replies(), id),
            }
        }
        cx.drain().await
    }
}

/// How long a consumer must have had an entry, at least, before it can be claimed.
fn idle_min(word: &[u8], name: &str) -> Outcome<u64> {
    let text = || Error::bytes(format!("ERR Invalid min-idle-time argument for {name}").into_bytes());
    // A negative time counts as zero.
    Ok(integer(word).map_err(|_| text())?.max(0) as u64)
}

/// The stream of word 1, and the group of word 2 in it.
async fn of_key<'k>(cx: &mut Context<'_>, args: Args<'k>) -> Outcome<(Stream<'k>, Group)> {
    let (key, name) = (args.at(1), args.at(2));
    let stream = cx.stream(key).await?.ok_or_else(|| no_group(key, name))?;
    let group = stream.group(cx, name).await?.ok_or_else(|| no_group(key, name))?;
    if args.at(3).len() > NAME_BYTES_MAX { Err(NAME_TOO_LONG) } else { Ok((stream, group)) }
}

/// Gives `id` to the claiming consumer; `pending` is the pending entry of the consumer that had it.
async fn give(
    cx: &mut Context<'_>,
    stream: &mut Stream<'_>,
    group: &mut Group,
    claim: &Claim<'_>,
    id: EntryId,
    pending: Option<&PendingValue>,
) -> Outcome {
    let before = pending.map_or(1, |pending| pending.deliveries);
    let deliveries = claim.deliveries.unwrap_or(before.saturating_add(u64::from(!claim.just_ids)));
    let value = PendingValue { delivered_ms: claim.delivered_ms, deliveries, consumer: claim.consumer.into() };
    let now_ms = cx.clock_ms();
    stream.consumer_or_new(cx, group, claim.consumer).await?.value.seen_ms = now_ms;
    stream.put_pending(cx, group, id, pending, &value).await
}

/// The words of an `XCLAIM` behind its ids.
#[derive(Default)]
struct Options {
    force: bool,
    just_ids: bool,
    delivered_ms: Option<u64>,
    deliveries: Option<u64>,
    last: Option<EntryId>,
}

impl Options {
    fn parse(args: Args<'_>, first: usize, now_ms: u64) -> Outcome<Self> {
        let invalid = |name: &str| Error::bytes(format!("ERR Invalid {name} option argument for XCLAIM").into_bytes());
        let number = |word: &[u8], name: &str| integer(word).map_err(|_| invalid(name));
        let mut options = Self::default();
        let mut place = first;
        while let Some(word) = args.get(place) {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            match args.get(place + 1) {
                _ if is("FORCE") => options.force = true,
                _ if is("JUSTID") => options.just_ids = true,
                Some(value) if is("IDLE") => {
                    let at = i128::from(now_ms) - i128::from(number(value, "IDLE")?);
                    options.delivered_ms = Some(u64::try_from(at).unwrap_or(now_ms));
                    place += 1;
                }
                Some(value) if is("TIME") => {
                    options.delivered_ms = Some(u64::try_from(number(value, "TIME")?).unwrap_or(now_ms));
                    place += 1;
                }
                Some(value) if is("RETRYCOUNT") => {
                    let count = number(value, "RETRYCOUNT")?;
                    // Redis ignores a negative number.
                    options.deliveries = u64::try_from(count).ok();
                    place += 1;
                }
                Some(value) if is("LASTID") => {
                    options.last = Some(stream_ids::exact(value, 0)?);
                    place += 1;
                }
                _ => {
                    let front = &b"ERR Unrecognized XCLAIM option '"[..];
                    return Err(Error::bytes([front, word, b"'"].concat()));
                }
            }
            place += 1;
        }
        Ok(options)
    }
}

pub async fn xclaim(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (mut stream, mut group) = of_key(cx, args).await?;
    let idle_min_ms = idle_min(args.at(4), "XCLAIM")?;
    // The ids end at the first word that is no id.
    let ids: Vec<EntryId> = args.iter_from(5).map_while(|word| stream_ids::exact(word, 0).ok()).collect();
    if ids.len() as u64 > CLAIMED_MAX {
        return Err(TOO_MANY);
    }
    let now_ms = cx.clock_ms();
    let options = Options::parse(args, 5 + ids.len(), now_ms)?;
    let claim = Claim {
        consumer: args.at(3),
        idle_min_ms,
        just_ids: options.just_ids,
        // Nothing can be delivered in the future.
        delivered_ms: options.delivered_ms.unwrap_or(now_ms).min(now_ms),
        deliveries: options.deliveries,
    };
    if let Some(last) = options.last.filter(|&last| last > group.value.delivered) {
        group.value.delivered = last;
    }
    let mut claimed = Claimed::default();
    for (index, id) in ids.into_iter().enumerate() {
        end_turn(cx.yields(), index).await;
        let pending = stream.pending(cx, &group, id).await?;
        let entry = stream.entry(cx, id).await?;
        if entry.is_none() {
            if let Some(pending) = pending {
                stream.end_pending(cx, &mut group, id, &pending).await?;
            }
            continue;
        }
        let is_idle = match &pending {
            Some(pending) => now_ms.saturating_sub(pending.delivered_ms) >= claim.idle_min_ms,
            None => options.force,
        };
        if is_idle {
            if !claimed.add(id, entry.filter(|_| !claim.just_ids))? {
                return Err(TOO_MUCH);
            }
            give(cx, &mut stream, &mut group, &claim, id, pending.as_ref()).await?;
        }
    }
    stream.save_group(cx, &mut group)?;
    cx.save_stream(&mut stream)?;
    claimed.tell(cx).await
}

/// The result of an `XAUTOCLAIM`.
#[derive(Default)]
struct Swept {
    /// The first pending entry that was not looked at, or that the answer has no room for; 0-0 at the end.
    next: EntryId,
    claimed: Claimed,
    /// Entries that were pending, but are not in the stream any more.
    gone: Vec<EntryId>,
}

/// Claims up to `count` pending entries from `from` on.
async fn sweep(
    cx: &mut Context<'_>,
    stream: &mut Stream<'_>,
    group: &mut Group,
    claim: &Claim<'_>,
    from: EntryId,
    mut count: u64,
) -> Outcome<Swept> {
    let now_ms = cx.clock_ms();
    let mut looks = count.saturating_mul(LOOKS_PER_CLAIM);
    let mut swept = Swept::default();
    let mut left = Some(stream.pending_range(group, None, from, EntryId::MAX));
    while let Some(range) = left {
        let (pending, rest) = stream.pending_page(cx, group, range, PAGE_ENTRIES).await?;
        left = rest;
        for Pending { id, value } in pending {
            if looks == 0 || count == 0 {
                swept.next = id;
                return Ok(swept);
            }
            looks -= 1;
            let entry = stream.entry(cx, id).await?;
            if entry.is_none() {
                stream.end_pending(cx, group, id, &value).await?;
                swept.gone.push(id);
            } else if now_ms.saturating_sub(value.delivered_ms) < claim.idle_min_ms {
                continue;
            } else {
                if !swept.claimed.add(id, entry.filter(|_| !claim.just_ids))? {
                    swept.next = id;
                    return Ok(swept);
                }
                give(cx, stream, group, claim, id, Some(&value)).await?;
            }
            count -= 1;
        }
        cx.yields().now().await;
    }
    Ok(swept)
}

pub async fn xautoclaim(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let idle_min_ms = idle_min(args.at(4), "XAUTOCLAIM")?;
    let from = stream_ids::start(args.at(5))?;
    let (mut count, mut just_ids) = (COUNT_USUALLY, false);
    let mut words = args.iter_from(6);
    while let Some(word) = words.next() {
        if word.eq_ignore_ascii_case(b"COUNT") {
            let number = integer(words.next().ok_or(SYNTAX)?).ok().and_then(|number| u64::try_from(number).ok());
            count = number
                .filter(|count| (1..=CLAIM_COUNT_MAX).contains(count))
                .ok_or(Error::new("ERR COUNT must be > 0"))?;
        } else if word.eq_ignore_ascii_case(b"JUSTID") {
            just_ids = true;
        } else {
            return Err(SYNTAX);
        }
    }
    let (mut stream, mut group) = of_key(cx, args).await?;
    let now_ms = cx.clock_ms();
    let claim = Claim { consumer: args.at(3), idle_min_ms, just_ids, delivered_ms: now_ms, deliveries: None };
    let Swept { next, claimed, gone } =
        sweep(cx, &mut stream, &mut group, &claim, from, count.min(CLAIMED_MAX)).await?;
    stream.save_group(cx, &mut group)?;
    cx.save_stream(&mut stream)?;
    cx.replies().array(3);
    stream_ids::tell(cx.replies(), next);
    claimed.tell(cx).await?;
    cx.replies().array(gone.len());
    gone.into_iter().for_each(|id| stream_ids::tell(cx.replies(), id));
    Ok(())
}
