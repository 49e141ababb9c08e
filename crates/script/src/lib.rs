//! Scripts (`EVAL` and its kin): Lua 5.1 in a sandbox.
//!
//! A script runs on a thread that serves nobody else, and knows nothing of connections, rows or clocks: it asks a
//! [`Bridge`] for each command, and the bridge says when it has to end. What it asked for is written, all of it or
//! nothing, by whoever holds the other end of the bridge.
//!
//! Every run has a machine of its own, with bounded memory: nothing that a script leaves behind is met by another.
//!
//! | | |
//! |---|---|
//! | [`source`](Script) | what a client sent: its digest, its first line |
//! | [`bridge`] | what a script reaches of the world |
//! | [`machine`] | the sandbox, and how a script ends |
//! | [`api`] | `redis.call` and what else stands in `redis` |
//! | [`values`] | replies to Lua values and back |
//! | [`raised`] | errors that scripts can catch |
//! | [`json`] | `cjson` |
//! | [`msgpack`] | `cmsgpack` |
//! | [`bits`] | `bit` |

mod api;
mod bits;
mod bridge;
mod failure;
mod json;
mod machine;
mod msgpack;
mod raised;
mod replies;
mod source;
#[cfg(test)]
mod tests;
mod values;

pub use bridge::Bridge;
pub use machine::{Ended, MEMORY_BYTES_MAX, Run, check, run};
pub use source::{Digest, Script, digest, digest_text, parse_digest};
