//! Parts of values: `APPEND`, `GETRANGE`, `SETRANGE`, `STRLEN`.

use std::ops::Range;

use weir_model::Change;

use super::{integer, value_bytes_max};
use crate::resp::connection::Connection;
use crate::resp::error::{OFFSET, Outcome, TOO_LONG};
use crate::resp::frame::Args;
use crate::store::{Entry, Store};

pub(in crate::resp) async fn strlen<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let len = connection.get(args.at(1)).await?.map_or(0, |entry| entry.value.len());
    connection.replies.integer(len as i64);
    Ok(())
}

pub(in crate::resp) async fn getrange<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let (start, end) = (integer(args.at(2))?, integer(args.at(3))?);
    match connection.get(args.at(1)).await? {
        Some(Entry { value, .. }) => {
            let range = range(value.len(), start, end);
            connection.replies.bulk_part(value, range);
        }
        None => connection.replies.bulk(b""),
    }
    Ok(())
}

/// From `start` to `end` of `len` bytes, both included; negative positions count from the end.
fn range(len: usize, start: i64, end: i64) -> Range<usize> {
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let len = len as i64;
    let from_front = |position: i64| if position < 0 { len + position.max(-len) } else { position };
    let (start, end) = (from_front(start), from_front(end).min(len - 1));
    if start > end || len == 0 { 0..0 } else { start as usize..end as usize + 1 }
}

pub(in crate::resp) async fn append<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let (key, tail) = (args.at(1), args.at(2));
    let max = value_bytes_max(connection);
    let len = connection
        .try_update(&[key], |entries, batch| {
            let (old, expire_at_ms) = match &entries[0] {
                Some(entry) => (&entry.value[..], entry.expire_at_ms),
                None => (&[][..], None),
            };
            if old.len() + tail.len() > max {
                return Err(TOO_LONG);
            }
            if entries[0].is_none() || !tail.is_empty() {
                batch.push(Change::Put { key, value: &[old, tail].concat(), expire_at_ms });
            }
            Ok(old.len() + tail.len())
        })
        .await?;
    connection.replies.integer(len as i64);
    Ok(())
}

pub(in crate::resp) async fn setrange<S: Store>(connection: &mut Connection<S>, args: Args<'_>) -> Outcome {
    let (key, part) = (args.at(1), args.at(3));
    let offset = usize::try_from(integer(args.at(2))?).map_err(|_| OFFSET)?;
    let max = value_bytes_max(connection);
    let len = connection
        .try_update(&[key], |entries, batch| {
            let (old, expire_at_ms) = match &entries[0] {
                Some(entry) => (&entry.value[..], entry.expire_at_ms),
                None => (&[][..], None),
            };
            if part.is_empty() {
                return Ok(old.len());
            }
            let end = offset.checked_add(part.len()).filter(|&end| end <= max).ok_or(TOO_LONG)?;
            let mut value = old.to_vec();
            value.resize(old.len().max(end), 0);
            value[offset..end].copy_from_slice(part);
            batch.push(Change::Put { key, value: &value, expire_at_ms });
            Ok(value.len())
        })
        .await?;
    connection.replies.integer(len as i64);
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
