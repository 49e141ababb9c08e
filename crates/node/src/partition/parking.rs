//! Parking: a running compaction is no longer polled (U-5) if its tree's scope does not admit it any more, or if its
//! slot is needed to relieve level 0 (SI-8).
//!
//! 1. A parked job keeps its claims, its open output and what it has read ahead, but gives its slot back, and uses
//!    neither thread nor tokens. What it keeps is bounded: two windows of `io_bytes` for each source, four for the
//!    output, eight bytes a key for the output's filter.
//! 2. It goes on to its end instead if a [policy](weir_admission::policy::parking) finds it nearly done, or if it is
//!    committing (U-26).
//! 3. When the scope admits it (again), it waits for a slot, and goes before new jobs of this tree, unless those
//!    relieve level 0.
//! 4. A parked job may be in the way of something more urgent (`Jobs::parked_in_the_way`): level 0, which wants to go
//!    down (U-6). If the scope admits the job, it is finished, and waits for its slot as level 0 would. Otherwise the
//!    policy says whether it is finished or *released*: cancelled, its claims with it. It is also released if it is out
//!    of scope, and not to be finished, a minute after it was parked, or after each further minute. (Counting from when
//!    it was last in scope would keep its claims for ever where the scope changes often.) The memory of parked jobs is
//!    bounded by the slots: the jobs that ran when scopes became narrower, and two for each slot that gave way to level
//!    0.
//!
//! U-6 would commit what a released job has finished up to some key, and clip the inputs that straddle that key. That
//! needs a bound on every table, in the manifest and in every read, to save half a job at most. Instead, the work that
//! is thrown away is counted, so that one can see whether this would be worth it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use weir_admission::policy::parking::{InTheWay, PARKED_MAX, in_the_way, must_park};
use weir_io::{Class, Result, sleep_until};
use weir_model::engine::{Job, JobControl, JobFacts, JobReport, Scope};

use super::Partition;
use crate::metrics::Counters;
use crate::workers::{Slot, SlotTaker};

/// The parked jobs of a partition.
#[derive(Default)]
pub(crate) struct Parking(Mutex<Vec<Parked>>);

struct Parked {
    facts: JobFacts,
    control: Arc<JobControl>,
    /// It goes on whatever the scope is, once there is a slot.
    must_finish: bool,
    verdict: Option<Verdict>,
}

impl Parked {
    fn may_go_on(&self, scope: Scope) -> bool {
        self.verdict.is_none() && (self.must_finish || scope.admits(&self.facts))
    }
}

enum Verdict {
    GoOn { slot: Slot, to_the_end: bool },
    Release,
}

/// How a job ended.
pub(super) enum Ended {
    /// By itself.
    Done(Result<JobReport>),
    /// The partition is being closed: cancelled.
    Closed,
    /// Released: its inputs may be picked again.
    Released,
}

enum Pause {
    Ended(Result<JobReport>),
    Closing,
    Parked,
}

impl Parking {
    fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    fn find(&self, control: &Arc<JobControl>, then: impl FnOnce(&mut Parked)) {
        if let Some(parked) = self.0.lock().iter_mut().find(|parked| Arc::ptr_eq(&parked.control, control)) {
            then(parked);
        }
    }
}

/// An entry among the parked jobs; dropping it removes the entry.
struct ParkedEntry<'a> {
    partition: &'a Partition,
    control: &'a Arc<JobControl>,
}

impl Drop for ParkedEntry<'_> {
    fn drop(&mut self) {
        self.control.set_parked(false);
        let mut parking = self.partition.parking.0.lock();
        let index = parking.iter().position(|parked| Arc::ptr_eq(&parked.control, self.control));
        let gone = index.map(|index| parking.remove(index));
        // Outside the lock: it may hold a slot.
        drop((parking, gone));
    }
}

impl Partition {
    /// Runs `job`, parking it where the module says so; gives its slot back at its end. When the partition is closed,
    /// the job is cancelled at its next wait, unless it has begun to commit.
    pub(super) async fn run_or_park(self: &Arc<Self>, job: Job, slot: &mut Option<Slot>) -> Ended {
        let (facts, control) = (job.facts(), job.control());
        let mut run = pin!(job.run());
        let mut may_be_parked = true;
        loop {
            if let Some(slot) = slot {
                slot.runs(Arc::downgrade(self) as Weak<dyn SlotTaker>, facts.class, &control, !may_be_parked);
            }
            let gives_way = || slot.as_ref().is_some_and(Slot::must_give_way);
            match self.advance(run.as_mut(), &facts, &control, may_be_parked, gives_way).await {
                Pause::Ended(outcome) => return Ended::Done(outcome),
                Pause::Closing => return Ended::Closed,
                Pause::Parked => {}
            }
            match self.park(facts, &control, slot.take()).await {
                None => return Ended::Closed,
                Some(Verdict::GoOn { slot: given, to_the_end }) => {
                    *slot = Some(given);
                    may_be_parked = !to_the_end;
                }
                Some(Verdict::Release) => {
                    Counters::add(&self.counters.jobs_released, 1);
                    Counters::add(&self.counters.bytes_thrown_away, control.bytes_written());
                    tracing::debug!(
                        owner = ?self.owner,
                        ?facts,
                        bytes = control.bytes_written(),
                        "a parked compaction was cancelled"
                    );
                    return Ended::Released;
                }
            }
        }
    }

    /// Polls `run` until it ends, the partition is being closed, or the job must be parked: by its scope, or because
    /// its slot `must_give_way`.
    ///
    /// While writes are stopped for want of a write buffer, a compaction is not polled either, but keeps its slot. The
    /// flush that makes room then has the disk and the processor to itself (SI-6). On a disk a hundred times too slow,
    /// that is the difference between seconds and half a minute.
    async fn advance(
        &self,
        mut run: Pin<&mut (impl Future<Output = Result<JobReport>> + Send)>,
        facts: &JobFacts,
        control: &JobControl,
        may_be_parked: bool,
        must_give_way: impl Fn() -> bool + Send + Sync,
    ) -> Pause {
        let may_run = || self.engine.knobs().scope.admits(facts) && !must_give_way();
        let must_be_parked = || may_be_parked && must_park(may_run(), control.progress());
        let mut closing = pin!(self.closing_begun());
        let mut parked = pin!(self.progress.wait(|| must_be_parked().then_some(())));
        let gives_way = facts.level.is_some();
        let mut yielding = None;
        poll_fn(|cx| {
            if gives_way && !control.is_committing() {
                if parked.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Pause::Parked);
                }
                if yielding.is_some() || self.is_flush_urgent() {
                    let wait = || Box::pin(self.progress.wait(|| (!self.is_flush_urgent()).then_some(())));
                    if yielding.get_or_insert_with(wait).as_mut().poll(cx).is_pending() {
                        return closing.as_mut().poll(cx).map(|()| Pause::Closing);
                    }
                    yielding = None;
                }
            }
            match run.as_mut().poll(cx) {
                Poll::Ready(outcome) => Poll::Ready(Pause::Ended(outcome)),
                Poll::Pending if control.is_committing() => Poll::Pending,
                Poll::Pending => closing.as_mut().poll(cx).map(|()| Pause::Closing),
            }
        })
        .await
    }

    /// Waits for the verdict on a job that is not polled meanwhile; `None` if the partition is being closed.
    async fn park(self: &Arc<Self>, facts: JobFacts, control: &Arc<JobControl>, slot: Option<Slot>) -> Option<Verdict> {
        Counters::add(&self.counters.jobs_parked, 1);
        control.set_parked(true);
        let parked = Parked { facts, control: Arc::clone(control), must_finish: false, verdict: None };
        self.parking.0.lock().push(parked);
        let _entry = ParkedEntry { partition: self, control };
        let _preempted = slot.as_ref().and_then(Slot::preempted);
        // Somebody else may need the slot; and this tree may have something to do that the scope admits.
        drop(slot);
        self.kick();
        let look = || {
            let mut verdict = None;
            self.parking.find(control, |parked| verdict = parked.verdict.take());
            match self.is_closing() {
                true => Some(None),
                false => verdict.map(Some),
            }
        };
        let mut decided = pin!(self.progress.wait(look));
        let goes_on = || {
            let (mut goes_on, scope) = (false, self.engine.knobs().scope);
            self.parking.find(control, |parked| goes_on = parked.may_go_on(scope));
            goes_on
        };
        loop {
            let mut too_long = pin!(sleep_until(&self.clock, self.clock.now() + PARKED_MAX));
            let mut poll = |cx: &mut Context<'_>| match decided.as_mut().poll(cx) {
                Poll::Ready(verdict) => Poll::Ready(Some(verdict)),
                Poll::Pending => too_long.as_mut().poll(cx).map(|()| None),
            };
            // The verdict may have come with the last look.
            match poll_fn(&mut poll).await.or_else(look) {
                Some(verdict) => return verdict,
                // All that the job waits for is a slot.
                None if goes_on() => {}
                None => return Some(Verdict::Release),
            }
        }
    }

    /// The class of slot that a parked job waits for if it may go on as soon as it has one: its own class, or level 0's
    /// where it bars level 0 from going down.
    pub(super) fn resumable(&self) -> Option<Class> {
        let scope = self.engine.knobs().scope;
        let class = |job: &Parked| if job.must_finish { Class::CompactL0 } else { job.facts.class };
        self.parking.0.lock().iter().filter(|job| job.may_go_on(scope)).map(class).min()
    }

    /// Gives `slot` to a parked job that may go on; gives it back if there is none.
    pub(super) fn resume_in(&self, slot: Slot) -> Option<Slot> {
        let scope = self.engine.knobs().scope;
        let mut parking = self.parking.0.lock();
        let resumable = parking.iter_mut().filter(|job| job.may_go_on(scope));
        let Some(job) = resumable.min_by_key(|job| !job.must_finish) else { return Some(slot) };
        job.verdict = Some(Verdict::GoOn { slot, to_the_end: job.must_finish });
        drop(parking);
        self.progress.notify();
        None
    }

    /// Decides about the parked job that is in the way of what is due, if there is one.
    pub(super) fn clear_the_way(&self) {
        if self.parking.is_empty() {
            return;
        }
        let Some(control) = self.engine.parked_in_the_way() else { return };
        let scope = self.engine.knobs().scope;
        self.parking.find(&control, |parked| match in_the_way(scope.admits(&parked.facts), control.progress()) {
            InTheWay::Finish => parked.must_finish = true,
            InTheWay::Release if parked.verdict.is_none() => parked.verdict = Some(Verdict::Release),
            InTheWay::Release => {}
        });
        self.progress.notify();
    }
}

#[cfg(test)]
mod tests {
    use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};
    use weir_io::{Fs, Nanos};
    use weir_model::engine::TreeKnobs;

    use super::*;
    use crate::{Machine, Node, NodeConfig};

    const SEC: Nanos = 1_000_000_000;

    #[test]
    fn what_is_to_be_finished_waits_for_a_slot_longer_than_a_minute() {
        let sim = Sim::new(1);
        let fs = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
        let machine = Machine { fs: fs as Arc<dyn Fs>, clock: sim.clock(), spawn: sim.spawner(), salt: 7 };
        // Others have all the slots, for ever.
        let config = NodeConfig { compaction_slots: 0, ..NodeConfig::new("/weir") };
        let node = sim.block_on(Node::open(&config, machine)).expect("the node opens");
        let partition = sim.block_on(node.default_partition()).expect("opens");
        let mut batch = weir_model::Batch::new();
        batch.put(b"key", b"value");
        sim.block_on(partition.write(&batch)).map(drop).expect("no faults");
        partition.engine.seal();
        let job = partition.engine.next_flush().expect("one memtable is full");
        let control = job.control();
        // A job that the scope admits waits for a slot as long as it takes.
        let facts = JobFacts { level: Some(1), output_level: 2, ..job.facts() };
        let knobs = partition.engine.knobs();
        partition.set_tree_knobs(TreeKnobs { scope: Scope::L0ToL1, ..knobs });
        let verdicts = Arc::new(Mutex::new(Vec::new()));
        for must_finish in [false, true] {
            let (parked, handle, seen) = (Arc::clone(&partition), Arc::clone(&control), Arc::clone(&verdicts));
            sim.spawn(async move {
                let verdict = parked.park(facts, &handle, None).await;
                seen.lock().push(matches!(verdict, Some(Verdict::Release)));
            });
            sim.run_until(sim.now() + SEC);
            partition.parking.find(&control, |parked| parked.must_finish = must_finish);
            sim.run_until(sim.now() + 58 * SEC);
            assert_eq!(verdicts.lock().len(), 0);
            sim.run_until(sim.now() + 60 * SEC);
            assert_eq!(std::mem::take(&mut *verdicts.lock()), if must_finish { vec![] } else { vec![true] });
        }
    }
}
