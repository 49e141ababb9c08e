//! Any scenario on a simulated machine.
#![allow(
    clippy::disallowed_methods,
    reason = "profiles are spread over threads of the machine; nothing inside a run sees them"
)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use indicatif::ProgressBar;
use weir_io::sim::{DeviceSpec, DiskImage, FaultPlan, Keep, Sim, SimFs};
use weir_io::{PAGE, Rng};
use weir_node::Machine;
use weir_scenario::args::Density;
use weir_scenario::capacity::{Answer, Edge, Question};
use weir_scenario::density::{self, Found};
use weir_scenario::outcome::Run;
use weir_scenario::pattern::SECOND;
use weir_scenario::plan::Plan;
use weir_scenario::progress::Progress;
use weir_scenario::{drive, preload, profile};

use super::WORLD;

/// Latency of the device after a transfer, and of a sync: those of a data-centre SSD, in nanoseconds.
const LATENCY: u64 = 80_000;
const SYNC_LATENCY: u64 = 120_000;
/// Everything must be done within this much virtual time after the end of a run, in nanoseconds.
const PATIENCE: u64 = 3_600 * SECOND;

/// The device of `plan`. It reads by the page, as in all figures of virtual time: smaller sectors, which only some
/// disks have, would make reads cheaper for all profiles alike.
fn device(plan: &Plan) -> DeviceSpec {
    let shared = DeviceSpec::shared(plan.device());
    DeviceSpec { latency: LATENCY, sync_latency: SYNC_LATENCY, sector_bytes: PAGE, ..shared }
}

/// The disk that all runs of `plan` start from.
///
/// # Errors
/// The error says in words what went wrong.
pub fn image(plan: &Plan, bar: &ProgressBar) -> Result<DiskImage, String> {
    let sim = Sim::new(plan.args.seed);
    let disk = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
    let machine = Machine { fs: disk.clone(), clock: sim.clock(), spawn: sim.spawner(), salt: plan.args.seed };
    sim.block_on(preload::preload(&machine, plan, bar)).map_err(|error| format!("preloading: {error}"))?;
    bar.finish();
    Ok(disk.crash_keeping(Keep::All, &mut Rng::new(0)))
}

/// Runs one profile on a disk that starts as `image`.
///
/// # Errors
/// The error says in words what went wrong.
pub fn run(plan: &Plan, name: &str, image: &DiskImage, bar: &ProgressBar) -> Result<Run, String> {
    let config = profile::config(name, plan)?;
    let sim = Sim::new(plan.args.seed);
    sim.set_time_limit((plan.args.seconds + plan.args.after) * SECOND + PATIENCE);
    let disk = SimFs::from_image(image, sim.clock(), device(plan), FaultPlan::none(), sim.rng());
    let machine = Machine { fs: disk, clock: sim.clock(), spawn: sim.spawner(), salt: plan.args.seed };
    sim.block_on(drive::run(WORLD, machine, plan, name, &config, bar)).map_err(|error| format!("{name}: {error}"))
}

/// Runs all profiles of the plan on the same data, in their order, on `threads` threads.
///
/// # Errors
/// The error says in words what went wrong first.
pub fn compare(plan: &Plan, threads: usize) -> Result<Vec<Run>, String> {
    let profiles = &plan.args.profiles;
    // Before the preloading, which may take a minute.
    profiles.iter().try_for_each(|name| profile::config(name, plan).map(drop))?;
    let progress = Progress::default();
    let items = plan.items() * u64::from(plan.args.partitions);
    let image = image(plan, &progress.bar("preload", items))?;
    let bars: Vec<_> = profiles.iter().map(|name| progress.bar(name, plan.args.seconds)).collect();
    let work = |number: usize| run(plan, &profiles[number], &image, &bars[number]);
    in_parallel(profiles.len(), threads, work).into_iter().collect()
}

/// How many tenants every profile carries in each week, on `threads` threads: profile by profile.
///
/// # Errors
/// The error says in words what went wrong first.
pub fn density(args: &Density, threads: usize) -> Result<Vec<Found>, String> {
    args.check()?;
    let weeks: Vec<(&String, u64)> =
        args.profiles.iter().flat_map(|name| (0..args.seeds).map(move |week| (name, args.seed + week))).collect();
    let progress = Progress::default();
    let find = |number: usize| {
        let (name, seed) = weeks[number];
        density::find(args, name, seed, |plan| {
            let tenants = plan.args.partitions;
            let preloading = progress.bar("preload", plan.items() * u64::from(tenants));
            let image = image(plan, &preloading)?;
            preloading.finish_and_clear();
            let bar = progress.bar(&format!("{name} {seed}: {tenants}"), plan.args.seconds);
            run(plan, name, &image, &bar).map(|run| run.outcome)
        })
    };
    in_parallel(weeks.len(), threads, find).into_iter().collect()
}

/// How much a machine carries, computed on at most two threads.
///
/// # Errors
/// The error says in words what went wrong first.
pub fn capacity(question: &Question<'_>, threads: usize) -> Result<Answer, String> {
    let (plan, progress) = (question.today(), Progress::default());
    let Some(profile) = plan.args.profiles.first() else { return Err("no profile was named".to_owned()) };
    let play =
        |plan: &Plan, what: &str, disk: &DiskImage| run(plan, profile, disk, &progress.bar(what, plan.args.seconds));
    let preload = |plan: &Plan| {
        let preloading = progress.bar("preload", plan.items() * u64::from(plan.args.partitions));
        let image = image(plan, &preloading);
        preloading.finish_and_clear();
        image
    };
    let disk = preload(plan)?;
    let today = question.as_it_is(|plan| play(plan, "as it is", &disk))?;
    let search = |number: usize| match number {
        0 => question.ratio(&today.tried, |plan| play(plan, &format!("ratio {:.2}", plan.bosr()), &disk)),
        _ => question
            .tenants(&today.tried, |plan| play(plan, &format!("{} tenants", plan.args.partitions), &preload(plan)?)),
    };
    let mut edges = in_parallel(2, threads, search).into_iter().collect::<Result<Vec<Edge>, _>>()?;
    let (tenants, ratio) = (edges.pop().unwrap_or_default(), edges.pop().unwrap_or_default());
    Ok(Answer { today, ratio, tenants })
}

/// The results of `work` for each number below `count`, in their order, computed on `threads` threads.
pub(super) fn in_parallel<T: Send>(count: usize, threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let take = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            let made = work(number);
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((number, made));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            scope.spawn(take);
        }
        take();
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, made)| made).collect()
}
