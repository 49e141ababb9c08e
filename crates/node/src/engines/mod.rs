//! Engines are made here, and looked at off line: the one place that knows which engines there are.

#[cfg(test)]
mod conformance;
pub(crate) mod offline;

use std::path::Path;
use std::sync::Arc;

use weir_io::{Clock, Fs, Memory, Owner, Result};
pub use weir_lsm::TreeOptions;
pub use weir_lsm::cache::BlockCache;
use weir_lsm::{Env, PickerKind, Tree};
pub use weir_memory::StoreOptions;
use weir_memory::{Budget, Store};
use weir_model::engine::{Engine, EngineKind};

use crate::config::NodeConfig;

/// Name of the directory of a partition's engine, in the partition's directory. It comes from the time when trees were
/// the only engine.
pub(crate) const TREE: &str = "tree";

/// Everything that an engine is opened with.
pub(crate) struct Opening<'a> {
    /// The partition's disk, behind its gates.
    pub fs: &'a Arc<dyn Fs>,
    /// The partition's directory.
    pub dir: &'a Path,
    /// The owner that its I/O is booked to.
    pub owner: Owner,
    /// The node's block cache.
    pub cache: Arc<BlockCache>,
    /// Time.
    pub clock: &'a Arc<dyn Clock>,
    /// Where its unflushed changes are booked.
    pub memory: Arc<dyn Memory>,
    /// A random number, for the salts of its manifests.
    pub salt: u64,
}

/// The engine in which the partitions of a tenant keep their rows.
#[derive(Clone)]
pub(crate) enum EngineChoice {
    /// In a tree that this picker keeps in shape.
    Lsm(PickerKind),
    /// The memory of the tenant, which its partitions share.
    Memory(Arc<Budget>),
}

impl EngineChoice {
    /// The choice of `kind`, with at most `memory_bytes_max` bytes of memory if rows are kept in memory; 0 = unlimited.
    pub fn new(kind: EngineKind, memory_bytes_max: u64) -> Self {
        let choice = match kind {
            EngineKind::Lsm => Self::Lsm(PickerKind::Leveled),
            EngineKind::SpLsm => Self::Lsm(PickerKind::SpLsm),
            EngineKind::Memory => Self::Memory(Arc::new(Budget::new(u64::MAX))),
        };
        choice.limit(memory_bytes_max);
        choice
    }

    pub fn kind(&self) -> EngineKind {
        match self {
            Self::Lsm(PickerKind::Leveled) => EngineKind::Lsm,
            Self::Lsm(PickerKind::SpLsm) => EngineKind::SpLsm,
            Self::Memory(_) => EngineKind::Memory,
        }
    }

    /// Changes the limit; 0 = unlimited.
    pub fn limit(&self, memory_bytes_max: u64) {
        if let Self::Memory(budget) = self {
            budget.set_max(if memory_bytes_max == 0 { u64::MAX } else { memory_bytes_max });
        }
    }

    /// Bytes of memory that rows take; `None` if they are not kept in memory.
    pub fn memory_use(&self) -> Option<u64> {
        match self {
            Self::Lsm { .. } => None,
            Self::Memory(budget) => Some(budget.used()),
        }
    }
}

/// Opens the engine of a partition, or makes it.
///
/// # Errors
/// Settings under which writes would stop for ever; `Corruption`, with file and offset; I/O.
pub(crate) async fn open(opening: Opening<'_>, choice: &EngineChoice, config: &NodeConfig) -> Result<Arc<dyn Engine>> {
    let Opening { fs, dir, owner, cache, clock, memory, salt } = opening;
    let (fs, dir, clock) = (Arc::clone(fs), dir.join(TREE), Arc::clone(clock));
    match choice {
        EngineChoice::Lsm(picker) => {
            let env = Env { fs, dir, owner, cache, clock, memory, salt };
            Ok(Tree::open(env, tree_options(config, *picker)).await?)
        }
        EngineChoice::Memory(budget) => {
            let env = weir_memory::Env { fs, dir, owner, clock, budget: Arc::clone(budget), salt };
            Ok(Store::open(env, config.store.clone()).await?)
        }
    }
}

/// The least number of memtables in a tree without level 0 (CR-16): they take what level 0 would.
const SP_LSM_BUFFERS: usize = 12;

/// How the trees of a node are built: as the node is configured, and as the profile says where the two differ. `picker`
/// is the tenant's choice.
fn tree_options(config: &NodeConfig, picker: PickerKind) -> TreeOptions {
    let mut options = config.tree.clone();
    if !config.profile.keeps_upper_levels() {
        options.warm_levels = 0;
    }
    if !config.profile.gathers_l0() {
        options.l0_gather = options.l0_trigger;
    }
    if picker == PickerKind::SpLsm || !config.profile.has_level_0() {
        options.picker = PickerKind::SpLsm;
    }
    if options.picker == PickerKind::SpLsm {
        options.write_buffers_max = options.write_buffers_max.max(SP_LSM_BUFFERS);
    }
    options.slow_at_last_buffer |= config.profile.slows_at_last_buffer();
    options.picks_by_score |= config.profile.picks_by_score();
    options
}

#[cfg(test)]
mod tests {
    use weir_admission::policy::Profile;

    use super::*;

    #[test]
    fn a_peer_has_the_tree_of_the_peer() {
        let of = |profile| {
            let options = tree_options(&NodeConfig { profile, ..NodeConfig::new("node") }, PickerKind::Leveled);
            (options.warm_levels > 0, options.l0_gather > options.l0_trigger)
        };
        assert_eq!(of(Profile::Weir), (true, true));
        assert_eq!(of(Profile::FlexEngine), (true, false));
        assert_eq!([Profile::RocksDb, Profile::RocksDbAutotune, Profile::Calcspar].map(of), [(false, false); 3]);
    }

    #[test]
    fn a_tree_without_level_0_has_memtables_instead() {
        let config = NodeConfig::new("node");
        let of = |picker| {
            let options = tree_options(&config, picker);
            (options.picker, options.write_buffers_max)
        };
        let both = [PickerKind::Leveled, PickerKind::SpLsm];
        assert_eq!(both.map(of), [(PickerKind::Leveled, 4), (PickerKind::SpLsm, SP_LSM_BUFFERS)]);
    }
}
