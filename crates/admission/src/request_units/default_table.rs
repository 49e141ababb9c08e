//! The costs of modules where nobody has calibrated. They were measured on one machine, which
//! `docs/policy/request-units.md` names.

use super::default_rows::{CAPACITY, IN_MEMORY, ON_DISK};
use super::pod::Pod;
use super::resources::Resources;
use super::table::{CostTable, reference_read};

/// The built-in table of the engine that keeps its rows on disk, or, if `in_memory`, of the one that keeps them in
/// memory.
pub fn default_table(in_memory: bool) -> CostTable {
    let mut table = CostTable::default();
    for (module, cost) in if in_memory { IN_MEMORY } else { ON_DISK } {
        table[module] = Resources::new(cost);
    }
    table
}

/// The machine of the built-in table.
pub fn default_pod() -> Pod {
    Pod::new(Resources::new(CAPACITY), default_table(false).resources(&reference_read()))
}
