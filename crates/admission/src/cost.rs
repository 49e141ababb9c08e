//! What operations cost in capacity units, and what reserved units cost in bandwidth.

use serde::{Deserialize, Serialize};

/// One read capacity unit covers a read of an item up to this size, in bytes (FX-1).
pub const RCU_BYTES: u64 = 4096;
/// One write capacity unit covers a write of an item up to this size, in bytes (FX-1).
pub const WCU_BYTES: u64 = 1024;

/// Read capacity units of one read of an item of `bytes`; a miss costs one unit, like the smallest item (FX-1).
pub const fn read_units(bytes: u64) -> u64 {
    let units = bytes.div_ceil(RCU_BYTES);
    if units == 0 { 1 } else { units }
}

/// Write capacity units of one write of an item of `bytes`; a deletion costs one unit, like the smallest item (FX-1).
pub const fn write_units(bytes: u64) -> u64 {
    let units = bytes.div_ceil(WCU_BYTES);
    if units == 0 { 1 } else { units }
}

/// Reserved capacity of a partition, in units per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// Read capacity units per second.
    pub rcu: u64,
    /// Write capacity units per second.
    pub wcu: u64,
}

impl Capacity {
    /// Device bytes per second that serve the whole reservation, whatever the cache holds (FX-10):
    /// `RCU_max x RCU_size x RAF + WCU_max x WCU_size`. `read_amplification` is the device bytes read per byte asked
    /// for (FX-11: 4 with four levels, two of them in memory).
    pub const fn foreground_bytes(self, read_amplification: u64) -> u64 {
        let reads = self.rcu.saturating_mul(RCU_BYTES).saturating_mul(read_amplification);
        reads.saturating_add(self.wcu.saturating_mul(WCU_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_rounded_up() {
        // FX-1.
        assert_eq!([0, 1, 4096, 4097, 8192, 8193].map(read_units), [1, 1, 1, 2, 2, 3]);
        assert_eq!([0, 1, 1024, 1025, 2048, 2049].map(write_units), [1, 1, 1, 2, 2, 3]);
    }

    #[test]
    fn three_thousand_units_each_reserve_48_and_3_megabytes() {
        // FX-10, in the paper's units of 1024 x 1000 bytes.
        assert_eq!(Capacity { rcu: 3000, wcu: 0 }.foreground_bytes(4), 48 * 1_024_000);
        assert_eq!(Capacity { rcu: 0, wcu: 3000 }.foreground_bytes(4), 3 * 1_024_000);
        assert_eq!(Capacity { rcu: 3000, wcu: 3000 }.foreground_bytes(4), 51 * 1_024_000);
        assert_eq!(Capacity { rcu: u64::MAX, wcu: 1 }.foreground_bytes(4), u64::MAX);
    }
}
