//! A disk that fails under a whole node: the nth operation of a kind, for every n; or every third for a while.
//!
//! Tenants are created, altered, emptied, dropped, backed up, restored, put to sleep, woken, written to and read. While
//! the disk fails anything may be refused. Afterwards everything works again, without a restart; and after a restart
//! everything is as clients and operators were told.

use std::fmt;
use std::path::PathBuf;

use weir_io::sim::{DiskImage, Fault, FaultPlan, Keep, OpKind};
use weir_io::{ErrorKind, Nanos, Rng};
use weir_log::SyncMode;

use super::Setting;
use super::model::{Contents, Model};
use super::town::{Order, Town, is_well, machine, open};
use crate::runner::Tally;

const NAMES: [&str; 3] = ["a", "b", "c"];
const STEPS: u64 = 40;
/// Virtual time until everything must work again.
const RESUME_WITHIN: Nanos = 60_000_000_000;

/// Every way in which an operation of every kind can fail; `None` means operations of any kind.
pub const WAYS: [(Option<OpKind>, Fault); 20] = [
    (None, Fault::Error),
    (None, Fault::NoSpace),
    (Some(OpKind::Read), Fault::Error),
    (Some(OpKind::Write), Fault::Error),
    (Some(OpKind::Write), Fault::NoSpace),
    (Some(OpKind::Write), Fault::ShortWrite),
    (Some(OpKind::Sync), Fault::Error),
    (Some(OpKind::SyncDir), Fault::Error),
    (Some(OpKind::SyncAll), Fault::Error),
    (Some(OpKind::Allocate), Fault::Error),
    (Some(OpKind::Allocate), Fault::NoSpace),
    (Some(OpKind::SetLen), Fault::Error),
    (Some(OpKind::Open), Fault::Error),
    (Some(OpKind::Create), Fault::Error),
    (Some(OpKind::Create), Fault::NoSpace),
    (Some(OpKind::Rename), Fault::Error),
    (Some(OpKind::Remove), Fault::Error),
    (Some(OpKind::CreateDir), Fault::NoSpace),
    (Some(OpKind::RemoveDir), Fault::Error),
    (Some(OpKind::List), Fault::Error),
];

/// When it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Operation number `n` of its kind, once.
    Once(u64),
    /// A third of the operations, by chance, in the middle third of the run. A kind must be given.
    ForAWhile,
}

/// The figures of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeFaults {
    /// Runs.
    pub runs: u64,
    /// Runs in which a request was refused.
    pub felt: u64,
    /// Orders and requests that were done.
    pub done: u64,
    /// Orders and requests that were refused.
    pub refused: u64,
    /// Operations of the disk.
    pub operations: u64,
}

impl Tally for NodeFaults {
    fn merge(&mut self, other: Self) {
        self.runs += other.runs;
        self.felt += other.felt;
        self.done += other.done;
        self.refused += other.refused;
        self.operations += other.operations;
    }
}

impl fmt::Display for NodeFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, felt, done, refused, operations } = self;
        write!(
            f,
            "{runs} runs ({felt} felt it), {done} orders and requests done, {refused} refused, {operations} operations of the disk"
        )
    }
}

/// How many operations of `kind` the run of `seed` has on `setting` where nothing fails: it is worth failing every one
/// of them.
///
/// # Errors
/// Something went wrong although nothing failed.
pub fn operations(seed: u64, setting: &Setting, kind: Option<OpKind>) -> Result<u64, String> {
    one_run(seed, setting, (kind, Fault::Error), When::Once(u64::MAX)).map(|faults| faults.operations)
}

/// The run of `seed` on a disk that fails in the way `way`.
///
/// # Errors
/// The error says what was lost, or what does not work any more.
pub fn one_run(seed: u64, setting: &Setting, way: (Option<OpKind>, Fault), when: When) -> Result<NodeFaults, String> {
    let (kind, fault) = way;
    let Setting { engines, sync } = setting;
    let sync = *sync;
    let plan = match when {
        When::Once(nth) => FaultPlan::none().fail_nth(kind, nth, fault),
        When::ForAWhile => FaultPlan::none(),
    };
    let (mut model, mut backups, mut step) = (Model::default(), Vec::new(), 0);
    let mut faults = NodeFaults { runs: 1, ..NodeFaults::default() };
    let mut rng = Rng::new(seed);
    let (sim, disk) = machine(seed, &DiskImage::new(), plan);
    sim.block_on(async {
        let mut opened = None;
        for _ in 0..20 {
            match open(&sim, &disk, sync).await {
                Ok(node) => {
                    opened = Some(node);
                    break;
                }
                Err(_) => faults.felt = 1,
            }
        }
        let node = opened.ok_or("the node cannot be opened, however often one tries")?;
        let (model, backups, step) = (&mut model, &mut backups, &mut step);
        let mut town = Town { node, engines, clock: sim.clock(), model, backups, step, rng: rng.fork("town") };
        for step in 0..STEPS {
            if when == When::ForAWhile && step == STEPS / 3 {
                let kind = kind.ok_or("a kind is needed")?;
                disk.set_faults(FaultPlan::none().chance(kind, fault, 0.33));
            }
            if when == When::ForAWhile && step == 2 * STEPS / 3 {
                disk.set_faults(FaultPlan::none());
            }
            let (order, answer) = town.step(&NAMES).await?;
            match answer {
                Ok(()) => faults.done += 1,
                Err(error) if matches!(error.kind(), ErrorKind::Device | ErrorKind::NoSpace) => {
                    (faults.felt, faults.refused) = (1, faults.refused + 1);
                }
                Err(error) => return Err(format!("{order:?} gives an error that says something else: {error:?}")),
            }
        }
        faults.operations = match kind {
            Some(kind) => disk.counters().total(kind).ops,
            None => OpKind::ALL.into_iter().map(|kind| disk.counters().total(kind).ops).sum(),
        };
        disk.set_faults(FaultPlan::none());
        resume(&mut town).await?;
        town.pause(3_000_000_000).await;
        is_well(&disk, &town.node).await?;
        town.check().await.map_err(|story| format!("after the fault: {story}"))
    })?;
    let keep = match sync {
        SyncMode::Always if rng.chance(0.5) => Keep::None,
        SyncMode::Always => Keep::Random,
        SyncMode::Interval => Keep::All,
        // A killed process loses what it has not written yet, as this mode promises.
        SyncMode::None => return Ok(faults),
    };
    let image = disk.crash_keeping(keep, &mut rng);
    drop(sim);
    reopen(seed, &image, setting, &mut model, &mut backups)?;
    Ok(faults)
}

/// Checks that everything works again, on every tenant, within a bounded time and without a restart.
async fn resume(town: &mut Town<'_>) -> Result<(), String> {
    let deadline = town.clock.now() + RESUME_WITHIN;
    for name in NAMES {
        let orders = match town.model.get(name) {
            None => vec![Order::Create],
            Some(_) => vec![Order::Scan],
        };
        let rest = [Order::Write, Order::Scan, Order::Sleep, Order::Read, Order::Alter, Order::Backup, Order::Clear];
        for order in orders.into_iter().chain(rest) {
            loop {
                match town.carry_out(order, name).await? {
                    Ok(()) => break,
                    Err(error) if order.is_read() => {
                        return Err(format!("{order:?} of {name} fails, the fault is over: {error}"));
                    }
                    Err(error) if town.clock.now() > deadline => {
                        return Err(format!("{order:?} of {name} still fails, the fault is over: {error}"));
                    }
                    Err(_) => town.pause(100_000_000).await,
                }
            }
        }
    }
    for order in [Order::Drop, Order::Restore] {
        town.carry_out(order, NAMES[0]).await?.map_err(|error| format!("{order:?}, the fault is over: {error}"))?;
    }
    Ok(())
}

fn reopen(
    seed: u64,
    image: &DiskImage,
    setting: &Setting,
    model: &mut Model,
    backups: &mut Vec<(PathBuf, Contents)>,
) -> Result<(), String> {
    let (sim, disk) = machine(seed, image, FaultPlan::none());
    sim.block_on(async {
        let node =
            open(&sim, &disk, setting.sync).await.map_err(|error| format!("does not open after a restart: {error}"))?;
        let engines = &setting.engines;
        let mut town = Town { node, engines, clock: sim.clock(), model, backups, step: &mut 0, rng: Rng::new(seed) };
        town.check().await.map_err(|story| format!("after a restart: {story}"))?;
        town.pause(3_000_000_000).await;
        is_well(&disk, &town.node).await
    })
}
