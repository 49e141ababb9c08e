//! `cjson`: values as JSON and back, with the rules of the library that Redis has.

use mlua::{Function, Lua, LuaString, Table, Value};
use weir_command::float::push_general;

use crate::failure::{Result, failed};
use crate::values::number_of;

/// Tables within tables that are written, and arrays within arrays that are read.
const DEPTH_MAX: usize = 1000;
/// An array of which more elements than this are missing for each that is there is refused.
const SPARSE_RATIO: usize = 2;
/// One as short as this is not.
const SPARSE_SAFE: usize = 10;

/// Most bytes that are written. A few tables that have one another many times are many bytes.
const OUTPUT_BYTES_MAX: usize = 64 << 20;

/// Digits of a number.
const DIGITS: i32 = 14;

/// A table that is not written to its end.
struct Unwritten {
    table: Table,
    at: At,
}

enum At {
    /// The next element of an array, and how many there are.
    Element(usize, usize),
    /// The pair behind that of this key.
    Key(Value),
}

/// `value` as JSON. Tables within tables are kept beside the thread's stack, which is not ours to fill.
pub(crate) fn encode(lua: &Lua, value: &Value) -> Result<Vec<u8>> {
    let next: Function = lua.globals().raw_get("next")?;
    let (mut out, mut open) = (Vec::new(), Vec::new());
    put(&mut out, value.clone(), &mut open)?;
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
                    put_key(&mut out, key)?;
                    Some(value)
                }
            }
        };
        match value {
            Some(value) => put(&mut out, value, &mut open)?,
            None => _ = open.pop(),
        }
    }
    Ok(out)
}

fn put(out: &mut Vec<u8>, value: Value, open: &mut Vec<Unwritten>) -> Result<()> {
    match value {
        Value::Nil => out.extend_from_slice(b"null"),
        Value::LightUserData(data) if data.0.is_null() => out.extend_from_slice(b"null"),
        Value::Boolean(is) => out.extend_from_slice(if is { b"true" } else { b"false" }),
        Value::Integer(number) => put_number(out, number as f64)?,
        Value::Number(number) => put_number(out, number)?,
        Value::String(text) => put_text(out, &text.as_bytes()),
        Value::Table(table) => {
            if open.len() >= DEPTH_MAX {
                return failed(format!("Cannot serialise, excessive depth ({})", open.len() + 1));
            }
            let at = match array_len(&table)? {
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
    match out.len() <= OUTPUT_BYTES_MAX {
        true => Ok(()),
        false => failed("Cannot serialise, more than 64 MB"),
    }
}

fn put_key(out: &mut Vec<u8>, key: &Value) -> Result<()> {
    match key {
        Value::String(text) => put_text(out, &text.as_bytes()),
        key => match number_of(key) {
            Some(number) => {
                out.push(b'"');
                push_general(out, number, DIGITS);
                out.push(b'"');
            }
            None => return failed("Cannot serialise table: table key must be a number or string"),
        },
    }
    out.push(b':');
    Ok(())
}

/// As `%.14g` of C writes it.
fn put_number(out: &mut Vec<u8>, number: f64) -> Result<()> {
    if !number.is_finite() {
        return failed("Cannot serialise number: must not be NaN or Inf");
    }
    push_general(out, number, DIGITS);
    Ok(())
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'/' => out.extend_from_slice(b"\\/"),
            8 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            12 => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..=31 | 127 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// How long an array `table` is; `None` where it is none.
fn array_len(table: &Table) -> Result<Option<usize>> {
    let (mut len, mut count) = (0, 0);
    for pair in table.pairs::<Value, Value>() {
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
    if len > SPARSE_SAFE && len > count * SPARSE_RATIO {
        return failed("Cannot serialise table: excessively sparse array");
    }
    Ok((len > 0).then_some(len))
}

/// The value that `text` says.
pub(crate) fn decode(lua: &Lua, text: &[u8]) -> Result<Value> {
    let mut reader = Reader { lua, text, at: 0 };
    let value = reader.value()?;
    reader.blanks();
    match reader.peek() {
        None => Ok(value),
        Some(_) => reader.expected("the end"),
    }
}

/// An array or an object that is not complete.
struct Open {
    table: Table,
    /// Of the pair whose value comes next; `None` in an array.
    key: Option<LuaString>,
    len: usize,
}

enum Opening {
    Value(Value),
    Array,
    Object,
}

struct Reader<'a> {
    lua: &'a Lua,
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|byte| b" \t\r\n".contains(&byte)) {
            self.at += 1;
        }
    }

    /// What the library calls what stands here.
    fn found(&self) -> &'static str {
        match self.peek() {
            None => "T_END",
            Some(b'{') => "T_OBJ_BEGIN",
            Some(b'}') => "T_OBJ_END",
            Some(b'[') => "T_ARR_BEGIN",
            Some(b']') => "T_ARR_END",
            Some(b',') => "T_COMMA",
            Some(b':') => "T_COLON",
            Some(b'"') => "T_STRING",
            Some(b'0'..=b'9' | b'-') => "T_NUMBER",
            _ => "invalid token",
        }
    }

    fn expected<T>(&self, what: &str) -> Result<T> {
        failed(format!("Expected {what} but found {} at character {}", self.found(), self.at + 1))
    }

    fn takes(&mut self, word: &[u8]) -> bool {
        let is_here = self.text[self.at..].starts_with(word);
        self.at += if is_here { word.len() } else { 0 };
        is_here
    }

    /// The value that stands here. What is open is kept beside the thread's stack, which is not ours to fill.
    fn value(&mut self) -> Result<Value> {
        let mut open: Vec<Open> = Vec::new();
        loop {
            let mut value = match self.opening(open.len())? {
                Opening::Value(value) => value,
                Opening::Array => {
                    open.push(Open { table: self.lua.create_table()?, key: None, len: 0 });
                    match self.closes(b"]") {
                        true => Value::Table(self.close(&mut open)?),
                        false => continue,
                    }
                }
                Opening::Object => {
                    let table = self.lua.create_table()?;
                    if self.closes(b"}") {
                        Value::Table(table)
                    } else {
                        let key = Some(self.key()?);
                        open.push(Open { table, key, len: 0 });
                        continue;
                    }
                }
            };
            // It ends what it is the last one of.
            loop {
                let Some(inner) = open.last_mut() else { return Ok(value) };
                self.blanks();
                match inner.key.take() {
                    Some(key) => {
                        inner.table.raw_set(key, value)?;
                        if self.takes(b",") {
                            inner.key = Some(self.key()?);
                            break;
                        }
                        if !self.takes(b"}") {
                            return self.expected("comma or object end");
                        }
                    }
                    None => {
                        inner.len += 1;
                        inner.table.raw_set(inner.len, value)?;
                        if self.takes(b",") {
                            break;
                        }
                        if !self.takes(b"]") {
                            return self.expected("comma or array end");
                        }
                    }
                }
                value = Value::Table(self.close(&mut open)?);
            }
        }
    }

    fn close(&self, open: &mut Vec<Open>) -> Result<Table> {
        open.pop().map_or_else(|| failed("nothing is open"), |inner| Ok(inner.table))
    }

    fn closes(&mut self, end: &[u8]) -> bool {
        self.blanks();
        self.takes(end)
    }

    /// A value, or what opens one, inside of so many others.
    fn opening(&mut self, depth: usize) -> Result<Opening> {
        self.blanks();
        let opens = match self.peek() {
            Some(b'"') => return Ok(Opening::Value(Value::String(self.lua.create_string(self.string()?)?))),
            Some(b'{') => Opening::Object,
            Some(b'[') => Opening::Array,
            _ if self.takes(b"true") => return Ok(Opening::Value(Value::Boolean(true))),
            _ if self.takes(b"false") => return Ok(Opening::Value(Value::Boolean(false))),
            _ if self.takes(b"null") => return Ok(Opening::Value(Value::NULL)),
            _ => return self.number().map(Opening::Value),
        };
        self.at += 1;
        match depth < DEPTH_MAX {
            true => Ok(opens),
            false => failed(format!("Found too many nested data structures ({})", depth + 1)),
        }
    }

    /// The key of a pair, with its colon.
    fn key(&mut self) -> Result<LuaString> {
        self.blanks();
        if self.peek() != Some(b'"') {
            return self.expected("object key string");
        }
        let key = self.lua.create_string(self.string()?)?;
        self.blanks();
        if !self.takes(b":") {
            return self.expected("colon");
        }
        Ok(key)
    }

    fn number(&mut self) -> Result<Value> {
        let rest = &self.text[self.at..];
        let len = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte)).count();
        let text = std::str::from_utf8(&rest[..len]).unwrap_or_default();
        let begins = text.starts_with(|first: char| first.is_ascii_digit() || first == '-');
        match text.parse::<f64>() {
            Ok(number) if begins => {
                self.at += len;
                Ok(Value::Number(number))
            }
            _ => self.expected("value"),
        }
    }

    fn string(&mut self) -> Result<Vec<u8>> {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            match self.peek() {
                None => {
                    return failed(format!(
                        "Expected value but found unexpected end of string at character {}",
                        self.at + 1
                    ));
                }
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => self.escape(&mut out)?,
                Some(byte) => {
                    out.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let at = self.at;
        let byte = self.text.get(at + 1).copied();
        self.at += 2;
        out.push(match byte {
            Some(b'"') => b'"',
            Some(b'\\') => b'\\',
            Some(b'/') => b'/',
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                let unit = self.unit();
                let letter = match unit {
                    // The first half of a pair.
                    Some(high @ 0xd800..0xdc00) if self.takes(b"\\u") => self
                        .unit()
                        .filter(|low| (0xdc00..0xe000).contains(low))
                        .and_then(|low| char::from_u32(0x1_0000 + ((high - 0xd800) << 10 | (low - 0xdc00)))),
                    unit => unit.and_then(char::from_u32),
                };
                let Some(letter) = letter else {
                    return failed(format!(
                        "Expected value but found invalid unicode escape code at character {}",
                        at + 1
                    ));
                };
                out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return failed(format!("Expected value but found invalid escape code at character {}", at + 1)),
        });
        Ok(())
    }

    /// Four hexadecimal digits.
    fn unit(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        let unit = digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | char::from(digit).to_digit(16)?))?;
        self.at += 4;
        Some(unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;
    use proptest::prelude::*;

    fn text(result: Result<Vec<u8>>) -> String {
        match result {
            Ok(bytes) => String::from_utf8(bytes).expect("text"),
            Err(Failure::Text(text)) => text,
            Err(Failure::Lua(error)) => error.to_string(),
        }
    }

    fn again(json: &str) -> String {
        let lua = Lua::new();
        text(decode(&lua, json.as_bytes()).and_then(|value| encode(&lua, &value)))
    }

    #[test]
    fn values_are_told_as_by_the_library_of_redis() {
        for json in
            ["[1,2,[3]]", "{\"a\":\"b\"}", "\"\\u0001\\n\\/\"", "1.5", "true", "null", "[null,1]", "1e+20", "-0"]
        {
            assert_eq!(again(json), json);
        }
        assert_eq!(again("[]"), "{}");
        assert_eq!(again(" { \"a\" : [ 1 , 2 ] } "), "{\"a\":[1,2]}");
        assert_eq!(again("\"\\u00e9\\ud83d\\ude00\""), "\"é😀\"");
        assert_eq!(again("x"), "Expected value but found invalid token at character 1");
        assert_eq!(again("[1"), "Expected comma or array end but found T_END at character 3");
        assert_eq!(again(&"[".repeat(2000)), "Found too many nested data structures (1001)");
        for number in ["0.1", "1e+14", "1.2345678901234e+14", "1e-05", "100", "0.0003", "0.33333333333333"] {
            assert_eq!(again(number), number);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(json in "[\\[\\]{}:,\"0-9eE+\\\\u a-f-]{0,30}", bytes: Vec<u8>) {
            let lua = Lua::new();
            let _ = decode(&lua, json.as_bytes());
            let _ = decode(&lua, &bytes);
        }
    }
}
