//! Gates, quotas, pools and policies from outside. All tests are in one program, because each program is linked
//! separately. Only the test that counts allocations has a program of its own.

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
