//! The limits of a partition's gates: set when it is opened, when its tenant's limits are altered, and at every tick.

use std::sync::Arc;

use parking_lot::Mutex;
use weir_admission::cost::Capacity;
use weir_admission::policy::{PartitionKnobs, PartitionSample};
use weir_admission::{Gate, PartitionGate, Quota, UnitLimits};
use weir_io::Owner;

use crate::config::NodeConfig;

/// What limits a partition's foreground, and the gates that the partition has while it is open. Its lock is taken
/// before a gate's.
pub struct Reservation {
    state: Mutex<ReservedGates>,
    /// The tenant's quota.
    quota: Arc<Quota>,
}

struct ReservedGates {
    limits: UnitLimits,
    /// How many partitions the tenant has.
    partitions: u64,
    /// `None` while the partition is asleep.
    gates: Option<Arc<PartitionGate>>,
    /// How the knobs of these gates are set.
    turned: Option<PartitionKnobs>,
}

impl Reservation {
    /// For one of the `partitions` of a tenant under `limits`, whose units are in `quota`.
    pub fn new(limits: UnitLimits, partitions: usize, quota: &Arc<Quota>) -> Self {
        let state = ReservedGates { limits, partitions: partitions as u64, gates: None, turned: None };
        Self { state: Mutex::new(state), quota: Arc::clone(quota) }
    }

    /// The tenant's capacity units.
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    /// The facts that a policy needs about the tenant of partition `owner`.
    pub fn sold(&self, owner: Owner, config: &NodeConfig) -> PartitionSample {
        let state = self.state.lock();
        let (capacity, partitions) = match config.bandwidth {
            None => (Capacity::default(), 1),
            Some(bandwidth) => reserved(state.limits, bandwidth.capacity, state.partitions),
        };
        PartitionSample { owner, capacity, partitions, ..PartitionSample::default() }
    }

    /// From now on the tenant's limits are `limits`.
    pub fn alter(&self, limits: UnitLimits) {
        self.state.lock().limits = limits;
    }

    /// The partition is open behind `gates`.
    pub fn open(&self, gates: Arc<PartitionGate>) {
        let mut state = self.state.lock();
        (state.gates, state.turned) = (Some(gates), None);
    }

    /// The partition is closed: nothing of it is remembered at the node gate.
    pub fn close(&self, node: &Gate) {
        let mut state = self.state.lock();
        if let Some(gates) = state.gates.take() {
            node.set_weight(gates.owner(), None);
            node.set_weight_of_flushes(gates.owner(), None);
        }
    }

    /// Whether its background waits at a gate of its own. Foreground that waits is the tenant's own business.
    pub fn background_waits(&self) -> bool {
        self.state.lock().gates.as_ref().is_some_and(|gates| gates.background_waits())
    }

    /// Refills of its foreground bucket that somebody waited for, since it was opened.
    pub fn drains(&self) -> u64 {
        self.state.lock().gates.as_ref().map_or(0, |gates| gates.foreground().drains())
    }

    #[cfg(test)]
    pub fn gates(&self) -> Option<Arc<PartitionGate>> {
        self.state.lock().gates.clone()
    }

    /// Turns those knobs of the gates that are set differently. A partition that is asleep has none.
    pub fn turn(&self, knobs: &PartitionKnobs, node: &Gate) {
        let mut state = self.state.lock();
        let Some(gates) = state.gates.as_ref().filter(|gates| gates.owner() == knobs.owner) else { return };
        let turned = state.turned.as_ref();
        let foreground = |knobs: &PartitionKnobs| (knobs.foreground, knobs.one_bucket);
        if turned.is_none_or(|turned| foreground(turned) != foreground(knobs)) {
            gates.set_foreground(knobs.foreground, knobs.one_bucket);
        }
        if turned.is_none_or(|turned| turned.background != knobs.background) {
            gates.background().set_limits(knobs.background);
        }
        if turned.is_none_or(|turned| turned.weight != knobs.weight) {
            node.set_weight(knobs.owner, knobs.weight);
        }
        if turned.is_none_or(|turned| turned.flush_weight != knobs.flush_weight) {
            node.set_weight_of_flushes(knobs.owner, knobs.flush_weight);
        }
        gates.set_borrows(knobs.borrows);
        gates.set_flush_may_rush(knobs.flush_may_rush);
        gates.set_l0_first(knobs.l0_first);
        state.turned = Some(*knobs);
    }
}

/// The capacity that is reserved for a tenant's foreground, and over how many partitions. A kind of unit in which the
/// tenant is not limited counts as what is configured for all partitions. If nothing is configured either, that kind
/// could take any bandwidth, so nothing is limited.
fn reserved(limits: UnitLimits, configured: Capacity, partitions: u64) -> (Capacity, u64) {
    let UnitLimits { rcu, wcu, .. } = limits;
    if rcu == 0 && wcu == 0 {
        return (configured, 1);
    }
    let or = |own, configured| if own == 0 { configured } else { own };
    let capacity = Capacity { rcu: or(rcu, configured.rcu), wcu: or(wcu, configured.wcu) };
    if capacity.rcu == 0 || capacity.wcu == 0 { (Capacity::default(), 1) } else { (capacity, partitions) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_limited_kind_of_unit_stays_limited_beside_what_is_configured_for_the_other() {
        let own = |rcu, wcu| UnitLimits { rcu, wcu, ..UnitLimits::default() };
        let of = |rcu, wcu| Capacity { rcu, wcu };
        for (limits, configured, expected) in [
            (own(10, 20), of(1, 2), (of(10, 20), 4)),
            (own(10, 0), of(1, 2), (of(10, 2), 4)),
            (own(0, 20), of(1, 2), (of(1, 20), 4)),
            (own(0, 0), of(1, 2), (of(1, 2), 1)),
            (own(10, 0), of(0, 0), (of(0, 0), 1)),
        ] {
            assert_eq!(reserved(limits, configured, 4), expected, "{limits:?}");
        }
    }
}
