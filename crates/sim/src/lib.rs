//! Whole-node simulation and crash tests.
//!
//! A run is a [`life::Life`] (or several) of a [`store::Store`] in a world made from one seed: virtual time, a
//! simulated disk, one thread. What the store shows is compared with a [`model`]. A runner spreads seeds over threads,
//! and for a failure it prints the command that repeats it.

pub mod by_command;
pub mod cache;
pub mod clients;
pub mod clocks;
pub mod command;
pub mod crash;
pub mod delta;
pub mod engines;
pub mod enumerate;
pub mod fault;
pub mod flip;
pub mod interrupt;
pub mod kill9;
pub mod life;
pub mod log_store;
pub mod metamorphic;
pub mod model;
pub mod node_store;
pub mod plant;
pub mod process;
pub mod reply;
pub mod rows_of_parts;
pub mod runner;
pub mod scenario;
pub mod served;
pub mod sharers;
pub mod slow;
pub mod span;
pub mod steps;
pub mod store;
pub mod tamper;
pub mod tenants;
pub mod turning;
pub mod workload;
