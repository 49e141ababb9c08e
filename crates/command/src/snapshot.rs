//! Rows in the form of a Redis dump file that is sent to a client while it is made. No more than a page of one row, or
//! one value, is in memory.
//!
//! Each row is as it was at one moment. If a row has no form in the file, the file ends in the middle; the reader must
//! not take it for complete.

use weir_model::{Content, Row, Value};

use crate::collection::Collection;
use crate::context::Context;
use crate::dumped::{Dumped, SENT_BYTES, Target, send};
use crate::error::{Error, Outcome};
use crate::rdb::file::{Writer, push_key};
use crate::rdb::{VERSION, kind, push_len, push_string};

const MORTAL: Error = Error::new("ERR its fields have deadlines, for which a dump file of version 10 has no form");

/// Writes the row of `key`, if there is one.
///
/// # Errors
/// The row cannot be read, or has no form in the file; or the client is gone.
pub async fn push_row(cx: &mut Context<'_>, key: &[u8], file: &mut Writer) -> Outcome {
    let named = |error| unwritten(key, error);
    let row = cx.row_of_one_moment(key).await.map_err(named)?;
    let Some(Row { content, expire_at_ms }) = row else { return Ok(()) };
    match content {
        Content::String(value) => {
            push_key(&mut file.waiting, kind::STRING, key, expire_at_ms);
            push_text(cx, value, file).await?;
        }
        Content::Parts(head) => {
            let row = Collection::found(key, (*head, None), cx.now_ms());
            let row = Dumped::of(cx, row).await.map_err(named)?;
            if row.version() > VERSION {
                return Err(named(MORTAL));
            }
            push_key(&mut file.waiting, row.kind(), key, expire_at_ms);
            row.push(cx, &mut Target::File(&mut *file)).await.map_err(named)?;
        }
    }
    send(cx, file).await
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

/// Adds to `error` which row it is about.
fn unwritten(key: &[u8], error: Error) -> Error {
    const SHOWN_BYTES: usize = 100;
    let shown = key[..key.len().min(SHOWN_BYTES)].escape_ascii();
    let why = String::from_utf8_lossy(error.text()).into_owned();
    Error::bytes(format!("ERR the key \"{shown}\": {}", why.trim_start_matches("ERR ")).into_bytes())
}
