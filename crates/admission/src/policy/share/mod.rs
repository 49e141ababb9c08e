//! Who is entitled to how much of a pool, and who gives something back when it runs short.

mod blocks;
pub mod delta;
mod entitle;
mod memtables;
mod mode;
mod refill;

pub use blocks::{BlockReserves, Blocks, BrokenReserves, CacheMode, keep_blocks, newcomers_part};
pub use entitle::{Broken, Claimant, Entitlements, Resource, entitle, kept};
pub use memtables::{MemorySample, Memtables, TenantMemory, to_seal};
pub use mode::{Promise, ShareMode};
pub use refill::RefillMeter;
