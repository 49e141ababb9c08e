//! `weir sim …`: every run as a command, with its seed, its figures, and what repeats a failure.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use weir_io::Rng;
use weir_log::SyncMode;

use crate::crash::{Scenario, history};
use crate::enumerate::every_cut;
use crate::fault::{Way, fail_nth, failing_syncs, full_disk, operations};
use crate::flip::Victim;
use crate::kill9;
use crate::life::Promise;
use crate::metamorphic::compare;
use crate::node_store::{NodeStore, SYNC_EVERY, draw, small};
use crate::runner::{Failure, Plan, Tally, run};
use crate::slow::{Trouble, survive};
use crate::turning::Turning;

/// Lives through power cuts, failing disks and kills, in virtual time or with real processes
#[derive(Clone, Debug, Args)]
pub struct Sim {
    #[command(subcommand)]
    scenario: Run,
}

/// Where seeds begin, how many there are, and on how many threads they run.
#[derive(Clone, Copy, Debug, Args)]
struct Seeds {
    /// Only this seed: repeats one run
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Threads
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

impl Seeds {
    fn plan(&self) -> Plan {
        let seeds = self.seed.map_or(self.from..self.from + self.seeds, |seed| seed..seed + 1);
        Plan { seeds, threads: self.threads, progress: true }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sync {
    Always,
    Interval,
    None,
}

impl Sync {
    fn mode(self) -> SyncMode {
        match self {
            Sync::Always => SyncMode::Always,
            Sync::Interval => SyncMode::Interval,
            Sync::None => SyncMode::None,
        }
    }

    /// A sync that was under way when the acknowledgement came does not cover it: the next one does, and takes its time.
    fn promise(self) -> Promise {
        match self {
            Sync::Always => Promise::Durable,
            Sync::Interval => Promise::Within(2 * SYNC_EVERY + 50_000_000),
            Sync::None => Promise::Nothing,
        }
    }

    fn name(self) -> &'static str {
        self.mode().name()
    }
}

#[derive(Clone, Debug, Subcommand)]
enum Run {
    /// Power cuts at random moments, one after the other on the same disk
    Crash {
        #[command(flatten)]
        seeds: Seeds,
        /// What an acknowledgement promises
        #[arg(long, value_enum, default_value = "always")]
        sync: Sync,
        /// Cuts in the history of one seed
        #[arg(long, default_value_t = 50)]
        cuts: u64,
        /// Turn the knobs of the tree all the time
        #[arg(long)]
        turning: bool,
    },
    /// Every power cut of one workload: at every change, with eight survivors each
    EveryCut {
        #[command(flatten)]
        seeds: Seeds,
        /// What an acknowledgement promises
        #[arg(long, value_enum, default_value = "always")]
        sync: Sync,
        /// Steps of the workload
        #[arg(long, default_value_t = 800)]
        steps: usize,
    },
    /// Every byte of a database damaged, one at a time
    Flip {
        /// Only this byte
        #[arg(long)]
        at: Option<u64>,
        /// Every so many bytes
        #[arg(long, default_value_t = 1)]
        stride: u64,
        /// Writes that make the database
        #[arg(long, default_value_t = 1_000)]
        steps: usize,
        /// Threads
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// The nth operation fails, for every n, in every way
    Fault {
        /// What an acknowledgement promises
        #[arg(long, value_enum, default_value = "always")]
        sync: Sync,
        /// Only this operation
        #[arg(long)]
        nth: Option<u64>,
        /// Steps of the workload
        #[arg(long, default_value_t = 300)]
        steps: usize,
        /// Threads
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// Syncs fail again and again, and forget what they were to make durable
    Syncs {
        #[command(flatten)]
        seeds: Seeds,
    },
    /// The disk is full, and then it is not
    Full {
        #[command(flatten)]
        seeds: Seeds,
        /// What an acknowledgement promises
        #[arg(long, value_enum, default_value = "always")]
        sync: Sync,
    },
    /// The same operations under random options give the same answers
    Same {
        #[command(flatten)]
        seeds: Seeds,
        /// Operations of a list
        #[arg(long, default_value_t = 10_000)]
        operations: u64,
        /// Option sets for each list
        #[arg(long, default_value_t = 10)]
        options: u64,
    },
    /// The same seed twice gives the same day
    Twice {
        #[command(flatten)]
        seeds: Seeds,
        /// What an acknowledgement promises
        #[arg(long, value_enum, default_value = "always")]
        sync: Sync,
        /// Cuts in the history of one seed
        #[arg(long, default_value_t = 10)]
        cuts: u64,
    },
    /// A disk a hundred times slower, or hung for half a minute
    Slow {
        #[command(flatten)]
        seeds: Seeds,
    },
    /// Sells the device several times over, and looks who is served: profiles side by side
    Shortage {
        #[command(flatten)]
        args: weir_scenario::args::Shortage,
        /// Threads; each runs a profile at a time
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// Silence, and then everything at once
    Surge {
        #[command(flatten)]
        args: weir_scenario::args::Surge,
        /// Threads; each runs a profile at a time
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// A load just below and just above what the device can do, by turns
    Waves {
        #[command(flatten)]
        args: weir_scenario::args::Waves,
        /// Threads; each runs a profile at a time
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// A week of a node's traffic, at its own times
    Trace {
        #[command(flatten)]
        args: weir_scenario::args::Replay,
        /// Threads; each runs a profile at a time
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// Real servers, really killed
    Kill9 {
        /// Kills
        #[arg(long, default_value_t = 100)]
        rounds: u64,
        /// Seed of the moments
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// An empty directory for the data
        #[arg(long, default_value = "weir-kill9")]
        dir: PathBuf,
        /// The server's binary; this one if not given
        #[arg(long)]
        binary: Option<PathBuf>,
        /// More arguments for `weir serve`
        #[arg(last = true)]
        arguments: Vec<String>,
    },
}

/// Prints the figures; a failure becomes the error.
fn tell<T: Tally>(name: &str, outcome: Result<T, Failure>) -> Result<(), String> {
    outcome.map(|figures| println!("{name}: {figures}")).map_err(|failure| format!("{name}: {failure}"))
}

impl Sim {
    /// Runs the scenario.
    ///
    /// # Errors
    /// What went wrong, with the command that repeats it.
    pub fn run(self) -> Result<(), String> {
        match self.scenario {
            Run::Crash { seeds, sync, cuts, turning } => crash(seeds, sync, cuts, turning),
            Run::EveryCut { seeds, sync, steps } => {
                let (scenario, name) = (scenario(sync, 0), sync.name());
                let replay = |seed| format!("weir sim every-cut --sync {name} --steps {steps} --seed {seed}");
                tell("every-cut", run(&seeds.plan(), replay, |seed| every_cut::<NodeStore>(seed, steps, &scenario)))
            }
            Run::Flip { at, stride, steps, threads } => flip(at, stride, steps, threads),
            Run::Fault { sync, nth, steps, threads } => fault(sync, nth, steps, threads),
            Run::Syncs { seeds } => {
                let options = small(SyncMode::Always);
                let replay = |seed| format!("weir sim syncs --seed {seed}");
                let failing = |seed| failing_syncs::<NodeStore>(seed, 60, &options, Promise::Durable);
                tell("syncs", run(&seeds.plan(), replay, failing))
            }
            Run::Full { seeds, sync } => {
                let (options, name) = (small(sync.mode()), sync.name());
                let replay = |seed| format!("weir sim full --sync {name} --seed {seed}");
                tell("full", run(&seeds.plan(), replay, |seed| full_disk::<NodeStore>(seed, &options, sync.promise())))
            }
            Run::Same { seeds, operations, options } => {
                let replay =
                    |seed| format!("weir sim same --operations {operations} --options {options} --seed {seed}");
                let same = |seed| {
                    let mut rng = Rng::new(seed);
                    let variants: Vec<_> = (0..options).map(|_| draw(&mut rng, SyncMode::None)).collect();
                    compare::<NodeStore>(seed, operations, &variants, 3)
                };
                tell("same", run(&seeds.plan(), replay, same))
            }
            Run::Twice { seeds, sync, cuts } => {
                let (scenario, name) = (scenario(sync, cuts), sync.name());
                let replay = |seed| format!("weir sim twice --sync {name} --cuts {cuts} --seed {seed}");
                tell("twice", run(&seeds.plan(), replay, |seed| crate::crash::twice::<NodeStore>(seed, &scenario)))
            }
            Run::Slow { seeds } => slow(seeds),
            Run::Shortage { args, threads } => side_by_side(weir_scenario::plan::Plan::new(args)?, threads),
            Run::Surge { args, threads } => side_by_side(args.plan()?, threads),
            Run::Waves { args, threads } => side_by_side(args.plan()?, threads),
            Run::Trace { args, threads } => side_by_side(args.plan()?, threads),
            Run::Kill9 { rounds, seed, dir, binary, arguments } => {
                let here = || std::env::current_exe().map_err(|error| format!("cannot find this binary: {error}"));
                let binary = binary.map_or_else(here, Ok)?;
                let options = kill9::Options { binary, dir, arguments, rounds, seed };
                let kills = kill9::run(&options).map_err(|story| format!("kill9: {story}\nrepeat with: weir sim kill9 --rounds {rounds} --seed {seed} (its kills fall at other moments)"))?;
                println!("kill9: {kills}");
                Ok(())
            }
        }
    }
}

fn side_by_side(plan: weir_scenario::plan::Plan, threads: usize) -> Result<(), String> {
    print!("{}", weir_scenario::table::heading(&plan));
    let runs = crate::scenario::compare(&plan, threads)?;
    weir_scenario::deliver(&plan, &runs)
}

fn scenario(sync: Sync, cuts: u64) -> Scenario<weir_node::NodeConfig> {
    Scenario { options: small(sync.mode()), promise: sync.promise(), cuts, plant: None }
}

fn crash(seeds: Seeds, sync: Sync, cuts: u64, turning: bool) -> Result<(), String> {
    let (scenario, name) = (scenario(sync, cuts), sync.name());
    let turned = if turning { "--turning " } else { "" };
    let replay = |seed| format!("weir sim crash --sync {name} --cuts {cuts} {turned}--seed {seed}");
    let histories = |seed| match turning {
        true => history::<Turning>(seed, &scenario),
        false => history::<NodeStore>(seed, &scenario),
    };
    tell("crash", run(&seeds.plan(), replay, histories))
}

fn flip(at: Option<u64>, stride: u64, steps: usize, threads: usize) -> Result<(), String> {
    let scenario = scenario(Sync::Interval, 0);
    for closed in [true, false] {
        let victim = Victim::new::<NodeStore>(1, steps, closed, &scenario)?;
        if let Some(at) = at {
            println!("closed {closed}: {}", victim.flip::<NodeStore>(at, &scenario)?);
            continue;
        }
        let plan = Plan { seeds: 0..0, threads, progress: true };
        let replay = |at| format!("weir sim flip --steps {steps} --at {at}");
        let name = format!("flip ({}, {} bytes)", if closed { "closed" } else { "killed" }, victim.bytes());
        tell(&name, victim.flip_all::<NodeStore>(stride, &plan, replay, &scenario))?;
    }
    Ok(())
}

fn fault(sync: Sync, nth: Option<u64>, steps: usize, threads: usize) -> Result<(), String> {
    let (options, promise, name) = (small(sync.mode()), sync.promise(), sync.name());
    let operations = operations::<NodeStore>(1, steps, &options, promise)?;
    for way in Way::ALL {
        let seeds = nth.map_or(0..operations, |nth| nth..nth + 1);
        let plan = Plan { seeds, threads, progress: true };
        let replay = |nth| format!("weir sim fault --sync {name} --steps {steps} --nth {nth}");
        let failing = |nth| fail_nth::<NodeStore>(1, steps, &options, promise, way, nth);
        tell(&format!("fault ({way:?}, each of {operations} operations)"), run(&plan, replay, failing))?;
    }
    Ok(())
}

fn slow(seeds: Seeds) -> Result<(), String> {
    for seed in seeds.plan().seeds {
        for trouble in [Trouble::Slow, Trouble::Hung] {
            for sync in [SyncMode::Always, SyncMode::Interval] {
                let outcome = survive(seed, trouble, sync);
                let outcome = outcome.map_err(|story| {
                    format!("slow: {trouble:?}, {sync:?}: {story}\nrepeat with: weir sim slow --seed {seed}")
                })?;
                println!("slow: {trouble:?}, {sync:?}: {outcome}");
            }
        }
    }
    Ok(())
}
