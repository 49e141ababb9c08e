//! Parts of values: `APPEND`, `GETRANGE`, `SETRANGE`, `STRLEN`.

use std::ops::Range;

use super::integer;
use crate::args::Args;
use crate::context::Context;
use crate::error::{OFFSET, Outcome, TOO_LONG};
use crate::events::Classes;

pub async fn strlen(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let len = cx.string(args.at(1)).await?.map_or(0, |row| row.value.len());
    cx.replies().integer(len as i64);
    Ok(())
}

pub async fn getrange(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (start, end) = (integer(args.at(2))?, integer(args.at(3))?);
    match cx.string(args.at(1)).await? {
        Some(row) => {
            let range = range(row.value.len(), start, end);
            cx.replies().bulk_part(row.value, range);
        }
        None => cx.replies().bulk(b""),
    }
    Ok(())
}

/// The range from `start` to `end` of `len` bytes, both included; negative positions count from the end.
fn range(len: usize, start: i64, end: i64) -> Range<usize> {
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let len = len as i64;
    let from_front = |position: i64| if position < 0 { len + position.max(-len) } else { position };
    let (start, end) = (from_front(start), from_front(end).min(len - 1));
    if start > end || len == 0 { 0..0 } else { start as usize..end as usize + 1 }
}

pub async fn append(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (key, tail) = (args.at(1), args.at(2));
    let row = cx.string(key).await?;
    let old = row.as_ref().map_or(&[][..], |row| &row.value[..]);
    let len = old.len() + tail.len();
    if len > cx.value_bytes_max() {
        return Err(TOO_LONG);
    }
    if row.is_none() || !tail.is_empty() {
        cx.put(key, &[old, tail].concat(), row.as_ref().and_then(|row| row.expire_at_ms))?;
    } else {
        // As in Redis, appending nothing also counts as a change of the value.
        cx.tell(Classes::CHANGED, "", key);
        cx.tell(Classes::STRING, "append", key);
    }
    cx.replies().integer(len as i64);
    Ok(())
}

pub async fn setrange(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (key, part) = (args.at(1), args.at(3));
    let offset = usize::try_from(integer(args.at(2))?).map_err(|_| OFFSET)?;
    let row = cx.string(key).await?;
    let old = row.as_ref().map_or(&[][..], |row| &row.value[..]);
    if part.is_empty() {
        cx.replies().integer(old.len() as i64);
        return Ok(());
    }
    let end = offset.checked_add(part.len()).filter(|&end| end <= cx.value_bytes_max()).ok_or(TOO_LONG)?;
    let mut value = old.to_vec();
    value.resize(old.len().max(end), 0);
    value[offset..end].copy_from_slice(part);
    cx.put(key, &value, row.as_ref().and_then(|row| row.expire_at_ms))?;
    cx.replies().integer(value.len() as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_their_ends_and_count_from_both_sides() {
        let value = b"This is a string";
        for (start, end, expected) in [
            (0, 3, "This"),
            (-3, -1, "ing"),
            (0, -1, "This is a string"),
            (10, 100, "string"),
            (5, 3, ""),
            (-1, -5, ""),
            (-100, 3, "This"),
            (-100, -100, "T"),
            (-100, -200, ""),
            (16, 20, ""),
            (i64::MIN, i64::MAX, "This is a string"),
        ] {
            assert_eq!(&value[range(value.len(), start, end)], expected.as_bytes(), "{start} {end}");
        }
        assert_eq!(range(0, 0, -1), 0..0);
    }
}
