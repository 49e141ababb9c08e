//! Profiles by name: which policies a node runs under.

use weir_admission::Limits;
use weir_admission::cost::{Capacity, write_units};
use weir_admission::policy::Stage;
use weir_log::SyncMode;
use weir_lsm::TreeOptions;
use weir_node::{Bandwidth, CacheMode, NodeConfig, Profile, Promise, ShareMode};

use crate::plan::Plan;

/// Names of the stages of deferral, in the order of [`crate::outcome::Second::stage`].
pub const STAGES: [&str; Stage::ALL.len()] = {
    let mut names = [""; Stage::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = Stage::ALL[at].name();
        at += 1;
    }
    names
};

/// Largest background rate of a partition at scale 1, in bytes per second: 3 MB/s of writes x 20 (FX-E3).
const BACKGROUND: u64 = 60_000_000;
/// Reads a second that a partition's foreground is reserved for, whatever is sent (FX-10).
const READS_SOLD: u64 = 3000;

/// The node's directory.
pub const DIR: &str = "weir";

/// Settings of a node under profile `name`.
///
/// # Errors
/// There is no such profile.
pub fn config(name: &str, plan: &Plan) -> Result<NodeConfig, String> {
    let profile = Profile::parse(name)
        .ok_or_else(|| format!("there is no profile `{name}`; there are: {}", Profile::NAMES.join(", ")))?;
    let device = Limits::bytes(plan.device());
    let bandwidth = match plan.mix() {
        // In a mix nothing is sold.
        Some(_) => Bandwidth { device, capacity: Capacity::default(), background: plan.device() },
        None => sold(plan, device),
    };
    let hibernate_after = plan.visits.map_or(0, |visits| visits.asleep_after);
    let config = NodeConfig { profile, bandwidth: Some(bandwidth), hibernate_after, ..base(plan, plan.tree()) };
    if !profile.shares_within_a_delay() {
        return Ok(config);
    }
    let (write_memory_shares, cache_shares) =
        (ShareMode::Delta(Promise::DEFAULT), CacheMode::Delta(CacheMode::PROMISE));
    Ok(NodeConfig { write_memory_shares, cache_shares, ..config })
}

fn sold(plan: &Plan, device: Limits) -> Bandwidth {
    Bandwidth {
        device,
        capacity: Capacity {
            rcu: plan.scaled(READS_SOLD.max(plan.args.rcu)),
            wcu: plan.scaled((plan.args.wcu as f64 * plan.sizes().units(write_units)).ceil() as u64),
        },
        background: plan.scaled(BACKGROUND.max(plan.args.wcu * u64::from(plan.args.item_bytes) * 20)),
    }
}

/// The settings that all profiles have in common.
pub(crate) fn base(plan: &Plan, tree: TreeOptions) -> NodeConfig {
    NodeConfig {
        tree,
        cache_bytes: plan.cache_bytes(),
        write_memory_bytes: plan.write_memory_bytes(),
        sync: SyncMode::Interval,
        sync_interval: plan.sync_interval(),
        segment_bytes: plan.segment_bytes(),
        compaction_slots: plan.compactions(),
        ..NodeConfig::new(DIR)
    }
}
