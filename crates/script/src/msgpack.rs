//! `cmsgpack`: values as MessagePack and back, in the forms that the library in Redis chooses.

use std::sync::Arc;

use mlua::{Lua, Table, Value};

use crate::budget::{Budget, TABLE_WORK};
use crate::failure::{Failure, Result, failed};
use crate::shared::Shared;

/// How deep nested tables are packed: deeper ones become nil.
const DEPTH_MAX: usize = 16;
/// How deep nested tables are read.
const READ_DEPTH_MAX: usize = 200;

/// What a value takes of the budget, beside the bytes of a text: as much as in a table of Lua. So only texts and tables
/// that are packed many times can need more than their own memory.
const VALUE_BYTES: usize = 16;

/// Appends `value`.
pub(crate) fn pack(out: &mut Vec<u8>, value: &Value, budget: &mut Budget<'_>) -> Result<()> {
    put(out, value, 0, budget)
}

fn put(out: &mut Vec<u8>, value: &Value, depth: usize, budget: &mut Budget<'_>) -> Result<()> {
    budget.take(VALUE_BYTES + value.as_string().map_or(0, |text| text.as_bytes().len()))?;
    match value {
        Value::Boolean(is) => out.push(if *is { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => put_integer(out, *number),
        Value::Number(number) => put_number(out, *number),
        Value::String(text) => put_text(out, &text.as_bytes()),
        Value::Table(table) if depth < DEPTH_MAX => put_table(out, table, depth + 1, budget)?,
        _ => out.push(0xc0),
    }
    Ok(())
}

/// Appends a length in the shortest form: `short` with the length in it, up to `most`; or else a byte from `long`
/// followed by a length of 8 (if that form exists), 16 or 32 bits.
fn put_len(out: &mut Vec<u8>, len: usize, (short, most): (u8, usize), long: [Option<u8>; 3]) {
    let [of_8, of_16, of_32] = long;
    match (len, of_8, of_16, of_32) {
        (len, ..) if len <= most => out.push(short | len as u8),
        (len @ ..=0xff, Some(kind), ..) => out.extend_from_slice(&[kind, len as u8]),
        (len @ ..=0xffff, _, Some(kind), _) => {
            out.push(kind);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        (len, .., kind) => {
            out.extend(kind);
            out.extend_from_slice(&(len as u32).to_be_bytes());
        }
    }
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_len(out, text.len(), (0xa0, 31), [Some(0xd9), Some(0xda), Some(0xdb)]);
    out.extend_from_slice(text);
}

fn put_integer(out: &mut Vec<u8>, number: i64) {
    match number {
        -32..=127 => out.push(number as u8),
        128..=0xff => out.extend_from_slice(&[0xcc, number as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend_from_slice(&(number as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend_from_slice(&(number as u32).to_be_bytes());
        }
        0x1_0000_0000.. => {
            out.push(0xcf);
            out.extend_from_slice(&number.to_be_bytes());
        }
        -0x80..-32 => out.extend_from_slice(&[0xd0, number as u8]),
        -0x8000..-0x80 => {
            out.push(0xd1);
            out.extend_from_slice(&(number as i16).to_be_bytes());
        }
        -0x8000_0000..-0x8000 => {
            out.push(0xd2);
            out.extend_from_slice(&(number as i32).to_be_bytes());
        }
        _ => {
            out.push(0xd3);
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}

fn put_number(out: &mut Vec<u8>, number: f64) {
    let is_whole = number.fract() == 0.0 && (i64::MIN as f64..i64::MAX as f64).contains(&number);
    if is_whole {
        put_integer(out, number as i64);
    } else if f64::from(number as f32) == number {
        out.push(0xca);
        out.extend_from_slice(&(number as f32).to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

/// The length of `table` as an array, and how many pairs it has; the length is `None` if it is no array.
fn lens(table: &Table, budget: &mut Budget<'_>) -> Result<(Option<usize>, usize)> {
    let (mut last, mut count, mut is_array) = (0.0, 0, true);
    for pair in table.pairs::<Value, Value>() {
        budget.step()?;
        let index = match pair?.0 {
            Value::Integer(index) => index as f64,
            Value::Number(index) => index,
            _ => 0.0,
        };
        is_array &= index >= 1.0 && index.fract() == 0.0;
        last = f64::max(last, index);
        count += 1;
    }
    Ok((Some(count).filter(|_| is_array && last == count as f64), count))
}

fn put_table(out: &mut Vec<u8>, table: &Table, depth: usize, budget: &mut Budget<'_>) -> Result<()> {
    budget.work(TABLE_WORK)?;
    let (array, pairs) = lens(table, budget)?;
    if let Some(len) = array {
        put_len(out, len, (0x90, 15), [None, Some(0xdc), Some(0xdd)]);
        return (1..=len).try_for_each(|index| put(out, &table.raw_get(index)?, depth, budget));
    }
    put_len(out, pairs, (0x80, 15), [None, Some(0xde), Some(0xdf)]);
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        put(out, &key, depth, budget)?;
        put(out, &value, depth, budget)?;
    }
    Ok(())
}

/// Takes a value from the front of `rest`. The machine itself sees how much memory it takes.
pub(crate) fn unpack(lua: &Lua, rest: &mut &[u8], budget: &mut Budget<'_>) -> Result<Value> {
    take(lua, rest, 0, budget)
}

fn bytes<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8]> {
    let Some((taken, after)) = rest.split_at_checked(len) else { return failed("Missing bytes in input.") };
    *rest = after;
    Ok(taken)
}

/// An unsigned number of `len` bytes.
fn unsigned(rest: &mut &[u8], len: usize) -> Result<u64> {
    Ok(bytes(rest, len)?.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

fn take(lua: &Lua, rest: &mut &[u8], depth: usize, budget: &mut Budget<'_>) -> Result<Value> {
    budget.step()?;
    if depth > READ_DEPTH_MAX {
        return failed("Bad data format in input.");
    }
    let kind = bytes(rest, 1)?[0];
    Ok(match kind {
        0..=0x7f => Value::Number(f64::from(kind)),
        0xe0.. => Value::Number(f64::from(kind as i8)),
        0x80..=0x8f => map(lua, rest, u64::from(kind & 15), depth, budget)?,
        0x90..=0x9f => array(lua, rest, u64::from(kind & 15), depth, budget)?,
        0xa0..=0xbf => text(lua, rest, u64::from(kind & 31), budget)?,
        0xc0 => Value::Nil,
        0xc2 => Value::Boolean(false),
        0xc3 => Value::Boolean(true),
        0xca => Value::Number(f64::from(f32::from_bits(unsigned(rest, 4)? as u32))),
        0xcb => Value::Number(f64::from_bits(unsigned(rest, 8)?)),
        0xcc..=0xcf => Value::Number(unsigned(rest, 1 << (kind - 0xcc))? as f64),
        0xd0 => Value::Number(f64::from(unsigned(rest, 1)? as i8)),
        0xd1 => Value::Number(f64::from(unsigned(rest, 2)? as i16)),
        0xd2 => Value::Number(f64::from(unsigned(rest, 4)? as i32)),
        0xd3 => Value::Number(unsigned(rest, 8)? as i64 as f64),
        0xd9..=0xdb => {
            let len = unsigned(rest, 1 << (kind - 0xd9))?;
            text(lua, rest, len, budget)?
        }
        0xdc | 0xdd => {
            let len = unsigned(rest, 2 << (kind - 0xdc))?;
            array(lua, rest, len, depth, budget)?
        }
        0xde | 0xdf => {
            let len = unsigned(rest, 2 << (kind - 0xde))?;
            map(lua, rest, len, depth, budget)?
        }
        _ => return failed("Bad data format in input."),
    })
}

/// A text of `len` bytes.
fn text(lua: &Lua, rest: &mut &[u8], len: u64, budget: &mut Budget<'_>) -> Result<Value> {
    let text = bytes(rest, len as usize)?;
    budget.work(text.len())?;
    Ok(Value::String(lua.create_string(text)?))
}

/// An array of `len` elements. It grows as they are read, so a text that announces more elements gets no memory for
/// them.
fn array(lua: &Lua, rest: &mut &[u8], len: u64, depth: usize, budget: &mut Budget<'_>) -> Result<Value> {
    let table = lua.create_table()?;
    for index in 1..=len {
        table.raw_set(index, take(lua, rest, depth + 1, budget)?)?;
    }
    Ok(Value::Table(table))
}

fn map(lua: &Lua, rest: &mut &[u8], len: u64, depth: usize, budget: &mut Budget<'_>) -> Result<Value> {
    let table = lua.create_table()?;
    for _ in 0..len {
        let key = take(lua, rest, depth + 1, budget)?;
        let value = take(lua, rest, depth + 1, budget)?;
        if key.is_nil() {
            return failed("table index is nil");
        }
        if matches!(&key, Value::Number(number) if number.is_nan()) {
            return failed("table index is NaN");
        }
        table.raw_set(key, value)?;
    }
    Ok(Value::Table(table))
}

/// The table `cmsgpack`.
///
/// # Errors
/// There is no memory for it.
pub(crate) fn table(lua: &Lua, shared: &Arc<Shared>) -> mlua::Result<Table> {
    use crate::failure::raise;
    use mlua::MultiValue;

    let msgpack = lua.create_table()?;
    let own = Arc::clone(shared);
    let packs = move |lua: &Lua, values: MultiValue| {
        if values.is_empty() {
            return Err(raise(lua, Failure::Text("bad argument #0 to 'pack' (MessagePack pack needs input.)".into())));
        }
        let (mut out, mut budget) = (Vec::new(), Budget::of(&own));
        for value in &values {
            pack(&mut out, value, &mut budget).map_err(|failure| raise(lua, failure))?;
        }
        lua.create_string(out)
    };
    msgpack.raw_set("pack", lua.create_function(packs)?)?;
    let own = Arc::clone(shared);
    let all = move |lua: &Lua, text: mlua::LuaString| {
        let text = text.as_bytes();
        let (mut rest, mut values, mut budget) = (&text[..], Vec::new(), Budget::of(&own));
        while !rest.is_empty() {
            budget.take_value()?;
            values.push(unpack(lua, &mut rest, &mut budget).map_err(|failure| raise(lua, failure))?);
        }
        Ok(MultiValue::from_iter(values))
    };
    msgpack.raw_set("unpack", lua.create_function(all)?)?;
    let own = Arc::clone(shared);
    let some = move |lua: &Lua, text: &[u8], limit: i64, offset: i64| -> mlua::Result<MultiValue> {
        let from = usize::try_from(offset).ok().filter(|&offset| offset <= text.len());
        let (Some(from), 1..) = (from, limit) else {
            let what = format!("Start offset {offset} greater than input length {}.", text.len());
            return Err(raise(lua, Failure::Text(what)));
        };
        let (mut rest, mut values, mut budget) = (&text[from..], Vec::new(), Budget::of(&own));
        while !rest.is_empty() && (values.len() as i64) < limit {
            budget.take_value()?;
            values.push(unpack(lua, &mut rest, &mut budget).map_err(|failure| raise(lua, failure))?);
        }
        let next = if rest.is_empty() { -1.0 } else { (text.len() - rest.len()) as f64 };
        Ok(std::iter::once(Value::Number(next)).chain(values).collect())
    };
    let some = Arc::new(some);
    let own = Arc::clone(&some);
    let one = move |lua: &Lua, (text, offset): (mlua::LuaString, Option<i64>)| {
        own(lua, &text.as_bytes(), 1, offset.unwrap_or(0))
    };
    msgpack.raw_set("unpack_one", lua.create_function(one)?)?;
    let limited = move |lua: &Lua, (text, limit, offset): (mlua::LuaString, i64, Option<i64>)| {
        some(lua, &text.as_bytes(), limit, offset.unwrap_or(0))
    };
    msgpack.raw_set("unpack_limit", lua.create_function(limited)?)?;
    msgpack.raw_set("_NAME", "cmsgpack")?;
    msgpack.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    Ok(msgpack)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packed(lua: &Lua, source: &str) -> Vec<u8> {
        let value: Value = lua.load(source).eval().expect("a value");
        let mut out = Vec::new();
        assert!(pack(&mut out, &value, &mut Budget::of(&Shared::new())).is_ok());
        out
    }

    #[test]
    fn values_have_their_shortest_form_and_come_back() {
        let lua = Lua::new();
        for (source, bytes) in [
            ("1", &b"\x01"[..]),
            ("-1", b"\xff"),
            ("200", b"\xcc\xc8"),
            ("-200", b"\xd1\xff\x38"),
            ("70000", b"\xce\x00\x01\x11\x70"),
            ("1.5", b"\xca\x3f\xc0\x00\x00"),
            ("0.1", b"\xcb\x3f\xb9\x99\x99\x99\x99\x99\x9a"),
            ("'a'", b"\xa1a"),
            ("{1,'a'}", b"\x92\x01\xa1a"),
            ("{a=true}", b"\x81\xa1a\xc3"),
            ("{}", b"\x90"),
            ("nil", b"\xc0"),
        ] {
            let packed = packed(&lua, source);
            assert_eq!(packed, bytes, "{source}");
            let back = unpack(&lua, &mut &packed[..], &mut Budget::of(&Shared::new())).unwrap_or(Value::NULL);
            let mut again = Vec::new();
            assert!(pack(&mut again, &back, &mut Budget::of(&Shared::new())).is_ok());
            assert_eq!(again, packed, "{source}");
        }
    }

    #[test]
    fn what_is_packed_many_times_is_counted_as_it_is_written() {
        let (lua, shared) = (Lua::new(), Shared::new());
        for source in [
            "local s, t = ('x'):rep(1000000), {} for i = 1, 100 do t[i] = s end return t",
            "local t = {} for i = 1, 15 do t = {t, t, t, t, t, t, t, t} end return t",
        ] {
            let value: Value = lua.load(source).eval().expect("a value");
            let mut out = Vec::new();
            assert!(pack(&mut out, &value, &mut Budget::of(&shared)).is_err(), "{source}");
            assert!(out.len() <= shared.memory_bytes(), "{source}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = unpack(&Lua::new(), &mut &bytes[..], &mut Budget::of(&Shared::new()));
        }
    }
}
