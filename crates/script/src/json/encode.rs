//! Values as JSON.

use mlua::{Function, Table, Value};
use weir_command::float::push_general;

use super::settings::{DEPTH_MAX, Invalid, Settings, Sparse};
use crate::budget::{TABLE_WORK, Work};
use crate::failure::{Result, failed};
use crate::values::number_of;

/// Most bytes that are written. A few tables that contain each other many times can become many bytes.
const OUTPUT_BYTES_MAX: usize = 64 << 20;

/// How many bytes of a text are written between two looks at the length of the output.
const PIECE_BYTES: usize = 64 << 10;

/// How many elements an array may lack at most, whatever its sparseness is set to. Each of them is written as `null`.
const MISSING_MAX: usize = 1_000_000;

/// A table that is not completely written yet.
struct Unwritten {
    table: Table,
    at: At,
}

enum At {
    /// The index of the next element of an array, and the number of elements.
    Element(usize, usize),
    /// The next pair is the one behind this key.
    Key(Value),
}

/// `value` as JSON. Open tables are kept on the heap, so that a script cannot fill the thread's stack. A few tables
/// that contain each other many times are much `work`, so it is checked meanwhile whether the script has to end. `next`
/// is Lua's function of this name.
pub(crate) fn encode(next: &Function, value: &Value, settings: &Settings, work: &mut Work<'_>) -> Result<Vec<u8>> {
    let (mut out, mut open) = (Vec::new(), Vec::new());
    put(&mut out, value.clone(), &mut open, settings, work)?;
    while let Some(Unwritten { table, at }) = open.last_mut() {
        let value = match at {
            At::Element(index, len) if *index < *len => {
                if *index > 0 {
                    out.push(b',');
                }
                *index += 1;
                Some(table.raw_get(*index)?)
            }
            At::Element(..) => {
                out.push(b']');
                None
            }
            At::Key(key) => {
                let is_first = key.is_nil();
                let (next_key, value): (Value, Value) = next.call((&*table, &*key))?;
                *key = next_key;
                if key.is_nil() {
                    out.push(b'}');
                    None
                } else {
                    if !is_first {
                        out.push(b',');
                    }
                    put_key(&mut out, key, settings, work)?;
                    Some(value)
                }
            }
        };
        match value {
            Some(value) => put(&mut out, value, &mut open, settings, work)?,
            None => _ = open.pop(),
        }
    }
    Ok(out)
}

fn put(
    out: &mut Vec<u8>,
    value: Value,
    open: &mut Vec<Unwritten>,
    settings: &Settings,
    work: &mut Work<'_>,
) -> Result<()> {
    work.add(if value.is_table() { TABLE_WORK } else { 0 })?;
    match value {
        Value::Nil => out.extend_from_slice(b"null"),
        Value::LightUserData(data) if data.0.is_null() => out.extend_from_slice(b"null"),
        Value::Boolean(is) => out.extend_from_slice(if is { b"true" } else { b"false" }),
        Value::Integer(number) => put_number(out, number as f64, settings)?,
        Value::Number(number) => put_number(out, number, settings)?,
        Value::String(text) => put_text(out, &text.as_bytes(), work)?,
        Value::Table(table) => {
            if open.len() >= DEPTH_MAX.min(settings.depth_written) {
                return failed(format!("Cannot serialise, excessive nesting ({})", open.len() + 1));
            }
            let at = match array_len(&table, &settings.sparse, work)? {
                Some(len) => {
                    out.push(b'[');
                    At::Element(0, len)
                }
                None => {
                    out.push(b'{');
                    At::Key(Value::Nil)
                }
            };
            open.push(Unwritten { table, at });
        }
        other => return failed(format!("Cannot serialise {}: type not supported", other.type_name())),
    }
    check_len(out)
}

fn check_len(out: &[u8]) -> Result<()> {
    match out.len() <= OUTPUT_BYTES_MAX {
        true => Ok(()),
        false => failed("Cannot serialise, more than 64 MB"),
    }
}

fn put_key(out: &mut Vec<u8>, key: &Value, settings: &Settings, work: &mut Work<'_>) -> Result<()> {
    match key {
        Value::String(text) => put_text(out, &text.as_bytes(), work)?,
        key => match number_of(key) {
            Some(number) => {
                out.push(b'"');
                put_number(out, number, settings)?;
                out.push(b'"');
            }
            None => return failed("Cannot serialise table: table key must be a number or string"),
        },
    }
    out.push(b':');
    Ok(())
}

/// Writes a number as C's `%g` does.
fn put_number(out: &mut Vec<u8>, number: f64, settings: &Settings) -> Result<()> {
    if number.is_finite() {
        push_general(out, number, settings.digits);
        return Ok(());
    }
    out.extend_from_slice(match settings.writes_invalid {
        Invalid::Refused => return failed("Cannot serialise number: must not be NaN or Inf"),
        Invalid::Null => b"null",
        Invalid::Named if number.is_nan() => b"nan",
        Invalid::Named if number > 0.0 => b"inf",
        Invalid::Named => b"-inf",
    });
    Ok(())
}

fn put_text(out: &mut Vec<u8>, text: &[u8], work: &mut Work<'_>) -> Result<()> {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    // A byte may become six.
    for piece in text.chunks(PIECE_BYTES) {
        work.add(piece.len())?;
        check_len(out)?;
        for &byte in piece {
            match byte {
                b'"' => out.extend_from_slice(b"\\\""),
                b'\\' => out.extend_from_slice(b"\\\\"),
                b'/' => out.extend_from_slice(b"\\/"),
                8 => out.extend_from_slice(b"\\b"),
                b'\t' => out.extend_from_slice(b"\\t"),
                b'\n' => out.extend_from_slice(b"\\n"),
                12 => out.extend_from_slice(b"\\f"),
                b'\r' => out.extend_from_slice(b"\\r"),
                0..=31 | 127 => {
                    out.extend_from_slice(b"\\u00");
                    out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
                }
                _ => out.push(byte),
            }
        }
    }
    out.push(b'"');
    Ok(())
}

/// The length of `table` as an array; `None` if it is no array.
fn array_len(table: &Table, sparse: &Sparse, work: &mut Work<'_>) -> Result<Option<usize>> {
    let (mut len, mut count) = (0_usize, 0_usize);
    for pair in table.pairs::<Value, Value>() {
        work.add(0)?;
        let index = match pair?.0 {
            Value::Integer(index) => index as f64,
            Value::Number(index) => index,
            _ => return Ok(None),
        };
        if index < 1.0 || index.fract() != 0.0 || index > u32::MAX.into() {
            return Ok(None);
        }
        len = len.max(index as usize);
        count += 1;
    }
    let is_sparse = sparse.ratio > 0 && len > sparse.safe && len > count.saturating_mul(sparse.ratio);
    if is_sparse && sparse.becomes_object {
        return Ok(None);
    }
    if is_sparse || len - count > MISSING_MAX {
        return failed("Cannot serialise table: excessively sparse array");
    }
    Ok((len > 0).then_some(len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;
    use crate::shared::Shared;

    #[test]
    fn a_text_that_grows_as_it_is_written_is_not_written_to_its_end() {
        let shared = Shared::new();
        let mut out = Vec::new();
        let put = put_text(&mut out, &vec![1; 12 << 20], &mut Work::of(&shared));
        assert!(matches!(put, Err(Failure::Text(_))));
        assert!(out.len() <= OUTPUT_BYTES_MAX + 6 * PIECE_BYTES + 1);
    }
}
