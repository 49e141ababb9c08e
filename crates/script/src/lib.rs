//! Scripts (`EVAL` and its kin): Lua 5.1 in a sandbox.
//!
//! A script knows nothing of connections, rows or clocks: it asks a [`Bridge`] for each command, and the [`World`] says
//! when it has to end. What it asked for is written, all of it or nothing, by whoever holds the other end of the
//! bridge. It does not wait: where a command has to, the bridge holds its thread, or ends the script so that it is run
//! anew.
//!
//! A [`Machine`] runs one script after the other, of one tenant, with bounded memory. Nothing that a script leaves
//! behind is met by another.
//!
//! | | |
//! |---|---|
//! | [`source`](Script) | what a client sent: its digest, its first line |
//! | [`bridge`] | what a script reaches of the world |
//! | [`machine`] | the sandbox, and how a script ends |
//! | [`library`], [`functions`] | libraries of functions, and what loads them |
//! | [`shared`] | what a machine's functions share with the run that they are called in |
//! | [`api`] | `redis.call` and what else stands in `redis` |
//! | [`values`] | replies to Lua values and back |
//! | [`raised`] | errors that scripts can catch |
//! | [`chance`], [`math`] | `math.random` |
//! | [`pattern`] | `string.find` and its kin, counting their steps |
//! | [`json`] | `cjson` |
//! | [`msgpack`] | `cmsgpack` |
//! | [`structs`] | `struct` |
//! | [`bits`] | `bit` |

mod api;
mod bits;
mod bridge;
mod chance;
mod failure;
mod functions;
mod json;
mod library;
mod machine;
mod math;
mod msgpack;
mod pattern;
mod raised;
mod replies;
mod shared;
mod source;
mod structs;
#[cfg(test)]
mod tests;
mod values;

pub use bridge::{Bridge, Limits, MEMORY_BYTES_MAX, World};
pub use library::{Declared, FLAGS, Libraries, Library};
pub use machine::{Ended, Machine, Run, What, check};
pub use source::{Digest, Script, digest, digest_text, parse_digest};
