//! Profiles by name: which policies a node runs under.

use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_node::{NodeConfig, Profile};

use crate::plan::Plan;

/// Names that `--profile` takes.
pub const NAMES: [&str; 1] = ["rocksdb"];

/// Names of the stages of deferral, in the order of [`crate::outcome::Second::stage`].
pub const STAGES: [&str; 1] = ["normal"];

/// Compactions that may run at a time, for each partition. The paper's partitions are stores of their own.
pub const COMPACTIONS_PER_PARTITION: usize = 2;

/// The node's directory.
pub const DIR: &str = "weir";

/// Settings of a node under profile `name`.
///
/// # Errors
/// There is no such profile.
pub fn config(name: &str, plan: &Plan) -> Result<NodeConfig, String> {
    match name {
        "rocksdb" => Ok(NodeConfig { profile: Profile::RocksDb, ..base(plan, plan.tree()) }),
        _ => Err(format!("there is no profile `{name}`; there are: {}", NAMES.join(", "))),
    }
}

/// What all profiles have in common.
pub(crate) fn base(plan: &Plan, tree: TreeOptions) -> NodeConfig {
    NodeConfig {
        tree,
        cache_bytes: plan.cache_bytes(),
        sync: SyncMode::Interval,
        sync_interval: plan.sync_interval(),
        segment_bytes: plan.segment_bytes(),
        compaction_slots: COMPACTIONS_PER_PARTITION * usize::from(plan.args.partitions),
        ..NodeConfig::new(DIR)
    }
}
