//! The sandbox that a script runs in, and how it ends.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use mlua::chunk::ChunkMode;
use mlua::{Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, Value, VmState};
use weir_command::error::{Error, Outcome};
use weir_command::reply::{Protocol, Replies};

use crate::api::{self, Shared};
use crate::bridge::Bridge;
use crate::failure::{Failure, raise};
use crate::json;
use crate::raised::{line, raised, text_of};
use crate::source::{self, Script};
use crate::{bits, msgpack, values};

const PRELUDE: &str = include_str!("prelude.lua");

/// Most memory of a run.
pub const MEMORY_BYTES_MAX: usize = 64 << 20;

/// Instructions between two looks whether the script has to end: some hundred microseconds.
const INSTRUCTIONS: u32 = 10_000;

/// What is run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The script.
    pub script: Arc<Script>,
    /// What it finds as `KEYS`.
    pub keys: Vec<Vec<u8>>,
    /// What it finds as `ARGV`.
    pub argv: Vec<Vec<u8>>,
    /// Where its chance comes from.
    pub seed: u64,
    /// What its answer is told in.
    pub protocol: Protocol,
}

/// What a run has come to: its answer, which is an error where the script has failed. What it had asked for until
/// then is done, as in Redis.
pub type Ended = Outcome<Replies>;

const NO_MEMORY: Error = Error::new("ERR the script needs more than 64 MB of memory");

/// Runs a script to its end, on this thread.
///
/// # Errors
/// It cannot be compiled, or had to end.
pub fn run(run: Run, bridge: Box<dyn Bridge>) -> Ended {
    let shared =
        Rc::new(Shared { bridge: RefCell::new(bridge), protocol: Cell::new(Protocol::Resp2), end: RefCell::new(None) });
    let ended = run_in(&run, &shared);
    if let Some(end) = shared.end.borrow_mut().take() {
        return Err(end);
    }
    ended.unwrap_or_else(|error| Err(refusal(&error)))
}

/// Whether `script` can be compiled.
///
/// # Errors
/// The compiler's.
pub fn check(script: &Script) -> Outcome {
    let compiled = Lua::new_with(StdLib::NONE, LuaOptions::new()).and_then(|lua| {
        lua.set_memory_limit(MEMORY_BYTES_MAX)?;
        lua.load(script.lua()).set_name("@user_script").set_mode(ChunkMode::Text).into_function().map(|_| ())
    });
    compiled.map_err(|error| match &error {
        mlua::Error::SyntaxError { message, .. } => uncompiled(message),
        other => refusal(other),
    })
}

fn uncompiled(message: &str) -> Error {
    let text = format!("ERR Error compiling script (new function): {message}");
    Error::bytes(values::one_line(text.into_bytes()))
}

fn refusal(error: &mlua::Error) -> Error {
    match error {
        mlua::Error::MemoryError(_) => NO_MEMORY,
        other => Error::bytes(values::one_line(format!("ERR {other}").into_bytes())),
    }
}

fn run_in(run: &Run, shared: &Rc<Shared>) -> mlua::Result<Ended> {
    let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
    let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
    lua.set_memory_limit(MEMORY_BYTES_MAX)?;
    let own = Rc::clone(shared);
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(INSTRUCTIONS), move |_, _| {
        if own.has_to_end() { Err(raised("the script was ended")) } else { Ok(VmState::Continue) }
    })?;
    let machine = machine(&lua, run, shared)?;
    let runs: Function = lua.load(PRELUDE).set_name("=prelude").call(machine)?;
    let source = lua.create_string(run.script.lua())?;
    let (how, value): (String, Value) = runs.call(source)?;
    Ok(match how.as_str() {
        "done" => {
            let mut replies = Replies::default();
            replies.protocol = run.protocol;
            values::tell(&mut replies, &value, shared.protocol.get())?;
            Ok(replies)
        }
        "uncompiled" => Err(uncompiled(&value.to_string()?)),
        _ => {
            let mut replies = Replies::default();
            replies.protocol = run.protocol;
            replies.error(&failure(&run.script, &value)?);
            Ok(replies)
        }
    })
}

/// The error of a script that has failed; `value` is what its handler made of it.
fn failure(script: &Script, value: &Value) -> mlua::Result<Vec<u8>> {
    // There is no memory for a table.
    let Value::Table(table) = value else { return Ok(NO_MEMORY.text().to_vec()) };
    let text = match table.raw_get("err")? {
        Value::String(text) => values::one_line(text.as_bytes().to_vec()),
        _ => b"ERR unknown error".to_vec(),
    };
    let place = match table.raw_get::<Option<u32>>("line")? {
        Some(line) => format!(" script: {}, on @user_script:{line}.", source::digest_text(&script.digest)),
        None => format!(" script: {}", source::digest_text(&script.digest)),
    };
    Ok([&text[..], place.as_bytes()].concat())
}

/// What the prelude makes the world of.
fn machine(lua: &Lua, run: &Run, shared: &Rc<Shared>) -> mlua::Result<Table> {
    let machine = lua.create_table()?;
    machine.raw_set("redis", api::table(lua, shared)?)?;
    machine.raw_set("bit", bits::table(lua)?)?;
    machine.raw_set("msgpack", msgpack::table(lua)?)?;
    machine.raw_set("json_null", Value::NULL)?;
    let encode = |lua: &Lua, value: Value| told(lua, json::encode(&value).and_then(|json| text(lua, &json)));
    machine.raw_set("json_encode", lua.create_function(encode)?)?;
    let decode = |lua: &Lua, json: Value| match json {
        Value::String(json) => told(lua, json::decode(lua, &json.as_bytes())),
        _ => told(lua, Err(Failure::Text("bad argument #1 to 'decode' (string expected)".to_owned()))),
    };
    machine.raw_set("json_decode", lua.create_function(decode)?)?;
    for (name, words) in [("keys", &run.keys), ("argv", &run.argv)] {
        let table = lua.create_table_with_capacity(words.len(), 0)?;
        for (index, word) in words.iter().enumerate() {
            table.raw_set(index + 1, lua.create_string(word)?)?;
        }
        machine.raw_set(name, table)?;
    }
    let own = Rc::clone(shared);
    machine.raw_set("has_to_end", lua.create_function(move |_, ()| Ok(own.has_to_end()))?)?;
    machine.raw_set("line", lua.create_function(|lua, ()| Ok(line(lua)))?)?;
    machine.raw_set("text_of", lua.create_function(text_of)?)?;
    chance(lua, &machine, run.seed)?;
    Ok(machine)
}

fn text(lua: &Lua, bytes: &[u8]) -> Result<Value, Failure> {
    Ok(Value::String(lua.create_string(bytes)?))
}

/// What has succeeded, or an error that the script can catch.
fn told(lua: &Lua, result: Result<Value, Failure>) -> mlua::Result<Value> {
    result.map_err(|failure| raise(lua, failure))
}

/// The generator of `drand48`, which Redis has, too.
#[derive(Clone, Copy)]
struct Chance(u64);

impl Chance {
    fn seeded(seed: u64) -> Self {
        Self((seed & 0xffff_ffff) << 16 | 0x330e)
    }

    /// From 0 up to 1, which is not among them.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & ((1 << 48) - 1);
        ((self.0 >> 17) % 0x7fff_ffff) as f64 / f64::from(0x7fff_ffff)
    }
}

/// `math.random` and `math.randomseed`.
fn chance(lua: &Lua, machine: &Table, seed: u64) -> mlua::Result<()> {
    let chance = Rc::new(Cell::new(Chance::seeded(seed)));
    let own = Rc::clone(&chance);
    let random = move |lua: &Lua, args: MultiValue| {
        let mut chance = own.get();
        let number = chance.next();
        own.set(chance);
        let bounds: Vec<f64> = args.iter().filter_map(values::number_of).map(f64::floor).collect();
        let (from, to) = match (args.len(), &bounds[..]) {
            (0, []) => return Ok(Value::Number(number)),
            (1, [to]) => (1.0, *to),
            (2, [from, to]) => (*from, *to),
            _ => return told(lua, Err(Failure::Text("wrong number of arguments".to_owned()))),
        };
        if from > to {
            let text = format!("bad argument #{} to 'random' (interval is empty)", args.len());
            return told(lua, Err(Failure::Text(text)));
        }
        Ok(Value::Number((number * (to - from + 1.0)).floor() + from))
    };
    machine.raw_set("random", lua.create_function(random)?)?;
    let seeds = move |_: &Lua, seed: f64| {
        chance.set(Chance::seeded(seed as i64 as u64));
        Ok(())
    };
    machine.raw_set("randomseed", lua.create_function(seeds)?)
}
