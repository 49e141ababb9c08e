//! How values are written and read: what `cjson` lets scripts set.

use mlua::{Lua, MultiValue, Value};

use crate::failure::{Result, failed};
use crate::values::{number_of, text_or_number};

/// How deep tables are written and arrays are read, whatever is set: each level takes a place in the machine.
pub(super) const DEPTH_MAX: usize = 1000;

/// The largest number that a setting accepts.
const NUMBER_MAX: usize = i32::MAX as usize;
const DIGITS_MAX: usize = 14;

/// How numbers are treated that JSON does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Invalid {
    Refused,
    /// `nan`, `inf`
    Named,
    Null,
}

/// How arrays are treated that lack many elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sparse {
    /// A sparse array is written as an object, and not refused.
    pub(super) becomes_object: bool,
    /// An array that is longer than this times the number of its elements is sparse; 0 = no array is.
    pub(super) ratio: usize,
    /// An array that is no longer than this is never sparse.
    pub(super) safe: usize,
}

/// What scripts can set in `cjson`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(super) depth_written: usize,
    pub(super) depth_read: usize,
    /// How many digits of a number are written.
    pub(super) digits: i32,
    pub(super) writes_invalid: Invalid,
    pub(super) reads_invalid: bool,
    pub(super) sparse: Sparse,
    /// Reported, but without effect: each call has its own buffer.
    pub(super) keeps_buffer: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            depth_written: 1000,
            depth_read: 1000,
            digits: 14,
            writes_invalid: Invalid::Refused,
            reads_invalid: true,
            sparse: Sparse { becomes_object: false, ratio: 2, safe: 10 },
            keeps_buffer: true,
        }
    }
}

/// A function that changes a setting, and returns its current value.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub(super) name: &'static str,
    args_max: usize,
    set: fn(&mut Settings, &Args<'_>) -> Result<Vec<Shown>>,
}

/// All settings.
pub(super) const ALL: [Setting; 7] = [
    Setting {
        name: "encode_sparse_array",
        args_max: 3,
        set: |settings, args| {
            let sparse = &mut settings.sparse;
            args.boolean(1, &mut sparse.becomes_object)?;
            args.number(2, &mut sparse.ratio, 0, NUMBER_MAX)?;
            args.number(3, &mut sparse.safe, 0, NUMBER_MAX)?;
            Ok(vec![Shown::Is(sparse.becomes_object), Shown::Number(sparse.ratio), Shown::Number(sparse.safe)])
        },
    },
    Setting {
        name: "encode_max_depth",
        args_max: 1,
        set: |settings, args| {
            args.number(1, &mut settings.depth_written, 1, NUMBER_MAX)?;
            Ok(vec![Shown::Number(settings.depth_written)])
        },
    },
    Setting {
        name: "decode_max_depth",
        args_max: 1,
        set: |settings, args| {
            args.number(1, &mut settings.depth_read, 1, NUMBER_MAX)?;
            Ok(vec![Shown::Number(settings.depth_read)])
        },
    },
    Setting {
        name: "encode_number_precision",
        args_max: 1,
        set: |settings, args| {
            let mut digits = settings.digits as usize;
            args.number(1, &mut digits, 1, DIGITS_MAX)?;
            settings.digits = digits as i32;
            Ok(vec![Shown::Number(digits)])
        },
    },
    Setting {
        name: "encode_keep_buffer",
        args_max: 1,
        set: |settings, args| {
            args.boolean(1, &mut settings.keeps_buffer)?;
            Ok(vec![Shown::Is(settings.keeps_buffer)])
        },
    },
    Setting {
        name: "encode_invalid_numbers",
        args_max: 1,
        set: |settings, args| {
            settings.writes_invalid = match args.word(1, &["off", "on", "null"])? {
                None => settings.writes_invalid,
                Some(0) => Invalid::Refused,
                Some(1) => Invalid::Named,
                Some(_) => Invalid::Null,
            };
            Ok(vec![match settings.writes_invalid {
                Invalid::Refused => Shown::Is(false),
                Invalid::Named => Shown::Is(true),
                Invalid::Null => Shown::Word("null"),
            }])
        },
    },
    Setting {
        name: "decode_invalid_numbers",
        args_max: 1,
        set: |settings, args| {
            args.boolean(1, &mut settings.reads_invalid)?;
            Ok(vec![Shown::Is(settings.reads_invalid)])
        },
    },
];

impl Setting {
    /// Applies `args`; gives the resulting setting.
    pub(super) fn apply(&self, lua: &Lua, settings: &mut Settings, args: MultiValue) -> Result<MultiValue> {
        let args = Args { lua, name: self.name, values: args.into_iter().collect() };
        if args.values.len() > self.args_max {
            return args.wrong(self.args_max + 1, "found too many arguments");
        }
        (self.set)(settings, &args)?.into_iter().map(|shown| shown.value(lua)).collect()
    }
}

/// The value of a setting.
enum Shown {
    Is(bool),
    Number(usize),
    Word(&'static str),
}

impl Shown {
    fn value(self, lua: &Lua) -> Result<Value> {
        Ok(match self {
            Shown::Is(is) => Value::Boolean(is),
            Shown::Number(number) => Value::Number(number as f64),
            Shown::Word(word) => Value::String(lua.create_string(word)?),
        })
    }
}

/// The arguments of a setting; `nil` leaves it unchanged.
struct Args<'a> {
    lua: &'a Lua,
    name: &'static str,
    values: Vec<Value>,
}

impl Args<'_> {
    fn get(&self, index: usize) -> Option<&Value> {
        self.values.get(index - 1).filter(|value| !value.is_nil())
    }

    fn wrong<T>(&self, index: usize, why: &str) -> Result<T> {
        failed(format!("bad argument #{index} to '{}' ({why})", self.name))
    }

    fn number(&self, index: usize, setting: &mut usize, min: usize, max: usize) -> Result<()> {
        let Some(value) = self.get(index) else { return Ok(()) };
        // A text may contain a number.
        let number = match value {
            Value::String(_) => self.lua.coerce_number(value.clone())?,
            value => number_of(value),
        };
        let Some(number) = number else {
            return self.wrong(index, &format!("number expected, got {}", kind(value)));
        };
        let number = number.trunc();
        if !(min as f64..=max as f64).contains(&number) {
            // Here the library always names the first argument.
            return self.wrong(1, &format!("expected integer between {min} and {max}"));
        }
        *setting = number as usize;
        Ok(())
    }

    fn boolean(&self, index: usize, setting: &mut bool) -> Result<()> {
        if let Some(place) = self.word(index, &["off", "on"])? {
            *setting = place == 1;
        }
        Ok(())
    }

    /// Which of `words` is given; booleans stand for the first two of them.
    fn word(&self, index: usize, words: &[&str]) -> Result<Option<usize>> {
        let value = match self.get(index) {
            None => return Ok(None),
            Some(Value::Boolean(is)) => return Ok(Some(usize::from(*is))),
            Some(value) => value,
        };
        let Some(text) = text_or_number(self.lua, value)? else {
            return self.wrong(index, &format!("string expected, got {}", kind(value)));
        };
        let text = text.as_bytes();
        match words.iter().position(|word| word.as_bytes() == &text[..]) {
            Some(place) => Ok(Some(place)),
            None => self.wrong(index, &format!("invalid option '{}'", String::from_utf8_lossy(&text))),
        }
    }
}

/// Lua's name for the type of `value`.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::LightUserData(_) => "userdata",
        value => value.type_name(),
    }
}
