//! Runs a scenario for many seeds on a few threads, and turns a failure into a command that repeats it.
#![allow(
    clippy::disallowed_methods,
    reason = "seeds are spread over threads of the machine; nothing inside a run sees them"
)]

use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use weir_scenario::eprintln;

/// Figures that add up over seeds.
pub trait Tally: Default + Send + fmt::Display {
    /// Adds the figures of another seed.
    fn merge(&mut self, other: Self);
}

/// A run that went wrong, and the command that repeats it.
#[derive(Debug)]
pub struct Failure {
    /// The seed that failed; the lowest one, if several did.
    pub seed: u64,
    /// What went wrong.
    pub story: String,
    /// The command that repeats exactly this run.
    pub replay: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {}\nrepeat with: {}", self.seed, self.story, self.replay)
    }
}

impl std::error::Error for Failure {}

/// How the seeds of a scenario are spread over threads.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seeds to run.
    pub seeds: Range<u64>,
    /// Threads; seeds are independent of one another.
    pub threads: usize,
    /// Print progress to stderr every few seconds.
    pub progress: bool,
}

impl Plan {
    /// One thread, no output: for tests.
    pub fn quiet(seeds: Range<u64>) -> Self {
        Self { seeds, threads: 1, progress: false }
    }
}

/// Runs `scenario` for every seed and adds up; ends early at a failure. A panic inside is a failure like any other.
pub fn run<T: Tally>(
    plan: &Plan,
    replay: impl Fn(u64) -> String + Sync,
    scenario: impl Fn(u64) -> Result<T, String> + Sync,
) -> Result<T, Failure> {
    let next = AtomicU64::new(plan.seeds.start);
    let shared = Mutex::new((T::default(), None::<Failure>));
    let (started, talked) = (Instant::now(), AtomicU64::new(0));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= plan.seeds.end {
                return;
            }
            let outcome =
                catch_unwind(AssertUnwindSafe(|| scenario(seed))).unwrap_or_else(|panic| Err(message(&*panic)));
            let mut shared = shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            match outcome {
                Ok(tally) => shared.0.merge(tally),
                Err(story) => {
                    next.store(plan.seeds.end, Ordering::Relaxed);
                    if shared.1.as_ref().is_none_or(|earlier| seed < earlier.seed) {
                        shared.1 = Some(Failure { seed, story, replay: replay(seed) });
                    }
                }
            }
            let seconds = started.elapsed().as_secs();
            if plan.progress && seconds >= talked.load(Ordering::Relaxed) + 5 {
                talked.store(seconds, Ordering::Relaxed);
                let done = seed + 1 - plan.seeds.start;
                eprintln!("{seconds:>5} s  {done} of {} seeds: {}", plan.seeds.end - plan.seeds.start, shared.0);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..plan.threads {
            scope.spawn(work);
        }
        work();
    });
    let (tally, failure) = shared.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    failure.map_or(Ok(tally), Err)
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panicked: {}", text.unwrap_or("(no message)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Sum(u64);

    impl fmt::Display for Sum {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{}", self.0)
        }
    }

    impl Tally for Sum {
        fn merge(&mut self, other: Self) {
            self.0 += other.0;
        }
    }

    #[test]
    fn every_seed_runs_once_on_any_number_of_threads() {
        for threads in 1..4 {
            let plan = Plan { threads, ..Plan::quiet(10..20) };
            let sum = run(&plan, |_| String::new(), |seed| Ok(Sum(seed))).expect("nothing fails");
            assert_eq!(sum.0, (10..20).sum::<u64>());
        }
    }

    #[test]
    fn errors_and_panics_name_the_seed_and_the_way_back() {
        let failing = |seed| if seed == 3 { Err("wrong value".to_owned()) } else { Ok(Sum(0)) };
        let failure = run(&Plan::quiet(0..9), |seed| format!("weir sim x --seed {seed}"), failing).err();
        let failure = failure.expect("seed 3 fails");
        assert_eq!((failure.seed, failure.replay.as_str()), (3, "weir sim x --seed 3"));
        let panicking = |seed: u64| -> Result<Sum, String> { Ok(Sum(7_u64.checked_sub(seed).expect("at most 7"))) };
        assert_eq!(run(&Plan::quiet(0..9), |_| String::new(), panicking).err().map(|failure| failure.seed), Some(8));
    }
}
