//! Gates, quotas, pools and policies from outside. One program, as each is linked anew; what counts allocations has
//! its own.

mod autotune;
mod common;
mod gate;
mod gated;
mod node_queue;
mod policy;
mod pool;
mod quota;
mod read_memory;
mod same_day;
mod threads;
