//! The subcommands of containers, as Redis 7.0 describes them.
//!
//! ```text
//! "container" "subcommand" arity [flags] [categories] (key: what is done to it, if there is one)
//! ```

use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use foldhash::fast::FixedState;

use super::category::Categories;
use super::key_use::*;
use super::takes;
use crate::args::Args;
use crate::error::{Error, Outcome};

/// A subcommand.
#[derive(Debug)]
pub struct Subcommand {
    /// The command that has it.
    pub container: &'static str,
    /// The name, in lower case.
    pub name: &'static str,
    /// The number of arguments, both names included; negative: at least that many.
    pub arity: i32,
    /// Redis' flags for what the subcommand does.
    pub flags: &'static [&'static str],
    /// Redis' ACL categories that the subcommand is in.
    pub categories: Categories,
    /// What is done to its key, which is the next word; `None` = it has no key.
    pub key_use: Option<KeyUse>,
}

impl Subcommand {
    /// Container and subcommand, as Redis writes them.
    pub fn full_name(&self) -> String {
        format!("{}|{}", self.container, self.name)
    }
}

/// Where the subcommands of each container, which are adjacent, stand in [`SUBCOMMANDS`]. Each call of a container asks
/// several times.
static PLACES: LazyLock<HashMap<&'static str, Range<usize>, FixedState>> = LazyLock::new(|| {
    let mut places = HashMap::default();
    for (place, subcommand) in SUBCOMMANDS.iter().enumerate() {
        places.entry(subcommand.container).or_insert(place..place).end = place + 1;
    }
    places
});

fn places_of(container: &str) -> Range<usize> {
    PLACES.get(container).cloned().unwrap_or_default()
}

/// The subcommands of `container`.
pub fn of(container: &str) -> impl Iterator<Item = &'static Subcommand> {
    SUBCOMMANDS[places_of(container)].iter()
}

/// The place in [`SUBCOMMANDS`] of the subcommand `name` of `container`, in any mixture of cases.
pub fn place_of(container: &str, name: &[u8]) -> Option<usize> {
    places_of(container).find(|&place| name.eq_ignore_ascii_case(SUBCOMMANDS[place].name.as_bytes()))
}

/// The subcommand `name` of `container`, in any mixture of cases.
pub fn find(container: &str, name: &[u8]) -> Option<&'static Subcommand> {
    place_of(container, name).map(|place| &SUBCOMMANDS[place])
}

/// Refuses a subcommand that `container` does not have, or that does not take this number of words.
///
/// # Errors
/// Redis' answer in that case.
pub(crate) fn check(container: &str, args: Args<'_>) -> Outcome {
    let Some(word) = args.get(1) else { return Ok(()) };
    match find(container, word) {
        None => Err(Error::unknown_subcommand(container, word)),
        Some(subcommand) if !takes(subcommand.arity, args.len()) => Err(Error::arity(&subcommand.full_name())),
        Some(_) => Ok(()),
    }
}

macro_rules! subcommands {
    ($($container:literal $name:literal $arity:literal [$($flag:ident)*] [$($category:ident)*] ($($key_use:ident)?);)*) => {
        /// All subcommands; those of one container are adjacent.
        pub static SUBCOMMANDS: &[Subcommand] = &[$(Subcommand {
            container: $container,
            name: $name,
            arity: $arity,
            flags: &[$(stringify!($flag)),*],
            categories: Categories::all_of(&[$(stringify!($category)),*]).with_flags(&[$(stringify!($flag)),*], ""),
            key_use: subcommands!(@key $($key_use)?),
        }),*];
    };
    (@key) => { None };
    (@key $key_use:ident) => { Some($key_use) };
}

subcommands! {
    "acl" "cat" -2 [noscript loading stale] [] ();
    "acl" "deluser" -3 [admin noscript loading stale] [admin dangerous] ();
    "acl" "dryrun" -4 [admin noscript loading stale] [admin dangerous] ();
    "acl" "genpass" -2 [noscript loading stale] [] ();
    "acl" "getuser" 3 [admin noscript loading stale] [admin dangerous] ();
    "acl" "help" 2 [loading stale] [] ();
    "acl" "list" 2 [admin noscript loading stale] [admin dangerous] ();
    "acl" "load" 2 [admin noscript loading stale] [admin dangerous] ();
    "acl" "log" -2 [admin noscript loading stale] [admin dangerous] ();
    "acl" "save" 2 [admin noscript loading stale] [admin dangerous] ();
    "acl" "setuser" -3 [admin noscript loading stale] [admin dangerous] ();
    "acl" "users" 2 [admin noscript loading stale] [admin dangerous] ();
    "acl" "whoami" 2 [noscript loading stale] [] ();
    "client" "caching" 3 [noscript loading stale] [connection] ();
    "client" "capa" -3 [noscript loading stale] [connection] ();
    "client" "getname" 2 [noscript loading stale] [connection] ();
    "client" "getredir" 2 [noscript loading stale] [connection] ();
    "client" "help" 2 [loading stale] [connection] ();
    "client" "id" 2 [noscript loading stale] [connection] ();
    "client" "info" 2 [noscript loading stale] [connection] ();
    "client" "kill" -3 [admin noscript loading stale] [admin dangerous connection] ();
    "client" "list" -2 [admin noscript loading stale] [admin dangerous connection] ();
    "client" "no-evict" 3 [admin noscript loading stale] [admin dangerous connection] ();
    "client" "no-touch" 3 [noscript loading stale] [connection] ();
    "client" "pause" -3 [admin noscript loading stale] [admin dangerous connection] ();
    "client" "reply" 3 [noscript loading stale] [connection] ();
    "client" "setinfo" 4 [noscript loading stale] [connection] ();
    "client" "setname" 3 [noscript loading stale] [connection] ();
    "client" "tracking" -3 [noscript loading stale] [connection] ();
    "client" "trackinginfo" 2 [noscript loading stale] [connection] ();
    "client" "unblock" -3 [admin noscript loading stale] [admin dangerous connection] ();
    "client" "unpause" 2 [admin noscript loading stale] [admin dangerous connection] ();
    "cluster" "addslots" -3 [admin stale no_async_loading] [admin dangerous] ();
    "cluster" "addslotsrange" -4 [admin stale no_async_loading] [admin dangerous] ();
    "cluster" "bumpepoch" 2 [admin stale no_async_loading] [admin dangerous] ();
    "cluster" "count-failure-reports" 3 [admin stale] [admin dangerous] ();
    "cluster" "countkeysinslot" 3 [stale] [] ();
    "cluster" "delslots" -3 [admin stale no_async_loading] [admin dangerous] ();
    "cluster" "delslotsrange" -4 [admin stale no_async_loading] [admin dangerous] ();
    "cluster" "failover" -2 [admin stale no_async_loading] [admin dangerous] ();
    "cluster" "flushslots" 2 [admin stale no_async_loading] [admin dangerous] ();
    "cluster" "forget" 3 [admin stale no_async_loading] [admin dangerous] ();
    "cluster" "getkeysinslot" 4 [stale] [] ();
    "cluster" "help" 2 [loading stale] [] ();
    "cluster" "info" 2 [stale] [] ();
    "cluster" "keyslot" 3 [stale] [] ();
    "cluster" "links" 2 [stale] [] ();
    "cluster" "meet" -4 [admin stale no_async_loading] [admin dangerous] ();
    "cluster" "myid" 2 [stale] [] ();
    "cluster" "nodes" 2 [stale] [] ();
    "cluster" "replicas" 3 [admin stale] [admin dangerous] ();
    "cluster" "replicate" 3 [admin stale no_async_loading] [admin dangerous] ();
    "cluster" "reset" -2 [admin noscript stale] [admin dangerous] ();
    "cluster" "saveconfig" 2 [admin stale no_async_loading] [admin dangerous] ();
    "cluster" "set-config-epoch" 3 [admin stale no_async_loading] [admin dangerous] ();
    "cluster" "setslot" -4 [admin stale no_async_loading] [admin dangerous] ();
    "cluster" "shards" 2 [stale] [] ();
    "cluster" "slaves" 3 [admin stale] [admin dangerous] ();
    "cluster" "slots" 2 [stale] [] ();
    "command" "count" 2 [loading stale] [connection] ();
    "command" "docs" -2 [loading stale] [connection] ();
    "command" "getkeys" -4 [loading stale] [connection] ();
    "command" "getkeysandflags" -4 [loading stale] [connection] ();
    "command" "help" 2 [loading stale] [connection] ();
    "command" "info" -2 [loading stale] [connection] ();
    "command" "list" -2 [loading stale] [connection] ();
    "config" "get" -3 [admin noscript loading stale] [admin dangerous] ();
    "config" "help" 2 [loading stale] [] ();
    "config" "resetstat" 2 [admin noscript loading stale] [admin dangerous] ();
    "config" "rewrite" 2 [admin noscript loading stale] [admin dangerous] ();
    "config" "set" -4 [admin noscript loading stale] [admin dangerous] ();
    "function" "delete" 3 [write noscript] [scripting] ();
    "function" "dump" 2 [noscript] [scripting] ();
    "function" "flush" -2 [write noscript] [scripting] ();
    "function" "help" 2 [loading stale] [scripting] ();
    "function" "kill" 2 [noscript allow_busy] [scripting] ();
    "function" "list" -2 [noscript] [scripting] ();
    "function" "load" -3 [write denyoom noscript] [scripting] ();
    "function" "restore" -3 [write denyoom noscript] [scripting] ();
    "function" "stats" 2 [noscript allow_busy] [scripting] ();
    "latency" "doctor" 2 [admin noscript loading stale] [admin dangerous] ();
    "latency" "graph" 3 [admin noscript loading stale] [admin dangerous] ();
    "latency" "help" 2 [loading stale] [] ();
    "latency" "histogram" -2 [admin noscript loading stale] [admin dangerous] ();
    "latency" "history" 3 [admin noscript loading stale] [admin dangerous] ();
    "latency" "latest" 2 [admin noscript loading stale] [admin dangerous] ();
    "latency" "reset" -2 [admin noscript loading stale] [admin dangerous] ();
    "memory" "doctor" 2 [] [] ();
    "memory" "help" 2 [loading stale] [] ();
    "memory" "malloc-stats" 2 [] [] ();
    "memory" "purge" 2 [] [] ();
    "memory" "stats" 2 [] [] ();
    "memory" "usage" -3 [readonly] [] (LOOK);
    "module" "help" 2 [loading stale] [] ();
    "module" "list" 2 [admin noscript] [admin dangerous] ();
    "module" "load" -3 [admin noscript no_async_loading] [admin dangerous] ();
    "module" "loadex" -3 [admin noscript no_async_loading] [admin dangerous] ();
    "module" "unload" 3 [admin noscript no_async_loading] [admin dangerous] ();
    "object" "encoding" 3 [readonly] [keyspace] (LOOK);
    "object" "freq" 3 [readonly] [keyspace] (LOOK);
    "object" "help" 2 [loading stale] [keyspace] ();
    "object" "idletime" 3 [readonly] [keyspace] (LOOK);
    "object" "refcount" 3 [readonly] [keyspace] (LOOK);
    "pubsub" "channels" -2 [pubsub loading stale] [pubsub] ();
    "pubsub" "help" 2 [loading stale] [] ();
    "pubsub" "numpat" 2 [pubsub loading stale] [pubsub] ();
    "pubsub" "numsub" -2 [pubsub loading stale] [pubsub] ();
    "pubsub" "shardchannels" -2 [pubsub loading stale] [pubsub] ();
    "pubsub" "shardnumsub" -2 [pubsub loading stale] [pubsub] ();
    "script" "debug" 3 [noscript] [scripting] ();
    "script" "exists" -3 [noscript] [scripting] ();
    "script" "flush" -2 [noscript] [scripting] ();
    "script" "help" 2 [loading stale] [scripting] ();
    "script" "kill" 2 [noscript allow_busy] [scripting] ();
    "script" "load" 3 [noscript stale] [scripting] ();
    "slowlog" "get" -2 [admin loading stale] [admin dangerous] ();
    "slowlog" "help" 2 [loading stale] [] ();
    "slowlog" "len" 2 [admin loading stale] [admin dangerous] ();
    "slowlog" "reset" 2 [admin loading stale] [admin dangerous] ();
    "xgroup" "create" -5 [write denyoom] [stream] (EXTEND);
    "xgroup" "createconsumer" 5 [write denyoom] [stream] (EXTEND);
    "xgroup" "delconsumer" 5 [write] [stream] (REMOVE);
    "xgroup" "destroy" 4 [write] [stream] (REMOVE);
    "xgroup" "help" 2 [loading stale] [stream] ();
    "xgroup" "setid" -5 [write] [stream] (UPDATE);
    "xinfo" "consumers" 4 [readonly] [stream] (READ);
    "xinfo" "groups" 3 [readonly] [stream] (READ);
    "xinfo" "help" 2 [loading stale] [stream] ();
    "xinfo" "stream" -3 [readonly] [stream] (READ);
}
