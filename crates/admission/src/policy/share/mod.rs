//! Who gives something back when a pool runs short.

mod memtables;

pub use memtables::{MemorySample, Memtables, TenantMemory, to_seal};
