//! Tests of the node from outside. They are one program, because most of its compile time is a whole node on a
//! simulated disk.

mod anchors;
mod asleep;
mod backup;
mod budgets;
mod catalogue;
mod crash;
mod full_disk;
mod interval;
mod ledger;
mod memory;
mod meter;
mod model;
mod node;
mod opened;
mod opening;
mod parking;
mod preemption;
mod runs;
mod shared_log;
mod shared_log_stuck;
mod shares;
mod tampering;
mod tenants;

/// The same allocator as in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
