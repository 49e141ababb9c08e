//! Moves tenants' data from and to other servers.
//!
//! ```text
//! dump file ──► rdb ────────────┐
//!                               ├─► import ──► target: lanes of a tenant's connections
//! Redis ──► source: PSYNC ──► rdb, then commands
//! ```
//!
//! [`rdb`] reads a dump file as a stream, [`source`] is a replica of a Redis, [`target`] writes into a tenant as any
//! client does, [`import`] puts them together, and [`verify`] compares both sides. The formats of values are those of
//! [`weir_command::rdb`].

pub mod address;
pub mod export;
pub mod failure;
pub mod import;
pub mod pace;
pub mod rdb;
pub mod resp;
mod scan;
pub mod source;
pub mod tally;
pub mod target;
pub mod verify;
mod within;
