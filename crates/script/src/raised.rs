//! Errors that scripts can catch, with the texts that Redis has.
//!
//! They are raised by functions of the machine, and not by Lua code around these. If the last call of a script (a tail
//! call) is of Lua code, no trace of the script is left on the stack, and an error would not know its line.

use std::fmt;

use mlua::{Lua, Value};

/// The text of an error.
#[derive(Debug)]
struct Raised(Vec<u8>);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl std::error::Error for Raised {}

/// An error with this text.
pub(crate) fn raised(text: impl Into<Vec<u8>>) -> mlua::Error {
    mlua::Error::external(Raised(text.into()))
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
    let level = (1..).find(|level| !is_ours(level)).unwrap_or(1);
    let place = lua.inspect_stack(level, |debug| {
        let source = debug.source().source.map_or_else(String::new, |source| source.into_owned());
        debug.current_line().map(|line| format!("{}:{line}: ", source.trim_start_matches('@')))
    });
    raised(place.flatten().unwrap_or_default() + text)
}

/// The text of an error that one of Weir's functions has raised.
pub(crate) fn raised_text(error: &mlua::Error) -> Option<&[u8]> {
    match error {
        mlua::Error::CallbackError { cause, .. } => raised_text(cause),
        mlua::Error::ExternalError(external) => external.downcast_ref::<Raised>().map(|Raised(text)| &text[..]),
        _ => None,
    }
}

/// The text of an error of the machine; other values stay as they are.
pub(crate) fn text_of(lua: &Lua, value: Value) -> mlua::Result<Value> {
    let Value::Error(error) = &value else { return Ok(value) };
    let mut error = &**error;
    while let mlua::Error::CallbackError { cause, .. } = error {
        error = cause;
    }
    let text = match error {
        mlua::Error::MemoryError(_) => Some(NO_MEMORY.to_vec()),
        error => raised_text(error).map(<[u8]>::to_vec),
    };
    lua.create_string(text.unwrap_or_else(|| error.to_string().into_bytes())).map(Value::String)
}

/// The current line of the script; `None` if it is not known.
pub(crate) fn line(lua: &Lua) -> Option<usize> {
    let of_script = |level| {
        lua.inspect_stack(level, |debug| {
            let is_script =
                debug.source().source.is_some_and(|source| source == "@user_script" || source == "@user_function");
            debug.current_line().filter(|_| is_script)
        })
    };
    (0..).map_while(of_script).flatten().next()
}
