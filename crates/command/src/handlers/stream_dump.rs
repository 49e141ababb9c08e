//! Whole streams, for `DUMP` and `RESTORE`.

use weir_model::parts::stream::EntryId;
use weir_model::parts::{GroupShape, StreamShape};

use super::stream_reads::NAME_TOO_LONG;
use crate::collection::{Group, NAME_BYTES_MAX, PAGE_ENTRIES, Pending, Stream};
use crate::context::Context;
use crate::error::Outcome;
use crate::turn::end_turn;

/// All of `stream`.
///
/// # Errors
/// The stream cannot be read.
pub async fn whole(cx: &mut Context<'_>, stream: &Stream<'_>) -> Outcome<StreamShape> {
    let detail = stream.detail();
    let mut shape = StreamShape {
        last: detail.last,
        max_deleted: detail.max_deleted,
        added: detail.added,
        ..StreamShape::default()
    };
    let mut left = stream.range(EntryId::MIN, EntryId::MAX, false);
    while let Some(range) = left {
        let (entries, rest) = stream.entries(cx, range, PAGE_ENTRIES).await?;
        for entry in entries {
            shape.entries.insert(entry.id, entry.as_ref().words()?.1.map(<[u8]>::to_vec).collect());
        }
        left = rest;
        cx.yields().now().await;
    }
    let mut behind: Option<Vec<u8>> = None;
    loop {
        let page = stream.groups_behind(cx, behind.as_deref()).await?;
        let Some(last) = page.last() else { return Ok(shape) };
        behind = Some(last.name.clone());
        for group in page {
            let whole = whole_group(cx, stream, &group).await?;
            shape.groups.insert(group.name, whole);
        }
    }
}

async fn whole_group(cx: &mut Context<'_>, stream: &Stream<'_>, group: &Group) -> Outcome<GroupShape> {
    let mut shape = GroupShape { delivered: group.value.delivered, read: group.value.read, ..GroupShape::default() };
    let mut behind: Option<Vec<u8>> = None;
    loop {
        let page = stream.consumers_behind(cx, group, behind.as_deref()).await?;
        let Some((last, _)) = page.last() else { break };
        behind = Some(last.clone());
        shape.consumers.extend(page.into_iter().map(|(name, value)| (name, value.seen_ms)));
        cx.yields().now().await;
    }
    let mut left = Some(stream.pending_range(group, None, EntryId::MIN, EntryId::MAX));
    while let Some(range) = left {
        let (pending, rest) = stream.pending_page(cx, group, range, PAGE_ENTRIES).await?;
        shape.pending.extend(pending.into_iter().map(|Pending { id, value }| (id, value)));
        left = rest;
        cx.yields().now().await;
    }
    Ok(shape)
}

/// Puts `shape` at `key`.
///
/// # Errors
/// A name in it is too long.
pub async fn put(cx: &mut Context<'_>, key: &[u8], shape: &StreamShape, expire_at_ms: Option<u64>) -> Outcome {
    let mut stream = cx.new_stream(key);
    for (index, (&id, words)) in shape.entries.iter().enumerate() {
        end_turn(cx.yields(), index).await;
        stream.append(cx, id, words.iter().map(Vec::as_slice))?;
    }
    let detail = stream.detail_mut();
    (detail.last, detail.max_deleted, detail.added) = (shape.last, shape.max_deleted, shape.added);
    for (index, (name, group)) in shape.groups.iter().enumerate() {
        end_turn(cx.yields(), index).await;
        let names = group.consumers.keys().chain([name]);
        if names.map(Vec::len).any(|len| len > NAME_BYTES_MAX) {
            return Err(NAME_TOO_LONG);
        }
        put_group(cx, &mut stream, name, group).await?;
    }
    stream.expires_at(expire_at_ms);
    cx.save_stream(&mut stream)
}

async fn put_group(cx: &mut Context<'_>, stream: &mut Stream<'_>, name: &[u8], shape: &GroupShape) -> Outcome {
    let mut group = stream.new_group(name, shape.delivered, shape.read);
    for (index, (consumer, &seen_ms)) in shape.consumers.iter().enumerate() {
        end_turn(cx.yields(), index).await;
        group.add_consumer(consumer, seen_ms);
    }
    for (index, (&id, pending)) in shape.pending.iter().enumerate() {
        end_turn(cx.yields(), index).await;
        stream.put_pending(cx, &mut group, id, None, pending).await?;
    }
    stream.save_group(cx, &mut group)
}
