//! Workers: where background jobs run, and who gets the slots that compactions need.
//!
//! A flush may always run, one per partition (C-14), and so may dropping what is dead as a whole, which moves no data;
//! other compactions share `compaction_slots`, and [`WorkerSlots`] says whose turn it is when one is free. Slots bound
//! memory and CPU; the gates bound the disk.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use weir_io::{Class, Clock, Nanos, Owner, Spawn};

use crate::worker_slots::WorkerSlots;

/// A partition as the workers see it.
pub(crate) trait SlotTaker: Send + Sync {
    /// Whose its compactions are.
    fn owner(&self) -> Owner;

    /// It is about to have all the space that it may take, or has it.
    fn is_short_of_space(&self) -> bool;

    /// Does the most urgent compaction that is due in `slot`, and asks for another slot if there is more to do.
    fn take_slot(self: Arc<Self>, slot: Slot);
}

/// The node's workers.
pub struct Workers {
    spawn: Arc<dyn Spawn>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    slots: WorkerSlots,
    /// Those that wait in `slots`.
    waiting: BTreeMap<Owner, Weak<dyn SlotTaker>>,
}

impl Workers {
    /// `compaction_slots` compactions at a time, on `spawn`.
    pub fn new(spawn: Arc<dyn Spawn>, clock: Arc<dyn Clock>, compaction_slots: usize) -> Arc<Self> {
        let state = State { slots: WorkerSlots::new(compaction_slots), waiting: BTreeMap::new() };
        Arc::new(Self { spawn, clock, state: Mutex::new(state) })
    }

    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.spawn.spawn(Box::pin(future));
    }

    /// Compactions under way, and trees that wait for a slot.
    pub fn compactions(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.slots.running(), state.slots.waiting())
    }

    fn slot(self: &Arc<Self>, owner: Owner, is_spare: bool) -> Slot {
        Slot { workers: Arc::clone(self), tenant: owner.tenant, since: self.clock.now(), is_spare }
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

    /// Gives free slots to those that wait, as long as there are both.
    pub(crate) fn dispatch(self: &Arc<Self>) {
        loop {
            let mut state = self.state.lock();
            let next = state.slots.next().map(|owner| (owner, false));
            let Some((owner, is_spare)) = next.or_else(|| Some((state.slots.next_spare()?, true))) else { return };
            let taker = state.waiting.remove(&owner);
            drop(state);
            let slot = self.slot(owner, is_spare);
            if let Some(taker) = taker.and_then(|taker| taker.upgrade()) {
                taker.take_slot(slot);
            }
        }
    }
}

/// A compaction slot, held while a job runs. Whoever gives one back must [`Workers::dispatch`].
pub(crate) struct Slot {
    workers: Arc<Workers>,
    tenant: u32,
    since: Nanos,
    is_spare: bool,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let nanos = self.workers.clock.now().saturating_sub(self.since);
        let mut state = self.workers.state.lock();
        if self.is_spare {
            state.slots.give_back_spare();
        } else {
            state.slots.give_back(self.tenant, nanos);
        }
    }
}
