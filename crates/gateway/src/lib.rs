//! The doors for clients.
//!
//! [`auth`] decides who may come in, [`resp`] speaks the Redis protocol, [`admin`] serves metrics and health over HTTP,
//! [`listener`] accepts connections and spreads them over threads, [`tls`] encrypts them, and [`tenant`] holds what the
//! connections of one tenant share. Behind the doors lies a [`store::Store`].

pub mod admin;
pub mod auth;
mod drop_in_turns;
mod dumps;
mod error_stats;
mod key_events;
pub mod latency;
pub mod listener;
mod mailbox;
pub mod noisy_neighbour;
mod notices;
mod pool;
mod pubsub;
pub mod resp;
mod scripts;
mod server;
mod serving_thread;
mod spread;
mod stats;
pub mod store;
mod stream;
mod swaps;
pub mod tenant;
pub mod tls;
mod tracking;
mod waiting_rows;
mod write_group;
mod yielding;

pub use mailbox::PushLimits;
pub use resp::client::Patience;
pub use server::{Settings, UnitPrices};
