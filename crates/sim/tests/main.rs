//! Runs in virtual time. They are one program, so that long runs share all processors; the tests that plant bugs in all
//! threads have a program of their own.

mod bursts;
mod by_command;
mod cache;
mod clients;
mod clocks;
mod deferral;
mod delta;
mod density;
mod faults;
mod flips;
mod full_node;
mod log_crash;
mod memory;
mod metamorphic;
mod node_crash;
mod node_faults;
mod plants;
mod rows_of_parts;
mod shared_log;
mod sharers;
mod shortage;
mod sleepers;
mod slow;
mod steady;
mod tamper;
mod ycsb;

/// The allocator of the binary: a seventh of the time went into the system's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
