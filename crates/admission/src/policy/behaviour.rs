//! How policies themselves behave: how often they change their minds, and how much of the device stays unused while
//! work waits.

use weir_io::{Nanos, Owner};

use super::knobs::{Knobs, Stage};
use super::sample::Sample;
use crate::ledger::Booked;
use crate::limits::{Direction, Limits};

/// Sums since the node was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behaviour {
    /// Changes of stage over all partitions, by the stage entered, in the order of [`Stage::ALL`]: oscillation.
    pub transitions: [u64; Stage::ALL.len()],
    /// Time during which work waited, in nanoseconds.
    pub backlogged: Nanos,
    /// Device time that was used while work waited, in nanoseconds.
    pub used: Nanos,
    /// The part of `backlogged` during which less than 95 % of the device was used, in nanoseconds: under-utilisation.
    pub underused: Nanos,
}

/// Observes what policies decide, and adds it up.
#[derive(Debug, Default)]
pub struct BehaviourObserver {
    behaviour: Behaviour,
    /// Stages at the last tick, by owner.
    stages: Vec<(Owner, Stage)>,
    /// Time and bookings of the last tick, if work waited.
    backlog: Option<(Nanos, Booked)>,
}

impl BehaviourObserver {
    /// Takes in a tick: what was seen and decided. `backlog` is what all owners together had moved by then, if work
    /// waited for the device at that moment. Between two ticks at which work waits, it is taken to have waited all the
    /// time.
    pub fn observe(&mut self, sample: &Sample, knobs: &Knobs, backlog: Option<Booked>) {
        for knobs in &knobs.partitions {
            let before = self.stages.binary_search_by_key(&knobs.owner, |(owner, _)| *owner);
            let before = before.ok().and_then(|index| self.stages.get(index));
            if before.is_some_and(|(_, before)| *before != knobs.stage) {
                self.behaviour.transitions[knobs.stage as usize] += 1;
            }
        }
        self.stages.clear();
        self.stages.extend(knobs.partitions.iter().map(|knobs| (knobs.owner, knobs.stage)));
        let backlog = backlog.map(|booked| (sample.now, booked));
        let before = std::mem::replace(&mut self.backlog, backlog);
        let Some(((since, earlier), (now, booked))) = before.zip(backlog) else { return };
        // Nobody knows how much of an unlimited device is used.
        if !sample.device.is_unlimited() {
            let elapsed = now.saturating_sub(since);
            self.behaviour.backlogged += elapsed;
            let used = device_time(&sample.device, &booked.since(&earlier));
            self.behaviour.used += used;
            if used < elapsed / 100 * 95 {
                self.behaviour.underused += elapsed;
            }
        }
    }

    /// The sums.
    pub fn behaviour(&self) -> Behaviour {
        self.behaviour
    }
}

/// How long `device` needs for `moved`, in nanoseconds. Where reads and writes have budgets of their own, the fuller
/// one counts.
fn device_time(device: &Limits, moved: &Booked) -> Nanos {
    let [read, write] = [Direction::Read, Direction::Write].map(|direction| moved.total(direction));
    match device {
        Limits::Shared(rates) => rates.device_time(read.bytes + write.bytes, read.ops + write.ops),
        Limits::Split { read: of_reads, write: of_writes } => {
            of_reads.device_time(read.bytes, read.ops).max(of_writes.device_time(write.bytes, write.ops))
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_io::Class;

    use super::*;
    use crate::ledger::Account;
    use crate::policy::{MemoryFacts, NodeKnobs, PartitionKnobs, PartitionSample};

    const SECOND: Nanos = 1_000_000_000;

    fn owner(number: u32) -> Owner {
        Owner { tenant: number, partition: number }
    }

    fn tick(second: u64, device: Limits, stages: &[(u32, Stage)]) -> (Sample, Knobs) {
        let sample = Sample { now: second * SECOND, device, memory: MemoryFacts::default(), partitions: Vec::new() };
        let knobs = stages.iter().map(|(number, stage)| PartitionKnobs {
            owner: owner(*number),
            stage: *stage,
            ..PartitionKnobs::open(&PartitionSample::default())
        });
        (sample, Knobs { node: NodeKnobs { limits: device, burst: 0 }, floor: None, partitions: knobs.collect() })
    }

    #[test]
    fn changes_of_stage_are_counted_for_who_stays() {
        let mut observer = BehaviourObserver::default();
        let ticks: [&[(u32, Stage)]; 5] = [
            &[(1, Stage::Normal), (2, Stage::Two)],
            &[(1, Stage::One), (2, Stage::Two), (3, Stage::One)],
            &[(1, Stage::Two), (3, Stage::One)],
            &[(1, Stage::Two), (2, Stage::Normal), (3, Stage::Normal)],
            &[(1, Stage::Two), (2, Stage::Normal), (3, Stage::One)],
        ];
        for (second, stages) in ticks.into_iter().enumerate() {
            let (sample, knobs) = tick(second as u64, Limits::UNLIMITED, stages);
            observer.observe(&sample, &knobs, Some(Booked::default()));
        }
        let behaviour = observer.behaviour();
        assert_eq!(behaviour.transitions, [1, 2, 1, 0, 0], "coming and going is no change of mind");
        assert_eq!(behaviour.backlogged, 0, "an unlimited device");
    }

    #[test]
    fn what_is_not_used_counts_only_while_work_waits() {
        let mut observer = BehaviourObserver::default();
        let account = Account::default();
        // Megabytes moved in the second before, and whether work waits at its end.
        let seconds = [(0, true), (100, true), (94, true), (95, true), (10, false), (10, true), (0, true)];
        let sums = seconds.into_iter().zip(0..).map(|((mega, waits), second)| {
            account.book(Class::CompactDeep, Direction::Write, mega * 1_000_000, 1);
            let (sample, knobs) = tick(second, Limits::bytes(100_000_000), &[]);
            observer.observe(&sample, &knobs, waits.then(|| account.booked()));
            let Behaviour { backlogged, underused, .. } = observer.behaviour();
            (backlogged / SECOND, underused / SECOND)
        });
        assert_eq!(sums.collect::<Vec<_>>(), [(0, 0), (1, 0), (2, 1), (3, 1), (3, 1), (3, 1), (4, 2)]);
    }

    #[test]
    fn the_fuller_of_two_budgets_counts() {
        let rates = |mega: u64| crate::limits::Rates::bytes(mega * 1_000_000);
        let account = Account::default();
        account.book(Class::CompactDeep, Direction::Read, 20_000_000, 1);
        account.book(Class::CompactDeep, Direction::Write, 40_000_000, 1);
        let split = Limits::Split { read: rates(100), write: rates(50) };
        assert_eq!(device_time(&split, &account.booked()), SECOND * 8 / 10);
        assert_eq!(device_time(&Limits::Shared(rates(100)), &account.booked()), SECOND * 6 / 10);
    }
}
