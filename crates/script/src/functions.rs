//! Functions in a machine: the arguments of `redis.register_function`, and the loading of libraries.

use std::collections::BTreeMap;
use std::sync::Arc;

use mlua::{Function, Lua, MultiValue, Table, Value};
use parking_lot::Mutex;

use crate::library::{Declared, FLAGS, is_name};
use crate::raised::raised;

const NAMES: &str =
    "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

/// Bytes that the names and descriptions of a library's functions may take, and what each function takes besides: the
/// machine's own limit does not see them.
const REGISTERED_BYTES_MAX: usize = 1 << 20;
const FUNCTION_BYTES: usize = 64;

/// What a library that is being loaded has registered.
pub(crate) type Registered = BTreeMap<String, (Declared, Function)>;

fn wrong<T>(text: &str) -> mlua::Result<T> {
    Err(raised(text))
}

/// The name of a function in an argument; a number counts as a text, too.
fn name(lua: &Lua, value: Value) -> mlua::Result<Option<String>> {
    let Some(text) = crate::values::text_or_number(lua, &value)? else { return Ok(None) };
    let text = text.as_bytes();
    match std::str::from_utf8(&text) {
        Ok(name) if is_name(&text) => Ok(Some(name.to_owned())),
        _ => wrong(NAMES),
    }
}

fn flags(value: &Value) -> mlua::Result<u8> {
    let Value::Table(table) = value else {
        return wrong("ERR flags argument to redis.register_function must be a table representing function flags");
    };
    let mut flags = 0;
    for flag in table.sequence_values::<Value>() {
        let text = match &flag? {
            Value::String(text) => text.as_bytes().to_vec(),
            _ => Vec::new(),
        };
        match FLAGS.iter().position(|known| known.as_bytes() == text) {
            Some(bit) => flags |= 1 << bit,
            None => return wrong("ERR unknown flag given"),
        }
    }
    Ok(flags)
}

/// A function that is given as a table of named arguments.
fn named(lua: &Lua, table: &Table) -> mlua::Result<(Declared, Function)> {
    let (mut called, mut callback, mut description, mut bits) = (None, None, None, 0);
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let Some(key) = crate::values::text_or_number(lua, &key)? else {
            return wrong("ERR named argument key given to redis.register_function is not a string");
        };
        match (&key.as_bytes()[..], value) {
            (b"function_name", value) => {
                called = name(lua, value)?;
                if called.is_none() {
                    return wrong("ERR function_name argument given to redis.register_function must be a string");
                }
            }
            (b"description", Value::String(text)) => description = Some(text.as_bytes().to_vec()),
            (b"description", _) => {
                return wrong("ERR description argument given to redis.register_function must be a string");
            }
            (b"callback", Value::Function(function)) => callback = Some(function),
            (b"callback", _) => {
                return wrong("ERR callback argument given to redis.register_function must be a function");
            }
            (b"flags", value) => bits = flags(&value)?,
            _ => return wrong("ERR unknown argument given to redis.register_function"),
        }
    }
    let Some(name) = called else {
        return wrong("ERR redis.register_function must get a function name argument");
    };
    let Some(callback) = callback else { return wrong("ERR redis.register_function must get a callback argument") };
    Ok((Declared { name, description, flags: bits }, callback))
}

/// The table `redis` while a library is loaded. It has the function that registers others, and from the usual `redis`
/// the functions and constants for logging and for the version.
///
/// # Errors
/// There is no memory for it.
pub(crate) fn table(lua: &Lua, redis: &Table, registered: &Arc<Mutex<Option<Registered>>>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for name in ["log", "LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING", "REDIS_VERSION", "REDIS_VERSION_NUM"] {
        table.raw_set(name, redis.raw_get::<Value>(name)?)?;
    }
    table.raw_set("register_function", registers(lua, registered)?)?;
    Ok(table)
}

/// `redis.register_function`, which notes its arguments in `registered`. A function of the library may have kept it, so
/// it checks that a library is being loaded.
fn registers(lua: &Lua, registered: &Arc<Mutex<Option<Registered>>>) -> mlua::Result<Function> {
    let (own, taken) = (Arc::clone(registered), Mutex::new(0));
    lua.create_function(move |lua, args: MultiValue| {
        if own.lock().is_none() {
            return wrong("ERR redis.register_function can only be called on FUNCTION LOAD command");
        }
        let mut args = args.into_iter();
        let (declared, callback) = match (args.next(), args.next(), args.next()) {
            (Some(Value::Table(table)), None, None) => named(lua, &table)?,
            (Some(_), None, None) => {
                return wrong(
                    "ERR calling redis.register_function with a single argument is only applicable to Lua table \
                     (representing named arguments).",
                );
            }
            (Some(called), Some(callback), None) => {
                let Some(name) = name(lua, called)? else {
                    return wrong("ERR first argument to redis.register_function must be a string");
                };
                let Value::Function(callback) = callback else {
                    return wrong("ERR second argument to redis.register_function must be a function");
                };
                (Declared { name, description: None, flags: 0 }, callback)
            }
            _ => return wrong("ERR wrong number of arguments to redis.register_function"),
        };
        let mut all = own.lock();
        let all = all.get_or_insert_default();
        if all.contains_key(&declared.name) {
            return wrong("ERR Function already exists in the library");
        }
        let mut taken = taken.lock();
        // What the library before has registered no longer counts.
        let before = if all.is_empty() { 0 } else { *taken };
        let bytes = before + FUNCTION_BYTES + declared.bytes();
        if bytes > REGISTERED_BYTES_MAX {
            return wrong("ERR the names and descriptions of a library's functions take more than 1 MB");
        }
        *taken = bytes;
        all.insert(declared.name.clone(), (declared, callback));
        Ok(())
    })
}
