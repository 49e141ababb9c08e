//! Rows in the form of a Redis dump file that is sent to a client while it is made. No more than a page of one row, or
//! one value, is in memory.
//!
//! Each row is as it was at one moment. If a row has no form in the file, the file ends in the middle; the reader must
//! not take it for complete.

use weir_model::parts::{Head, RowType};
use weir_model::{Content, Row, Value};

use crate::collection::{Collection, Stretch};
use crate::context::Context;
use crate::error::{Error, NO_SUCH_KEY, Outcome};
use crate::handlers::dump::whole_row;
use crate::rdb::file::{Writer, push_key};
use crate::rdb::{VERSION, kind, push_len, push_long_len, push_string};

/// A row with more bytes than this in its parts is written page by page.
const WHOLE_BYTES_MAX: u64 = 1 << 20;
/// How many members and values a page has.
const PAGE_MEMBERS: usize = 500;
/// Waiting bytes are sent once there are this many.
const SENT_BYTES: usize = 64 << 10;

/// Writes the row of `key`, if there is one.
///
/// # Errors
/// The row cannot be read, or has no form in the file; or the client is gone.
pub async fn push_row(cx: &mut Context<'_>, key: &[u8], file: &mut Writer) -> Outcome {
    let Some(Row { content, expire_at_ms }) = cx.row_of_one_moment(key).await? else { return Ok(()) };
    match content {
        Content::String(value) => {
            push_key(&mut file.waiting, kind::STRING, key, expire_at_ms);
            push_text(cx, value, file).await?;
        }
        Content::Parts(head) if head.bytes > WHOLE_BYTES_MAX && head.kind != RowType::Stream => {
            push_pages(cx, key, &head, expire_at_ms, file).await?;
        }
        Content::Parts(head) => {
            let loaded = whole_row(cx, key, *head).await.map_err(|error| unwritten(key, error))?;
            if loaded.version() > VERSION {
                return Err(mortal(key));
            }
            let mut body = Vec::new();
            loaded.put(&mut body, cx.yields()).await;
            push_key(&mut file.waiting, body[0], key, expire_at_ms);
            file.waiting.extend_from_slice(&body[1..]);
        }
    }
    send(cx, file).await
}

/// Sends the waiting bytes, if they are many.
///
/// # Errors
/// The client is gone.
pub async fn send(cx: &mut Context<'_>, file: &mut Writer) -> Outcome {
    if file.waiting.len() < SENT_BYTES {
        return Ok(());
    }
    let waiting = file.take();
    cx.replies().raw(&waiting);
    cx.drain().await
}

/// Writes a string; a long value is not copied.
async fn push_text(cx: &mut Context<'_>, value: Value, file: &mut Writer) -> Outcome {
    if value.len() < SENT_BYTES {
        push_string(&mut file.waiting, &value);
        return Ok(());
    }
    push_len(&mut file.waiting, value.len());
    let before = file.pass(&value, cx.yields()).await;
    cx.replies().raw(&before);
    cx.replies().raw_value(value);
    cx.drain().await
}

async fn push_pages(
    cx: &mut Context<'_>,
    key: &[u8],
    head: &Head,
    expire_at_ms: Option<u64>,
    file: &mut Writer,
) -> Outcome {
    let mut row = cx.collection(key, head.kind).await?.ok_or(NO_SUCH_KEY)?;
    // Fields that have expired and were not swept yet are not written.
    row.count_expired(cx).await?;
    let written_as = match head.kind {
        RowType::List => kind::LIST,
        RowType::Set => kind::SET,
        RowType::Hash => kind::HASH,
        RowType::SortedSet => kind::SORTED_SET_2,
        RowType::Stream => return Err(Error::new("ERR internal error: streams are written as wholes")),
    };
    push_key(&mut file.waiting, written_as, key, expire_at_ms);
    push_long_len(&mut file.waiting, row.len());
    let written = match head.kind {
        RowType::List => push_values(cx, &row, file).await?,
        RowType::SortedSet => push_scores(cx, &row, file).await?,
        _ => push_members(cx, key, &row, head.kind, file).await?,
    };
    match written == row.len() {
        true => Ok(()),
        false => Err(unwritten(key, Error::new("ERR it has another number of elements than it says"))),
    }
}

async fn push_values(cx: &mut Context<'_>, row: &Collection<'_>, file: &mut Writer) -> Outcome<u64> {
    let mut written = 0;
    while written < row.len() {
        let some = row.some_values(cx, written..row.len(), false).await?;
        some.iter().for_each(|value| push_string(&mut file.waiting, value));
        written += some.len() as u64;
        end_page(cx, file).await?;
    }
    Ok(written)
}

async fn push_scores(cx: &mut Context<'_>, row: &Collection<'_>, file: &mut Writer) -> Outcome<u64> {
    let (mut written, mut left) = (0, Some(Stretch::ALL));
    while let Some(stretch) = left {
        let (members, rest) = row.scored_page(cx, stretch, false, PAGE_MEMBERS).await?;
        for member in &members {
            push_string(&mut file.waiting, &member.name);
            file.waiting.extend_from_slice(&member.score.to_le_bytes());
        }
        written += members.len() as u64;
        left = rest;
        end_page(cx, file).await?;
    }
    Ok(written)
}

/// Writes the members of a set, or the fields of a hash with their values.
async fn push_members(
    cx: &mut Context<'_>,
    key: &[u8],
    row: &Collection<'_>,
    of: RowType,
    file: &mut Writer,
) -> Outcome<u64> {
    let (mut written, mut next) = (0, Some(0));
    while let Some(from) = next {
        let page = row.members_from(cx, from, PAGE_MEMBERS).await?;
        for member in &page.members {
            if member.expire_at_ms.is_some() {
                return Err(mortal(key));
            }
            push_string(&mut file.waiting, &member.name);
            if of == RowType::Hash {
                push_string(&mut file.waiting, &member.value);
            }
        }
        written += page.members.len() as u64;
        next = page.next;
        end_page(cx, file).await?;
    }
    Ok(written)
}

async fn end_page(cx: &mut Context<'_>, file: &mut Writer) -> Outcome {
    send(cx, file).await?;
    cx.end_page().await
}

fn mortal(key: &[u8]) -> Error {
    let why = "ERR its fields have deadlines, for which a dump file of version 10 has no form";
    unwritten(key, Error::new(why))
}

/// Adds to `error` which row it is about.
fn unwritten(key: &[u8], error: Error) -> Error {
    const SHOWN_BYTES: usize = 100;
    let shown = key[..key.len().min(SHOWN_BYTES)].escape_ascii();
    let why = String::from_utf8_lossy(error.text()).into_owned();
    Error::bytes(format!("ERR the key \"{shown}\": {}", why.trim_start_matches("ERR ")).into_bytes())
}
