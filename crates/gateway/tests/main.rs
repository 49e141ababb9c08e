//! The gateway from outside: what clients see. All tests are one program, because most of its compile time goes into
//! the commands over each kind of store.
#![allow(clippy::disallowed_methods, missing_docs, reason = "tests talk over real sockets and show how far they are")]

mod acl;
mod admin;
mod blocking;
mod bounds;
mod counters;
mod databases;
mod differential;
mod families;
mod functions;
mod groups;
mod isolation;
mod leaks;
mod node_queues;
mod noisy_neighbour;
mod operator;
mod partitions;
mod paused_expiry;
mod protocol;
mod pubsub;
mod quota;
mod replies;
mod request_units;
mod scripts;
mod secrets;
mod snapshots;
mod spread;
mod support;
mod tenants;
mod timing;
mod tls;
mod tracking;
mod transactions;
mod turns;
mod unread;
mod untaken;
mod write_group;

/// The same allocator as in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
