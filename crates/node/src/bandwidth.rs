//! Asks the bandwidth policy and turns the knobs: of a partition's gates when it is opened, and when its tenant's limits are altered.

use std::sync::Arc;

use parking_lot::Mutex;
use weir_admission::cost::Capacity;
use weir_admission::policy::bandwidth::{Fixed, PartitionSample, Sample, fixed, unlimited};
use weir_admission::{Gate, Limits, PartitionGate, UnitLimits};

use crate::config::NodeConfig;

/// Device bytes read per byte asked for, at most, with four levels of which two are in memory (FX-11).
const READ_AMPLIFICATION: u64 = 4;

/// What a partition's foreground is limited by, and the gates of the life that it leads now. Its lock is taken before a gate's.
pub struct Reservation(Mutex<State>);

struct State {
    limits: UnitLimits,
    /// Of the tenant.
    partitions: u64,
    /// `None` while it is asleep.
    gates: Option<Arc<PartitionGate>>,
}

impl Reservation {
    /// For one of `partitions` of a tenant under `limits`.
    pub fn new(limits: UnitLimits, partitions: usize) -> Self {
        Self(Mutex::new(State { limits, partitions: partitions as u64, gates: None }))
    }

    /// The tenant's limits are `limits` from now on.
    pub fn alter(&self, limits: UnitLimits, config: &NodeConfig, node: &Gate) {
        let mut state = self.0.lock();
        state.limits = limits;
        state.turn(config, node);
    }

    /// The partition is opened behind `gates`.
    pub fn open(&self, gates: Arc<PartitionGate>, config: &NodeConfig, node: &Gate) {
        let mut state = self.0.lock();
        state.gates = Some(gates);
        state.turn(config, node);
    }

    /// The partition is closed: nothing of it is remembered at the node gate.
    pub fn close(&self, node: &Gate) {
        if let Some(gates) = self.0.lock().gates.take() {
            node.set_weight(gates.owner(), None);
        }
    }
}

impl State {
    fn turn(&self, config: &NodeConfig, node: &Gate) {
        let Some(gates) = &self.gates else { return };
        let sample = |device, capacity, partitions| Sample {
            device,
            partitions: vec![PartitionSample { owner: gates.owner(), capacity, partitions }],
        };
        let knobs = match config.bandwidth {
            None => unlimited(&sample(Limits::UNLIMITED, Capacity::default(), 1)),
            Some(bandwidth) => {
                // What only one kind of unit limits may take any bandwidth. Then what is configured for all partitions holds.
                let (capacity, partitions) = match self.limits {
                    UnitLimits { rcu: 0, .. } | UnitLimits { wcu: 0, .. } => (bandwidth.capacity, 1),
                    UnitLimits { rcu, wcu, .. } => (Capacity { rcu, wcu }, self.partitions),
                };
                let config = Fixed {
                    read_amplification: READ_AMPLIFICATION,
                    background: bandwidth.background,
                    strict_foreground: bandwidth.strict_foreground,
                };
                fixed(&sample(bandwidth.device, capacity, partitions), &config)
            }
        };
        node.set_limits(knobs.node);
        for knob in &knobs.partitions {
            gates.foreground().set_limits(knob.foreground);
            gates.background().set_limits(knob.background);
            gates.set_borrows(knob.borrows);
            node.set_weight(knob.owner, knob.weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_admission::{Direction, GateOptions};
    use weir_io::Owner;
    use weir_io::sim::Sim;

    use super::*;
    use crate::config::Bandwidth;

    #[test]
    fn gates_follow_what_the_tenant_bought_while_the_partition_is_open() {
        // FX-10.
        let sim = Sim::new(1);
        let device = Limits::bytes(1_000_000_000);
        let bandwidth =
            Bandwidth { device, capacity: Capacity::default(), background: 60_000_000, strict_foreground: false };
        let config = NodeConfig { bandwidth: Some(bandwidth), ..NodeConfig::new("node") };
        let node = Gate::new(sim.clock(), GateOptions::NODE);
        let gates = PartitionGate::new(Owner { tenant: 1, partition: 7 }, &sim.clock());
        let bought = |units| UnitLimits { rcu: units, wcu: units, ..UnitLimits::default() };
        // A tenth of a second of the foreground rate.
        let burst = || gates.foreground().burst_bytes(Direction::Read);

        let reservation = Reservation::new(bought(3000), 4);
        reservation.open(Arc::clone(&gates), &config, &node);
        assert_eq!(burst(), 51 * 102_400, "one partition may use all that its tenant bought");
        assert!(gates.borrows() && !gates.background().is_unlimited() && !node.is_unlimited());
        reservation.alter(bought(6000), &config, &node);
        assert_eq!(burst(), 102 * 102_400);
        reservation.alter(UnitLimits { rcu: 6000, ..UnitLimits::default() }, &config, &node);
        assert!(gates.foreground().is_unlimited() && !gates.borrows());
        reservation.close(&node);
        reservation.alter(bought(3000), &config, &node);
        assert!(gates.foreground().is_unlimited(), "gates that nobody uses any more are left alone");
    }
}
