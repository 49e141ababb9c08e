//! Power cuts at random moments, one life after the other on the same disk.
//!
//! 1. A store is opened on what the last cut left, and must show a prefix of what was sent ([`crate::model`]).
//! 2. It is used, checked by reads against the model, until the power goes at a change drawn at random, or it ends.
//! 3. On the way some changes are looked at more closely: the disk says what a cut *there* would leave, and a second
//!    machine recovers from that image, is checked, and thrown away. That costs no workload, so many cuts can be
//!    checked.
//! 4. What survives is drawn again: mostly any subset with torn sectors, sometimes a prefix, nothing, or everything
//!    (a killed process). Back to 1.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Keep, Phase, Sim, SimFs};
use weir_io::{Fs, Nanos, Rng};

use crate::life::{Acks, Life, Promise};
use crate::model::Model;
use crate::plant::{DiskPlant, PlantedFs};
use crate::runner::Tally;
use crate::store::{Store, World};
use crate::workload::{Mix, Workload};

/// What is cut, and how often.
#[derive(Clone, Debug)]
pub struct Scenario<O> {
    /// How the store is opened.
    pub options: O,
    /// What its acknowledgements are worth.
    pub promise: Promise,
    /// Cuts in the history of one seed.
    pub cuts: u64,
    /// A planted mistake that the run must find; `None` in a real test.
    pub plant: Option<DiskPlant>,
}

impl<O> Scenario<O> {
    /// The door to `disk`, with the planted mistake if there is one.
    pub(crate) fn door(&self, disk: &Arc<SimFs>) -> Arc<dyn Fs> {
        let disk = Arc::clone(disk) as Arc<dyn Fs>;
        match self.plant {
            Some(plant) => PlantedFs::new(disk, plant),
            None => disk,
        }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cuts {
    /// Power cuts survived.
    pub cuts: u64,
    /// Cuts that hit the store while it was recovering from another.
    pub in_recovery: u64,
    /// Batches acknowledged.
    pub acknowledged: u64,
    /// Batches sent after the last promised one that were found after a cut.
    pub kept: u64,
    /// Such batches that were not found.
    pub lost: u64,
    /// Requests that a failing disk has refused.
    pub refused: u64,
    /// What happened when, on every machine and disk of the run: equal seeds give equal fingerprints.
    pub fingerprint: u64,
}

impl Cuts {
    pub(crate) fn stamp(&mut self, sim: &Sim, disk: &SimFs) {
        for hash in [sim.event_hash(), disk.event_hash()] {
            self.fingerprint = (self.fingerprint ^ hash).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
    }
}

impl Tally for Cuts {
    fn merge(&mut self, other: Self) {
        self.cuts += other.cuts;
        self.in_recovery += other.in_recovery;
        self.acknowledged += other.acknowledged;
        self.kept += other.kept;
        self.lost += other.lost;
        self.refused += other.refused;
        // A sum, so that the order in which threads finish does not matter.
        self.fingerprint = self.fingerprint.wrapping_add(other.fingerprint);
    }
}

impl fmt::Display for Cuts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cuts, in_recovery, acknowledged, kept, lost, refused, .. } = self;
        write!(f, "{cuts} cuts survived ({in_recovery} during recovery), {acknowledged} batches acknowledged, ")?;
        write!(f, "{kept} unpromised ones found, {lost} lost")?;
        if *refused > 0 { write!(f, ", {refused} requests refused") } else { Ok(()) }
    }
}

/// A closer look at one change: what a cut there would leave, and what was known at that moment.
struct Look {
    image: DiskImage,
    /// Whether the store had shown what it recovered; else it is judged by what was known before.
    settled: bool,
    sent: usize,
    promised: usize,
    unix_ms: u64,
    index: u64,
}

/// Looks at one change in this many.
const LOOK_EVERY: u64 = 4;

/// Virtual time a recovery may take before it counts as hanging.
pub(crate) const LIFE_LIMIT: Nanos = 600_000_000_000;

pub(crate) fn draw_keep(rng: &mut Rng) -> Keep {
    match rng.below(10) {
        0 => Keep::All,
        1 => Keep::Prefix,
        2 => Keep::None,
        _ => Keep::Random,
    }
}

/// Half of the lives see a disk that answers at once. The others see one so slow that writes pile up behind a sync.
pub(crate) fn draw_device(rng: &mut Rng) -> DeviceSpec {
    if rng.chance(0.5) {
        return DeviceSpec::instant();
    }
    DeviceSpec { latency: 50_000, sync_latency: 300_000, parallelism: 4, ..DeviceSpec::shared(50_000_000) }
}

/// Runs the history of `seed`.
pub fn history<S: Store>(seed: u64, scenario: &Scenario<S::Options>) -> Result<Cuts, String> {
    let mut rng = Rng::new(seed);
    let (mut image, mut model, mut durable) = (DiskImage::new(), Model::default(), 0);
    let (mut unix_ms, mut tally) = (1_767_225_600_000, Cuts::default());
    while tally.cuts < scenario.cuts {
        let sim = Sim::new(rng.next_u64());
        sim.set_unix_ms(unix_ms);
        sim.set_time_limit(LIFE_LIMIT);
        let disk = SimFs::from_image(&image, sim.clock(), draw_device(&mut rng), FaultPlan::none(), rng.fork("disk"));
        let cut_at = if rng.chance(0.2) { rng.below(12) } else { rng.below(160) };
        let phase = if rng.chance(0.5) { Phase::Before } else { Phase::During };
        disk.cut_power_at(cut_at, phase);
        let acks = Acks::default();
        let looks = look_closer(&disk, &sim, &acks, scenario.promise, &mut rng);
        let world = World { fs: scenario.door(&disk), clock: sim.clock(), spawn: sim.spawner(), salt: rng.next_u64() };
        let mut workload = Workload::new(rng.fork("workload"), Mix::CRASH);
        let steps = rng.below(60) as usize;
        let end_well = rng.chance(0.1);
        let (before, promised_before) = (model.clone(), durable);
        let mut opened = None;
        let outcome = sim.block_on(async {
            let options = scenario.options.clone();
            let (mut life, cut) = Life::<S>::begin(world, options, &mut model, durable, acks.clone()).await?;
            opened = Some(cut);
            life.run(&mut workload, steps).await?;
            if end_well { life.close().await } else { Ok(()) }
        });
        let was_cut = disk.changes() >= cut_at;
        if let (Err(story), false) = (&outcome, was_cut) {
            return Err(format!("cut {}: {story}", tally.cuts));
        }
        if let Some(cut) = opened {
            tally.kept += (cut - durable) as u64;
            tally.lost += (before.sent() - cut) as u64;
            durable = 0;
        } else {
            tally.in_recovery += 1;
        }
        for look in looks.lock().drain(..) {
            let mut earlier = if look.settled { model.when_sent(look.sent) } else { before.clone() };
            let promised = if look.settled { look.promised } else { promised_before };
            recover::<S>(&look.image, look.unix_ms, &mut earlier, promised, scenario, rng.next_u64())
                .map_err(|story| format!("cut {}, at change {} of that life: {story}", tally.cuts, look.index))?;
            tally.cuts += 1;
        }
        let keep = draw_keep(&mut rng);
        let promise = if keep == Keep::All { killed(scenario.promise) } else { scenario.promise };
        durable = durable.max(acks.promised(promise, sim.now()));
        tally.acknowledged += acks.count();
        tally.cuts += 1;
        tally.stamp(&sim, &disk);
        image = disk.crash_keeping(keep, &mut rng);
        unix_ms = sim.clock().unix_ms();
    }
    Ok(tally)
}

/// Runs the history of `seed` twice, and checks that everything happened again in the same order.
pub fn twice<S: Store>(seed: u64, scenario: &Scenario<S::Options>) -> Result<Cuts, String> {
    let (once, again) = (history::<S>(seed, scenario)?, history::<S>(seed, scenario)?);
    if once.fingerprint != again.fingerprint {
        return Err(format!("two days from one seed: {:016x} and {:016x}", once.fingerprint, again.fingerprint));
    }
    Ok(once)
}

/// What acknowledgements are worth when only the process dies: writes that have reached the kernel survive.
pub(crate) fn killed(promise: Promise) -> Promise {
    match promise {
        Promise::Durable | Promise::Within(_) => Promise::Durable,
        Promise::Nothing => Promise::Nothing,
    }
}

/// Takes an image at some of the changes to come.
fn look_closer(disk: &Arc<SimFs>, sim: &Sim, acks: &Acks, promise: Promise, rng: &mut Rng) -> Arc<Mutex<Vec<Look>>> {
    let looks = Arc::new(Mutex::new(Vec::new()));
    let (seen, clock, acks, mut rng) = (Arc::clone(&looks), sim.clock(), acks.clone(), rng.fork("looks"));
    disk.on_cut_point(move |disk, point| {
        if rng.below(LOOK_EVERY) > 0 {
            return;
        }
        let keep = draw_keep(&mut rng);
        let promise = if keep == Keep::All { killed(promise) } else { promise };
        let look = Look {
            image: disk.crash_keeping(keep, &mut rng),
            settled: acks.settled(),
            sent: acks.sent(),
            promised: acks.promised(promise, clock.now()),
            unix_ms: clock.unix_ms(),
            index: point.index,
        };
        seen.lock().push(look);
    });
    looks
}

/// Recovers from `image` on a machine of its own, and judges what is found by `model` and `promised`.
pub(crate) fn recover<S: Store>(
    image: &DiskImage,
    unix_ms: u64,
    model: &mut Model,
    promised: usize,
    scenario: &Scenario<S::Options>,
    seed: u64,
) -> Result<(), String> {
    let sim = Sim::new(seed);
    sim.set_unix_ms(unix_ms);
    sim.set_time_limit(LIFE_LIMIT);
    let disk = SimFs::from_image(image, sim.clock(), DeviceSpec::instant(), FaultPlan::none(), Rng::new(seed));
    let world = World { fs: scenario.door(&disk), clock: sim.clock(), spawn: sim.spawner(), salt: seed };
    let options = scenario.options.clone();
    sim.block_on(Life::<S>::begin(world, options, model, promised, Acks::default())).map(drop)
}
