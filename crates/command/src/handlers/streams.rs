//! Streams: entries are added at the end, read by their ids, and removed. Groups of consumers are in
//! [`super::stream_groups`].

use weir_model::parts::stream::EntryId;

use super::stream_ids::{self, NewId};
use super::stream_replies::{Told, tell_range};
use super::{integer, stream_trim};
use crate::args::Args;
use crate::collection::Stream;
use crate::context::Context;
use crate::error::{Error, NO_SUCH_KEY, Outcome, SYNTAX};
use crate::events::Classes;
use crate::turn::end_turn;

const NOT_ABOVE_ZERO: Error = Error::new("ERR The ID specified in XADD must be greater than 0-0");
const NOT_ABOVE_LAST: Error =
    Error::new("ERR The ID specified in XADD is equal or smaller than the target stream top item");
const EXHAUSTED: Error = Error::new("ERR The stream has exhausted the last possible ID, unable to add more items");

/// The id of the next entry of `stream`; `new` is what the client asks for.
fn next_id(stream: &Stream<'_>, new: NewId, now_ms: u64) -> Outcome<EntryId> {
    let last = stream.detail().last;
    if last == EntryId::MAX {
        return Err(EXHAUSTED);
    }
    let id = match new {
        NewId::ByClock if now_ms > last.ms => EntryId::new(now_ms, 0),
        NewId::ByClock => last.next().ok_or(EXHAUSTED)?,
        NewId::InMillisecond(ms) if ms == last.ms => EntryId::new(ms, last.seq.checked_add(1).ok_or(NOT_ABOVE_LAST)?),
        NewId::InMillisecond(ms) => EntryId::new(ms, 0),
        NewId::Exact(id) => id,
    };
    if id > last { Ok(id) } else { Err(NOT_ABOVE_LAST) }
}

pub async fn xadd(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let options = stream_trim::Options::of_xadd(args, cx.stream_node_entries())?;
    let words = args.len() - options.end;
    if words < 2 || words % 2 == 1 {
        return Err(Error::arity("xadd"));
    }
    if options.id == NewId::Exact(EntryId::MIN) {
        return Err(NOT_ABOVE_ZERO);
    }
    let mut stream = match cx.stream(args.at(1)).await? {
        Some(stream) => stream,
        None if options.makes_none => {
            cx.replies().null();
            return Ok(());
        }
        None => cx.new_stream(args.at(1)),
    };
    let id = next_id(&stream, options.id, cx.clock_ms())?;
    stream.append(cx, id, args.iter_from(options.end))?;
    cx.tell(Classes::STREAM, "xadd", args.at(1));
    if let Some(trim) = options.trim
        && stream.trim(cx, trim).await? > 0
    {
        cx.tell(Classes::STREAM, "xtrim", args.at(1));
    }
    cx.save_stream(&mut stream)?;
    stream_ids::tell(cx.replies(), id);
    Ok(())
}

pub async fn xtrim(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let trim = stream_trim::of_xtrim(args, cx.stream_node_entries())?;
    let gone = match cx.stream(args.at(1)).await? {
        None => 0,
        Some(mut stream) => {
            let gone = stream.trim(cx, trim).await?;
            cx.save_stream(&mut stream)?;
            gone
        }
    };
    cx.replies().integer(gone as i64);
    Ok(())
}

pub async fn xlen(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let len = cx.stream(args.at(1)).await?.map_or(0, |stream| stream.len());
    cx.replies().integer(len as i64);
    Ok(())
}

pub async fn xdel(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Some(mut stream) = cx.stream(args.at(1)).await? else {
        cx.replies().integer(0);
        return Ok(());
    };
    let ids = args.iter_from(2).map(|word| stream_ids::exact(word, 0)).collect::<Outcome<Vec<_>>>()?;
    let mut gone = 0;
    for (index, id) in ids.into_iter().enumerate() {
        end_turn(cx.yields(), index).await;
        gone += i64::from(stream.remove(cx, id).await?);
    }
    cx.save_stream(&mut stream)?;
    cx.replies().integer(gone);
    Ok(())
}

async fn range(cx: &mut Context<'_>, args: Args<'_>, reverse: bool) -> Outcome {
    let (start, end) = if reverse { (3, 2) } else { (2, 3) };
    let (from, to) = (stream_ids::start(args.at(start))?, stream_ids::end(args.at(end))?);
    let mut count = None;
    let mut words = args.iter_from(4);
    while let Some(word) = words.next() {
        if !word.eq_ignore_ascii_case(b"COUNT") {
            return Err(SYNTAX);
        }
        count = Some(integer(words.next().ok_or(SYNTAX)?)?.max(0) as u64);
    }
    let (key, is_none, count) = (args.at(1), count == Some(0), count.unwrap_or(u64::MAX));
    let before = cx.judge_behind(key);
    let mut found = begin_range(cx, key, (from, to, reverse), count).await;
    let goes_on = matches!(&found, Ok(Some((_, told))) if told.goes_on(count));
    if !cx.was_one_moment_so_far(key, before, goes_on).await? {
        found = begin_range(cx, key, (from, to, reverse), count).await;
    }
    match found? {
        None => cx.replies().array(0),
        Some(_) if is_none => cx.replies().null_array(),
        Some((stream, told)) => return tell_range(cx, &stream, told, count).await,
    }
    Ok(())
}

/// The stream of `key`, with the first page of its entries from one id to another, in reverse order if `reverse` is
/// set. `count` entries are wanted.
async fn begin_range<'k>(
    cx: &mut Context<'_>,
    key: &'k [u8],
    (from, to, reverse): (EntryId, EntryId, bool),
    count: u64,
) -> Outcome<Option<(Stream<'k>, Told)>> {
    let Some(stream) = cx.stream(key).await? else { return Ok(None) };
    let range = stream.range(from, to, reverse).filter(|_| count > 0);
    let told = Told::first(cx, &stream, range, count).await?;
    Ok(Some((stream, told)))
}

pub async fn xrange(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    range(cx, args, false).await
}

pub async fn xrevrange(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    range(cx, args, true).await
}

pub async fn xsetid(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let last = stream_ids::exact(args.at(2), 0)?;
    let (mut added, mut max_deleted) = (None, None);
    let mut words = args.iter_from(3);
    while let Some(word) = words.next() {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("ENTRIESADDED") {
            let number = integer(words.next().ok_or(SYNTAX)?)?;
            added = Some(u64::try_from(number).map_err(|_| Error::new("ERR entries_added must be positive"))?);
        } else if is("MAXDELETEDID") {
            let id = stream_ids::exact(words.next().ok_or(SYNTAX)?, 0)?;
            if last < id {
                let text = "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id";
                return Err(Error::new(text));
            }
            // As in Redis, the smallest id stands for none, and leaves alone what the stream knows.
            max_deleted = Some(id).filter(|&id| id > EntryId::MIN);
        } else {
            return Err(SYNTAX);
        }
    }
    let mut stream = cx.stream(args.at(1)).await?.ok_or(NO_SUCH_KEY)?;
    if !stream.is_empty() {
        let top = stream.first_in(cx, EntryId::MIN, EntryId::MAX, true).await?;
        if top.is_some_and(|top| last < top.id) {
            return Err(Error::new("ERR The ID specified in XSETID is smaller than the target stream top item"));
        }
        if added.is_some_and(|added| stream.len() > added) {
            let text = "ERR The entries_added specified in XSETID is smaller than the target stream length";
            return Err(Error::new(text));
        }
    }
    let detail = stream.detail_mut();
    let (added, max_deleted) = (added.unwrap_or(detail.added), max_deleted.unwrap_or(detail.max_deleted));
    let is_as_before = (last, added, max_deleted) == (detail.last, detail.added, detail.max_deleted);
    (detail.last, detail.added, detail.max_deleted) = (last, added, max_deleted);
    cx.save_stream(&mut stream)?;
    if is_as_before {
        // Nothing is written, and Redis tells of it all the same.
        cx.tell(Classes::STREAM, "xsetid", args.at(1));
    }
    cx.replies().ok();
    Ok(())
}
