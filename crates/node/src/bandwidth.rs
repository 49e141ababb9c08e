//! Asks the bandwidth policy and turns the knobs of a partition that has been opened.

use weir_admission::cost::Capacity;
use weir_admission::policy::bandwidth::{Fixed, PartitionSample, Sample, fixed, unlimited};
use weir_admission::{Gate, Limits, PartitionGate};

use crate::config::NodeConfig;

/// Device bytes read per byte asked for, at most, with four levels of which two are in memory (FX-11).
const READ_AMPLIFICATION: u64 = 4;

/// Turns the node gate's knobs, and those of one partition's gates.
pub fn turn(config: &NodeConfig, gate: &Gate, partition_gate: &PartitionGate) {
    let partition = |capacity| vec![PartitionSample { owner: partition_gate.owner(), capacity }];
    let knobs = match config.bandwidth {
        None => unlimited(&Sample { device: Limits::UNLIMITED, partitions: partition(Capacity::default()) }),
        Some(bandwidth) => {
            let sample = Sample { device: bandwidth.device, partitions: partition(bandwidth.capacity) };
            let background = bandwidth.background;
            fixed(&sample, &Fixed { read_amplification: READ_AMPLIFICATION, background })
        }
    };
    gate.set_limits(knobs.node);
    for knob in &knobs.partitions {
        partition_gate.foreground().set_limits(knob.foreground);
        partition_gate.background().set_limits(knob.background);
        gate.set_weight(knob.owner, knob.weight);
    }
}
