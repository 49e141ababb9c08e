//! Which tenant is entitled to how much of a pool, and which one gives something back when the pool runs short.

mod blocks;
pub mod delta;
mod entitle;
mod memtables;
mod mode;
mod refill;
mod rush;
mod slots;
mod terms;

pub use blocks::{BlockReserves, Blocks, BrokenReserves, CacheMode, Given, keep_blocks};
pub use entitle::{Broken, Entitlements, Resource, entitle, worsened};
pub use memtables::{MemorySample, Memtables, TenantMemory, to_seal};
pub use mode::{Promise, ShareMode};
pub use refill::{Refill, RefillMeter};
pub use rush::Claimant;
pub use slots::{BrokenSlots, ReservedSlots, reserved_slots, worsened_slots};
pub use terms::{Delay, ShareTerms};
