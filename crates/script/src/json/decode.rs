//! JSON as values.

use mlua::{Lua, LuaString, Table, Value};

use super::number;
use super::settings::{DEPTH_MAX, Settings};
use crate::budget::Work;
use crate::failure::{Result, failed};

/// The value in `text`. A long text is much `work`, so it is checked meanwhile whether the script has to end.
pub(crate) fn decode(lua: &Lua, text: &[u8], settings: &Settings, work: &mut Work<'_>) -> Result<Value> {
    let mut reader = Reader { lua, text, at: 0, counted: 0, settings, work };
    let value = reader.value()?;
    reader.blanks();
    reader.count()?;
    match reader.peek() {
        None => Ok(value),
        Some(_) => reader.expected("the end"),
    }
}

/// An array or an object that is still open.
struct Open {
    table: Table,
    /// The key of the pair whose value comes next; `None` in an array.
    key: Option<LuaString>,
    len: usize,
}

enum Opening {
    Value(Value),
    Array,
    Object,
}

struct Reader<'a, 's> {
    lua: &'a Lua,
    text: &'a [u8],
    at: usize,
    /// The work for the text up to here is counted.
    counted: usize,
    settings: &'a Settings,
    work: &'a mut Work<'s>,
}

impl Reader<'_, '_> {
    /// Counts the work since the last call.
    fn count(&mut self) -> Result<()> {
        let bytes = self.at - self.counted;
        self.counted = self.at;
        Ok(self.work.add(bytes)?)
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|byte| b" \t\r\n".contains(&byte)) {
            self.at += 1;
        }
    }

    /// The library's name for the token at the current place.
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

    /// The value at the current place. Open arrays and objects are kept on the heap, so that a text cannot fill the
    /// thread's stack.
    fn value(&mut self) -> Result<Value> {
        let mut open: Vec<Open> = Vec::new();
        loop {
            self.count()?;
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
            // The value may be the last one of open arrays and objects, and end them.
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

    /// A value, or the beginning of an array or object, which is inside of `depth` others.
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
        match depth < DEPTH_MAX.min(self.settings.depth_read) {
            true => Ok(opens),
            false => {
                let (depth, at) = (depth + 1, self.at);
                failed(format!("Found too many nested data structures ({depth}) at character {at}"))
            }
        }
    }

    /// The key of a pair, and the colon behind it.
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
        let is_invalid = number::is_invalid(rest);
        let begins_number = matches!(rest, [b'0'..=b'9' | b'-', ..]) || self.settings.reads_invalid && is_invalid;
        if !begins_number {
            return self.expected("value");
        }
        match number::parse(rest) {
            Some((number, len)) if self.settings.reads_invalid || !is_invalid => {
                self.at += len;
                Ok(Value::Number(number))
            }
            _ => failed(format!("Expected value but found invalid number at character {}", self.at + 1)),
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
                    // The first half of a surrogate pair.
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
