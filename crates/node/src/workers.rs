//! Workers: they run background jobs, and decide who gets the slots that compactions need.
//!
//! A flush may always run, one per partition (C-14), unless the number of flushes [is bounded](FlushQueue). So may a
//! drop of tables that are dead as a whole, which moves no data. Other compactions share `compaction_slots`, and
//! [`WorkerSlots`] says whose turn it is when a slot is free. Slots bound memory and CPU; the gates bound the disk.
//!
//! Under a profile that preempts, a deeper compaction that holds a slot can be told to [give way](preemption): its tree
//! parks it and gives the slot back.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use weir_admission::policy::preemption::{self, Running};
use weir_io::{Class, Clock, Nanos, Owner, Spawn};
use weir_model::engine::JobControl;

use crate::flush_queue::FlushQueue;
use crate::worker_slots::WorkerSlots;

/// How many jobs per slot may be parked after giving their slot away: this bounds what they hold in memory.
const PREEMPTED_MAX: usize = 2;

/// A partition as the workers see it.
pub(crate) trait SlotTaker: Send + Sync {
    /// The owner that its compactions are charged to.
    fn owner(&self) -> Owner;

    /// Whether it is about to have all the space that it may take, or has it.
    fn is_short_of_space(&self) -> bool;

    /// Runs the most urgent compaction that is due in `slot`, and asks for another slot if there is more to do.
    fn take_slot(self: Arc<Self>, slot: Slot);

    /// One of its slots must be given back: [`Slot::must_give_way`] says so from now on.
    fn give_way(&self);
}

/// The node's workers.
pub struct Workers {
    spawn: Arc<dyn Spawn>,
    clock: Arc<dyn Clock>,
    /// Compactions that relieve level 0 take the slots of deeper compactions.
    preempts: bool,
    flushes: Option<Arc<FlushQueue>>,
    state: Mutex<SlotUse>,
}

struct SlotUse {
    slots: WorkerSlots,
    /// The partitions that wait in `slots`.
    waiting: BTreeMap<Owner, Weak<dyn SlotTaker>>,
    /// The job that runs in each slot.
    running: BTreeMap<u64, Job>,
    /// Jobs that gave their slots to level 0 and are parked.
    preempted: usize,
    next_slot: u64,
}

/// A compaction that runs in a slot.
struct Job {
    taker: Weak<dyn SlotTaker>,
    class: Class,
    control: Arc<JobControl>,
    /// The job goes on to its end.
    stays: bool,
    /// The flag of its slot.
    gives_way: Arc<AtomicBool>,
}

impl Workers {
    /// `slots` compactions may run at a time, on `spawn`. If the node preempts, compactions that relieve level 0 take
    /// the slots of deeper ones. Flushes wait in `flushes`, if at all.
    pub(crate) fn new(
        spawn: Arc<dyn Spawn>,
        clock: Arc<dyn Clock>,
        (slots, preempts): (usize, bool),
        flushes: Option<Arc<FlushQueue>>,
    ) -> Arc<Self> {
        let slots = WorkerSlots::new(slots);
        let state = SlotUse { slots, waiting: BTreeMap::new(), running: BTreeMap::new(), preempted: 0, next_slot: 0 };
        Arc::new(Self { spawn, clock, preempts, flushes, state: Mutex::new(state) })
    }

    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.spawn.spawn(Box::pin(future));
    }

    /// Compactions under way, and trees that wait for a slot.
    pub fn compactions(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.slots.running(), state.slots.waiting())
    }

    /// Where flushes wait for a slot; `None` if none has to wait.
    pub(crate) fn flushes(&self) -> Option<&Arc<FlushQueue>> {
        self.flushes.as_ref()
    }

    fn slot(self: &Arc<Self>, owner: Owner, is_spare: bool) -> Slot {
        let number = {
            let mut state = self.state.lock();
            state.next_slot += 1;
            state.next_slot
        };
        let (since, gives_way) = (self.clock.now(), Arc::default());
        Slot { workers: Arc::clone(self), tenant: owner.tenant, since, is_spare, number, gives_way }
    }

    /// A slot, if one is free and it is the turn of `owner`.
    pub(crate) fn try_take(self: &Arc<Self>, owner: Owner) -> Option<Slot> {
        let mut state = self.state.lock();
        let taken = state.slots.try_take(owner);
        if taken {
            state.waiting.remove(&owner);
        }
        drop(state);
        taken.then(|| self.slot(owner, false))
    }

    /// `taker` waits for a slot, for a compaction of `class`.
    pub(crate) fn wait(&self, taker: Arc<dyn SlotTaker>, class: Class) {
        let owner = taker.owner();
        let mut state = self.state.lock();
        state.slots.wait(owner, class);
        state.slots.set_short(owner, taker.is_short_of_space());
        state.waiting.insert(owner, Arc::downgrade(&taker));
    }

    /// `owner` wants no slot any more.
    pub(crate) fn leave(&self, owner: Owner) {
        let mut state = self.state.lock();
        state.slots.leave(owner);
        state.waiting.remove(&owner);
    }

    /// Gives free slots to waiting partitions, as long as there are both.
    pub(crate) fn dispatch(self: &Arc<Self>) {
        loop {
            let mut state = self.state.lock();
            let next = state.slots.next().map(|owner| (owner, false));
            let Some((owner, is_spare)) = next.or_else(|| Some((state.slots.next_spare()?, true))) else { break };
            let taker = state.waiting.remove(&owner);
            drop(state);
            let slot = self.slot(owner, is_spare);
            if let Some(taker) = taker.and_then(|taker| taker.upgrade()) {
                taker.take_slot(slot);
            }
        }
        if self.preempts {
            self.preempt();
        }
    }

    /// Tells deeper compactions to give way if compactions that would relieve level 0 wait and no slot is free for
    /// them.
    fn preempt(&self) {
        let takers: Vec<Weak<dyn SlotTaker>> = {
            let state = self.state.lock();
            let running = state.running.iter().map(|(&number, job)| Running {
                number,
                class: job.class,
                progress: job.control.progress(),
                gives_way: job.gives_way.load(Ordering::Relaxed),
                stays: job.stays,
            });
            let running: Vec<Running> = running.collect();
            let left = (PREEMPTED_MAX * state.slots.capacity()).saturating_sub(state.preempted);
            let victims = preemption::to_give_way(state.slots.waiting_for_level_0().min(left), &running);
            let victims = victims.iter().filter_map(|number| state.running.get(number));
            let told = victims.map(|job| {
                job.gives_way.store(true, Ordering::Relaxed);
                Weak::clone(&job.taker)
            });
            told.collect()
        };
        takers.iter().filter_map(Weak::upgrade).for_each(|taker| taker.give_way());
    }
}

/// A compaction slot, held while a job runs. Whoever gives a slot back must call [`Workers::dispatch`].
pub(crate) struct Slot {
    workers: Arc<Workers>,
    tenant: u32,
    since: Nanos,
    is_spare: bool,
    number: u64,
    gives_way: Arc<AtomicBool>,
}

impl Slot {
    /// `taker` runs a compaction of `class` in the slot; the job `stays` if it goes on to its end. Only jobs that are
    /// announced here can be preempted. A spare slot is not taken for anybody else.
    pub(crate) fn runs(&self, taker: Weak<dyn SlotTaker>, class: Class, control: &Arc<JobControl>, stays: bool) {
        if self.workers.preempts && !self.is_spare {
            let (control, gives_way) = (Arc::clone(control), Arc::clone(&self.gives_way));
            let job = Job { taker, class, control, stays, gives_way };
            self.workers.state.lock().running.insert(self.number, job);
            // Somebody may have waited for it since the slot was given.
            self.workers.preempt();
        }
    }

    /// Counts the job in the slot as preempted, if the slot must give way.
    pub(crate) fn preempted(&self) -> Option<Preempted> {
        self.must_give_way().then(|| {
            self.workers.state.lock().preempted += 1;
            Preempted(Arc::clone(&self.workers))
        })
    }

    /// Whether the slot must be given back as soon as the job in it can be parked.
    pub(crate) fn must_give_way(&self) -> bool {
        self.gives_way.load(Ordering::Relaxed)
    }
}

/// A job that gave its slot to level 0 is parked, until dropped.
pub(crate) struct Preempted(Arc<Workers>);

impl Drop for Preempted {
    fn drop(&mut self) {
        self.0.state.lock().preempted -= 1;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let nanos = self.workers.clock.now().saturating_sub(self.since);
        let mut state = self.workers.state.lock();
        // Dropped outside the lock: it may be the last holder of a job.
        let job = state.running.remove(&self.number);
        if self.is_spare {
            state.slots.give_back_spare();
        } else {
            state.slots.give_back(self.tenant, nanos);
        }
        drop((state, job));
    }
}
