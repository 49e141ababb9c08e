//! Scripts (`EVAL` and its kin): Lua 5.1 in a sandbox.
//!
//! A script knows nothing of connections, rows or clocks. It asks a [`Bridge`] to run each command, and the [`World`]
//! says when it has to end. The owner of the bridge's other end writes what the script asked for, all of it or nothing.
//! A script does not wait: if a command has to wait, the bridge blocks the script's thread, or ends the script so that
//! it can be run anew.
//!
//! A [`Machine`] runs scripts of one tenant, one after the other, with bounded memory. A script sees nothing that
//! another one has left behind.
//!
//! | | |
//! |---|---|
//! | [`source`](Script) | a script as a client sent it: its digest, its first line |
//! | [`bridge`] | what a script can reach outside of its machine |
//! | [`machine`] | the sandbox, and how a script ends |
//! | [`library`], [`functions`] | libraries of functions, and what loads them |
//! | [`budget`] | how much memory these functions may use beside the machine's |
//! | [`shared`] | what a machine's functions share with the run that they are called in |
//! | [`api`] | `redis.call` and the other functions in `redis` |
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
mod budget;
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
