//! A disk that fails or is full for a while under a whole server, and then works again.
//!
//! Whatever changes the disk may fail; reads do not. A change that fails refuses all that its record has: a whole
//! transaction, a whole script. A read that fails refuses one command, and as in Redis the commands beside it in its
//! transaction are done all the same.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clap::ValueEnum;
use futures_util::future::{Either, select};
use weir_io::real::{RealClock, block_on};
use weir_io::sim::{Fault, FaultPlan, OpKind, SimFs};
use weir_io::{Clock, Nanos, Rng, sleep_until};

use super::{Served, joined, words};
use crate::process::Door;
use crate::steps::Steps;
use crate::steps::patient::{GoesOn, hang_up};

/// Steps of each client while the disk fails, and after it has lost its power.
const STEPS_MAX: u64 = 20;
/// Steps of each client that must be accepted when the disk works again, before the last one.
const STEPS_AFTER: u64 = 3;
/// Refusals after which the disk works again are fewer than this.
const REFUSALS_MAX: u64 = 100;
/// What is free on a full disk is less than this.
const FREE_BYTES_MAX: u64 = 128 << 10;
/// Flushes and compactions must catch up within this time.
const SETTLE_WITHIN: Nanos = 120_000_000_000;

/// Operations that change the disk, or make changes durable.
const CHANGES: [OpKind; 8] = [
    OpKind::Write,
    OpKind::Sync,
    OpKind::SyncDir,
    OpKind::Allocate,
    OpKind::SetLen,
    OpKind::Create,
    OpKind::Rename,
    OpKind::Remove,
];

/// How a disk fails for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiskFaults {
    /// EIO: writes, syncs and changes of names fail by chance, of some kinds or of all, rarely or always
    Eio,
    /// ENOSPC: the disk has room for some more steps, or for none
    Full,
}

impl DiskFaults {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eio => "eio",
            Self::Full => "full",
        }
    }
}

/// A time in which the disk fails.
pub(super) struct FaultyTime {
    plan: FaultPlan,
    /// Bytes that are free; `u64::MAX` is without limit.
    free_bytes: u64,
    /// Whether it ends while the power is on.
    pub(super) ends: bool,
    /// Refusals after which it ends, or the power goes.
    refusals_max: u64,
    refused: AtomicU64,
}

impl FaultyTime {
    /// Draws what fails, and for how long. If it `ends`, the disk works again afterwards; or else the power goes.
    pub(super) fn draw(faults: DiskFaults, ends: bool, rng: &mut Rng) -> Self {
        let (mut plan, mut free_bytes) = (FaultPlan::none(), u64::MAX);
        match faults {
            DiskFaults::Eio => {
                let p = [0.03, 0.3, 1.0][rng.below(3) as usize];
                for kind in CHANGES {
                    if rng.chance(0.5) {
                        plan = plan.chance(kind, Fault::Error, p);
                    }
                }
            }
            DiskFaults::Full => free_bytes = rng.below(FREE_BYTES_MAX),
        }
        Self { plan, free_bytes, ends, refusals_max: 1 + rng.below(REFUSALS_MAX - 1), refused: AtomicU64::new(0) }
    }

    /// From now on `disk` fails.
    pub(super) fn begin(&self, disk: &SimFs) {
        disk.set_faults(self.plan.clone());
        disk.set_free_bytes(self.free_bytes);
    }

    fn end(disk: &SimFs) {
        disk.set_faults(FaultPlan::none());
        disk.set_free_bytes(u64::MAX);
    }

    /// `disk` has refused something. Says whether clients go on; after the last refusal, `disk` works again for them.
    pub(super) fn goes_on(&self, disk: &SimFs) -> bool {
        let is_over = self.refused.fetch_add(1, Ordering::SeqCst) + 1 >= self.refusals_max;
        if is_over && self.ends {
            Self::end(disk);
        }
        self.ends || !is_over
    }

    /// How often something was refused.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::SeqCst)
    }

    /// Has clients take steps on `disk` until it works again and everything with it, and looks at what is there.
    ///
    /// # Errors
    /// The error says what is wrong, or what does not work again.
    pub(super) fn outlast(&self, served: &Served, disk: &SimFs, clients: &mut [Steps]) -> Result<(), String> {
        let door = served.door();
        self.begin(disk);
        take_patiently(&door, clients, &|| self.goes_on(disk), Some(&|| Self::end(disk))).map_err(words)?;
        settle(served)?;
        for (client, steps) in clients.iter_mut().enumerate() {
            steps.look(&door, client).map_err(|story| format!("the disk works again, client {client}: {story}"))?;
        }
        Ok(())
    }
}

/// Has each client take steps, and its companion take over their numbers. If `mend` is given, it makes the disk work
/// again: then all clients take some more steps, and the last one wakes every companion that still waits. Otherwise
/// companions wait until they are cut off.
///
/// # Errors
/// The first thing that has gone wrong, other than refusals.
pub(super) fn take_patiently(
    door: &Door,
    clients: &[Steps],
    goes_on: GoesOn<'_>,
    mend: Option<&dyn Fn()>,
) -> io::Result<()> {
    let stop = AtomicBool::new(false);
    let ends = std::thread::scope(|scope| {
        let stop = &stop;
        let companions: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(client, steps)| scope.spawn(move || steps.take_over_patiently(door, client, stop, goes_on)))
            .collect();
        let take = |count: u64| {
            let takers = clients.iter().enumerate();
            let takers =
                takers.map(|(client, steps)| scope.spawn(move || steps.take_patiently(door, client, count, goes_on)));
            joined(takers.collect())
        };
        let mut ends = take(STEPS_MAX);
        if let Some(mend) = mend {
            mend();
            ends.extend(take(STEPS_AFTER));
        }
        stop.store(true, Ordering::SeqCst);
        if mend.is_some() {
            ends.extend(take(1));
        }
        if mend.is_none() || ends.iter().any(Result::is_err) {
            ends.push(hang_up(door));
        }
        ends.extend(joined(companions));
        ends
    });
    ends.into_iter().collect()
}

/// Waits until all that is written is in files, and nothing is due any more. A job that has failed is tried again after
/// a pause, and until then writes may be refused.
fn settle(served: &Served) -> Result<(), String> {
    let clock: Arc<dyn Clock> = RealClock::new();
    block_on(async {
        let partition = served.node.default_partition().await.map_err(words)?;
        partition.seal();
        let late = pin!(sleep_until(&clock, clock.now() + SETTLE_WITHIN));
        match select(pin!(partition.settle()), late).await {
            Either::Left(_) => Ok(()),
            Either::Right(_) => Err("the disk works again, and flushes and compactions do not".to_owned()),
        }
    })
}
