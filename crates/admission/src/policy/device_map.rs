//! What a device gives under each mix of reads and writes, as it was measured (CR-5).

use serde::{Deserialize, Serialize};

use crate::limits::{Limits, Rates};

/// 0, 25, 50, 75 and 100 % reads.
const MIXES: usize = 5;

/// What a device gives, reads and writes together, by the share of reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceMap([Rates; MIXES]);

impl DeviceMap {
    /// How many mixes are measured, evenly from 0 to 100 % reads.
    pub const MIXES: usize = MIXES;

    /// The map of a device that gives these rates under the mixes, from writes alone to reads alone.
    pub const fn new(mixes: [Rates; MIXES]) -> Self {
        Self(mixes)
    }

    /// What the device gives where these parts of the bytes and of the operations, 0 to 1, are read.
    pub fn at(&self, [bytes, ops]: [f64; 2]) -> Limits {
        Limits::Shared(Rates {
            bytes: self.between(bytes, |rates| rates.bytes),
            ops: self.between(ops, |rates| rates.ops),
        })
    }

    /// Between two mixes the time that a unit takes is interpolated, not the rate: that is exact for a device that does
    /// one thing after the other.
    fn between(&self, reads: f64, of: fn(&Rates) -> u64) -> u64 {
        let place = reads.clamp(0.0, 1.0) * (MIXES - 1) as f64;
        let below = (place as usize).min(MIXES - 2);
        let [before, after] = [below, below + 1].map(|mix| 1.0 / of(&self.0[mix]).max(1) as f64);
        // Saturates.
        (1.0 / (before + (after - before) * (place - below as f64))).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Direction;

    #[test]
    fn the_map_of_a_device_that_does_one_thing_after_the_other_is_exact_between_the_mixes() {
        // Reads alone have 400 MB/s, writes alone 100.
        let rate = |reads: f64| 400e6 / (4.0 - 3.0 * reads);
        let mixes = [0.0, 0.25, 0.5, 0.75, 1.0].map(|reads| rate(reads) as u64);
        let map = DeviceMap::new(mixes.map(|bytes| Rates { bytes, ops: bytes / 10_000 }));
        for reads in [0.0, 0.1, 0.25, 0.6, 0.9, 1.0] {
            let found = map.at([reads, 0.5]).rates(Direction::Read);
            assert!((found.bytes as f64 / rate(reads) - 1.0).abs() < 1e-6, "{reads}: {found:?}");
            assert_eq!(found.ops, 16_000);
        }
        let unlimited = DeviceMap::new([Rates::UNLIMITED; MIXES]);
        assert_eq!(unlimited.at([0.3, 0.3]), Limits::UNLIMITED);
    }
}
