//! The knobs of a gate.

use serde::{Deserialize, Serialize};
use weir_io::{Nanos, PAGE};

use crate::bucket::UNLIMITED;

/// The direction in which the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Direction {
    /// From the device.
    Read = 0,
    /// To the device; a sync counts here, with 0 bytes.
    Write = 1,
}

/// Bytes and operations per second; both hold. [`UNLIMITED`] is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rates {
    /// Device bytes per second.
    pub bytes: u64,
    /// Operations per second.
    pub ops: u64,
}

impl Rates {
    /// No limit at all.
    pub const UNLIMITED: Rates = Rates { bytes: UNLIMITED, ops: UNLIMITED };

    /// `bytes` per second, operations unlimited.
    pub const fn bytes(bytes: u64) -> Self {
        Self { bytes, ops: UNLIMITED }
    }

    /// True if nothing is limited.
    pub fn is_unlimited(self) -> bool {
        self == Self::UNLIMITED
    }

    /// Device time of `ops` operations that move `bytes`, in nanoseconds: of the two, the one that takes longer.
    pub(crate) fn device_time(self, bytes: u64, ops: u64) -> Nanos {
        let time = |amount: u64, rate: u64| match rate {
            UNLIMITED => 0,
            rate => u64::try_from(u128::from(amount) * 1_000_000_000 / u128::from(rate.max(1))).unwrap_or(u64::MAX),
        };
        time(bytes, self.bytes).max(time(ops, self.ops))
    }

    /// Whole bytes that arrive in `burst` nanoseconds; `u64::MAX` if unlimited.
    pub(crate) fn burst_bytes(self, burst: Nanos) -> u64 {
        if self.bytes == UNLIMITED {
            return u64::MAX;
        }
        u64::try_from(u128::from(self.bytes) * u128::from(burst) / 1_000_000_000).unwrap_or(u64::MAX)
    }

    /// The largest piece of background I/O granted at once, in bytes: 0.5 ms of the rate, in whole pages, between
    /// 4 KiB and 512 KiB (house rule 6). Unlimited rates cut nothing: `u64::MAX`.
    pub fn grant_bytes(self) -> u64 {
        if self.bytes == UNLIMITED {
            return if self.ops == UNLIMITED { u64::MAX } else { GRANT_MAX };
        }
        let page = PAGE as u64;
        (self.bytes / 2000 / page * page).clamp(page, GRANT_MAX)
    }
}

/// Never more than this in one grant, in bytes.
const GRANT_MAX: u64 = 512 << 10;

/// What a gate limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limits {
    /// Reads and writes draw on one budget: network disks, fair shares.
    Shared(Rates),
    /// Each direction has a budget of its own: flash whose reads and writes hardly disturb each other.
    Split {
        /// From the device.
        read: Rates,
        /// To the device.
        write: Rates,
    },
}

impl Limits {
    /// No limit at all: passing the gate costs one atomic load.
    pub const UNLIMITED: Limits = Limits::Shared(Rates::UNLIMITED);

    /// `bytes` per second, shared by reads and writes.
    pub const fn bytes(bytes: u64) -> Self {
        Limits::Shared(Rates::bytes(bytes))
    }

    pub(crate) fn is_unlimited(&self) -> bool {
        match self {
            Limits::Shared(rates) => rates.is_unlimited(),
            Limits::Split { read, write } => read.is_unlimited() && write.is_unlimited(),
        }
    }

    /// The rates that limit `direction`.
    pub fn rates(&self, direction: Direction) -> Rates {
        match (self, direction) {
            (Limits::Shared(rates), _) => *rates,
            (Limits::Split { read, .. }, Direction::Read) => *read,
            (Limits::Split { write, .. }, Direction::Write) => *write,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_half_a_millisecond_in_whole_pages() {
        assert_eq!(Rates::bytes(12_000_000).grant_bytes(), 4096);
        assert_eq!(Rates::bytes(100_000_000).grant_bytes(), 49_152);
        assert_eq!(Rates::bytes(2_000_000_000).grant_bytes(), 512 << 10);
        assert_eq!(Rates::bytes(1).grant_bytes(), 4096);
        assert_eq!(Rates::UNLIMITED.grant_bytes(), u64::MAX);
    }

    #[test]
    fn device_time_is_the_slower_of_bytes_and_operations() {
        let rates = Rates { bytes: 1_000_000, ops: 100 };
        assert_eq!(rates.device_time(1000, 1), 10_000_000);
        assert_eq!(rates.device_time(100_000, 1), 100_000_000);
    }
}
