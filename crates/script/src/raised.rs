//! Errors that scripts can catch, with the texts that Redis has.
//!
//! They are raised by functions of the machine, and not by Lua code around these. If the last call of a script (a tail
//! call) is of Lua code, no trace of the script is left on the stack, and an error would not know its line.

use std::fmt;

use mlua::{Lua, Value};

/// How many calls are gone through, from the innermost one on, in search of the script's line. The way to a call is as
/// long as there are calls in front of it, and a script may name its own code as it likes.
const CALLS_MAX: usize = 64;

/// An error of one of Weir's functions.
#[derive(Debug)]
struct Raised {
    text: Vec<u8>,
    /// As in Redis, an error of the functions in `redis` is a table with its text in `err`. Others are plain texts.
    is_table: bool,
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.text))
    }
}

impl std::error::Error for Raised {}

/// The error of a function in `redis` with this text.
pub(crate) fn raised(text: impl Into<Vec<u8>>) -> mlua::Error {
    mlua::Error::external(Raised { text: text.into(), is_table: true })
}

/// The error that ends a script which has to end. The script cannot catch it.
pub(crate) fn ended() -> mlua::Error {
    raised("the script was ended")
}

/// What errors say if there is no memory: the text of Lua itself.
pub(crate) const NO_MEMORY: &[u8] = b"not enough memory";

/// The error that there is no memory. A script can catch it, unless it has to end then.
pub(crate) fn no_memory() -> mlua::Error {
    mlua::Error::MemoryError(String::from_utf8_lossy(NO_MEMORY).into_owned())
}

/// An error with this text behind the caller's source and line, if the caller is Lua code. Weir's own Lua code is
/// skipped; if the script's last call is of it, there is no line.
pub(crate) fn raised_here(lua: &Lua, text: &str) -> mlua::Error {
    let is_ours = |level: &usize| {
        lua.inspect_stack(*level, |debug| debug.source().source.is_some_and(|source| source == "=prelude"))
            == Some(true)
    };
    let level = (1..CALLS_MAX).find(|level| !is_ours(level)).unwrap_or(1);
    let place = lua.inspect_stack(level, |debug| {
        let source = debug.source().source.map_or_else(String::new, |source| source.into_owned());
        debug.current_line().map(|line| format!("{}:{line}: ", source.trim_start_matches('@')))
    });
    let text = (place.flatten().unwrap_or_default() + text).into_bytes();
    mlua::Error::external(Raised { text, is_table: false })
}

fn find_raised(error: &mlua::Error) -> Option<&Raised> {
    match error {
        mlua::Error::CallbackError { cause, .. } => find_raised(cause),
        mlua::Error::ExternalError(external) => external.downcast_ref(),
        _ => None,
    }
}

/// The text of an error that one of Weir's functions has raised.
pub(crate) fn raised_text(error: &mlua::Error) -> Option<&[u8]> {
    find_raised(error).map(|raised| &raised.text[..])
}

/// What a script sees of an error: for an error of the machine, its text or a table with its text; other values stay as
/// they are. A text that names a line of Weir's own Lua code gets the script's line instead.
pub(crate) fn value_of(lua: &Lua, value: Value) -> mlua::Result<Value> {
    let Value::Error(error) = &value else { return in_script(lua, value) };
    let mut error = &**error;
    while let mlua::Error::CallbackError { cause, .. } = error {
        error = cause;
    }
    let (text, is_table) = match (error, find_raised(error)) {
        (_, Some(raised)) => (raised.text.clone(), raised.is_table),
        (mlua::Error::MemoryError(_), None) => (NO_MEMORY.to_vec(), false),
        (error, None) => (error.to_string().into_bytes(), false),
    };
    let text = Value::String(lua.create_string(text)?);
    if !is_table {
        return Ok(text);
    }
    let table = lua.create_table()?;
    table.raw_set("err", text)?;
    Ok(Value::Table(table))
}

fn in_script(lua: &Lua, value: Value) -> mlua::Result<Value> {
    let Value::String(text) = &value else { return Ok(value) };
    let what = behind_our_line(&text.as_bytes()).map(<[u8]>::to_vec);
    let Some(what) = what else { return Ok(value) };
    let place = place(lua).map_or_else(String::new, |(source, line)| format!("{source}:{line}: "));
    lua.create_string([place.as_bytes(), &what[..]].concat()).map(Value::String)
}

/// What is behind a line of Weir's own Lua code at the front of `text`; `None` if there is no such line.
fn behind_our_line(text: &[u8]) -> Option<&[u8]> {
    let rest = text.strip_prefix(b"prelude:")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    rest[digits..].strip_prefix(b": ")
}

/// The source and the current line of the script, if they are known.
fn place(lua: &Lua) -> Option<(String, usize)> {
    let of_script = |level| {
        lua.inspect_stack(level, |debug| {
            let source = debug.source().source.filter(|source| source == "@user_script" || source == "@user_function");
            Some((source?.trim_start_matches('@').to_owned(), debug.current_line()?))
        })
    };
    (0..CALLS_MAX).map_while(of_script).flatten().next()
}

/// The current line of the script; `None` if it is not known.
pub(crate) fn line(lua: &Lua) -> Option<usize> {
    place(lua).map(|(_, line)| line)
}
