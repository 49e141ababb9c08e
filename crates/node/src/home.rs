//! A home: where a partition is, awake or asleep.
//!
//! ```text
//!  Asleep --a request--> Waking --opened--> Awake
//!    ^                      |                 |
//!    +----- it failed ------+              Leaving --> Asleep, or Gone
//! ```
//!
//! 1. Whoever wants the partition takes it from [`Home::awake`]: one load. Only if it is not there does he look at the phase.
//! 2. One wake at a time, and its work is done by those who wait for it; when all have left it goes on in the background, for a half-open
//!    partition must not be opened again.
//! 3. A partition that leaves is taken out of `awake` first and refuses writes then: a write that was too late finds it gone and asks
//!    again. Reads that have begun end on what they hold: nothing newer can have been acknowledged when they began.
//!
//! Asleep, it is the few hundred bytes of this struct.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwapOption, Guard};
use futures_util::FutureExt;
use futures_util::future::Shared;
use parking_lot::Mutex;
use weir_admission::UnitLimits;
use weir_io::{BoxFuture, Error, ErrorKind, Event, Owner, Result};
use weir_model::TenantId;

use crate::bandwidth::Reservation;
use crate::carried::carried;
use crate::metrics::{Counters, PartitionMetrics, StallTimes};
use crate::partition::Partition;
use crate::shared::NodeShared;
use crate::stall::StallCause;

/// What a dashboard shows of a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomeState {
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

type Wake = Shared<BoxFuture<Result<Arc<Partition>>>>;

enum Phase {
    Asleep,
    Waking(Wake),
    Awake,
    /// With what it had, as long as that is there.
    Leaving(Weak<Partition>),
    Gone,
}

struct Status {
    /// The partition's number: it changes when the tenant is emptied.
    number: u32,
    phase: Phase,
}

/// See the module.
pub struct Home {
    shared: Arc<NodeShared>,
    tenant: TenantId,
    awake: ArcSwapOption<Partition>,
    status: Mutex<Status>,
    /// The phase has changed.
    changed: Event,
    /// Of all the partition's lives.
    pub(crate) counters: Arc<Counters>,
    pub(crate) reservation: Reservation,
    /// Of its tables and memtables, when it was last looked at awake.
    disk_bytes: AtomicU64,
}

/// What to do with what is only in memory and log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Keep it: everything goes to tables.
    Keep,
    /// It is about to be removed.
    Discard,
}

impl Home {
    pub(crate) fn new(shared: &Arc<NodeShared>, tenant: TenantId, number: u32, reservation: Reservation) -> Arc<Self> {
        Arc::new(Self {
            shared: Arc::clone(shared),
            tenant,
            awake: ArcSwapOption::empty(),
            status: Mutex::new(Status { number, phase: Phase::Asleep }),
            changed: Event::default(),
            counters: Arc::default(),
            reservation,
            disk_bytes: AtomicU64::new(0),
        })
    }

    /// Whom the partition's I/O is booked to.
    pub fn owner(&self) -> Owner {
        Owner { tenant: self.tenant.0, partition: self.status.lock().number }
    }

    /// Bytes of its tables and memtables; of one asleep what it last had.
    pub(crate) fn disk_bytes(&self) -> u64 {
        if let Some(partition) = &*self.awake() {
            let shape = partition.tree().shape();
            let tables: u64 = shape.levels.iter().map(|level| level.bytes).sum();
            self.disk_bytes.store(tables + (shape.memtable_bytes + shape.sealed_bytes) as u64, Ordering::Relaxed);
        }
        self.disk_bytes.load(Ordering::Relaxed)
    }

    /// The tenant's limits are `limits` from now on.
    pub(crate) fn alter(&self, limits: UnitLimits) {
        self.reservation.alter(limits);
        self.shared.ticker.altered(self.owner(), self);
    }

    /// Asleep or awake.
    pub fn state(&self) -> HomeState {
        match self.status.lock().phase {
            Phase::Asleep => HomeState::Asleep,
            Phase::Waking(_) => HomeState::Waking,
            Phase::Awake => HomeState::Awake,
            Phase::Leaving(_) => HomeState::Leaving,
            Phase::Gone => HomeState::Gone,
        }
    }

    /// Writes that waited for flushes and compactions in all the partition's lives, by cause in the order of [`StallCause::ALL`].
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

    /// Whether `partition` is what the home has: it is not on its way out.
    pub fn has(&self, partition: &Arc<Partition>) -> bool {
        self.awake.load().as_ref().is_some_and(|awake| Arc::ptr_eq(awake, partition))
    }

    /// The partition: at once if it is awake, else when it has been woken. So many wakes at a time and node, the others wait in the
    /// order in which they were asked for.
    ///
    /// # Errors
    /// It cannot be opened (which the next call tries again); `Closed` if it was dropped or the node is closed.
    pub async fn partition(self: &Arc<Self>) -> Result<Arc<Partition>> {
        loop {
            if let Some(partition) = self.awake.load_full() {
                return Ok(partition);
            }
            match self.wake()? {
                Some(wake) => return carried(&self.shared.workers, wake).await,
                None => self.left().await,
            }
        }
    }

    /// Waits while the partition is on its way out, which somebody wants it to be soon.
    async fn left(&self) {
        let leaving = match &self.status.lock().phase {
            Phase::Leaving(partition) => partition.upgrade(),
            _ => None,
        };
        if let Some(partition) = leaving {
            partition.hurry();
        }
        self.changed.wait(|| (self.state() != HomeState::Leaving).then_some(())).await;
    }

    /// The wake under way, begun if need be; `None` if the phase is another one by now, or has to change first.
    fn wake(self: &Arc<Self>) -> Result<Option<Wake>> {
        let mut status = self.status.lock();
        match &status.phase {
            Phase::Waking(wake) => Ok(Some(wake.clone())),
            Phase::Asleep => {
                let home = Arc::clone(self);
                let number = status.number;
                let opening: BoxFuture<_> = Box::pin(async move { home.open(number).await });
                let wake = opening.shared();
                status.phase = Phase::Waking(wake.clone());
                Ok(Some(wake))
            }
            Phase::Awake | Phase::Leaving(_) => Ok(None),
            Phase::Gone => Err(gone()),
        }
    }

    async fn open(self: Arc<Self>, number: u32) -> Result<Arc<Partition>> {
        let outcome = self.shared.open_partition(&self, number).await;
        if let Err(error) = &outcome {
            tracing::warn!(tenant = self.tenant.0, partition = number, %error, "cannot open the partition");
        }
        let wake = {
            let mut status = self.status.lock();
            let phase = match &outcome {
                // The node was closed meanwhile.
                _ if matches!(status.phase, Phase::Gone) => None,
                Ok(partition) => {
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
        // This very future: not under the lock.
        drop(wake);
        self.changed.notify();
        outcome
    }

    /// Closes the partition, whatever it is doing, and keeps requests waiting until [`Home::settle`]. Gives its number; `None` if it is gone.
    ///
    /// To be [`carried`] to its end: a home that stays in between serves nobody.
    pub(crate) async fn leave(&self, how: Leave) -> Option<u32> {
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
                // Whether it succeeds is seen in the phase.
                Some(wake) => drop(wake.await),
                None => self.left().await,
            }
        };
        // No policy turns its gates any more: whoever is on the way out is in no sample.
        self.reservation.close(&self.shared.gate);
        if let Some(partition) = partition {
            partition.leave(how).await;
        }
        if how == Leave::Discard {
            self.disk_bytes.store(0, Ordering::Relaxed);
        }
        self.shared.ticker.closed(Owner { tenant: self.tenant.0, partition: number });
        Some(number)
    }

    /// Puts the partition to sleep: flushed, closed, forgotten. The next request wakes it.
    pub async fn sleep(self: &Arc<Self>) {
        let home = Arc::clone(self);
        carried(&self.shared.workers, async move {
            if let Some(number) = home.leave(Leave::Keep).await {
                home.settle(Some(number));
            }
        })
        .await;
    }

    /// Ends what [`Home::leave`] began: asleep as partition `number`, or gone. Where the node was closed meanwhile it stays gone.
    pub(crate) fn settle(&self, number: Option<u32>) {
        {
            let mut status = self.status.lock();
            match number {
                Some(number) if matches!(status.phase, Phase::Leaving(_)) => {
                    (status.number, status.phase) = (number, Phase::Asleep);
                }
                _ => status.phase = Phase::Gone,
            }
        }
        self.changed.notify();
    }

    /// The node ends: nobody is let in any more. Gives the partition if it was awake, without closing it.
    pub(crate) fn shut(&self) -> Option<Arc<Partition>> {
        let phase = std::mem::replace(&mut self.status.lock().phase, Phase::Gone);
        // A wake that is under way holds this home.
        drop(phase);
        self.changed.notify();
        self.awake.load_full()
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Closed, "use", "the tenant", "it was dropped, or the node ends")
}

#[cfg(test)]
mod tests;
