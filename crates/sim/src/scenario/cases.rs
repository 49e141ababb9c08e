//! YCSB's workloads on a simulated machine: every case under every profile, with every seed.

use weir_io::sim::DiskImage;
use weir_scenario::args::Ycsb;
use weir_scenario::outcome::Run;
use weir_scenario::plan::Plan;
use weir_scenario::profile;
use weir_scenario::progress::Progress;
use weir_scenario::ycsb::Case;

use super::virtual_time::{image, in_parallel, run};

/// The cases to run: seed by seed, case by case, profile by profile.
pub struct Cases {
    first: Plan,
    plans: Vec<(Case, Plan)>,
    seeds: usize,
}

impl Cases {
    /// The cases that `args` ask for.
    ///
    /// # Errors
    /// The error says in words what cannot be run.
    pub fn of(args: &Ycsb) -> Result<Self, String> {
        let mut plans = Vec::new();
        for seed in args.seed..args.seed + args.seeds {
            for case in args.cases() {
                plans.push((case, args.plan_in_virtual_time(case, seed)?));
            }
        }
        let (_, first) = plans.first().cloned().ok_or("no workload was named")?;
        // Before the preloading, which may take a minute.
        args.profiles.iter().try_for_each(|name| profile::config(name, &first).map(drop))?;
        Ok(Self { first, plans, seeds: args.seeds as usize })
    }

    /// The plan that runs first.
    pub fn first(&self) -> &Plan {
        &self.first
    }

    /// The profile that others are compared with: `rocksdb` if it is among them, else the first.
    pub fn compared_with(&self) -> &str {
        let profiles = &self.first.args.profiles;
        let rocksdb = profiles.iter().find(|name| *name == "rocksdb");
        rocksdb.or(profiles.first()).map_or("", String::as_str)
    }

    /// Runs all cases on `threads` threads. All cases of a seed find the same data.
    ///
    /// # Errors
    /// The error says in words what went wrong first.
    pub fn run(&self, threads: usize) -> Result<Vec<(Case, Run)>, String> {
        let (progress, of_seed) = (Progress::default(), self.plans.len() / self.seeds);
        let preload = |number: usize| {
            let (_, plan) = &self.plans[number * of_seed];
            let bar = progress.bar("preload", plan.items() * u64::from(plan.args.partitions));
            let image = image(plan, &bar);
            bar.finish_and_clear();
            image
        };
        let images = in_parallel(self.seeds, threads, preload).into_iter().collect::<Result<Vec<DiskImage>, _>>()?;
        let profiles = &self.first.args.profiles;
        let one = |number: usize| {
            let (at, name) = (number / profiles.len(), &profiles[number % profiles.len()]);
            let (case, plan) = &self.plans[at];
            let bar = progress.bar(&format!("{case} {name} {}", plan.args.seed), plan.args.seconds);
            let run = run(plan, name, &images[at / of_seed], &bar)?;
            bar.finish_and_clear();
            Ok((*case, run))
        };
        in_parallel(self.plans.len() * profiles.len(), threads, one).into_iter().collect()
    }
}
