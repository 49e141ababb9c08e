//! The functions and constants in `redis`.

use std::cell::RefCell;
use std::sync::Arc;

use mlua::{Lua, MultiValue, Table, Value};
use weir_command::float::push_f64;
use weir_command::reply::Protocol;

use crate::bridge::Bridge;
use crate::budget::{Budget, Work};
use crate::raised::{ended, raised};
use crate::replies::Piece;
use crate::shared::Shared;
use crate::source;
use crate::values::{c_text, number_of, tagged, text_or_number, to_lua};

/// Redis 7.0.15, as `INFO` reports, too.
const VERSION: &str = "7.0.15";
const VERSION_NUMBER: u32 = 0x0007_000f;

const NO_WORDS: &str = "ERR Please specify at least one argument for this redis lib call";
const WRONG_WORDS: &str = "ERR Lua redis lib command arguments must be strings or integers";

fn error_table(lua: &Lua, text: &str) -> mlua::Result<Value> {
    tagged(lua, "err", text.as_bytes())
}

/// The words of a command; `None` if an argument is neither a text nor a number.
///
/// # Errors
/// The words need too much memory: a script may name the same text many times, and each word is a copy.
fn words(shared: &Shared, args: MultiValue) -> mlua::Result<Option<Vec<Vec<u8>>>> {
    let (mut words, mut budget) = (Vec::new(), Budget::of(shared));
    for value in args {
        let mut word = Vec::new();
        match (&value, number_of(&value)) {
            (Value::String(text), _) => {
                let text = text.as_bytes();
                budget.take(text.len())?;
                word.extend_from_slice(&text);
            }
            (_, Some(number)) => push_f64(&mut word, number),
            (_, None) => return Ok(None),
        }
        words.push(word);
    }
    Ok(Some(words))
}

/// Runs code with a `redis.call` and a `redis.pcall` that use the bridge of one run.
///
/// # Errors
/// There is no memory for them.
pub(crate) fn with_calls<T>(
    lua: &Lua,
    redis: &Table,
    shared: &Shared,
    bridge: &mut dyn Bridge,
    run: impl FnOnce() -> mlua::Result<T>,
) -> mlua::Result<T> {
    let bridge = RefCell::new(bridge);
    lua.scope(|scope| {
        let calls = |lua: &Lua, args: MultiValue| {
            let reply = call(shared, &bridge, args)?;
            match Piece::take(&mut &reply[..]) {
                Some(Piece::Error(text)) => Err(raised(text)),
                _ => to_lua(lua, &reply, &mut Work::of(shared)),
            }
        };
        redis.raw_set("call", scope.create_function(calls)?)?;
        let pcalls = |lua: &Lua, args: MultiValue| {
            let reply = call(shared, &bridge, args)?;
            to_lua(lua, &reply, &mut Work::of(shared))
        };
        redis.raw_set("pcall", scope.create_function(pcalls)?)?;
        run()
    })
}

/// The reply of a command.
fn call(shared: &Shared, bridge: &RefCell<&mut dyn Bridge>, args: MultiValue) -> mlua::Result<Vec<u8>> {
    let error = |text: &str| Ok(format!("-{text}\r\n").into_bytes());
    if args.is_empty() {
        return error(NO_WORDS);
    }
    let Some(words) = words(shared, args)? else {
        return error(WRONG_WORDS);
    };
    if shared.has_to_end() {
        return Err(ended());
    }
    bridge.borrow_mut().call(words, shared.protocol()).map_err(|error| {
        shared.end_with(error);
        ended()
    })
}

/// `error_reply` and `status_reply`: a table with one field.
fn one_field(lua: &Lua, shared: &Shared, name: &str, args: &MultiValue) -> mlua::Result<Value> {
    let (1, Some(Value::String(text))) = (args.len(), args.front()) else {
        return error_table(lua, "ERR wrong number or type of arguments");
    };
    let text = text.as_bytes();
    Work::of(shared).add(text.len())?;
    if name == "ok" {
        return tagged(lua, name, &text);
    }
    let text = c_text(&text);
    let text = text.strip_prefix(b"-").unwrap_or(text);
    // A single word is no code.
    let (code, mut message) = match text.iter().position(|&byte| byte == b' ') {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (&b"ERR"[..], text),
    };
    while let [b'\r' | b'\n', rest @ ..] | [rest @ .., b'\r' | b'\n'] = message {
        message = rest;
    }
    tagged(lua, name, &[code, b" ", message].concat())
}

/// The whole number that Redis sees in `value`: a text may be a number, too, and what is behind the point is cut off.
fn whole_number(lua: &Lua, value: Option<&Value>) -> mlua::Result<Option<f64>> {
    let number = value.map_or(Ok(None), |value| lua.coerce_number(value.clone()))?;
    Ok(number.map(f64::trunc))
}

/// The table `redis`, without the functions of [`with_calls`].
///
/// # Errors
/// There is no memory for it.
pub(crate) fn table(lua: &Lua, shared: &Arc<Shared>) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    for (name, field) in [("error_reply", "err"), ("status_reply", "ok")] {
        let own = Arc::clone(shared);
        redis.raw_set(name, lua.create_function(move |lua, args: MultiValue| one_field(lua, &own, field, &args))?)?;
    }
    let own = Arc::clone(shared);
    let sha1hex = move |lua: &Lua, args: MultiValue| {
        let (1, Some(value)) = (args.len(), args.front()) else {
            return Err(raised("ERR wrong number of arguments"));
        };
        // As in Redis, a number is written as Lua writes it, with 14 digits, and not as in a command.
        let digest = match text_or_number(lua, value)? {
            Some(text) => {
                let text = text.as_bytes();
                Work::of(&own).add(text.len())?;
                source::digest(&text)
            }
            None => source::digest(b""),
        };
        lua.create_string(source::digest_text(&digest)).map(Value::String)
    };
    redis.raw_set("sha1hex", lua.create_function(sha1hex)?)?;
    let own = Arc::clone(shared);
    let setresp = move |lua: &Lua, args: MultiValue| {
        let version = whole_number(lua, args.front())?;
        own.set_protocol(match (args.len(), version) {
            (1, Some(2.0)) => Protocol::Resp2,
            (1, Some(3.0)) => Protocol::Resp3,
            (1, _) => return Err(raised("ERR RESP version must be 2 or 3.")),
            _ => return Err(raised("ERR redis.setresp() requires one argument.")),
        });
        Ok(Value::Nil)
    };
    redis.raw_set("setresp", lua.create_function(setresp)?)?;
    let own = Arc::clone(shared);
    let log = move |lua: &Lua, mut args: MultiValue| {
        if args.len() < 2 {
            return Err(raised("ERR redis.log() requires two arguments or more."));
        }
        let level = whole_number(lua, args.pop_front().as_ref())?;
        let level = level.ok_or_else(|| raised("ERR First argument must be a number (log level)."))?;
        if !(0.0..=3.0).contains(&level) {
            return Err(raised("ERR Invalid debug level."));
        }
        let text = words(&own, args)?.unwrap_or_default().join(&b' ');
        if let Some(world) = own.world() {
            world.log(level as u8, &text);
        }
        Ok(Value::Nil)
    };
    redis.raw_set("log", lua.create_function(log)?)?;
    // Weir always logs what a script has written, and not the script.
    redis.raw_set("replicate_commands", lua.create_function(|_, _: MultiValue| Ok(true))?)?;
    let set_repl = |_: &Lua, args: MultiValue| match (args.len(), args.front().and_then(number_of)) {
        (1, None) => Ok(Value::Nil),
        (1, Some(flags)) if (0.0..4.0).contains(&flags) => Ok(Value::Nil),
        (1, Some(_)) => {
            Err(raised("ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE."))
        }
        _ => Err(raised("ERR redis.set_repl() requires two arguments.")),
    };
    redis.raw_set("set_repl", lua.create_function(set_repl)?)?;
    // There is no debugger.
    redis.raw_set("breakpoint", lua.create_function(|_, _: MultiValue| Ok(false))?)?;
    redis.raw_set("debug", lua.create_function(|_, _: MultiValue| Ok(Value::Nil))?)?;
    let own = Arc::clone(shared);
    let may = move |_: &Lua, args: MultiValue| match words(&own, args)? {
        Some(words) if !words.is_empty() => match own.world().and_then(|world| world.may(&words)) {
            Some(may) => Ok(Value::Boolean(may)),
            None => Err(raised("ERR Invalid command passed to redis.acl_check_cmd()")),
        },
        Some(_) => Err(raised(NO_WORDS)),
        None => Err(raised(WRONG_WORDS)),
    };
    redis.raw_set("acl_check_cmd", lua.create_function(may)?)?;
    for (level, name) in ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"].into_iter().enumerate() {
        redis.raw_set(name, level)?;
    }
    for (name, repl) in [("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)] {
        redis.raw_set(name, repl)?;
    }
    redis.raw_set("REDIS_VERSION", VERSION)?;
    redis.raw_set("REDIS_VERSION_NUM", VERSION_NUMBER)?;
    Ok(redis)
}
