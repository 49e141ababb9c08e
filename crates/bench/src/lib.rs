//! Load and peers: the same work on Weir and on a current peer, interleaved, on a real disk under a real clock.
//!
//! ```text
//! rounds (parent)            one child process per work, engine and round
//!   for each round             child -> work::run -> dyn Contestant -> Weir | RocksDB
//!     for each work                 |
//!       for each engine   <---- lines on stdout: progress, then the outcome as JSON
//!   report: medians, ratios, verdicts
//! ```
//!
//! A child process for each run gives every run the same empty caches and heap, and a peer that crashes takes nothing
//! along. The order of the engines turns round with every round, so that a disk that becomes slower hurts all alike.
#![allow(clippy::disallowed_methods, reason = "a benchmark measures the real disk under the real clock")]

pub mod child;
pub mod child_server;
pub mod contestant;
pub mod data;
pub mod disk;
mod embedded;
pub mod entry;
pub mod harness;
pub mod large;
pub mod ledger;
#[cfg(test)]
mod memory;
pub mod meter;
pub mod outcome;
pub mod peer;
pub mod redis;
pub mod report;
pub mod request_units;
pub mod rounds;
pub mod scrape;
pub mod settings;
pub mod tenants;
pub mod throttle;
pub mod types;
mod weir;
pub mod wire;
pub mod work;

/// Why a measurement could not be made, in words for the person at the terminal.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The result of anything that can fail here.
pub type Result<T> = std::result::Result<T, Failure>;
