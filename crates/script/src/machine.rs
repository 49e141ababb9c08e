//! The sandbox that scripts run in, and how one ends.
//!
//! A machine belongs to one tenant and runs one script after the other. Nothing of a run is left for the next one but
//! what is compiled: whatever a script can reach and could change is read-only or made anew, and its own values are
//! garbage when it has ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use mlua::chunk::ChunkMode;
use mlua::{Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Value, VmState};
use weir_command::error::{Error, Outcome};
use weir_command::reply::{Protocol, Replies};

use crate::api;
use crate::bridge::{Bridge, Limits, MEMORY_BYTES_MAX, World};
use crate::failure::{raise_text, told};
use crate::raised::{ended, line, raised_text, text_of};
use crate::shared::Shared;
use crate::source::{self, Digest, Script};
use crate::{bits, json, math, msgpack, pattern, structs, values};

const PRELUDE: &str = include_str!("prelude.lua");

/// A machine that has more than this is not worth keeping.
const KEPT_BYTES_MAX: usize = 2 << 20;

/// Scripts that are kept compiled, and bytes of their sources.
const COMPILED_MAX: usize = 128;
const COMPILED_BYTES_MAX: usize = 256 << 10;

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
        error => {
            let text = raised_text(error).map_or_else(|| format!("ERR {error}").into_bytes(), <[u8]>::to_vec);
            Error::bytes(values::one_line(text))
        }
    }
}

/// See the module.
pub struct Machine {
    lua: Lua,
    shared: Arc<Shared>,
    /// The table that scripts see behind `redis`.
    redis: Table,
    /// Of the prelude.
    compiles: Function,
    /// Of the prelude.
    runs: Function,
    compiled: BTreeMap<Digest, Function>,
    compiled_bytes: usize,
    /// Instructions between two looks, as set last.
    instructions: u32,
    /// What it had when it was new.
    new_bytes: usize,
}

impl Machine {
    /// A machine that has not run anything.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new() -> Outcome<Self> {
        Self::make().map_err(|error| refusal(&error))
    }

    fn make() -> mlua::Result<Self> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        lua.set_memory_limit(MEMORY_BYTES_MAX)?;
        let shared = Arc::new(Shared::new());
        let parts = parts(&lua, &shared)?;
        let redis: Table = parts.raw_get("redis")?;
        let (compiles, runs) = lua.load(PRELUDE).set_name("=prelude").call(parts)?;
        // What made it is garbage.
        lua.gc_collect()?;
        let new_bytes = lua.used_memory();
        let (compiled, compiled_bytes, instructions) = (BTreeMap::new(), 0, 0);
        Ok(Self { lua, shared, redis, compiles, runs, compiled, compiled_bytes, instructions, new_bytes })
    }

    /// Whether it has the script with this digest compiled.
    pub fn has(&self, digest: &Digest) -> bool {
        self.compiled.contains_key(digest)
    }

    /// Whether it is worth keeping for another run.
    pub fn is_small(&self) -> bool {
        self.lua.used_memory() <= self.new_bytes + KEPT_BYTES_MAX
    }

    /// Gives back what its last runs have left. It takes a while where these were large.
    pub fn collect(&self) {
        // A finalizer that fails has no effect on anything else: there are none but our own.
        let _ = self.lua.gc_collect();
    }

    /// Runs a script to its end, on this thread.
    ///
    /// # Errors
    /// It cannot be compiled, or had to end.
    pub fn run(&mut self, run: &Run, limits: Limits, bridge: &mut dyn Bridge, world: &Arc<dyn World>) -> Ended {
        self.shared.begin(world, run.seed);
        let ended = self.run_within(run, limits, bridge);
        if matches!(ended, Err(mlua::Error::MemoryError(_))) {
            self.shared.has_to_end_without_memory();
        }
        match self.shared.finish() {
            Some(end) => Err(end),
            None => ended.unwrap_or_else(|error| Err(refusal(&error))),
        }
    }

    fn run_within(&mut self, run: &Run, limits: Limits, bridge: &mut dyn Bridge) -> mlua::Result<Ended> {
        self.lua.set_memory_limit(self.lua.used_memory().saturating_add(limits.memory_bytes))?;
        if self.instructions != limits.instructions {
            let own = Arc::clone(&self.shared);
            let triggers = HookTriggers::new().every_nth_instruction(limits.instructions);
            self.lua.set_global_hook(
                triggers,
                move |_, _| {
                    if own.has_to_end() { Err(ended()) } else { Ok(VmState::Continue) }
                },
            )?;
            self.instructions = limits.instructions;
        }
        let chunk = match self.compile(&run.script)? {
            Ok(chunk) => chunk,
            Err(message) => return Ok(Err(uncompiled(&message))),
        };
        let words = |words: &[Vec<u8>]| {
            let texts = words.iter().map(|word| self.lua.create_string(word)).collect::<mlua::Result<Vec<_>>>()?;
            self.lua.create_sequence_from(texts)
        };
        let (keys, argv) = (words(&run.keys)?, words(&run.argv)?);
        api::with_calls(&self.lua, &self.redis, &self.shared, bridge, || {
            let (is_done, value): (bool, Value) = self.runs.call((chunk, keys, argv))?;
            let mut replies = Replies::default();
            replies.protocol = run.protocol;
            if is_done {
                values::tell(&mut replies, &value, self.shared.protocol())?;
            } else {
                replies.error(&failure(&run.script, &value)?);
            }
            Ok(Ok(replies))
        })
    }

    /// The script as a function, or what the compiler says.
    fn compile(&mut self, script: &Script) -> mlua::Result<Result<Function, String>> {
        if let Some(chunk) = self.compiled.get(&script.digest) {
            return Ok(Ok(chunk.clone()));
        }
        let source = self.lua.create_string(script.lua())?;
        let (chunk, message): (Option<Function>, Value) = self.compiles.call((source, "@user_script"))?;
        let Some(chunk) = chunk else { return Ok(Err(message.to_string()?)) };
        let bytes = script.source.len();
        if self.compiled.len() >= COMPILED_MAX || self.compiled_bytes + bytes > COMPILED_BYTES_MAX {
            self.compiled.clear();
            self.compiled_bytes = 0;
        }
        if bytes <= COMPILED_BYTES_MAX {
            self.compiled_bytes += bytes;
            self.compiled.insert(script.digest, chunk.clone());
        }
        Ok(Ok(chunk))
    }
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
fn parts(lua: &Lua, shared: &Arc<Shared>) -> mlua::Result<Table> {
    let parts = lua.create_table()?;
    parts.raw_set("redis", api::table(lua, shared)?)?;
    parts.raw_set("bit", bits::table(lua)?)?;
    parts.raw_set("msgpack", msgpack::table(lua)?)?;
    parts.raw_set("struct", structs::table(lua)?)?;
    parts.raw_set("json_null", Value::NULL)?;
    let encode =
        |lua: &Lua, value: Value| told(lua, json::encode(lua, &value)).and_then(|json| lua.create_string(json));
    parts.raw_set("json_encode", lua.create_function(encode)?)?;
    let decode = |lua: &Lua, json: Value| match json {
        Value::String(json) => told(lua, json::decode(lua, &json.as_bytes())),
        _ => Err(raise_text(lua, "bad argument #1 to 'decode' (string expected)")),
    };
    parts.raw_set("json_decode", lua.create_function(decode)?)?;
    let own = Arc::clone(shared);
    parts.raw_set("has_to_end", lua.create_function(move |_, ()| Ok(own.has_to_end()))?)?;
    let own = Arc::clone(shared);
    let without_memory = move |_: &Lua, ()| Ok(own.has_to_end_without_memory());
    parts.raw_set("has_to_end_without_memory", lua.create_function(without_memory)?)?;
    parts.raw_set("line", lua.create_function(|lua, ()| Ok(line(lua)))?)?;
    parts.raw_set("text_of", lua.create_function(text_of)?)?;
    math::put(lua, &parts, shared)?;
    pattern::put(lua, &parts, shared)?;
    Ok(parts)
}
