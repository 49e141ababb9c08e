//! What the policies decided last about each tenant, and how they behave.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use weir_node::{Behaviour, Node, Stage, Tick, Violation};

use super::Sheet;
use super::ledger::TENANTS_MAX;
use crate::admin::ledger::name_of;

pub(super) struct PolicyMetrics(pub(super) Arc<Node>);

impl fmt::Debug for PolicyMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PolicyMetrics")
    }
}

/// One tenant at the last tick.
#[derive(Clone, Debug, Default, PartialEq)]
struct Standing {
    /// Partitions by stage, in the order of [`Stage::ALL`].
    stages: [u64; Stage::ALL.len()],
    /// Of the partition that will stall first, in nanoseconds.
    time_to_stall: Option<u64>,
    /// Bytes, over all partitions.
    debt: u64,
}

impl Collector for PolicyMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut sheet = Sheet(encoder);
        behaviour(&mut sheet, &self.0.behaviour())?;
        let Some(tick) = self.0.last_tick() else { return Ok(()) };
        violation(&mut sheet, tick.decision.violation.as_ref(), |tenant| name_of(&self.0, tenant))?;
        let standings = most_pressed(standings(&tick));
        let named: Vec<_> = standings.into_iter().map(|(tenant, it)| (name_of(&self.0, tenant), it)).collect();
        by_tenant(&mut sheet, &named)
    }
}

fn behaviour(sheet: &mut Sheet<'_>, behaviour: &Behaviour) -> fmt::Result {
    let labels = Stage::ALL.map(|stage| [("stage", stage.name())]);
    let entered: Vec<_> =
        labels.iter().zip(behaviour.transitions).map(|(labels, count)| (&labels[..], count)).collect();
    let help = "Changes of the stage of deferral, over all partitions, by the stage entered";
    sheet.counter("weir_stage_transitions", help, None, &entered)?;
    let mut seconds = |name: &str, help: &str, nanos: u64| {
        let none: &[(&'static str, &str)] = &[];
        let sample = (none, ConstCounter::new(nanos as f64 / 1e9));
        sheet.samples(name, help, Some(&Unit::Seconds), [sample].into_iter())
    };
    let help = "Time during which background work waited, at a gate or put off; nothing without device_bandwidth";
    seconds("weir_device_backlogged", help, behaviour.backlogged)?;
    let help = "The part of that during which less than 95 % of device_bandwidth was used";
    seconds("weir_device_underused", help, behaviour.underused)
}

/// Who should leave, and how short the node is without that.
fn violation(sheet: &mut Sheet<'_>, violation: Option<&Violation>, name: impl Fn(u32) -> String) -> fmt::Result {
    let help = "1 while the load needs more of the disk than a node should be asked for (FX-5)";
    sheet.gauge("weir_violation", help, None, &[(&[], u64::from(violation.is_some()))])?;
    let moves: Vec<(String, String, u64)> = violation
        .iter()
        .flat_map(|violation| &violation.moves)
        .map(|it| (name(it.owner.tenant), it.owner.partition.to_string(), it.bytes))
        .take(TENANTS_MAX)
        .collect();
    let labels: Vec<_> =
        moves.iter().map(|(tenant, partition, _)| [("tenant", tenant.as_str()), ("partition", partition)]).collect();
    let bytes: Vec<_> = labels.iter().zip(&moves).map(|(labels, (.., bytes))| (&labels[..], *bytes)).collect();
    let help = "Size of a partition that should be moved to another node, by the policy of this one";
    sheet.gauge("weir_partition_to_move", help, Some(&Unit::Bytes), &bytes)
}

/// By number. Tenants with no partition awake are not in it.
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

/// Those first that will stall soonest, then those that owe most.
fn most_pressed(mut standings: Vec<(u32, Standing)>) -> Vec<(u32, Standing)> {
    standings.sort_by_key(|(_, it)| (it.time_to_stall.unwrap_or(u64::MAX), std::cmp::Reverse(it.debt)));
    standings.truncate(TENANTS_MAX);
    standings
}

fn by_tenant(sheet: &mut Sheet<'_>, tenants: &[(String, Standing)]) -> fmt::Result {
    let stages: Vec<_> = tenants
        .iter()
        .flat_map(|(name, it)| {
            let counts = Stage::ALL.iter().zip(it.stages).filter(|(_, count)| *count > 0);
            counts.map(move |(stage, count)| ([("tenant", name.as_str()), ("stage", stage.name())], count))
        })
        .collect();
    let stages: Vec<_> = stages.iter().map(|(labels, count)| (&labels[..], *count)).collect();
    sheet.gauge("weir_tenant_stage", "Partitions awake, by how far their compactions are put off", None, &stages)?;
    let labels: Vec<_> = tenants.iter().map(|(name, _)| [("tenant", name.as_str())]).collect();
    let rows = || labels.iter().zip(tenants).map(|(labels, (_, it))| (&labels[..], it));
    let debts: Vec<_> = rows().map(|(labels, it)| (labels, it.debt)).collect();
    let help = "What compactions still have to move, put off or not";
    sheet.gauge("weir_tenant_deferral_debt", help, Some(&Unit::Bytes), &debts)?;
    let stalls = rows()
        .filter_map(|(labels, it)| Some((labels, ConstGauge::new(it.time_to_stall? as f64 / 1e9))))
        .collect::<Vec<_>>();
    let help = "Until a write would stall if all went on like this; not there where that is never";
    sheet.samples("weir_tenant_time_to_stall", help, Some(&Unit::Seconds), stalls.into_iter())
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
