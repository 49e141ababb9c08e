//! `string.find`, `string.match`, `string.gmatch`, and the parts of `string.gsub`.

use std::sync::Arc;

use mlua::{Lua, LuaString, MultiValue, Table, Value};

use super::find::{Capture, Match, Search, Stop};
use super::parse::{Pattern, counted};
use crate::budget::Budget;
use crate::failure::raise_text;
use crate::raised::{ended, no_memory, raised_here};
use crate::shared::{Kept, Shared};
use crate::values::{number_of, text_or_number};

/// The bytes that have a special meaning in patterns.
const SPECIAL: &[u8] = b"^$*+?.([%-";

/// The arguments of a function, whose errors name it.
struct Arguments<'a> {
    lua: &'a Lua,
    name: &'static str,
    values: &'a MultiValue,
}

impl Arguments<'_> {
    fn wrong(&self, index: usize, what: &str) -> mlua::Error {
        raise_text(self.lua, format!("bad argument #{} to '{}' ({what})", index + 1, self.name))
    }

    fn expected(&self, index: usize, what: &str) -> mlua::Error {
        let found = self.values.get(index).map_or("no value", Value::type_name);
        self.wrong(index, &format!("{what} expected, got {found}"))
    }

    fn text(&self, index: usize) -> mlua::Result<LuaString> {
        let text = self.values.get(index).map(|value| text_or_number(self.lua, value)).transpose()?.flatten();
        text.ok_or_else(|| self.expected(index, "string"))
    }

    /// An optional number.
    fn number(&self, index: usize) -> mlua::Result<Option<i64>> {
        let number = match self.values.get(index) {
            None | Some(Value::Nil) => return Ok(None),
            Some(Value::String(text)) => {
                std::str::from_utf8(&text.as_bytes()).ok().and_then(|text| text.trim().parse().ok())
            }
            Some(value) => number_of(value),
        };
        number.map(|number: f64| Some(number as i64)).ok_or_else(|| self.expected(index, "number"))
    }

    /// Where a search in a text of `len` bytes begins.
    fn init(&self, index: usize, len: usize) -> mlua::Result<usize> {
        let init = self.number(index)?.unwrap_or(1);
        let from = if init < 0 { init.saturating_add_unsigned(len as u64) } else { init - 1 };
        Ok(usize::try_from(from).unwrap_or(0).min(len))
    }
}

fn stopped(lua: &Lua, stop: Stop) -> mlua::Error {
    match stop {
        Stop::Wrong(what) => raised_here(lua, what),
        Stop::Ends => ended(),
    }
}

fn captured(lua: &Lua, text: &[u8], capture: Capture) -> mlua::Result<Value> {
    match capture {
        Capture::Text(from, to) => lua.create_string(&text[from..to]).map(Value::String),
        Capture::Place(at) => Ok(Value::Number((at + 1) as f64)),
        Capture::Open(_) => Err(raised_here(lua, "unfinished capture")),
    }
}

/// The captures of a match. If the pattern has no captures and `is_all` is set, the whole match.
fn captures(lua: &Lua, text: &[u8], found: &Match, is_all: bool) -> mlua::Result<Vec<Value>> {
    if found.captures.is_empty() && is_all {
        return Ok(vec![captured(lua, text, Capture::Text(found.from, found.to))?]);
    }
    found.captures.iter().map(|&capture| captured(lua, text, capture)).collect()
}

fn find(lua: &Lua, shared: &Shared, args: &MultiValue) -> mlua::Result<MultiValue> {
    let arguments = Arguments { lua, name: "find", values: args };
    let (text, pattern) = (arguments.text(0)?, arguments.text(1)?);
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let from = arguments.init(2, text.len())?;
    let is_plain = args.get(3).is_some_and(|plain| !matches!(plain, Value::Nil | Value::Boolean(false)));
    if is_plain || !counted(&pattern).iter().any(|byte| SPECIAL.contains(byte)) {
        Budget::of(shared).work(text.len() - from + pattern.len())?;
        let found = memchr::memmem::find(&text[from..], &pattern).map(|at| from + at);
        let range = |at: usize| vec![Value::Number((at + 1) as f64), Value::Number((at + pattern.len()) as f64)];
        return Ok(MultiValue::from_vec(found.map_or_else(|| vec![Value::Nil], range)));
    }
    let pattern = Pattern::parse(&pattern, true, &mut Budget::of(shared))?;
    let found = Search::new(&pattern, &text, &|| shared.has_to_end()).first_from(from);
    let Some(found) = found.map_err(|stop| stopped(lua, stop))? else {
        return Ok(MultiValue::from_vec(vec![Value::Nil]));
    };
    let mut values = vec![Value::Number((found.from + 1) as f64), Value::Number(found.to as f64)];
    values.extend(captures(lua, &text, &found, false)?);
    Ok(MultiValue::from_vec(values))
}

fn first_match(lua: &Lua, shared: &Shared, args: &MultiValue) -> mlua::Result<MultiValue> {
    let arguments = Arguments { lua, name: "match", values: args };
    let (text, pattern) = (arguments.text(0)?, arguments.text(1)?);
    let text = text.as_bytes();
    let from = arguments.init(2, text.len())?;
    let pattern = Pattern::parse(&pattern.as_bytes(), true, &mut Budget::of(shared))?;
    let found = Search::new(&pattern, &text, &|| shared.has_to_end()).first_from(from);
    match found.map_err(|stop| stopped(lua, stop))? {
        Some(found) => captures(lua, &text, &found, true).map(MultiValue::from_vec),
        None => Ok(MultiValue::from_vec(vec![Value::Nil])),
    }
}

/// Books the memory of a pattern that the script keeps.
fn keep(lua: &Lua, shared: &Arc<Shared>, pattern: &Pattern) -> mlua::Result<Kept> {
    if let Some(kept) = shared.try_keep(pattern.bytes()) {
        return Ok(kept);
    }
    // The machine knows nothing of this memory, so it sees no reason to look for garbage.
    lua.gc_collect()?;
    shared.try_keep(pattern.bytes()).ok_or_else(no_memory)
}

/// A function that gives one match after the other: for `gmatch` its captures; for `gsub` its range, counted from 1,
/// and its captures.
fn matches(lua: &Lua, shared: &Arc<Shared>, args: &MultiValue, of_gsub: bool) -> mlua::Result<Value> {
    let arguments = Arguments { lua, name: if of_gsub { "gsub" } else { "gmatch" }, values: args };
    let (text, pattern) = (arguments.text(0)?, arguments.text(1)?);
    let pattern = Pattern::parse(&pattern.as_bytes(), of_gsub, &mut Budget::of(shared))?;
    let kept = keep(lua, shared, &pattern)?;
    let pattern = (pattern, kept);
    let (own, next) = (Arc::clone(shared), parking_lot::Mutex::new(Some(0)));
    let gives = move |lua: &Lua, _: MultiValue| {
        let (text, (pattern, _)) = (text.as_bytes(), &pattern);
        let mut next = next.lock();
        let Some(from) = next.take().filter(|&from| from <= text.len()) else { return Ok(MultiValue::new()) };
        let found = Search::new(pattern, &text, &|| own.has_to_end()).first_from(from);
        let Some(found) = found.map_err(|stop| stopped(lua, stop))? else { return Ok(MultiValue::new()) };
        // Behind an empty match, it continues with the next byte.
        let after = found.to + usize::from(found.to == found.from);
        *next = Some(after).filter(|_| !pattern.is_anchored);
        let mut values = Vec::new();
        if of_gsub {
            values.extend([Value::Number((found.from + 1) as f64), Value::Number(found.to as f64)]);
        }
        values.extend(captures(lua, &text, &found, true)?);
        Ok(MultiValue::from_vec(values))
    };
    lua.create_function(gives).map(Value::Function)
}

/// `gsub` with a replacement that is a text, or that is looked up in a table. Gives the new text, and the number of
/// matches.
fn replaced(lua: &Lua, shared: &Shared, args: &MultiValue) -> mlua::Result<MultiValue> {
    let arguments = Arguments { lua, name: "gsub", values: args };
    let (text, pattern) = (arguments.text(0)?, arguments.text(1)?);
    let pattern = Pattern::parse(&pattern.as_bytes(), true, &mut Budget::of(shared))?;
    let text = text.as_bytes();
    let with = match args.get(2) {
        Some(Value::Table(table)) => Replacement::Table(table),
        Some(value) => match text_or_number(lua, value)? {
            Some(text) => {
                let text = text.as_bytes();
                Budget::of(shared).work(text.len())?;
                Replacement::Text(text.to_vec())
            }
            None => return Err(arguments.wrong(2, "string/function/table expected")),
        },
        None => return Err(arguments.wrong(2, "string/function/table expected")),
    };
    let most = arguments.number(3)?.unwrap_or(i64::MAX);
    let has_to_end = || shared.has_to_end();
    let mut search = Search::new(&pattern, &text, &has_to_end);
    let mut out = Out { bytes: Vec::new(), budget: Budget::of(shared) };
    let (mut at, mut count) = (0, 0);
    while count < most && at <= text.len() {
        let found = search.first_from(at).map_err(|stop| stopped(lua, stop))?;
        let Some(found) = found else { break };
        count += 1;
        out.put(&text[at..found.from])?;
        with.put(lua, &mut out, &text, &found)?;
        at = found.to;
        if found.to == found.from {
            out.put(text.get(at..=at).unwrap_or_default())?;
            at += 1;
        }
        if pattern.is_anchored {
            break;
        }
    }
    out.put(text.get(at..).unwrap_or_default())?;
    let text = lua.create_string(out.bytes)?;
    Ok(MultiValue::from_vec(vec![Value::String(text), Value::Number(count as f64)]))
}

/// The new text of a `gsub`, as far as it is made.
struct Out<'s> {
    bytes: Vec<u8>,
    budget: Budget<'s>,
}

impl Out<'_> {
    fn put(&mut self, bytes: &[u8]) -> mlua::Result<()> {
        self.budget.take(bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

enum Replacement<'a> {
    Text(Vec<u8>),
    Table(&'a Table),
}

impl Replacement<'_> {
    fn put(&self, lua: &Lua, out: &mut Out<'_>, text: &[u8], found: &Match) -> mlua::Result<()> {
        match self {
            Replacement::Text(with) => put_text(lua, out, with, text, found),
            Replacement::Table(table) => {
                let key = captures(lua, text, found, true)?.into_iter().next().unwrap_or(Value::Nil);
                let value: Value = table.get(key)?;
                if matches!(value, Value::Nil | Value::Boolean(false)) {
                    return out.put(&text[found.from..found.to]);
                }
                match text_or_number(lua, &value)? {
                    Some(value) => out.put(&value.as_bytes()),
                    None => {
                        let what = format!("invalid replacement value (a {})", value.type_name());
                        Err(raised_here(lua, &what))
                    }
                }
            }
        }
    }
}

/// Appends the replacement `with`, in which `%` and a digit stand for a capture.
fn put_text(lua: &Lua, out: &mut Out<'_>, with: &[u8], text: &[u8], found: &Match) -> mlua::Result<()> {
    let mut bytes = with.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.put(&[byte])?;
            continue;
        }
        // Behind the last byte there is the byte 0 that ends texts in C.
        let digit = bytes.next().unwrap_or(0);
        let all = Capture::Text(found.from, found.to);
        let capture = match digit {
            b'0' => all,
            b'1'..=b'9' => match found.captures.get(usize::from(digit - b'1')) {
                Some(&capture) => capture,
                None if digit == b'1' => all,
                None => return Err(raised_here(lua, "invalid capture index")),
            },
            other => {
                out.put(&[other])?;
                continue;
            }
        };
        if let Some(captured) = text_or_number(lua, &captured(lua, text, capture)?)? {
            out.put(&captured.as_bytes())?;
        }
    }
    Ok(())
}

/// Puts the functions into `machine`.
///
/// # Errors
/// There is no memory for them.
pub(crate) fn put(lua: &Lua, machine: &Table, shared: &Arc<Shared>) -> mlua::Result<()> {
    let own = Arc::clone(shared);
    machine.raw_set("find", lua.create_function(move |lua, args: MultiValue| find(lua, &own, &args))?)?;
    let own = Arc::clone(shared);
    machine.raw_set("match", lua.create_function(move |lua, args: MultiValue| first_match(lua, &own, &args))?)?;
    let own = Arc::clone(shared);
    machine.raw_set("gmatch", lua.create_function(move |lua, args: MultiValue| matches(lua, &own, &args, false))?)?;
    let own = Arc::clone(shared);
    machine.raw_set("matches", lua.create_function(move |lua, args: MultiValue| matches(lua, &own, &args, true))?)?;
    let own = Arc::clone(shared);
    machine.raw_set("gsub", lua.create_function(move |lua, args: MultiValue| replaced(lua, &own, &args))?)
}
