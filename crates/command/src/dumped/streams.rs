//! Streams with their groups.
//!
//! How many elements follow stands in front of them: for nodes of entries it is counted, and for everything else the
//! stream says it. If it says something else than what is there, the stream is damaged.

use weir_model::parts::stream::EntryId;

use super::Target;
use crate::collection::{Entry, Group, PAGE_ENTRIES, STREAM_DAMAGED, Stream};
use crate::context::{Context, Subkeys};
use crate::error::Outcome;
use crate::rdb::push_long_len;
use crate::rdb::streams::{
    NodeCut, NodeEntry, push_consumer, push_detail, push_group, push_node, push_pending, push_raw_id,
};

/// Checks that as many elements were written as were announced.
fn check(written: u64, announced: u64) -> Outcome {
    if written == announced { Ok(()) } else { Err(STREAM_DAMAGED) }
}

/// Writes `stream`.
///
/// # Errors
/// As [`super::Dumped::push`].
pub async fn push(cx: &mut Context<'_>, stream: &Stream<'_>, target: &mut Target<'_>) -> Outcome {
    push_entries(cx, stream, target).await?;
    push_detail(target.out(), stream.len(), stream.detail());
    let (mut written, mut behind) = (0, None::<Vec<u8>>);
    loop {
        let page = stream.groups_behind(cx, behind.as_deref()).await?;
        let Some(last) = page.last() else { return check(written, stream.detail().groups) };
        behind = Some(last.name.clone());
        written += page.len() as u64;
        for group in &page {
            push_group(target.out(), &group.name, &group.value);
            push_all_pending(cx, stream, group, target).await?;
            push_consumers(cx, stream, group, target).await?;
            target.end_page(cx).await?;
        }
    }
}

/// Writes the entries in nodes, behind the number of nodes. So a stream of more than a page is read twice.
async fn push_entries(cx: &mut Context<'_>, stream: &Stream<'_>, target: &mut Target<'_>) -> Outcome {
    let (mut entries, mut left) = match stream.range(EntryId::MIN, EntryId::MAX, false) {
        Some(range) => stream.entries(cx, range, PAGE_ENTRIES).await?,
        None => (Vec::new(), None),
    };
    let mut cut = NodeCut::default();
    let mut nodes = entries.iter().filter(|entry| cut.begins(entry.bytes())).count() as u64;
    nodes += rest_of_nodes(cx, stream, left.clone(), cut, target).await?;
    push_long_len(target.out(), nodes);
    let (mut cut, mut node, mut written) = (NodeCut::default(), Vec::new(), 0);
    loop {
        cx.copied_parts(entries.len());
        written += entries.len() as u64;
        for entry in entries {
            if cut.begins(entry.bytes()) && !node.is_empty() {
                push_entries_of_node(target, &node)?;
                node.clear();
            }
            node.push(entry);
        }
        let Some(range) = left else { break };
        target.end_page(cx).await?;
        (entries, left) = stream.entries(cx, range, PAGE_ENTRIES).await?;
    }
    if !node.is_empty() {
        push_entries_of_node(target, &node)?;
    }
    check(written, stream.len())
}

/// How many nodes begin in the rest of a stream, whose entries in front of `left` were cut by `cut`.
async fn rest_of_nodes(
    cx: &mut Context<'_>,
    stream: &Stream<'_>,
    mut left: Option<Subkeys>,
    mut cut: NodeCut,
    target: &mut Target<'_>,
) -> Outcome<u64> {
    let mut nodes = 0;
    while let Some(range) = left {
        let (entries, rest) = stream.entries_page(cx, range, PAGE_ENTRIES).await?;
        for entry in entries.iter() {
            nodes += u64::from(cut.begins(entry?.bytes()));
        }
        left = rest;
        target.end_page(cx).await?;
    }
    Ok(nodes)
}

fn push_entries_of_node(target: &mut Target<'_>, node: &[Entry]) -> Outcome {
    let entries = node.iter().map(words_of).collect::<Outcome<Vec<_>>>()?;
    push_node(target.out(), &entries);
    Ok(())
}

/// The id and the words of `entry`.
fn words_of(entry: &Entry) -> Outcome<NodeEntry<'_>> {
    let entry = entry.as_ref();
    let words = entry.words()?.1.collect();
    Ok((entry.id, words))
}

/// Writes the pending entries of `group`.
async fn push_all_pending(
    cx: &mut Context<'_>,
    stream: &Stream<'_>,
    group: &Group,
    target: &mut Target<'_>,
) -> Outcome {
    let (mut written, range) = (0, stream.pending_range(group, None, EntryId::MIN, EntryId::MAX));
    let mut left = Some(range);
    while let Some(range) = left {
        let (pending, rest) = stream.pending_page(cx, group, range, PAGE_ENTRIES).await?;
        pending.iter().for_each(|pending| push_pending(target.out(), pending.id, &pending.value));
        cx.copied_parts(pending.len());
        written += pending.len() as u64;
        left = rest;
        if left.is_some() {
            target.end_page(cx).await?;
        }
    }
    check(written, group.value.pending)
}

/// Writes how many consumers `group` has, and the consumers, each with the ids of what is pending for it.
async fn push_consumers(cx: &mut Context<'_>, stream: &Stream<'_>, group: &Group, target: &mut Target<'_>) -> Outcome {
    push_long_len(target.out(), group.value.consumers);
    let (mut written, mut owned, mut behind) = (0, 0_u64, None::<Vec<u8>>);
    loop {
        let page = stream.consumers_behind(cx, group, behind.as_deref()).await?;
        let Some((last, _)) = page.last() else { break };
        behind = Some(last.clone());
        written += page.len() as u64;
        for (name, value) in &page {
            push_consumer(target.out(), name, value);
            push_owned(cx, stream, (group, name), value.pending, target).await?;
            owned = owned.saturating_add(value.pending);
        }
        cx.copied_parts(page.len());
        target.end_page(cx).await?;
    }
    check(written, group.value.consumers)?;
    check(owned, group.value.pending)
}

/// Writes the ids of the `pending` entries that are pending for `consumer`.
async fn push_owned(
    cx: &mut Context<'_>,
    stream: &Stream<'_>,
    (group, consumer): (&Group, &[u8]),
    pending: u64,
    target: &mut Target<'_>,
) -> Outcome {
    let range = stream.pending_range(group, Some(consumer), EntryId::MIN, EntryId::MAX);
    let (mut written, mut left) = (0, Some(range).filter(|_| pending > 0));
    while let Some(range) = left {
        let (ids, rest) = stream.pending_ids(cx, range).await?;
        ids.iter().for_each(|&id| push_raw_id(target.out(), id));
        written += ids.len() as u64;
        left = rest;
        target.end_page(cx).await?;
    }
    check(written, pending)
}
