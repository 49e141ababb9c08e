//! What stands in `redis`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value};
use weir_command::error::Error;
use weir_command::float::push_f64;
use weir_command::reply::Protocol;

use crate::bridge::Bridge;
use crate::raised::raised;
use crate::replies::Reply;
use crate::source;
use crate::values::{number_of, to_lua};

/// Redis 7.0.15, as `INFO` says, too.
const VERSION: &str = "7.0.15";
const VERSION_NUMBER: u32 = 0x0007_000f;

/// What a run shares with the functions that it calls.
pub(crate) struct Shared {
    pub(crate) bridge: RefCell<Box<dyn Bridge>>,
    /// What replies of commands are told in.
    pub(crate) protocol: Cell<Protocol>,
    /// Why the script has to end.
    pub(crate) end: RefCell<Option<Error>>,
}

impl Shared {
    /// Whether the script has to end. Looked at before each command, and every few thousand instructions.
    pub(crate) fn has_to_end(&self) -> bool {
        let mut end = self.end.borrow_mut();
        if end.is_none() {
            *end = self.bridge.borrow_mut().why_end();
        }
        end.is_some()
    }
}

fn error_table(lua: &Lua, text: &str) -> mlua::Result<Value> {
    to_lua(lua, Reply::Error(text.as_bytes().to_vec()))
}

/// The words of a command; `None` where one is neither text nor a number.
fn words(args: MultiValue) -> Option<Vec<Vec<u8>>> {
    let word = |value: Value| match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        value => {
            let mut word = Vec::new();
            push_f64(&mut word, number_of(&value)?);
            Some(word)
        }
    };
    args.into_iter().map(word).collect()
}

/// The reply of a command.
fn call(shared: &Shared, args: MultiValue) -> mlua::Result<Reply> {
    let error = |text: &str| Ok(Reply::Error(text.as_bytes().to_vec()));
    if args.is_empty() {
        return error("ERR Please specify at least one argument for this redis lib call");
    }
    let Some(words) = words(args) else {
        return error("ERR Lua redis lib command arguments must be strings or integers");
    };
    if shared.has_to_end() {
        return Err(raised("the script was ended"));
    }
    let reply = shared.bridge.borrow_mut().call(words, shared.protocol.get());
    Reply::take(&mut &reply[..]).map_or_else(|| error("ERR internal error: the reply was not whole"), Ok)
}

/// `error_reply` and `status_reply`: a table with one field.
fn one_field(lua: &Lua, name: &str, args: &MultiValue) -> mlua::Result<Value> {
    let (1, Some(Value::String(text))) = (args.len(), args.front()) else {
        return error_table(lua, "ERR wrong number or type of arguments");
    };
    let text = text.as_bytes().to_vec();
    if name == "ok" {
        return to_lua(lua, Reply::Status(text));
    }
    let text = text.strip_prefix(b"-").unwrap_or(&text);
    // A text of one word is no code.
    let code: &[u8] = if text.contains(&b' ') { b"" } else { b"ERR " };
    to_lua(lua, Reply::Error([code, text].concat()))
}

/// The table `redis`.
pub(crate) fn table(lua: &Lua, shared: &Rc<Shared>) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    let own = Rc::clone(shared);
    redis.raw_set("pcall", lua.create_function(move |lua, args: MultiValue| to_lua(lua, call(&own, args)?))?)?;
    let own = Rc::clone(shared);
    let calls = move |lua: &Lua, args: MultiValue| match call(&own, args)? {
        Reply::Error(text) => Err(raised(text)),
        reply => to_lua(lua, reply),
    };
    redis.raw_set("call", lua.create_function(calls)?)?;
    for (name, field) in [("error_reply", "err"), ("status_reply", "ok")] {
        redis.raw_set(name, lua.create_function(move |lua, args: MultiValue| one_field(lua, field, &args))?)?;
    }
    let sha1hex = |lua: &Lua, args: MultiValue| match (args.len(), words(args)) {
        (1, Some(words)) => lua.create_string(source::digest_text(&source::digest(&words[0]))).map(Value::String),
        (1, None) => lua.create_string(source::digest_text(&source::digest(b""))).map(Value::String),
        _ => Err(raised("ERR wrong number of arguments")),
    };
    redis.raw_set("sha1hex", lua.create_function(sha1hex)?)?;
    let own = Rc::clone(shared);
    let setresp = move |_: &Lua, args: MultiValue| {
        let version = args.front().and_then(number_of);
        own.protocol.set(match (args.len(), version) {
            (1, Some(2.0)) => Protocol::Resp2,
            (1, Some(3.0)) => Protocol::Resp3,
            (1, _) => return Err(raised("ERR RESP version must be 2 or 3.")),
            _ => return Err(raised("ERR redis.setresp() requires one argument.")),
        });
        Ok(Value::Nil)
    };
    redis.raw_set("setresp", lua.create_function(setresp)?)?;
    let own = Rc::clone(shared);
    let log = move |_: &Lua, mut args: MultiValue| {
        if args.len() < 2 {
            return Err(raised("ERR redis.log() requires two arguments or more."));
        }
        let Some(level) = args.pop_front().as_ref().and_then(number_of) else {
            return Err(raised("ERR First argument must be a number (log level)."));
        };
        if !(0.0..=3.0).contains(&level) {
            return Err(raised("ERR Invalid debug level."));
        }
        let text = words(args).unwrap_or_default().join(&b' ');
        own.bridge.borrow_mut().log(level as u8, &text);
        Ok(Value::Nil)
    };
    redis.raw_set("log", lua.create_function(log)?)?;
    // What a script does is logged as what it has written, always.
    redis.raw_set("replicate_commands", lua.create_function(|_, _: MultiValue| Ok(true))?)?;
    redis.raw_set("set_repl", lua.create_function(|_, _: MultiValue| Ok(Value::Nil))?)?;
    // There is no debugger.
    redis.raw_set("breakpoint", lua.create_function(|_, _: MultiValue| Ok(false))?)?;
    redis.raw_set("debug", lua.create_function(|_, _: MultiValue| Ok(Value::Nil))?)?;
    let own = Rc::clone(shared);
    let may = move |_: &Lua, args: MultiValue| match words(args) {
        Some(words) if !words.is_empty() => match own.bridge.borrow_mut().may(&words) {
            Some(may) => Ok(Value::Boolean(may)),
            None => Err(raised("ERR Invalid command passed to redis.acl_check_cmd()")),
        },
        _ => Err(raised("ERR Please specify at least one argument for this redis lib call")),
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
