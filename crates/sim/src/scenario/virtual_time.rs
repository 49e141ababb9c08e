//! Any scenario on a simulated machine.
#![allow(
    clippy::disallowed_methods,
    reason = "profiles are spread over threads of the machine; nothing inside a run sees them"
)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use indicatif::ProgressBar;
use weir_io::Rng;
use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Keep, Sim, SimFs};
use weir_node::Machine;
use weir_scenario::outcome::Run;
use weir_scenario::pattern::SECOND;
use weir_scenario::plan::Plan;
use weir_scenario::progress::Progress;
use weir_scenario::{drive, preload, profile};

use super::WORLD;

/// Latency of the device after a transfer, and of a sync: those of a data-centre SSD, in nanoseconds.
const LATENCY: u64 = 80_000;
const SYNC_LATENCY: u64 = 120_000;
/// Virtual time after the end of a run within which everything is done, in nanoseconds.
const PATIENCE: u64 = 3_600 * SECOND;

/// The disk that all runs of `plan` start from.
///
/// # Errors
/// What went wrong, in words.
pub fn image(plan: &Plan, bar: &ProgressBar) -> Result<DiskImage, String> {
    let sim = Sim::new(plan.args.seed);
    let disk = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let machine = Machine { fs: disk.clone(), clock: sim.clock(), spawn: sim.spawner(), salt: plan.args.seed };
    sim.block_on(preload::preload(&machine, plan, bar)).map_err(|error| format!("preloading: {error}"))?;
    bar.finish();
    Ok(disk.crash_keeping(Keep::All, &mut Rng::new(0)))
}

/// One profile's run on a disk that starts as `image`.
///
/// # Errors
/// What went wrong, in words.
pub fn run(plan: &Plan, name: &str, image: &DiskImage, bar: &ProgressBar) -> Result<Run, String> {
    let config = profile::config(name, plan)?;
    let sim = Sim::new(plan.args.seed);
    sim.set_time_limit((plan.args.seconds + plan.args.after) * SECOND + PATIENCE);
    let device = DeviceSpec { latency: LATENCY, sync_latency: SYNC_LATENCY, ..DeviceSpec::shared(plan.device()) };
    let disk = SimFs::from_image(image, sim.clock(), device, FaultPlan::none(), sim.rng());
    let machine = Machine { fs: disk, clock: sim.clock(), spawn: sim.spawner(), salt: plan.args.seed };
    sim.block_on(drive::run(WORLD, machine, plan, name, &config, bar)).map_err(|error| format!("{name}: {error}"))
}

/// All profiles of the plan on the same data, in their order, on `threads` threads.
///
/// # Errors
/// The first that went wrong, in words.
pub fn compare(plan: &Plan, threads: usize) -> Result<Vec<Run>, String> {
    let profiles = &plan.args.profiles;
    // Before the minute that preloading may take.
    profiles.iter().try_for_each(|name| profile::config(name, plan).map(drop))?;
    let progress = Progress::default();
    let items = plan.items() * u64::from(plan.args.partitions);
    let image = image(plan, &progress.bar("preload", items))?;
    let bars: Vec<_> = profiles.iter().map(|name| progress.bar(name, plan.args.seconds)).collect();
    let (next, runs) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let (Some(name), Some(bar)) = (profiles.get(number), bars.get(number)) else { return };
            let outcome = run(plan, name, &image, bar);
            runs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((number, outcome));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(profiles.len()) {
            scope.spawn(work);
        }
        work();
    });
    let mut runs = runs.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    runs.sort_by_key(|(number, _)| *number);
    runs.into_iter().map(|(_, outcome)| outcome).collect()
}
