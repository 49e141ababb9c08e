//! `struct`: numbers and texts as the bytes of a record, and back, by the rules of the library in Redis.
//!
//! | in a format | meaning |
//! |---|---|
//! | `<` `>` | the lowest byte first, the highest byte first |
//! | `!` and a number | values are aligned at multiples of their size, up to this many bytes (8 without a number) |
//! | `b` `h` `l` `T`, `i` and a number | whole numbers of 1, 2, 8, 8 and 4 or the given number of bytes; in capitals unsigned |
//! | `f` `d` | numbers with a fraction, of 4 and 8 bytes |
//! | `s` | a text that ends with a byte 0 |
//! | `c` and a number | a text of this many bytes; with 0: all of it, or as many as the number in front of it says |
//! | `x`, a blank | a byte 0; nothing |

use std::sync::Arc;

use mlua::{Lua, LuaString, MultiValue, Table, Value};

use crate::budget::Budget;
use crate::failure::{Result, failed, told};
use crate::shared::Shared;
use crate::values::{number_of, text_or_number};

/// Largest whole number, in bytes.
const WHOLE_BYTES_MAX: usize = 32;
/// The strictest alignment of any value, for formats that give no number.
const ALIGNMENT: usize = 8;

/// One item of a format.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Item {
    Whole {
        bytes: usize,
        is_signed: bool,
    },
    Single,
    Double,
    /// A text that ends with a byte 0.
    Text,
    /// A text of this many bytes.
    Bytes(usize),
    Nothing,
}

impl Item {
    fn bytes(self) -> usize {
        match self {
            Item::Whole { bytes, .. } | Item::Bytes(bytes) => bytes,
            Item::Single => 4,
            Item::Double => 8,
            Item::Nothing => 1,
            Item::Text => 0,
        }
    }
}

struct Format<'a> {
    name: &'static str,
    rest: &'a [u8],
    is_big: bool,
    /// Values are aligned at multiples of their size, up to this many bytes.
    alignment: usize,
}

impl<'a> Format<'a> {
    fn new(name: &'static str, rest: &'a [u8]) -> Self {
        Self { name, rest, is_big: false, alignment: 1 }
    }

    /// The number at the current place in the format; `default` if there is none.
    fn number(&mut self, default: usize) -> Result<usize> {
        let len = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, after) = self.rest.split_at(len);
        self.rest = after;
        let add = |number: usize, digit: &u8| number.checked_mul(10)?.checked_add(usize::from(digit - b'0'));
        match digits.iter().try_fold(0, add).filter(|&number| i32::try_from(number).is_ok()) {
            _ if len == 0 => Ok(default),
            Some(number) => Ok(number),
            None => failed("integral size overflow"),
        }
    }

    /// The next item, and how many bytes of padding are between `at` and it.
    fn next(&mut self, at: usize) -> Result<Option<(Item, usize)>> {
        let whole = |bytes, letter: u8| Item::Whole { bytes, is_signed: letter.is_ascii_lowercase() };
        while let Some((&letter, after)) = self.rest.split_first() {
            self.rest = after;
            let item = match letter {
                b'b' | b'B' => whole(1, letter),
                b'h' | b'H' => whole(2, letter),
                b'l' | b'L' | b'T' => whole(8, letter),
                b'i' | b'I' => match self.number(4)? {
                    bytes if bytes > WHOLE_BYTES_MAX => {
                        return failed(format!("integral size {bytes} is larger than limit of {WHOLE_BYTES_MAX}"));
                    }
                    bytes => whole(bytes, letter),
                },
                b'f' => Item::Single,
                b'd' => Item::Double,
                b's' => Item::Text,
                b'c' => Item::Bytes(self.number(1)?),
                b'x' => Item::Nothing,
                b' ' => continue,
                b'<' | b'>' => {
                    self.is_big = letter == b'>';
                    continue;
                }
                b'!' => {
                    let alignment = self.number(ALIGNMENT)?;
                    if !alignment.is_power_of_two() {
                        return failed(format!("alignment {alignment} is not a power of 2"));
                    }
                    self.alignment = alignment;
                    continue;
                }
                0 => return Ok(None),
                other => {
                    let letter = char::from(other);
                    return failed(format!("bad argument #1 to '{}' (invalid format option '{letter}')", self.name));
                }
            };
            let align = item.bytes().min(self.alignment);
            let is_aligned = align > 1 && !matches!(item, Item::Bytes(_));
            // As in that library, also for sizes that are no powers of 2.
            return Ok(Some((item, if is_aligned { (align - (at & (align - 1))) & (align - 1) } else { 0 })));
        }
        Ok(None)
    }
}

/// The arguments of a function, whose errors name it.
struct Arguments<'a> {
    lua: &'a Lua,
    name: &'static str,
    values: MultiValue,
    next: usize,
}

impl Arguments<'_> {
    fn text(&mut self) -> Result<LuaString> {
        let value = self.values.get(self.next).cloned().unwrap_or(Value::Nil);
        self.next += 1;
        match text_or_number(self.lua, &value)? {
            Some(text) => Ok(text),
            None => self.expected("string", &value),
        }
    }

    fn number(&mut self) -> Result<f64> {
        let value = self.values.get(self.next).cloned().unwrap_or(Value::Nil);
        self.next += 1;
        let of_text = |text: &LuaString| std::str::from_utf8(&text.as_bytes()).ok()?.trim().parse().ok();
        let number = match &value {
            Value::String(text) => of_text(text),
            value => number_of(value),
        };
        match number {
            Some(number) => Ok(number),
            None => self.expected("number", &value),
        }
    }

    fn expected<T>(&self, what: &str, found: &Value) -> Result<T> {
        self.wrong(&format!("{what} expected, got {}", found.type_name()))
    }

    /// The error that the argument which was taken last is wrong.
    fn wrong<T>(&self, what: &str) -> Result<T> {
        failed(format!("bad argument #{} to '{}' ({what})", self.next, self.name))
    }
}

/// Appends `bytes`, which have the lowest byte first, in the byte order of the format.
fn put(out: &mut Vec<u8>, is_big: bool, bytes: &[u8]) {
    if is_big {
        out.extend(bytes.iter().rev());
    } else {
        out.extend_from_slice(bytes);
    }
}

fn pack(lua: &Lua, shared: &Shared, values: MultiValue) -> Result<Vec<u8>> {
    let mut arguments = Arguments { lua, name: "pack", values, next: 0 };
    let format = arguments.text()?;
    let format = format.as_bytes();
    let (mut out, mut budget) = (Vec::new(), Budget::of(shared));
    budget.work(format.len())?;
    let mut format = Format::new("pack", &format);
    while let Some((item, padding)) = format.next(out.len())? {
        let before = out.len();
        out.resize(out.len() + padding, 0);
        match item {
            Item::Nothing => out.push(0),
            Item::Whole { bytes, .. } => {
                let number = arguments.number()?;
                // As C converts it. A number that does not fit a signed whole number may fit an unsigned one.
                let number = if number < 0.0 { number as i64 as u64 } else { number as u64 };
                let mut all = [0; WHOLE_BYTES_MAX];
                all[..8].copy_from_slice(&number.to_le_bytes());
                put(&mut out, format.is_big, &all[..bytes]);
            }
            Item::Single => put(&mut out, format.is_big, &(arguments.number()? as f32).to_le_bytes()),
            Item::Double => put(&mut out, format.is_big, &arguments.number()?.to_le_bytes()),
            Item::Text => {
                out.extend_from_slice(&arguments.text()?.as_bytes());
                out.push(0);
            }
            Item::Bytes(len) => {
                let text = arguments.text()?;
                let text = text.as_bytes();
                let len = if len == 0 { text.len() } else { len };
                match text.get(..len) {
                    Some(text) => out.extend_from_slice(text),
                    None => {
                        // As in that library, the error names the argument behind the text.
                        arguments.next += 1;
                        return arguments.wrong("string too short");
                    }
                }
            }
        }
        budget.take(out.len() - before)?;
    }
    Ok(out)
}

/// The whole number in some bytes of a record.
fn whole(bytes: &[u8], is_big: bool, is_signed: bool) -> f64 {
    let low = bytes.len().min(8);
    let mut all = [0; 8];
    if is_big {
        all[..low].iter_mut().zip(bytes.iter().rev()).for_each(|(to, &from)| *to = from);
    } else {
        all[..low].copy_from_slice(&bytes[..low]);
    }
    let number = u64::from_le_bytes(all);
    if !is_signed {
        return number as f64;
    }
    let shift = 64 - 8 * low as u32;
    ((number << (shift & 63)) as i64 >> (shift & 63)) as f64
}

fn unpack(lua: &Lua, shared: &Shared, values: MultiValue) -> Result<MultiValue> {
    let has_place = values.len() > 2;
    let mut arguments = Arguments { lua, name: "unpack", values, next: 0 };
    let (format, data) = (arguments.text()?, arguments.text()?);
    let (format, data) = (format.as_bytes(), data.as_bytes());
    let mut at = 0;
    if has_place {
        let place = arguments.number()?;
        if place < 1.0 {
            return arguments.wrong("offset must be 1 or greater");
        }
        at = place as usize - 1;
    }
    arguments.next = 2;
    let (mut found, mut budget) = (Vec::new(), Budget::of(shared));
    budget.work(format.len())?;
    let mut format = Format::new("unpack", &format);
    while let Some((item, padding)) = format.next(at)? {
        at = at.saturating_add(padding);
        let mut bytes = item.bytes();
        if item == Item::Bytes(0) {
            let Some(Value::Number(size)) = found.pop() else { return failed("format 'c0' needs a previous size") };
            bytes = size as usize;
        }
        let here = at.checked_add(bytes).and_then(|end| data.get(at..end));
        let Some(here) = here else { return arguments.wrong("data string too short") };
        at += bytes;
        let value = match item {
            Item::Nothing => continue,
            Item::Whole { is_signed, .. } => Value::Number(whole(here, format.is_big, is_signed)),
            Item::Single | Item::Double => {
                let mut ordered = here.to_vec();
                if format.is_big {
                    ordered.reverse();
                }
                Value::Number(match (ordered.first_chunk(), ordered.first_chunk()) {
                    (Some(bytes), _) => f64::from_le_bytes(*bytes),
                    (None, Some(bytes)) => f32::from_le_bytes(*bytes).into(),
                    (None, None) => return failed("not a number"),
                })
            }
            Item::Bytes(_) => {
                budget.work(here.len())?;
                Value::String(lua.create_string(here)?)
            }
            Item::Text => {
                let rest = &data[at..];
                let Some(len) = rest.iter().position(|&byte| byte == 0) else {
                    return failed("unfinished string in data");
                };
                at += len + 1;
                budget.work(len)?;
                Value::String(lua.create_string(&rest[..len])?)
            }
        };
        budget.take_value()?;
        found.push(value);
    }
    found.push(Value::Number((at + 1) as f64));
    Ok(MultiValue::from_vec(found))
}

fn size(lua: &Lua, shared: &Shared, values: MultiValue) -> Result<f64> {
    let mut arguments = Arguments { lua, name: "size", values, next: 0 };
    let format = arguments.text()?;
    let format = format.as_bytes();
    Budget::of(shared).work(format.len())?;
    let mut format = Format::new("size", &format);
    let mut all = 0_usize;
    while let Some((item, padding)) = format.next(all)? {
        match item {
            Item::Text => return arguments.wrong("option 's' has no fixed size"),
            Item::Bytes(0) => return arguments.wrong("option 'c0' has no fixed size"),
            item => all = all.saturating_add(padding + item.bytes()),
        }
    }
    Ok(all as f64)
}

/// The table `struct`.
///
/// # Errors
/// There is no memory for it.
pub(crate) fn table(lua: &Lua, shared: &Arc<Shared>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let own = Arc::clone(shared);
    let packs = move |lua: &Lua, values: MultiValue| {
        told(lua, pack(lua, &own, values)).and_then(|packed| lua.create_string(packed))
    };
    table.raw_set("pack", lua.create_function(packs)?)?;
    let own = Arc::clone(shared);
    let unpacks = move |lua: &Lua, values: MultiValue| told(lua, unpack(lua, &own, values));
    table.raw_set("unpack", lua.create_function(unpacks)?)?;
    let own = Arc::clone(shared);
    table.raw_set("size", lua.create_function(move |lua, values: MultiValue| told(lua, size(lua, &own, values)))?)?;
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_format_and_any_bytes_are_read_or_refused(
            format in "[<>!bBhHlLTiIfdscx 0-9=]{0,10}", data: Vec<u8>, place in -2_i32..20
        ) {
            let (lua, shared) = (Lua::new(), Shared::new());
            let text = |bytes: &[u8]| Value::String(lua.create_string(bytes).expect("room"));
            let _ = unpack(&lua, &shared, MultiValue::from_vec(vec![text(format.as_bytes()), text(&data)]));
            let all = vec![text(format.as_bytes()), text(&data), Value::Number(place.into())];
            let _ = unpack(&lua, &shared, MultiValue::from_vec(all));
            let _ = size(&lua, &shared, MultiValue::from_vec(vec![text(format.as_bytes())]));
            let _ = pack(&lua, &shared, MultiValue::from_vec(vec![text(format.as_bytes()), Value::Number(place.into())]));
        }

        #[test]
        fn whole_numbers_come_back(number in -(1_i64 << 40)..1 << 40, bytes in 6_usize..33, big: bool) {
            let (lua, shared) = (Lua::new(), Shared::new());
            let format = lua.create_string(format!("{}i{bytes}", if big { '>' } else { '<' })).expect("room");
            let format = Value::String(format);
            let values = MultiValue::from_vec(vec![format.clone(), Value::Number(number as f64)]);
            let Ok(packed) = pack(&lua, &shared, values) else { panic!("{bytes}") };
            let data = Value::String(lua.create_string(packed).expect("room"));
            let Ok(found) = unpack(&lua, &shared, MultiValue::from_vec(vec![format, data])) else { panic!("{bytes}") };
            prop_assert_eq!(found.front().and_then(number_of), Some(number as f64));
        }
    }
}
