//! How full a device is, by bytes or by operations, whichever is fuller: what the foreground load takes of it, and what
//! that leaves for the background.

use super::meter::Load;
use crate::bucket::UNLIMITED;
use crate::limits::{Limits, Rates};

/// The part of what flushes and merges move that is written: 25 of 46 by the levels (FX-13).
const WRITTEN_SHARE: f64 = 25.0 / 46.0;

/// Bytes and operations per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Flow {
    bytes: f64,
    ops: f64,
}

/// The foreground load of some partitions, and how large the operations of their background are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Front {
    read: Flow,
    log: Flow,
    /// How many operations a byte of the background takes.
    ops_per_byte: f64,
}

impl Front {
    /// The sum of `loads`.
    pub fn of(loads: &[Load]) -> Front {
        let sum = |of: fn(&Load) -> f64| loads.iter().map(of).sum::<f64>();
        // Weighted by what each needs. Where nobody needs anything there is nothing to know.
        let need = sum(Load::background_need).max(1.0);
        Front {
            read: Flow { bytes: sum(|load| load.read), ops: sum(|load| load.read_ops) },
            log: Flow { bytes: sum(|load| load.log), ops: sum(|load| load.log_ops) },
            ops_per_byte: sum(|load| load.background_need() * load.ops_per_byte) / need,
        }
    }

    /// The same background with no foreground.
    #[must_use]
    pub fn idle(self) -> Front {
        Front { ops_per_byte: self.ops_per_byte, ..Front::default() }
    }

    /// Share of the device that this foreground and `background` bytes per second take, 1 = all of it. Where reads and
    /// writes have budgets of their own, the fuller one counts, and background is divided as the levels divide it.
    pub fn share(self, device: &Limits, background: f64) -> f64 {
        let share = |budget: Budget| {
            let bytes = background * budget.part;
            budget.share(budget.front.plus(Flow { bytes, ops: bytes * self.ops_per_byte }))
        };
        self.budgets(device).into_iter().flatten().map(share).fold(0.0, f64::max)
    }

    /// The parts of the bytes, and of the operations, that are read where `background` bytes per second run behind this
    /// foreground; 0 where nothing moves. The background is divided as the levels divide it.
    pub fn read_parts(self, background: f64) -> [f64; 2] {
        let flow = |bytes: f64| Flow { bytes, ops: bytes * self.ops_per_byte };
        let read = self.read.plus(flow(background * (1.0 - WRITTEN_SHARE)));
        let all = read.plus(self.log).plus(flow(background * WRITTEN_SHARE));
        [(read.bytes, all.bytes), (read.ops, all.ops)].map(|(read, all)| if all > 0.0 { read / all } else { 0.0 })
    }

    /// Background bytes per second with which `wanted` of the device is in use: the inverse of [`Front::share`]. Zero
    /// or less where the foreground alone takes as much; infinite where the device has no limit.
    pub fn background_at(self, device: &Limits, wanted: f64) -> f64 {
        let left = |budget: Budget| budget.left(wanted, self.ops_per_byte) / budget.part;
        self.budgets(device).into_iter().flatten().map(left).fold(f64::INFINITY, f64::min)
    }

    /// Bytes per second that can be written behind this foreground by work that reads nothing, such as what relieves
    /// level 0: its inputs are in memory. Not negative.
    pub fn writes_left(self, device: &Limits) -> f64 {
        // Writes draw on the last.
        let budget = self.budgets(device).into_iter().flatten().last();
        budget.map_or(f64::INFINITY, |budget| budget.left(1.0, self.ops_per_byte).max(0.0))
    }

    /// The budgets that reads and writes draw on, in this order; one where both draw on the same.
    fn budgets(self, device: &Limits) -> [Option<Budget>; 2] {
        match device {
            Limits::Shared(rates) => [Some(Budget { rates: *rates, front: self.read.plus(self.log), part: 1.0 }), None],
            Limits::Split { read, write } => [
                Some(Budget { rates: *read, front: self.read, part: 1.0 - WRITTEN_SHARE }),
                Some(Budget { rates: *write, front: self.log, part: WRITTEN_SHARE }),
            ],
        }
    }
}

/// A budget that some of the device's traffic draws on.
#[derive(Clone, Copy)]
struct Budget {
    /// What the budget has per second.
    rates: Rates,
    /// What the foreground takes of it.
    front: Flow,
    /// The part of the background's bytes that draws on it.
    part: f64,
}

impl Budget {
    /// The part of the budget that `flow` takes, by bytes or by operations, whichever is more.
    fn share(&self, flow: Flow) -> f64 {
        let of = |amount: f64, rate: u64| if rate == UNLIMITED { 0.0 } else { amount / (rate.max(1) as f64) };
        of(flow.bytes, self.rates.bytes).max(of(flow.ops, self.rates.ops))
    }

    /// Bytes per second, in operations of the background's size, with which `wanted` of the budget is used.
    fn left(&self, wanted: f64, ops_per_byte: f64) -> f64 {
        let left =
            |rate: u64, taken: f64| if rate == UNLIMITED { f64::INFINITY } else { wanted * rate.max(1) as f64 - taken };
        let ops = left(self.rates.ops, self.front.ops);
        // As long as the size of operations is not known, all that can be said is whether any are left.
        let in_ops = match ops_per_byte > 0.0 {
            true => ops / ops_per_byte,
            false if ops > 0.0 => f64::INFINITY,
            false => 0.0,
        };
        left(self.rates.bytes, self.front.bytes).min(in_ops)
    }
}

impl Flow {
    fn plus(self, other: Flow) -> Flow {
        Flow { bytes: self.bytes + other.bytes, ops: self.ops + other.ops }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front(read: f64, log: f64) -> Front {
        let flow = |bytes| Flow { bytes, ops: bytes / 10.0 };
        Front { read: flow(read), log: flow(log), ops_per_byte: 0.05 }
    }

    #[test]
    fn what_is_left_for_the_background_is_the_inverse_of_the_share() {
        let rates = |bytes, ops| Rates { bytes, ops };
        let devices = [
            Limits::bytes(100),
            Limits::Shared(rates(UNLIMITED, 9)),
            Limits::Shared(rates(100, 6)),
            Limits::Split { read: rates(200, 100), write: rates(100, 100) },
            Limits::Split { read: rates(40, 100), write: rates(100, 100) },
            Limits::Split { read: rates(40, 2), write: rates(100, 100) },
            Limits::Split { read: Rates::UNLIMITED, write: rates(100, 5) },
        ];
        for device in devices {
            for wanted in [0.75, 1.0] {
                let background = front(3.0, 5.0).background_at(&device, wanted);
                let share = front(3.0, 5.0).share(&device, background);
                assert!(background > 0.0 && (share - wanted).abs() < 1e-9, "{device:?}: {background}, {share}");
            }
        }
        assert!(front(1.0, 1.0).background_at(&Limits::UNLIMITED, 0.5).is_infinite());
    }

    #[test]
    fn what_is_read_is_the_reads_and_a_part_of_the_background() {
        // 20 and 210 bytes of 20 + 30 + 460, in 2 and 10.5 operations of 2 + 3 + 23.
        let [bytes, ops] = front(20.0, 30.0).read_parts(460.0);
        assert!((bytes - 230.0 / 510.0).abs() < 1e-9 && (ops - 12.5 / 28.0).abs() < 1e-9, "{bytes}, {ops}");
        assert_eq!(Front::default().read_parts(0.0), [0.0, 0.0]);
    }

    #[test]
    fn small_reads_fill_a_device_by_their_number() {
        // 8 KiB each on a network disk of 3,000 operations and 125 MB a second: 19 % by bytes.
        let device = Limits::Shared(Rates { bytes: 125_000_000, ops: 3000 });
        let reads = Load { read: 2900.0 * 8192.0, read_ops: 2900.0, ..Load::default() };
        let front = Front::of(&[reads]);
        assert!((front.share(&device, 0.0) - 2900.0 / 3000.0).abs() < 1e-9);
        let writes = Load { ingest: 1e6, amplification: 10.0, ops_per_byte: 1.0 / 65_536.0, ..Load::default() };
        let left = Front::of(&[reads, writes]).background_at(&device, 1.0);
        assert!((left - 100.0 * 65_536.0).abs() < 1.0, "{left}");
        let over = Load { read_ops: 3100.0, ..reads };
        assert!(
            Front::of(&[over]).background_at(&device, 1.0) <= 0.0 && Front::of(&[over]).writes_left(&device) == 0.0
        );
    }
}
