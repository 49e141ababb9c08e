//! Why a library function of the sandbox failed.

use mlua::Lua;

use crate::raised::raised_here;

/// What went wrong, in words; or the machine has no memory left.
pub(crate) enum Failure {
    Text(String),
    Lua(mlua::Error),
}

impl From<mlua::Error> for Failure {
    fn from(error: mlua::Error) -> Self {
        Failure::Lua(error)
    }
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

pub(crate) fn failed<T>(text: impl Into<String>) -> Result<T> {
    Err(Failure::Text(text.into()))
}

/// An error that the script can catch.
pub(crate) fn raise(lua: &Lua, failure: Failure) -> mlua::Error {
    match failure {
        Failure::Text(text) => raised_here(lua, &text),
        Failure::Lua(error) => error,
    }
}

/// An error with this text, which the script can catch.
pub(crate) fn raise_text(lua: &Lua, text: impl Into<String>) -> mlua::Error {
    raise(lua, Failure::Text(text.into()))
}

/// The value of a success, or an error that the script can catch.
pub(crate) fn told<T>(lua: &Lua, result: Result<T>) -> mlua::Result<T> {
    result.map_err(|failure| raise(lua, failure))
}
