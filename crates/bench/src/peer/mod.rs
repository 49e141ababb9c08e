//! Peers: other people's engines, loaded at run time and never linked.

mod api;
pub mod fleet;
mod journal;
pub mod locate;
mod opened;
#[cfg(feature = "redb")]
pub mod redb;
pub mod rocksdb;
mod settings;
mod syncers;
