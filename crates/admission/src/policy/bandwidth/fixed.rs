//! Fixed rates: foreground as sold, background as configured.

use super::{Knobs, PartitionKnobs, PartitionSample, Sample};
use crate::limits::{Limits, Rates};

/// What [`fixed`] is configured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// Device bytes read per byte asked for (FX-11).
    pub read_amplification: u64,
    /// Background bytes per second of each partition.
    pub background: u64,
    /// Foreground never passes its limit, as FlexEngine has it; otherwise it borrows from an idle node (C-9).
    pub strict_foreground: bool,
}

/// Lets every partition have the foreground bandwidth that serves all its tenant bought (FX-10), for one partition may use
/// it all: the units see to it that they do not so together. When the node is short, each weighs as much as its equal part
/// of it. Background has a fixed rate, and the node gets what the device can do. A partition whose tenant has no
/// limits is not limited in front.
pub fn fixed(sample: &Sample, config: &Fixed) -> Knobs {
    let partition = |partition: &PartitionSample| {
        let reserved = partition.capacity.foreground_bytes(config.read_amplification);
        let sold = reserved > 0;
        PartitionKnobs {
            owner: partition.owner,
            borrows: sold && !config.strict_foreground,
            foreground: if sold { Limits::Shared(Rates::bytes(reserved)) } else { Limits::UNLIMITED },
            background: Limits::Shared(Rates::bytes(config.background)),
            weight: sold.then_some((reserved / partition.partitions.max(1)).max(1)),
        }
    };
    Knobs { node: sample.device, partitions: sample.partitions.iter().map(partition).collect() }
}

#[cfg(test)]
mod tests {
    use weir_io::Owner;

    use super::*;
    use crate::cost::Capacity;

    #[test]
    fn foreground_follows_what_was_sold() {
        let owner = |partition| Owner { tenant: 1, partition };
        let sample = Sample {
            device: Limits::bytes(500_000_000),
            partitions: vec![
                PartitionSample { owner: owner(1), capacity: Capacity { rcu: 3000, wcu: 3000 }, partitions: 3 },
                PartitionSample { owner: owner(2), capacity: Capacity::default(), partitions: 1 },
            ],
        };
        let config = Fixed { read_amplification: 4, background: 60_000_000, strict_foreground: false };
        let knobs = fixed(&sample, &config);
        assert_eq!(knobs.node, sample.device);
        assert_eq!(knobs.partitions[0].foreground, Limits::bytes(51 * 1_024_000));
        assert_eq!(knobs.partitions[0].weight, Some(17 * 1_024_000));
        assert_eq!([knobs.partitions[0].borrows, knobs.partitions[1].borrows], [true, false]);
        let strict = fixed(&sample, &Fixed { strict_foreground: true, ..config });
        assert!(!strict.partitions[0].borrows);
        assert_eq!(knobs.partitions[1].foreground, Limits::UNLIMITED);
        assert_eq!(knobs.partitions[1].background, Limits::bytes(60_000_000));
    }
}
