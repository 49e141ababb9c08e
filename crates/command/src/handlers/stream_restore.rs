//! Whole streams, for `RESTORE`.

use weir_model::parts::{GroupShape, StreamShape};

use super::stream_reads::NAME_TOO_LONG;
use crate::collection::{NAME_BYTES_MAX, Stream};
use crate::context::Context;
use crate::error::Outcome;
use crate::turn::end_turn;

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
