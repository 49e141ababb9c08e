//! Finds out where a value of a dump file ends, without reading the value.

use super::kind::*;
use super::loaded::{PACKED, PLAIN};
use super::streams::{take_id, take_ms};
use super::{Lack, take, take_array, take_bytes_len, take_string};

/// Bytes of a group's pending entry: its id, and when it was delivered. The number of deliveries follows them.
const PENDING_BYTES: usize = 24;
/// Bytes of an id.
const ID_BYTES: usize = 16;

/// Takes a value of type `kind` from the front of `rest`, without looking at its content.
///
/// # Errors
/// `rest` ends before the value does, or no value of this type begins like this.
pub fn skip_value(kind: u8, rest: &mut &[u8]) -> Result<(), Lack> {
    match kind {
        STRING | HASH_ZIPMAP | LIST_ZIPLIST | SET_INTSET | SORTED_SET_ZIPLIST | HASH_ZIPLIST | HASH_LISTPACK
        | SORTED_SET_LISTPACK | SET_LISTPACK => skip_strings(1, rest),
        LIST | SET | QUICKLIST => {
            let count = take_bytes_len(rest)?;
            skip_strings(count, rest)
        }
        HASH => {
            let count = take_bytes_len(rest)?;
            skip_strings(count.checked_mul(2).ok_or(Lack::Malformed)?, rest)
        }
        SORTED_SET | SORTED_SET_2 => {
            for _ in 0..take_bytes_len(rest)? {
                skip_strings(1, rest)?;
                skip_score(kind == SORTED_SET_2, rest)?;
            }
            Ok(())
        }
        HASH_METADATA => {
            take_ms(rest)?;
            for _ in 0..take_bytes_len(rest)? {
                take_bytes_len(rest)?;
                skip_strings(2, rest)?;
            }
            Ok(())
        }
        HASH_LISTPACK_EX => {
            take_ms(rest)?;
            skip_strings(1, rest)
        }
        QUICKLIST_2 => {
            for _ in 0..take_bytes_len(rest)? {
                if ![PLAIN, PACKED].contains(&take_bytes_len(rest)?) {
                    return Err(Lack::Malformed);
                }
                skip_strings(1, rest)?;
            }
            Ok(())
        }
        STREAM_LISTPACKS | STREAM_LISTPACKS_2 | STREAM_LISTPACKS_3 => skip_stream(kind, rest),
        _ => Err(Lack::Malformed),
    }
}

fn skip_strings(count: usize, rest: &mut &[u8]) -> Result<(), Lack> {
    (0..count).try_for_each(|_| take_string(rest).map(drop))
}

fn skip_score(is_binary: bool, rest: &mut &[u8]) -> Result<(), Lack> {
    let bytes = match is_binary {
        true => 8,
        // A byte that is no length stands for a number by itself, without digits.
        false => take_array(rest).map(|[len]: [u8; 1]| if len < 253 { usize::from(len) } else { 0 })?,
    };
    take(rest, bytes).map(drop)
}

fn skip_stream(kind: u8, rest: &mut &[u8]) -> Result<(), Lack> {
    let nodes = take_bytes_len(rest)?;
    skip_strings(nodes.checked_mul(2).ok_or(Lack::Malformed)?, rest)?;
    take_bytes_len(rest)?;
    take_id(rest)?;
    if kind != STREAM_LISTPACKS {
        take_id(rest)?;
        take_id(rest)?;
        take_bytes_len(rest)?;
    }
    for _ in 0..take_bytes_len(rest)? {
        skip_strings(1, rest)?;
        take_id(rest)?;
        if kind != STREAM_LISTPACKS {
            take_bytes_len(rest)?;
        }
        for _ in 0..take_bytes_len(rest)? {
            take(rest, PENDING_BYTES)?;
            take_bytes_len(rest)?;
        }
        for _ in 0..take_bytes_len(rest)? {
            skip_strings(1, rest)?;
            take_ms(rest)?;
            if kind == STREAM_LISTPACKS_3 {
                take_ms(rest)?;
            }
            let own = take_bytes_len(rest)?;
            take(rest, own.checked_mul(ID_BYTES).ok_or(Lack::Malformed)?)?;
        }
    }
    Ok(())
}

/// Takes the next piece of what a module wrote, if it is of a kind that others can skip; `false` at its end.
///
/// # Errors
/// `rest` ends before the piece does, or the piece is of no such kind.
pub fn skip_module(rest: &mut &[u8]) -> Result<bool, Lack> {
    match take_bytes_len(rest)? {
        0 => return Ok(false),
        1 | 2 => take_bytes_len(rest).map(drop)?,
        3 => take(rest, 4).map(drop)?,
        4 => take(rest, 8).map(drop)?,
        5 => take_string(rest).map(drop)?,
        _ => return Err(Lack::Malformed),
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_read_has_the_end_that_is_skipped_to(kind in 0..28_u8, bytes: Vec<u8>) {
            let mut rest = &bytes[..];
            let end = skip_value(kind, &mut rest).map(|()| bytes.len() - rest.len());
            let body = [&[kind][..], &bytes[..end.unwrap_or(bytes.len())]].concat();
            let read = crate::polled::turns(super::super::load(&body, 1 << 20, weir_io::Yield::PLAIN)).1;
            prop_assert!(read.is_err() || end.is_ok(), "{:?}", read);
            let _ = skip_module(&mut &bytes[..]);
        }
    }
}
