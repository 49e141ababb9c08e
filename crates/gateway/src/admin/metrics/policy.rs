//! What the policies decided last about each tenant, and how they behave.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use weir_node::{Behaviour, Node, Stage, Tick, Violation};

use super::ledger::TENANTS_MAX;
use super::{Sheet, alone};
use crate::admin::ledger::name_of;

/// The state of one tenant at the last tick.
#[derive(Clone, Debug, Default, PartialEq)]
struct Standing {
    /// Partitions by stage, in the order of [`Stage::ALL`].
    stages: [u64; Stage::ALL.len()],
    /// Nanoseconds until the first of its partitions will stall.
    time_to_stall: Option<u64>,
    /// Compaction debt in bytes, over all partitions.
    debt: u64,
}

pub(super) fn write(node: &Node, sheet: &mut Sheet<'_>) -> fmt::Result {
    behaviour(sheet, &node.behaviour())?;
    let Some(tick) = node.last_tick() else { return Ok(()) };
    violation(sheet, tick.decision.violation.as_ref(), |tenant| name_of(node, tenant))?;
    let standings = most_pressed(standings(&tick));
    let named: Vec<_> = standings.into_iter().map(|(tenant, it)| (name_of(node, tenant), it)).collect();
    by_tenant(sheet, &named)
}

fn behaviour(sheet: &mut Sheet<'_>, behaviour: &Behaviour) -> fmt::Result {
    let entered = Stage::ALL.map(|stage| [("stage", stage.name())]).into_iter().zip(behaviour.transitions);
    let help = "Changes of the stage of deferral, over all partitions, by the stage entered";
    sheet.counter("weir_stage_transitions", help, None, entered)?;
    let help = "Time during which background work waited, at a gate or because it was put off; nothing without \
                device_bandwidth";
    sheet.seconds("weir_device_backlogged", help, alone(behaviour.backlogged))?;
    let help = "The part of the backlogged time in which less than 95 % of device_bandwidth was used";
    sheet.seconds("weir_device_underused", help, alone(behaviour.underused))
}

/// Whether the load needs more of the disk than a node should be asked for, and which partitions should therefore
/// leave.
fn violation(sheet: &mut Sheet<'_>, violation: Option<&Violation>, name: impl Fn(u32) -> String) -> fmt::Result {
    let help = "1 while the load needs more of the disk than a node should be asked for (FX-5)";
    sheet.gauge("weir_violation", help, None, alone(u64::from(violation.is_some())))?;
    let moves: Vec<(String, String, u64)> = violation
        .iter()
        .flat_map(|violation| &violation.moves)
        .map(|it| (name(it.owner.tenant), it.owner.partition.to_string(), it.bytes))
        .take(TENANTS_MAX)
        .collect();
    let bytes = moves
        .iter()
        .map(|(tenant, partition, bytes)| ([("tenant", tenant.as_str()), ("partition", partition.as_str())], *bytes));
    let help = "Bytes to copy of a partition that should be moved to another node";
    sheet.gauge("weir_partition_to_move", help, Some(&Unit::Bytes), bytes)
}

/// The states by the number of the tenant. Tenants with no partition awake are left out.
fn standings(tick: &Tick) -> Vec<(u32, Standing)> {
    let mut tenants: BTreeMap<u32, Standing> = BTreeMap::new();
    for (sample, knobs) in tick.sample.partitions.iter().zip(&tick.decision.knobs.partitions) {
        let standing = tenants.entry(sample.owner.tenant).or_default();
        standing.stages[knobs.stage as usize] += 1;
        standing.time_to_stall = standing.time_to_stall.into_iter().chain(knobs.time_to_stall).min();
        standing.debt += sample.tree.debt();
    }
    tenants.into_iter().collect()
}

/// Sorts first by how soon a tenant will stall, then by its debt.
fn most_pressed(mut standings: Vec<(u32, Standing)>) -> Vec<(u32, Standing)> {
    standings.sort_by_key(|(_, it)| (it.time_to_stall.unwrap_or(u64::MAX), std::cmp::Reverse(it.debt)));
    standings.truncate(TENANTS_MAX);
    standings
}

fn by_tenant(sheet: &mut Sheet<'_>, tenants: &[(String, Standing)]) -> fmt::Result {
    let stages = tenants.iter().flat_map(|(name, it)| {
        let counts = Stage::ALL.iter().zip(it.stages).filter(|(_, count)| *count > 0);
        counts.map(move |(stage, count)| ([("tenant", name.as_str()), ("stage", stage.name())], count))
    });
    let help = "Partitions that are awake, by how far their compactions are put off";
    sheet.gauge("weir_tenant_stage", help, None, stages)?;
    let rows = || tenants.iter().map(|(name, it)| ([("tenant", name.as_str())], it));
    let debts = rows().map(|(labels, it)| (labels, it.debt));
    let help = "Bytes that compactions still have to move, put off or not";
    sheet.gauge("weir_tenant_deferral_debt", help, Some(&Unit::Bytes), debts)?;
    let stalls = rows().filter_map(|(labels, it)| Some((labels, ConstGauge::new(it.time_to_stall? as f64 / 1e9))));
    let help = "Seconds until a write would stall if all went on like this; absent if never";
    sheet.samples("weir_tenant_time_to_stall", help, Some(&Unit::Seconds), stalls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_stalls_first_is_shown_first_then_who_owes_most() {
        let standing = |time_to_stall, debt| Standing { time_to_stall, debt, ..Standing::default() };
        let some =
            [(1, standing(None, 5)), (2, standing(Some(9), 0)), (3, standing(None, 7)), (4, standing(Some(3), 0))];
        let shown = most_pressed(some.into());
        assert_eq!(shown.iter().map(|(tenant, _)| *tenant).collect::<Vec<_>>(), [4, 2, 3, 1]);
        let many = (0..200).map(|tenant| (tenant, Standing::default()));
        assert_eq!(most_pressed(many.collect()).len(), TENANTS_MAX);
    }
}
