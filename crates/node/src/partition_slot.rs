//! A partition slot: where a partition is, awake or asleep.
//!
//! ```text
//!  Asleep --a request--> Waking --opened--> Awake
//!    ^                      |                 |
//!    +----- it failed ------+              Leaving --> Asleep, or Gone
//! ```
//!
//! 1. Whoever wants the partition takes it from [`PartitionSlot::awake`]: one load. Only if it is not there does the
//!    phase matter.
//! 2. There is one wake at a time, and those who wait for it do its work. When all of them have left it goes on in the
//!    background, for a half-open partition must not be opened again.
//! 3. A partition that leaves is taken out of `awake` first and then refuses writes: a write that is too late finds it
//!    gone and asks again. Reads that have begun end on what they hold: nothing newer can have been acknowledged when
//!    they began.
//! 4. A partition that was never used has no files. Reads find it empty without making them: on a full disk they could
//!    not be made.
//!
//! Asleep, it is the few hundred bytes of this struct.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwapOption, Guard};
use futures_util::FutureExt;
use futures_util::future::Shared;
use parking_lot::Mutex;
use weir_admission::UnitLimits;
use weir_io::{BoxFuture, Error, ErrorKind, Event, Owner, Result};
use weir_model::TenantId;
use weir_model::engine::Space;

use crate::bandwidth::Reservation;
use crate::carried::carried;
use crate::engines::EngineChoice;
use crate::metrics::{Counters, PartitionMetrics, StallTimes};
use crate::partition::{Leave, Partition};
use crate::shared::NodeShared;
use crate::stall::StallCause;
use crate::tenant::DiskUse;
use crate::tick::Ticked;
use crate::witnessed::Witnessed;

/// The state of a slot, as a dashboard shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// Closed; the next request opens it.
    Asleep,
    /// Being opened.
    Waking,
    /// Open.
    Awake,
    /// On its way to sleep, or being emptied: requests wait.
    Leaving,
    /// Dropped, or the node is closed: requests are refused.
    Gone,
}

/// A sleeper is not woken for less than this part of a full table.
const ASLEEP_SHARE: u64 = 64;

type Wake = Shared<BoxFuture<Result<Arc<Partition>>>>;

enum Phase {
    Asleep,
    Waking(Wake),
    Awake,
    /// With the partition that it had, as long as that exists.
    Leaving(Weak<Partition>),
    Gone,
}

/// What somebody who wants the partition has to do.
enum Next {
    /// Waits for this wake.
    Wait(Wake),
    /// The phase is another one by now, or has to change first.
    LookAgain,
    /// There is nothing to open.
    Blank,
}

struct Status {
    /// The partition's number: it changes when the tenant is emptied.
    number: u32,
    /// The partition has files: something was once written to it, or was about to be.
    is_used: bool,
    phase: Phase,
}

/// The place of one partition on a node, whether it is asleep or awake.
pub struct PartitionSlot {
    shared: Arc<NodeShared>,
    tenant: TenantId,
    engine: EngineChoice,
    awake: ArcSwapOption<Partition>,
    status: Mutex<Status>,
    /// The phase is [`Phase::Gone`], and stays so.
    is_gone: AtomicBool,
    /// The phase has changed.
    changed: Event,
    /// Counters over all of the partition's lives.
    pub(crate) counters: Arc<Counters>,
    /// The listeners that are told what happens to its tenant's keys.
    pub(crate) witnessed: Arc<Witnessed>,
    pub(crate) reservation: Reservation,
    /// The space that it took when it was last looked at awake.
    space: Mutex<Space>,
}

impl Ticked for PartitionSlot {
    fn partition(&self) -> Option<Arc<Partition>> {
        self.awake.load_full()
    }

    fn reservation(&self) -> &Reservation {
        &self.reservation
    }

    fn stalls(&self) -> [StallTimes; StallCause::ALL.len()] {
        self.counters.stalls()
    }
}

/// The result of [`PartitionSlot::leave`].
pub(crate) struct Left {
    /// The partition's number.
    pub number: u32,
    /// The partition, where neither its tables nor its log could be written: it has the only copy of something that was
    /// acknowledged.
    pub unwritten: Option<Arc<Partition>>,
}

impl PartitionSlot {
    /// The slot of partition `number`, which has files if it `is_used`.
    pub(crate) fn new(
        shared: &Arc<NodeShared>,
        tenant: TenantId,
        (number, is_used): (u32, bool),
        engine: EngineChoice,
        reservation: Reservation,
        witnessed: &Arc<Witnessed>,
    ) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::clone(shared),
            tenant,
            engine,
            awake: ArcSwapOption::empty(),
            status: Mutex::new(Status { number, is_used, phase: Phase::Asleep }),
            is_gone: AtomicBool::new(false),
            changed: Event::default(),
            counters: Arc::default(),
            witnessed: Arc::clone(witnessed),
            reservation,
            space: Mutex::default(),
        })
    }

    /// The owner that the partition's I/O is booked to.
    pub fn owner(&self) -> Owner {
        Owner { tenant: self.tenant.0, partition: self.status.lock().number }
    }

    /// Bytes of its tables and memtables. While it sleeps: the bytes that it last had, without those that have expired
    /// since.
    pub(crate) fn disk_use(&self) -> DiskUse {
        if let Some(partition) = self.awake.load_full() {
            self.note_space(&partition, partition.engine().space());
        }
        let space = self.space.lock();
        let dead = space.dead_bytes_at(self.judged_ms());
        DiskUse { stored: space.stored_bytes, living: space.stored_bytes.saturating_sub(dead) }
    }

    /// The moment by which its rows expire, in milliseconds since 1970.
    fn judged_ms(&self) -> u64 {
        let clock = &self.shared.machine.clock;
        self.witnessed.expirations.judged_ms(clock.unix_ms(), || clock.now())
    }

    /// Notes the `space` that `partition` was seen to take, unless it has left since.
    fn note_space(&self, partition: &Arc<Partition>, space: Space) {
        let mut known = self.space.lock();
        // Under the lock: whoever takes the partition out notes its last figure after that. A figure from before must
        // not replace it, least of all where the tenant was emptied: nobody would measure again until it wakes.
        if self.has(partition) {
            *known = space;
        }
    }

    /// Whether it is worth waking the partition because so much of its data has expired while it slept: more than a
    /// third, and at least a certain size.
    pub(crate) fn sleeps_on_dead_bytes(&self) -> bool {
        if self.state() != SlotState::Asleep {
            return false;
        }
        let least = self.shared.config.tree.table_bytes / ASLEEP_SHARE;
        let space = self.space.lock();
        let expired = space.deadlines.expired_bytes(self.judged_ms());
        expired >= least.max(1) && expired.saturating_mul(3) > space.stored_bytes
    }

    /// From now on the tenant's limits are `limits`.
    pub(crate) fn alter(&self, limits: UnitLimits) {
        self.reservation.alter(limits);
        self.shared.ticker.altered(self.owner(), &self.reservation);
    }

    /// The state of the slot, for a dashboard.
    pub fn state(&self) -> SlotState {
        match self.status.lock().phase {
            Phase::Asleep => SlotState::Asleep,
            Phase::Waking(_) => SlotState::Waking,
            Phase::Awake => SlotState::Awake,
            Phase::Leaving(_) => SlotState::Leaving,
            Phase::Gone => SlotState::Gone,
        }
    }

    /// Writes that waited for flushes and compactions, over all of the partition's lives, by cause in the order of
    /// [`StallCause::ALL`].
    pub fn stalls(&self) -> [StallTimes; StallCause::ALL.len()] {
        self.counters.stalls()
    }

    /// Its metrics: counters of all its lives; tree and log while it is awake.
    pub fn metrics(&self) -> PartitionMetrics {
        match &*self.awake() {
            Some(partition) => partition.metrics(),
            None => PartitionMetrics::asleep(&self.counters),
        }
    }

    /// The partition, if it is awake. Costs a load; do not hold it for long.
    #[inline]
    pub fn awake(&self) -> Guard<Option<Arc<Partition>>> {
        self.awake.load()
    }

    /// Whether nobody can get the partition any more. A slot that was shut while its partition was open still has that,
    /// and is not gone. Every command asks for this: it costs a load as long as there is a partition to be had.
    #[inline]
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire) && self.awake.load().is_none()
    }

    /// From now on the slot is gone. Gives the phase that it had.
    fn go(&self, status: &mut Status) -> Phase {
        self.is_gone.store(true, Ordering::Release);
        std::mem::replace(&mut status.phase, Phase::Gone)
    }

    /// Whether the slot has `partition`, and the partition is not on its way out.
    pub fn has(&self, partition: &Arc<Partition>) -> bool {
        self.awake.load().as_ref().is_some_and(|awake| Arc::ptr_eq(awake, partition))
    }

    /// The partition: at once if it is awake, otherwise when it has been woken. A node does a few wakes at a time; the
    /// others wait in an order that is fair among tenants.
    ///
    /// # Errors
    /// It cannot be opened (which the next call tries again); `Closed` if it was dropped or the node is closed.
    pub async fn partition(self: &Arc<Self>) -> Result<Arc<Partition>> {
        loop {
            if let Some(partition) = self.awake.load_full() {
                return Ok(partition);
            }
            match self.wake(|_| false)? {
                Next::Wait(wake) => return carried(&self.shared.machine.spawn, wake).await,
                Next::LookAgain | Next::Blank => self.left().await,
            }
        }
    }

    /// The partition, to be read from: as [`PartitionSlot::partition`], but `None` if nothing was ever written to it.
    /// Then nothing is made, which would need space, and nothing is waited for.
    ///
    /// # Errors
    /// As for [`PartitionSlot::partition`].
    pub async fn partition_to_read(self: &Arc<Self>) -> Result<Option<Arc<Partition>>> {
        loop {
            if let Some(partition) = self.awake.load_full() {
                return Ok(Some(partition));
            }
            match self.wake(|status| !status.is_used)? {
                Next::Wait(wake) => return carried(&self.shared.machine.spawn, wake).await.map(Some),
                Next::LookAgain => self.left().await,
                Next::Blank => return Ok(None),
            }
        }
    }

    /// Waits while the partition is on its way out, which ends soon.
    async fn left(&self) {
        let leaving = match &self.status.lock().phase {
            Phase::Leaving(partition) => partition.upgrade(),
            _ => None,
        };
        if let Some(partition) = leaving {
            partition.hurry();
        }
        self.changed.wait(|| (self.state() != SlotState::Leaving).then_some(())).await;
    }

    /// What to do to get the partition. Begins a wake if need be, but not one that `is_blank`.
    fn wake(self: &Arc<Self>, is_blank: impl Fn(&Status) -> bool) -> Result<Next> {
        let mut status = self.status.lock();
        match &status.phase {
            // A partition that is just being made has acknowledged nothing yet.
            Phase::Asleep | Phase::Waking(_) if is_blank(&status) => Ok(Next::Blank),
            Phase::Waking(wake) => Ok(Next::Wait(wake.clone())),
            Phase::Asleep => {
                let slot = Arc::clone(self);
                let number = status.number;
                let opening: BoxFuture<_> = Box::pin(async move { slot.open(number).await });
                let wake = opening.shared();
                status.phase = Phase::Waking(wake.clone());
                Ok(Next::Wait(wake))
            }
            Phase::Awake | Phase::Leaving(_) => Ok(Next::LookAgain),
            Phase::Gone => Err(gone()),
        }
    }

    fn ticked(self: &Arc<Self>) -> Arc<dyn Ticked> {
        self.clone()
    }

    async fn open(self: Arc<Self>, number: u32) -> Result<Arc<Partition>> {
        let owner = Owner { tenant: self.tenant.0, partition: number };
        let counters = (Arc::clone(&self.counters), Arc::clone(&self.witnessed));
        let outcome = self.shared.open_partition(&self.ticked(), owner, &self.engine, counters).await;
        if let Err(error) = &outcome {
            tracing::warn!(tenant = self.tenant.0, partition = number, %error, "cannot open the partition");
            self.reservation.close(&self.shared.gate);
            self.shared.ticker.closed(owner);
        }
        let wake = {
            let mut status = self.status.lock();
            let phase = match &outcome {
                // The node was closed meanwhile.
                _ if matches!(status.phase, Phase::Gone) => None,
                Ok(partition) => {
                    status.is_used = true;
                    self.awake.store(Some(Arc::clone(partition)));
                    Some(Phase::Awake)
                }
                Err(_) => Some(Phase::Asleep),
            };
            phase.map(|phase| std::mem::replace(&mut status.phase, phase))
        };
        let Some(wake) = wake else {
            outcome?.close().await?;
            return Err(gone());
        };
        // The dropped future may be this very one, so it is not dropped under the lock.
        drop(wake);
        self.changed.notify();
        outcome
    }

    /// Closes the partition, whatever it is doing, and keeps requests waiting until [`PartitionSlot::settle`];
    /// `None` if it is gone.
    ///
    /// To be [`carried`] to its end: a slot that stays between the two serves nobody.
    pub(crate) async fn leave(&self, how: Leave) -> Option<Left> {
        let (number, partition) = loop {
            let wake = {
                let mut status = self.status.lock();
                match &status.phase {
                    Phase::Waking(wake) => Some(wake.clone()),
                    Phase::Leaving(_) => None,
                    Phase::Gone => return None,
                    Phase::Asleep | Phase::Awake => {
                        let partition = self.awake.swap(None);
                        status.phase = Phase::Leaving(partition.as_ref().map_or(Weak::new(), Arc::downgrade));
                        break (status.number, partition);
                    }
                }
            };
            match wake {
                // The phase shows whether the wake succeeds.
                Some(wake) => drop(wake.await),
                None => self.left().await,
            }
        };
        // No policy turns its gates any more: a partition on its way out is in no sample.
        self.reservation.close(&self.shared.gate);
        let mut unwritten = None;
        if let Some(partition) = partition {
            let is_written = partition.leave(how).await;
            let space = partition.engine().space();
            *self.space.lock() = space;
            unwritten = Some(partition).filter(|_| !is_written);
        }
        self.shared.ticker.closed(Owner { tenant: self.tenant.0, partition: number });
        Some(Left { number, unwritten })
    }

    /// Puts the partition to sleep: flushed, closed, forgotten. The next request wakes it. If what it holds cannot be
    /// written (a full disk), it stays awake.
    pub async fn sleep(self: &Arc<Self>) {
        let slot = Arc::clone(self);
        carried(&self.shared.machine.spawn, async move {
            if let Some(left) = slot.leave(Leave::Keep).await {
                slot.come_back(left);
            }
        })
        .await;
    }

    /// Takes back what [`PartitionSlot::leave`] began: the slot is asleep again, or awake if not all of the partition
    /// is on disk.
    pub(crate) fn come_back(self: &Arc<Self>, left: Left) {
        let Left { number, unwritten } = left;
        let Some(partition) = unwritten else { return self.settle(Some(number)) };
        if let Some(gates) = &partition.gates {
            self.reservation.open(Arc::clone(gates));
        }
        self.shared.ticker.opened(partition.owner, &self.ticked());
        // Before the partition can be found: nobody is to be refused by a partition that is being closed.
        partition.come_back();
        {
            let mut status = self.status.lock();
            match status.phase {
                Phase::Leaving(_) => {
                    self.awake.store(Some(Arc::clone(&partition)));
                    status.phase = Phase::Awake;
                }
                // The node was closed meanwhile.
                _ => partition.begin_closing(),
            }
        }
        self.changed.notify();
    }

    /// Ends what [`PartitionSlot::leave`] began: the slot is asleep as partition `number`, or gone. If the node was
    /// closed meanwhile, it stays gone.
    pub(crate) fn settle(&self, number: Option<u32>) {
        {
            let mut status = self.status.lock();
            if number != Some(status.number) {
                *self.space.lock() = Space::default();
            }
            match number {
                Some(number) if matches!(status.phase, Phase::Leaving(_)) => {
                    status.is_used &= number == status.number;
                    (status.number, status.phase) = (number, Phase::Asleep);
                }
                _ => drop(self.go(&mut status)),
            }
        }
        self.changed.notify();
    }

    /// The node ends: nobody is let in any more. Gives the partition if it was awake or on its way out, without closing
    /// it.
    pub(crate) fn shut(&self) -> Option<Shut> {
        let phase = self.go(&mut self.status.lock());
        let leaving = match &phase {
            Phase::Leaving(partition) => partition.upgrade(),
            _ => None,
        };
        // A wake that is under way holds this slot.
        drop(phase);
        self.changed.notify();
        self.awake.load_full().map(Shut::Awake).or(leaving.map(Shut::Leaving))
    }
}

/// A partition whose slot was shut.
pub(crate) enum Shut {
    /// It was awake.
    Awake(Arc<Partition>),
    /// Something else is closing it already.
    Leaving(Arc<Partition>),
}

fn gone() -> Error {
    Error::new(ErrorKind::Closed, "use", "the tenant", "it was dropped, or the node is shutting down")
}

#[cfg(test)]
mod tests;
