//! Replies of commands as Lua values, and the results of scripts as replies, by the rules of Redis 7.0.

use mlua::{Lua, LuaString, Table, Value};
use weir_command::error::REPLY_TOO_LONG;
use weir_command::reply::{OUTPUT_BYTES_MAX, Protocol, Replies};

use crate::budget::{Budget, TABLE_WORK, Work};
use crate::raised::raised;
use crate::replies::{self, Piece};

/// How deep nested tables are answered.
const DEPTH_MAX: usize = 200;

/// A table with one field, a text.
pub(crate) fn tagged(lua: &Lua, name: &str, text: &[u8]) -> mlua::Result<Value> {
    table_of(lua, name, Value::String(lua.create_string(text)?))
}

fn table_of(lua: &Lua, name: &str, value: Value) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    table.raw_set(name, value)?;
    Ok(Value::Table(table))
}

/// `reply` as a Lua value. In RESP2 it consists of the first five kinds of pieces, and of arrays.
///
/// # Errors
/// The reply is damaged, there is no memory for the value, or the script has to end, as `work` says.
pub(crate) fn to_lua(lua: &Lua, mut reply: &[u8], work: &mut Work<'_>) -> mlua::Result<Value> {
    take(lua, &mut reply, work, replies::DEPTH_MAX)
}

/// Takes the reply at the front of `rest`.
fn take(lua: &Lua, rest: &mut &[u8], work: &mut Work<'_>, depth: usize) -> mlua::Result<Value> {
    let damaged = || raised("ERR internal error: the reply was not whole");
    let depth = depth.checked_sub(1).ok_or_else(damaged)?;
    let len_before = rest.len();
    let piece = Piece::take(rest).ok_or_else(damaged)?;
    work.add(len_before - rest.len())?;
    let text = |bytes: &[u8]| lua.create_string(bytes).map(Value::String);
    Ok(match piece {
        Piece::Status(status) => tagged(lua, "ok", status)?,
        Piece::Error(error) => tagged(lua, "err", error)?,
        Piece::Integer(number) => Value::Number(number as f64),
        Piece::Bulk(bytes) => text(bytes)?,
        Piece::Null => Value::Boolean(false),
        Piece::Nothing => Value::Nil,
        Piece::Bool(is) => Value::Boolean(is),
        Piece::Double(number) => table_of(lua, "double", Value::Number(number))?,
        Piece::BigNumber(digits) => tagged(lua, "big_number", digits)?,
        Piece::Verbatim(format, bytes) => {
            let table = lua.create_table()?;
            table.raw_set("format", text(format)?)?;
            table.raw_set("string", text(bytes)?)?;
            table_of(lua, "verbatim_string", Value::Table(table))?
        }
        Piece::Array(len) => {
            // Each element has bytes of its own.
            let table = lua.create_table_with_capacity(len.min(rest.len()), 0)?;
            for index in 1..=len {
                table.raw_set(index, take(lua, rest, work, depth)?)?;
            }
            Value::Table(table)
        }
        Piece::Set(len) => {
            let table = lua.create_table()?;
            for _ in 0..len {
                table.raw_set(take(lua, rest, work, depth)?, true)?;
            }
            table_of(lua, "set", Value::Table(table))?
        }
        Piece::Map(len) => {
            let table = lua.create_table()?;
            for _ in 0..len {
                let key = take(lua, rest, work, depth)?;
                table.raw_set(key, take(lua, rest, work, depth)?)?;
            }
            table_of(lua, "map", Value::Table(table))?
        }
    })
}

/// Writes `value` as a reply in the protocol of `out`. `protocol` is the one that the script has asked for. A script
/// that has asked for RESP3 tells true and false apart from a value that is there or missing.
///
/// # Errors
/// The value cannot be read, it takes more memory than is in `budget`, or the script has to end.
pub(crate) fn tell(out: &mut Replies, value: &Value, protocol: Protocol, budget: &mut Budget<'_>) -> mlua::Result<()> {
    tell_at(out, value, protocol, budget, DEPTH_MAX)
}

fn tell_at(
    out: &mut Replies,
    value: &Value,
    protocol: Protocol,
    budget: &mut Budget<'_>,
    depth: usize,
) -> mlua::Result<()> {
    let Some(depth) = depth.checked_sub(1) else {
        out.error(b"ERR reached lua stack limit");
        return Ok(());
    };
    // A few tables that contain each other many times can become many bytes.
    if out.len() > OUTPUT_BYTES_MAX {
        return Err(raised(REPLY_TOO_LONG.text()));
    }
    budget.work(match value {
        Value::String(text) => text.as_bytes().len(),
        Value::Table(_) => TABLE_WORK,
        _ => 0,
    })?;
    match value {
        Value::String(text) => out.bulk(&text.as_bytes()),
        Value::Integer(number) => out.integer(*number),
        Value::Number(number) => out.integer(truncated(*number)),
        Value::Boolean(is) if protocol == Protocol::Resp3 && is_resp3(out) => {
            out.answer_with(if *is { b"#t\r\n" } else { b"#f\r\n" });
        }
        Value::Boolean(false) if protocol == Protocol::Resp3 => out.integer(0),
        Value::Boolean(true) => out.integer(1),
        Value::Table(table) => return tell_table(out, table, protocol, budget, depth),
        _ => out.null(),
    }
    Ok(())
}

fn is_resp3(out: &Replies) -> bool {
    out.protocol == Protocol::Resp3
}

/// The number in `value`, whole or not.
pub(crate) fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

/// A text, or a number as text; `None` if `value` is neither.
pub(crate) fn text_or_number(lua: &Lua, value: &Value) -> mlua::Result<Option<LuaString>> {
    match value {
        Value::String(text) => Ok(Some(text.clone())),
        Value::Integer(_) | Value::Number(_) => lua.coerce_string(value.clone()),
        _ => Ok(None),
    }
}

/// Converts to a whole number as C does: a number that is out of range becomes the smallest one.
fn truncated(number: f64) -> i64 {
    if number.is_nan() || number >= i64::MAX as f64 { i64::MIN } else { number as i64 }
}

fn text_of(table: &Table, name: &str, budget: &mut Budget<'_>) -> mlua::Result<Option<Vec<u8>>> {
    let Value::String(text) = table.raw_get(name)? else { return Ok(None) };
    let text = text.as_bytes();
    budget.work(text.len())?;
    Ok(Some(text.to_vec()))
}

fn tell_table(
    out: &mut Replies,
    table: &Table,
    protocol: Protocol,
    budget: &mut Budget<'_>,
    depth: usize,
) -> mlua::Result<()> {
    if let Some(error) = text_of(table, "err", budget)? {
        let text = c_text(&error);
        // As in Redis, line ends at its end are not told.
        let end = text.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |last| last + 1);
        out.error(&text[..end]);
        return Ok(());
    }
    if let Some(status) = text_of(table, "ok", budget)? {
        let status = one_line(c_text(&status).to_vec());
        out.answer_with(&[b"+", &status[..], b"\r\n"].concat());
        return Ok(());
    }
    if let Some(number) = number_of(&table.raw_get("double")?) {
        out.double(number);
        return Ok(());
    }
    for (name, is_map) in [("map", true), ("set", false)] {
        if let Value::Table(inner) = table.raw_get(name)? {
            // They are gone through twice: only some thousand values of the machine can be held at the same time.
            let mut len = 0;
            for pair in inner.pairs::<Value, Value>() {
                pair?;
                len += 1;
                budget.step()?;
            }
            if is_map {
                out.map(len)
            } else {
                out.set(len)
            }
            for pair in inner.pairs::<Value, Value>() {
                let (key, value) = pair?;
                tell_at(out, &key, protocol, budget, depth)?;
                if is_map {
                    tell_at(out, &value, protocol, budget, depth)?;
                }
            }
            return Ok(());
        }
    }
    if let Some(digits) = text_of(table, "big_number", budget)? {
        let digits = one_line(digits);
        if is_resp3(out) {
            out.answer_with(&[b"(", &digits[..], b"\r\n"].concat())
        } else {
            out.bulk(&digits)
        }
        return Ok(());
    }
    if let Value::Table(inner) = table.raw_get("verbatim_string")?
        && let (Some(format), Some(text)) = (text_of(&inner, "format", budget)?, text_of(&inner, "string", budget)?)
    {
        if is_resp3(out) {
            let head = format!("={}\r\n", text.len() + 4);
            let mut format = c_text(&format).to_vec();
            format.resize(3, b' ');
            out.answer_with(&[head.as_bytes(), &format, b":", &text, b"\r\n"].concat());
        } else {
            out.bulk(&text);
        }
        return Ok(());
    }
    // The array ends at the first hole.
    let mut len = 0;
    while !table.raw_get::<Value>(len + 1)?.is_nil() {
        len += 1;
        budget.step()?;
    }
    out.array(len);
    (1..=len).try_for_each(|index| tell_at(out, &table.raw_get(index)?, protocol, budget, depth))
}

/// The front of `text` that C sees: up to a NUL.
pub(crate) fn c_text(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// `text` on one line, as a reply needs it.
pub(crate) fn one_line(mut text: Vec<u8>) -> Vec<u8> {
    text.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n')).for_each(|byte| *byte = b' ');
    text
}
