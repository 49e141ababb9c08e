//! SILK's bandwidth for flushes and compactions: what clients leave, measured every 10 ms (SI-1 to SI-5).
//!
//! `I = max(T - C - e, minimum)`
//!
//! T is what the device can do, C is what reads and logs take of it, and e is a small buffer for what they take more
//! before the next look. The paper has one store, which owns T. Here all partitions that have something to flush or to
//! compact share I by their weights, so that a partition's T is what it takes itself and its share of what nobody takes
//! (C-4). I changes only by steps that are worth it.
//!
//! Our decision: the constants are shares of T, not megabytes a second (house rule 6). They are the paper's on its
//! device of 200 MB/s.

use std::collections::BTreeMap;

use weir_io::{Nanos, Owner};

use super::{BandwidthPolicy, BandwidthSettings, NODE_BURST, front};
use crate::bucket::UNLIMITED;
use crate::limits::{Direction, Limits, Rates};
use crate::policy::knobs::{NodeKnobs, PartitionKnobs};
use crate::policy::meter::Load;
use crate::policy::sample::{PartitionSample, Sample};

/// Time between two looks at the clients (SI-2).
pub const SILK_PERIOD: Nanos = 10_000_000;
/// e: 5 of 200 MB/s (SI-4, U-12).
const BUFFER: f64 = 0.025;
/// The minimum for flushes and level 0 to level 1: 50 of 200 MB/s (SI-5).
const MINIMUM: f64 = 0.25;
/// A new limit that differs by less than this is not set: 10 of 200 MB/s (SI-3).
const STEP: f64 = 0.05;

/// SILK's bandwidth policy.
pub struct Silk {
    settings: BandwidthSettings,
    /// Whether what relieves level 0 goes before deeper compactions (SI-6).
    l0_first: bool,
    /// The limits that partitions have now.
    given: BTreeMap<Owner, Limits>,
}

impl Silk {
    /// The policy with or without an order among compactions.
    pub fn new(settings: BandwidthSettings, l0_first: bool) -> Self {
        Self { settings, l0_first, given: BTreeMap::new() }
    }

    fn knobs(&self, partition: &PartitionSample, background: Limits) -> PartitionKnobs {
        let weight = front(partition, &self.settings).weight;
        PartitionKnobs { background, weight, l0_first: self.l0_first, ..PartitionKnobs::open(partition) }
    }

    /// What each partition weighs: what its tenant bought, or as much as the others on average where the tenant has no
    /// limits.
    fn weights(&self, sample: &Sample) -> Vec<f64> {
        let sold = |partition| front(partition, &self.settings).weight.map(|weight| weight as f64);
        let sold: Vec<Option<f64>> = sample.partitions.iter().map(sold).collect();
        let known: Vec<f64> = sold.iter().flatten().copied().collect();
        let usual = if known.is_empty() { 1.0 } else { known.iter().sum::<f64>() / known.len() as f64 };
        sold.into_iter().map(|weight| weight.unwrap_or(usual)).collect()
    }
}

/// Whether the partition has something to flush or to compact.
fn is_busy(partition: &PartitionSample) -> bool {
    partition.jobs.running > 0 || partition.tree.sealed > 0
}

/// What clients leave of `rates` while they take `taken` bytes a second, and no less than the minimum.
fn left(rates: Rates, taken: f64) -> f64 {
    let all = rates.bytes as f64;
    (all - taken - BUFFER * all).max(MINIMUM * all)
}

/// The limit of a partition that has `share` of what is left of `device`, moved in steps from `before`.
fn step(device: &Limits, taken: [f64; 2], share: f64, before: Option<&Limits>) -> Limits {
    let [read, written] = taken;
    let of = |direction: Direction, taken: f64| {
        let all = device.rates(direction);
        if all.bytes == UNLIMITED {
            return all;
        }
        let wanted = left(all, taken) * share;
        let stands = before.map(|before| before.rates(direction)).filter(|before| before.bytes != UNLIMITED);
        let is_near = |before: &Rates| (before.bytes as f64 - wanted).abs() < STEP * all.bytes as f64 * share;
        stands.filter(is_near).unwrap_or_else(|| Rates::bytes((wanted as u64).max(1)))
    };
    match device {
        Limits::Shared(_) => Limits::Shared(of(Direction::Write, read + written)),
        Limits::Split { .. } => Limits::Split { read: of(Direction::Read, read), write: of(Direction::Write, written) },
    }
}

impl BandwidthPolicy for Silk {
    fn period(&self) -> Nanos {
        SILK_PERIOD
    }

    fn node(&self, _: Limits) -> NodeKnobs {
        NodeKnobs { limits: Limits::UNLIMITED, burst: NODE_BURST }
    }

    fn opening(&self, partition: &PartitionSample) -> PartitionKnobs {
        self.knobs(partition, self.given.get(&partition.owner).copied().unwrap_or(Limits::UNLIMITED))
    }

    fn decide(&mut self, sample: &Sample, loads: &[Load]) -> Vec<PartitionKnobs> {
        let taken = [loads.iter().map(|load| load.read).sum(), loads.iter().map(|load| load.log).sum()];
        let weighed = || sample.partitions.iter().zip(self.weights(sample));
        let busy: f64 = weighed().filter(|(partition, _)| is_busy(partition)).map(|(_, weight)| weight).sum();
        let limits = |(partition, weight): (&PartitionSample, f64)| {
            let before = self.given.get(&partition.owner);
            // A partition that has nothing to do yet may have something before the next look.
            let share = weight / if is_busy(partition) { busy } else { busy + weight };
            (partition.owner, step(&sample.device, taken, share, before))
        };
        let given = weighed().map(limits).collect();
        self.given = given;
        sample.partitions.iter().map(|partition| self.opening(partition)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Capacity;
    use crate::policy::sample::{JobFacts, MemoryFacts};

    const MB: u64 = 1_000_000;

    /// The background limits of partitions that are `busy` or not, while clients read `read` and write `log` MB/s in
    /// all.
    fn decide(silk: &mut Silk, busy: &[bool], device: Limits, read: u64, log: u64) -> Vec<Limits> {
        let partition = |(number, &busy): (usize, &bool)| PartitionSample {
            owner: Owner { tenant: number as u32, partition: number as u32 },
            jobs: JobFacts { running: u64::from(busy), ..JobFacts::default() },
            ..PartitionSample::default()
        };
        let partitions: Vec<PartitionSample> = busy.iter().enumerate().map(partition).collect();
        let mut loads = vec![Load::default(); partitions.len()];
        loads[0] = Load { read: (read * MB) as f64, log: (log * MB) as f64, ..Load::default() };
        let sample = Sample { now: 0, device, memory: MemoryFacts::default(), partitions };
        silk.decide(&sample, &loads).iter().map(|knobs| knobs.background).collect()
    }

    fn silk() -> Silk {
        Silk::new(BandwidthSettings { read_amplification: 4, background: UNLIMITED }, true)
    }

    #[test]
    fn background_has_what_clients_leave_and_never_less_than_the_minimum() {
        let mut silk = silk();
        let mut at = |read, log| match decide(&mut silk, &[true], Limits::bytes(200 * MB), read, log)[..] {
            [Limits::Shared(rates)] => rates.bytes / MB,
            _ => panic!("one partition, one budget"),
        };
        assert_eq!(at(0, 0), 195, "SI-4: 5 MB/s are left free");
        assert_eq!(at(100, 20), 75);
        assert_eq!([at(170, 20), at(500, 0)], [50, 50], "SI-5");
    }

    #[test]
    fn a_change_of_less_than_a_twentieth_is_not_made() {
        // SI-3: 9 MB/s are not worth it, 10 are.
        let mut silk = silk();
        let mut at = |read| decide(&mut silk, &[true], Limits::bytes(200 * MB), read, 0)[0];
        let first = at(50);
        assert_eq!((at(59), at(41)), (first, first));
        assert_eq!(at(60), Limits::bytes(135 * MB));
    }

    #[test]
    fn who_has_something_to_do_shares_what_is_left() {
        let mut silk = silk();
        let said = decide(&mut silk, &[true, false, true], Limits::bytes(200 * MB), 35, 0);
        assert_eq!(
            said,
            [80, 160 / 3, 80].map(|mega| if mega == 53 { Limits::bytes(53_333_333) } else { Limits::bytes(mega * MB) })
        );
        let said = decide(&mut silk, &[false, false, true], Limits::bytes(200 * MB), 35, 0);
        assert_eq!(said[2], Limits::bytes(160 * MB), "the others have ended");
    }

    #[test]
    fn who_bought_nothing_in_particular_has_as_much_as_the_others() {
        let of = |number: u32, wcu| PartitionSample {
            owner: Owner { tenant: number, partition: number },
            capacity: Capacity { rcu: wcu, wcu },
            partitions: 1,
            jobs: JobFacts { running: 1, ..JobFacts::default() },
            ..PartitionSample::default()
        };
        let partitions = vec![of(1, 3_000), of(2, 0), of(3, 1_000)];
        let loads = vec![Load::default(); 3];
        let sample = Sample { now: 0, device: Limits::bytes(200 * MB), memory: MemoryFacts::default(), partitions };
        let said: Vec<u64> = silk()
            .decide(&sample, &loads)
            .iter()
            .map(|knobs| knobs.background.rates(Direction::Write).bytes / MB)
            .collect();
        assert_eq!(said, [97, 65, 32], "195 MB/s by 3, 2 and 1");
    }

    #[test]
    fn reads_and_writes_have_budgets_of_their_own_where_the_device_has() {
        let rates = |mega: u64| Rates::bytes(mega * MB);
        let device = Limits::Split { read: rates(100), write: rates(200) };
        let said = decide(&mut silk(), &[true], device, 50, 100);
        assert_eq!(said, [Limits::Split { read: Rates::bytes(47_500_000), write: rates(95) }]);
        assert_eq!(decide(&mut silk(), &[true], Limits::UNLIMITED, 50, 100), [Limits::UNLIMITED]);
    }
}
