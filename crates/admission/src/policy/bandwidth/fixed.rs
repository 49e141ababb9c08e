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
}

/// Reserves for every partition the foreground bandwidth its capacity units need (FX-10) and gives it a fixed
/// background rate; the node gets what the device can do. A partition without capacity units is not limited in front.
pub fn fixed(sample: &Sample, config: &Fixed) -> Knobs {
    let partition = |partition: &PartitionSample| {
        let reserved = partition.capacity.foreground_bytes(config.read_amplification);
        let sold = reserved > 0;
        PartitionKnobs {
            owner: partition.owner,
            foreground: if sold { Limits::Shared(Rates::bytes(reserved)) } else { Limits::UNLIMITED },
            background: Limits::Shared(Rates::bytes(config.background)),
            weight: sold.then_some(reserved),
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
                PartitionSample { owner: owner(1), capacity: Capacity { rcu: 3000, wcu: 3000 } },
                PartitionSample { owner: owner(2), capacity: Capacity::default() },
            ],
        };
        let knobs = fixed(&sample, &Fixed { read_amplification: 4, background: 60_000_000 });
        assert_eq!(knobs.node, sample.device);
        assert_eq!(knobs.partitions[0].foreground, Limits::bytes(51 * 1_024_000));
        assert_eq!(knobs.partitions[0].weight, Some(51 * 1_024_000));
        assert_eq!(knobs.partitions[1].foreground, Limits::UNLIMITED);
        assert_eq!(knobs.partitions[1].background, Limits::bytes(60_000_000));
    }
}
