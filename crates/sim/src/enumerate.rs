//! Every power cut of one workload: before and in the middle of every change, with eight different survivors each.
//!
//! The workload runs once. At each change the disk says what a cut there could leave. A second machine recovers from
//! each of these images, and is judged by what had been sent and promised at that moment.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Keep, OpKind, Phase, Sim, SimFs};
use weir_io::{Nanos, Rng};

use crate::crash::{Scenario, killed, recover};
use crate::life::{Acks, Life};
use crate::model::Model;
use crate::runner::Tally;
use crate::store::{Store, World};
use crate::workload::{Mix, Workload};

/// Survivors drawn at each point.
pub const VARIANTS: usize = 8;

/// The figures of the cuts.
#[derive(Clone, Debug, Default)]
pub struct Points {
    /// Changes of the workload, by kind.
    pub changes: BTreeMap<&'static str, u64>,
    /// Recoveries that were judged.
    pub recoveries: u64,
}

impl Tally for Points {
    fn merge(&mut self, other: Self) {
        self.recoveries += other.recoveries;
        for (kind, count) in other.changes {
            *self.changes.entry(kind).or_default() += count;
        }
    }
}

impl fmt::Display for Points {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changes: u64 = self.changes.values().sum();
        write!(f, "{} recoveries correct after cuts at {changes} changes (", self.recoveries)?;
        for (at, (kind, count)) in self.changes.iter().enumerate() {
            write!(f, "{}{count} {kind}", if at == 0 { "" } else { ", " })?;
        }
        write!(f, ")")
    }
}

struct Point {
    index: u64,
    phase: Phase,
    images: Vec<(Keep, DiskImage)>,
    settled: bool,
    sent: usize,
    now: Nanos,
    unix_ms: u64,
    acks: Acks,
}

/// Cuts the workload of `seed`, which has `steps` steps, at every change. `cuts` of the scenario is not used.
pub fn every_cut<S: Store>(seed: u64, steps: usize, scenario: &Scenario<S::Options>) -> Result<Points, String> {
    let mut rng = Rng::new(seed);
    let sim = Sim::new(rng.next_u64());
    let disk = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), rng.fork("disk"));
    let acks = Acks::default();
    let (points, kinds) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(BTreeMap::new())));
    let (seen, counted, clock, known) = (Arc::clone(&points), Arc::clone(&kinds), sim.clock(), acks.clone());
    let mut survivors = rng.fork("survivors");
    disk.on_cut_point(move |disk, point| {
        if point.phase == Phase::Before {
            *counted.lock().entry(name(point.kind)).or_default() += 1;
        }
        let keeps = [Keep::All, Keep::None, Keep::Prefix].into_iter().chain(std::iter::repeat(Keep::Random));
        let images = keeps.take(VARIANTS).map(|keep| (keep, disk.crash_keeping(keep, &mut survivors))).collect();
        let (now, unix_ms) = (clock.now(), clock.unix_ms());
        let (settled, sent, acks) = (known.settled(), known.sent(), known.at_this_moment());
        seen.lock().push(Point { index: point.index, phase: point.phase, images, settled, sent, now, unix_ms, acks });
    });
    let world = World { fs: scenario.door(&disk), clock: sim.clock(), spawn: sim.spawner(), salt: seed };
    let mut workload = Workload::new(rng.fork("workload"), Mix::CRASH);
    let mut model = Model::default();
    let whole = sim.block_on(async {
        let (mut life, _) = Life::<S>::begin(world, scenario.options.clone(), &mut model, 0, acks.clone()).await?;
        life.run(&mut workload, steps).await?;
        life.close().await
    });
    whole.map_err(|story| format!("without any cut: {story}"))?;
    disk.clear_hook();
    let mut recoveries = 0;
    for point in points.lock().drain(..) {
        let known = if point.settled { model.when_sent(point.sent) } else { Model::default() };
        for (variant, (keep, image)) in point.images.into_iter().enumerate() {
            let promise = if keep == Keep::All { killed(scenario.promise) } else { scenario.promise };
            let promised = point.acks.promised(promise, point.now);
            let seed = rng.next_u64();
            recover::<S>(&image, point.unix_ms, &mut known.clone(), promised, scenario, seed).map_err(|story| {
                format!("cut {:?} change {}, variant {variant} ({keep:?}): {story}", point.phase, point.index)
            })?;
            recoveries += 1;
        }
    }
    let changes = std::mem::take(&mut *kinds.lock());
    Ok(Points { changes, recoveries })
}

fn name(kind: OpKind) -> &'static str {
    match kind {
        OpKind::Write => "writes",
        OpKind::Sync => "syncs",
        OpKind::Allocate => "reservations",
        OpKind::SetLen => "lengths",
        OpKind::Create => "new files",
        OpKind::Rename => "renames",
        OpKind::Link => "links",
        OpKind::Remove => "removals",
        OpKind::CreateDir => "new directories",
        OpKind::RemoveDir => "removed directories",
        OpKind::SyncDir | OpKind::SyncAll => "directory syncs",
        OpKind::Read | OpKind::Open | OpKind::List => "looks",
    }
}
