//! What tenants have bought, compared with what the device gives. A node exists to sell more than the device gives, so
//! nothing is refused; but whoever sells should know how often the same bandwidth is sold.

use weir_admission::cost::Capacity;
use weir_admission::{Direction, Limits, UNLIMITED, UnitLimits};

use crate::tick::READ_AMPLIFICATION;

/// What tenants have bought, and how that compares with the device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sold {
    /// Tenants with a limit on reads or on writes.
    pub tenants: u64,
    /// Tenants without one of the two limits: they may use whatever is there, and bought nothing of it.
    pub unlimited: u64,
    /// Read units a second, of all tenants.
    pub rcu: u64,
    /// Write units a second, of all tenants.
    pub wcu: u64,
    /// Device bytes a second that serve all of them at once (FX-10), before flushes and compactions.
    pub bytes: u64,
    /// Device bytes a second that exist; `None` if nobody has configured or measured them. If reads and writes have a
    /// budget each, the sum of both.
    pub device_bytes: Option<u64>,
    /// How often the device is sold; `None` if its bandwidth is not known.
    pub times: Option<f64>,
    /// Device bytes a second that take all writes at once into the log and out of memory, if nothing is compacted.
    pub uncompacted: u64,
    /// Whether the device passes these bytes. If not, all writes at once must wait, whatever is put off. `None` if its
    /// bandwidth is not known.
    pub passes_uncompacted: Option<bool>,
}

/// How often a written byte goes to the device if nothing is compacted: into the log, and into level 0.
const UNCOMPACTED_WRITES: u64 = 2;

impl Sold {
    /// For tenants under `limits`, on `device`.
    pub fn of(limits: impl Iterator<Item = UnitLimits>, device: Option<Limits>) -> Self {
        let mut sold = Self::default();
        for UnitLimits { rcu, wcu, ru, .. } in limits {
            sold.tenants += u64::from(rcu > 0 || wcu > 0 || ru > 0);
            sold.unlimited += u64::from((rcu == 0 || wcu == 0) && ru == 0);
            (sold.rcu, sold.wcu) = (sold.rcu.saturating_add(rcu), sold.wcu.saturating_add(wcu));
        }
        let bytes = |rcu, wcu| Capacity { rcu, wcu }.foreground_bytes(READ_AMPLIFICATION);
        let (read, written) = (bytes(sold.rcu, 0), bytes(0, sold.wcu));
        sold.bytes = read.saturating_add(written);
        sold.uncompacted = written.saturating_mul(UNCOMPACTED_WRITES);
        let times = |bytes: u64, rate: u64| bytes as f64 / rate.max(1) as f64;
        let known = |rate: u64| Some(rate).filter(|&rate| rate != UNLIMITED);
        let rate = |direction| device.and_then(|device| known(device.rates(direction).bytes));
        if let (Some(device), Some(reads), Some(writes)) = (device, rate(Direction::Read), rate(Direction::Write)) {
            let (there, often) = match device {
                Limits::Shared(_) => (reads, times(sold.bytes, reads)),
                // The budget that runs short first.
                Limits::Split { .. } => (reads.saturating_add(writes), times(read, reads).max(times(written, writes))),
            };
            (sold.device_bytes, sold.times) = (Some(there), Some(often));
            sold.passes_uncompacted = Some(sold.uncompacted <= writes);
        }
        sold
    }
}

#[cfg(test)]
mod tests {
    use weir_admission::Rates;

    use super::*;

    fn units(rcu: u64, wcu: u64) -> UnitLimits {
        UnitLimits { rcu, wcu, ..UnitLimits::default() }
    }

    #[test]
    fn what_is_sold_is_a_multiple_of_what_there_is() {
        let many = || std::iter::repeat_n(units(5000, 5000), 300).chain([units(0, 0), units(7, 0)]);
        let sold = Sold::of(many(), Some(Limits::bytes(1_000_000_000)));
        // 5,000 x (4 KiB x 4 + 1 KiB) = 87.04 MB/s each.
        assert_eq!((sold.tenants, sold.unlimited, sold.rcu, sold.wcu), (301, 2, 1_500_007, 1_500_000));
        assert_eq!((sold.bytes, sold.device_bytes), (26_112_000_000 + 7 * 16_384, Some(1_000_000_000)));
        assert!(sold.times.is_some_and(|times| (times - 26.112).abs() < 0.001), "{sold:?}");
    }

    #[test]
    fn of_two_budgets_the_shorter_one_counts() {
        let split = Limits::Split { read: Rates::bytes(1_638_400), write: Rates::bytes(1_024_000) };
        let of = |rcu, wcu| Sold::of([units(rcu, wcu)].into_iter(), Some(split)).times;
        assert_eq!((of(100, 100), of(100, 5000)), (Some(1.0), Some(5.0)));
    }

    #[test]
    fn all_writes_at_once_must_pass_uncompacted() {
        let of = |wcu, device| Sold::of([units(0, wcu); 10].into_iter(), Some(device));
        // 10 x 1,000 x 1 KiB, twice, are 20.48 MB/s.
        let shared = |rate| Limits::bytes(rate);
        assert_eq!(of(1_000, shared(20_480_000)).uncompacted, 20_480_000);
        let passes = [20_480_000, 20_479_999].map(|rate| of(1_000, shared(rate)).passes_uncompacted);
        assert_eq!(passes, [Some(true), Some(false)]);
        let split = Limits::Split { read: Rates::bytes(1 << 40), write: Rates::bytes(20_000_000) };
        assert_eq!(of(1_000, split).passes_uncompacted, Some(false));
    }

    #[test]
    fn nobody_knows_where_nobody_measured() {
        for device in [None, Some(Limits::UNLIMITED)] {
            let sold = Sold::of([units(u64::MAX, u64::MAX); 2].into_iter(), device);
            assert_eq!((sold.bytes, sold.device_bytes, sold.times), (u64::MAX, None, None));
            assert_eq!((sold.uncompacted, sold.passes_uncompacted), (u64::MAX, None));
        }
    }
}
