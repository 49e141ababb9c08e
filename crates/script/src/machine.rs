//! The sandbox that scripts run in, and how scripts end.
//!
//! A machine belongs to one tenant and runs one script after the other. A run leaves nothing for the next one but
//! compiled code: everything that a script can reach and could change is read-only or made anew, and a script's own
//! values are garbage when it has ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use mlua::chunk::ChunkMode;
use mlua::{Function, HookTriggers, Lua, LuaOptions, LuaString, StdLib, Table, Value, VmState};
use parking_lot::Mutex;
use weir_command::error::{Error, Outcome};
use weir_command::reply::{Protocol, Replies};

use crate::api;
use crate::bridge::{Bridge, Limits, MEMORY_BYTES_MAX, World};
use crate::budget::Budget;
use crate::functions::{self, Registered};
use crate::library::{self, Libraries, Library};
use crate::raised::{self, ended, line, no_memory, raised_text, value_of};
use crate::shared::Shared;
use crate::source::{self, Digest, Script};
use crate::{bits, json, math, msgpack, pattern, structs, values};

const PRELUDE: &str = include_str!("prelude.lua");

/// A machine that uses more memory than this, beside what a new one has, is not worth keeping.
const KEPT_BYTES_MAX: usize = 2 << 20;

/// How many scripts are kept compiled, and how many bytes of their sources.
const COMPILED_MAX: usize = 128;
const COMPILED_BYTES_MAX: usize = 256 << 10;

/// What is to run: a script or a function.
#[derive(Clone, Debug)]
pub enum What {
    /// A script.
    Script(Arc<Script>),
    /// The function of this name.
    Function(Arc<Libraries>, String),
}

impl What {
    /// The name that errors give it.
    fn name(&self) -> String {
        match self {
            What::Script(script) => source::digest_text(&script.digest),
            What::Function(_, name) => name.clone(),
        }
    }
}

/// A script or function to run, and its arguments.
#[derive(Clone, Debug)]
pub struct Run {
    /// The script or function.
    pub what: What,
    /// The script sees these as `KEYS`.
    pub keys: Vec<Vec<u8>>,
    /// The script sees these as `ARGV`.
    pub argv: Vec<Vec<u8>>,
    /// The seed of its random numbers.
    pub seed: u64,
    /// The protocol of its answer.
    pub protocol: Protocol,
}

/// The result of a run: its answer, which is an error if the script has failed. As in Redis, the commands that the
/// script had run until then stay done.
pub type Ended = Outcome<Replies>;

const NO_MEMORY: Error = Error::new("ERR the script needs more than 64 MB of memory");

/// Whether `script` can be compiled.
///
/// # Errors
/// The compiler's error.
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

/// A Lua sandbox of one tenant.
pub struct Machine {
    lua: Lua,
    shared: Arc<Shared>,
    /// The table that scripts see behind `redis`.
    redis: Table,
    /// The prelude's function that compiles scripts.
    compiles: Function,
    /// The prelude's function that runs scripts.
    runs: Function,
    /// The prelude's function that loads libraries.
    loads: Function,
    /// What scripts have set in `cjson`.
    json: Arc<Mutex<json::Settings>>,
    /// What the library that is being loaded has registered; `None` while none is being loaded.
    registered: Arc<Mutex<Option<Registered>>>,
    compiled: BTreeMap<Digest, Function>,
    compiled_bytes: usize,
    /// How many instructions run between two checks whether the script has to end, as set last.
    instructions: u32,
    /// How much memory the machine used when it was new.
    new_bytes: usize,
    /// Loaded functions, or why their library could not be loaded; and the version of the libraries that they belong
    /// to.
    functions: BTreeMap<String, Outcome<Function>>,
    functions_version: u64,
}

impl Machine {
    /// A machine that has not run anything.
    ///
    /// # Errors
    /// The machine cannot be made.
    pub fn new() -> Outcome<Self> {
        Self::make().map_err(|error| refusal(&error))
    }

    fn make() -> mlua::Result<Self> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        lua.set_memory_limit(MEMORY_BYTES_MAX)?;
        let shared = Arc::new(Shared::new());
        let (json, registered) = (Arc::default(), Arc::default());
        let parts = parts(&lua, &shared)?;
        let next: Function = lua.globals().raw_get("next")?;
        parts.raw_set("json", json::table(&lua, &next, &json, &shared)?)?;
        let redis: Table = parts.raw_get("redis")?;
        parts.raw_set("redis_of_library", functions::table(&lua, &redis, &registered)?)?;
        let (compiles, runs, loads) = lua.load(PRELUDE).set_name("=prelude").call(parts)?;
        // What was used to make the machine is garbage now.
        lua.gc_collect()?;
        let new_bytes = lua.used_memory();
        Ok(Self {
            lua,
            shared,
            redis,
            compiles,
            runs,
            loads,
            json,
            registered,
            compiled: BTreeMap::new(),
            compiled_bytes: 0,
            instructions: 0,
            new_bytes,
            functions: BTreeMap::new(),
            functions_version: 0,
        })
    }

    /// Whether the machine has to compile at most `bytes` of source before it can run `what`.
    pub fn has(&self, what: &What, bytes: usize) -> bool {
        match what {
            What::Script(script) => self.compiled.contains_key(&script.digest) || script.source.len() <= bytes,
            What::Function(libraries, _) => self.functions_version == libraries.version,
        }
    }

    /// Whether the machine is worth keeping for another run.
    pub fn is_small(&self) -> bool {
        self.lua.used_memory() <= self.new_bytes + KEPT_BYTES_MAX
    }

    /// Frees what the last runs have left. It takes a while if these were large.
    pub fn collect(&self) {
        // A finalizer that fails does not affect anything else: all finalizers are Weir's own.
        let _ = self.lua.gc_collect();
    }

    /// Runs a script to its end, on the current thread.
    ///
    /// # Errors
    /// The script cannot be compiled, or had to end.
    pub fn run(&mut self, run: &Run, limits: Limits, bridge: &mut dyn Bridge, world: &Arc<dyn World>) -> Ended {
        self.shared.begin(world, run.seed, limits.memory_bytes);
        *self.json.lock() = json::Settings::default();
        let ended = self.run_within(run, limits, bridge, &**world);
        if matches!(ended, Err(mlua::Error::MemoryError(_))) {
            self.shared.has_to_end_without_memory();
        }
        match self.shared.finish() {
            Some(end) => Err(end),
            None => ended.unwrap_or_else(|error| Err(refusal(&error))),
        }
    }

    /// Makes sure that `limits` hold from now on.
    fn limit(&mut self, limits: Limits) -> mlua::Result<()> {
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
        Ok(())
    }

    fn run_within(
        &mut self,
        run: &Run,
        limits: Limits,
        bridge: &mut dyn Bridge,
        world: &dyn World,
    ) -> mlua::Result<Ended> {
        self.limit(limits)?;
        let (chunk, is_function) = match &run.what {
            What::Script(script) => match self.compile(script)? {
                Ok(chunk) => (chunk, false),
                Err(message) => return Ok(Err(uncompiled(&message))),
            },
            What::Function(libraries, name) => {
                if self.functions_version != libraries.version
                    && let Err(error) = self.load_all(libraries, world)?
                {
                    return Ok(Err(error));
                }
                match self.functions.get(name) {
                    Some(Ok(function)) => (function.clone(), true),
                    Some(Err(error)) => return Ok(Err(error.clone())),
                    None => return Ok(Err(Error::new("ERR Function not found"))),
                }
            }
        };
        let words = |words: &[Vec<u8>]| {
            let texts = words.iter().map(|word| self.lua.create_string(word)).collect::<mlua::Result<Vec<_>>>()?;
            self.lua.create_sequence_from(texts)
        };
        let (keys, argv) = (words(&run.keys)?, words(&run.argv)?);
        api::with_calls(&self.lua, &self.redis, &self.shared, bridge, || {
            let (is_done, value): (bool, Value) = self.runs.call((chunk, keys, argv, is_function))?;
            let mut replies = Replies::default();
            replies.protocol = run.protocol;
            if is_done {
                values::tell(&mut replies, &value, self.shared.protocol(), &mut Budget::of(&self.shared))?;
            } else {
                replies.error(&failure(&run.what, &value)?);
            }
            Ok(Ok(replies))
        })
    }

    /// The script as a function, or the compiler's message.
    fn compile(&mut self, script: &Script) -> mlua::Result<Result<Function, String>> {
        if let Some(chunk) = self.compiled.get(&script.digest) {
            return Ok(Ok(chunk.clone()));
        }
        let source = self.lua.create_string(script.lua())?;
        let (chunk, message): (Option<Function>, Value) = self.compiles.call((source, SCRIPT))?;
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

/// The names of the sources of scripts and of libraries.
const SCRIPT: &str = "@user_script";
const FUNCTION: &str = "@user_function";

impl Machine {
    /// Loads the library with this `code`; gives the library with the functions that it has registered.
    ///
    /// # Errors
    /// The code is no library, or had to end.
    pub fn load(&mut self, code: &[u8], limits: Limits, world: &Arc<dyn World>) -> Outcome<Library> {
        let name = library::name_of(code)?;
        self.shared.begin(world, 0, limits.memory_bytes);
        let loaded = self.limit(limits).and_then(|()| self.register(code));
        let registered = match self.shared.finish() {
            Some(end) => return Err(end),
            None => loaded.unwrap_or_else(|error| Err(refusal(&error)))?,
        };
        let functions = registered.into_values().map(|(declared, _)| declared).collect();
        Ok(Library { name, code: code.to_vec(), functions })
    }

    /// Loads all `libraries`. A library that cannot be loaded is left out: another version of Weir has accepted it.
    fn load_all(&mut self, libraries: &Libraries, world: &dyn World) -> mlua::Result<Outcome> {
        self.functions.clear();
        self.functions_version = 0;
        for library in libraries.iter() {
            match self.register(&library.code)? {
                Ok(registered) => {
                    self.functions.extend(registered.into_iter().map(|(name, (_, function))| (name, Ok(function))));
                }
                // The run is at fault, and not the library.
                Err(error) if self.shared.has_to_end() => return Ok(Err(error)),
                Err(error) => {
                    world.left_out(&library.name, &error);
                    let why = left_out(&library.name, &error);
                    self.functions.extend(library.functions.iter().map(|one| (one.name.clone(), Err(why.clone()))));
                }
            }
        }
        self.functions_version = libraries.version;
        Ok(Ok(()))
    }

    /// Runs the code of a library; gives the functions that it registers.
    fn register(&self, code: &[u8]) -> mlua::Result<Outcome<Registered>> {
        let source = self.lua.create_string(source::lua_of(code))?;
        let (chunk, message): (Option<Function>, Value) = self.compiles.call((source, FUNCTION))?;
        let Some(chunk) = chunk else {
            let text = format!("ERR Error compiling function: {}", message.to_string()?);
            return Ok(Err(Error::bytes(values::one_line(text.into_bytes()))));
        };
        *self.registered.lock() = Some(Registered::new());
        let ran = self.loads.call::<(bool, Value)>(chunk);
        let registered = self.registered.lock().take().unwrap_or_default();
        let (is_done, value) = ran?;
        if !is_done {
            let why = match handled(&value)? {
                Some(table) => table.raw_get::<Option<LuaString>>("err")?.map(|why| why.as_bytes().to_vec()),
                None => Some(UNHANDLED.to_vec()),
            };
            let why = values::one_line(why.unwrap_or_default());
            return Ok(Err(Error::bytes([b"ERR Error registering functions: ", &why[..]].concat())));
        }
        if registered.is_empty() {
            return Ok(Err(Error::new("ERR No functions registered")));
        }
        Ok(Ok(registered))
    }
}

/// The error for a call of a function whose library could not be loaded.
fn left_out(library: &str, why: &Error) -> Error {
    let why = why.text().strip_prefix(b"ERR ").unwrap_or(why.text());
    Error::bytes(
        [b"ERR Library '", library.as_bytes(), b"' has to be loaded anew (FUNCTION LOAD REPLACE): ", why].concat(),
    )
}

/// The text of an error for which the prelude's error handler has failed.
const UNHANDLED: &[u8] = b"error in error handling";

/// What the prelude's error handler has made of an error; `None` if the handler has failed.
///
/// # Errors
/// There was no memory. What the script has written must not stay then.
fn handled(value: &Value) -> mlua::Result<Option<&Table>> {
    match value {
        Value::Table(table) => Ok(Some(table)),
        Value::String(text) if *text.as_bytes() == *raised::NO_MEMORY => Err(no_memory()),
        _ => Ok(None),
    }
}

/// The error of a script that has failed; `value` is what the script's error handler made of it.
///
/// # Errors
/// There was no memory.
fn failure(what: &What, value: &Value) -> mlua::Result<Vec<u8>> {
    let Some(table) = handled(value)? else { return Ok([b"ERR ", UNHANDLED].concat()) };
    let text = match table.raw_get("err")? {
        Value::String(text) => values::one_line(text.as_bytes().to_vec()),
        _ => b"ERR unknown error".to_vec(),
    };
    let place = match table.raw_get::<Option<u32>>("line")? {
        Some(line) => {
            let source = if matches!(what, What::Script(_)) { SCRIPT } else { FUNCTION };
            format!(" script: {}, on {source}:{line}.", what.name())
        }
        None => format!(" script: {}", what.name()),
    };
    Ok([&text[..], place.as_bytes()].concat())
}

/// What the prelude builds a script's environment from.
fn parts(lua: &Lua, shared: &Arc<Shared>) -> mlua::Result<Table> {
    let parts = lua.create_table()?;
    parts.raw_set("redis", api::table(lua, shared)?)?;
    parts.raw_set("bit", bits::table(lua)?)?;
    parts.raw_set("msgpack", msgpack::table(lua, shared)?)?;
    parts.raw_set("struct", structs::table(lua, shared)?)?;
    let own = Arc::clone(shared);
    parts.raw_set("has_to_end", lua.create_function(move |_, ()| Ok(own.has_to_end()))?)?;
    let own = Arc::clone(shared);
    let without_memory = move |_: &Lua, ()| Ok(own.has_to_end_without_memory());
    parts.raw_set("has_to_end_without_memory", lua.create_function(without_memory)?)?;
    parts.raw_set("line", lua.create_function(|lua, ()| Ok(line(lua)))?)?;
    parts.raw_set("value_of", lua.create_function(value_of)?)?;
    math::put(lua, &parts, shared)?;
    pattern::put(lua, &parts, shared)?;
    Ok(parts)
}
