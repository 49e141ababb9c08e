//! `weir sim …`: every run as a command, with its seed, its figures, and what repeats a failure.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use weir_command::table::Id;
use weir_io::Rng;
use weir_log::SyncMode;
use weir_node::EngineKind;

use crate::by_command::ByCommand;
use crate::cache::Caches;
use crate::clients::{self, Load, check_dump, of_rows, write_dump};
use crate::crash::{Scenario, history};
use crate::engines::Engines;
use crate::enumerate::every_cut;
use crate::fault::{Way, fail_nth, failing_syncs, full_disk, operations};
use crate::flip::Victim;
use crate::interrupt;
use crate::kill9;
use crate::life::Promise;
use crate::metamorphic::compare;
use crate::node_store::{NodeStore, SYNC_EVERY, draw, small_on};
use crate::process::Launch;
use crate::rows_of_parts::RowsOfParts;
use crate::runner::{Failure, Plan, Tally, run};
use crate::slow::{Trouble, survive};
use crate::tamper::Choice;
use crate::tenants::Setting;
use crate::tenants::fault::{self as node_fault, When};
use crate::tenants::full;
use crate::turning::Turning;

/// Try Weir in simulated time: power cuts, failing disks, disks sold too often; and kill real servers
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Sim {
    #[command(subcommand)]
    scenario: Run,
}

const EXAMPLES: &str = "\
Examples:
  weir sim shortage --bosr 7 --profile rocksdb,weir    two profiles on a disk that was sold seven times
  weir sim shortage --help                             what every option means; the profiles, a line each
  weir sim trace --trace week.csv --profile weir       replays what `weir serve --record-traffic week.csv` wrote
  weir sim crash --seeds 1000 --sync interval          a thousand histories of power cuts
  weir sim interrupt --rounds 10                       real servers; leaves its data in ./weir-interrupt

All but kill9 and interrupt run in virtual time, on a simulated disk: they touch no file but those that --json and the like name. The same seed
gives the same run, and a failure prints the command that repeats it. docs/testing.md has what came out.";

const DUMP: &str = "\
A dump is lines of JSON. The first one names the format, its version and the command that made it. Each other line is a command and its answer:
  group        number of the group of rows that it is about; groups are checked one by one
  client       number of who asked
  from, to     when it was asked and answered, in nanoseconds of virtual time
  database     number of the database
  now_ms       the moment that it was judged by, in milliseconds since 1970
  words        the command's name and its arguments
  answer       the reply, in RESP2
  split        whether it is what an MGET said about one of its keys, put as a GET
Words and answers are bytes: each is written as one character from U+0000 to U+00FF. What tells of no row at one moment is left out: SCAN, KEYS, RANDOMKEY, DBSIZE, and
reads of several rows but for MGET.

  weir sim clients --seed 7 --only get,set,incr --dump seven.jsonl
  weir sim clients --check seven.jsonl";

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

    /// A sync that was under way when the acknowledgement came does not cover it: the next one does, and takes its
    /// time.
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
    /// Crashes: power cuts at random moments, one after the other on the same disk
    Crash {
        #[command(flatten)]
        seeds: Seeds,
        /// What rows are kept in: `lsm` or `memory`
        #[arg(long, default_value_t)]
        engine: EngineKind,
        /// What an acknowledgement promises
        #[arg(long, value_enum, default_value = "always")]
        sync: Sync,
        /// Cuts in the history of one seed
        #[arg(long, default_value_t = 50)]
        cuts: u64,
        /// Turn the knobs of the tree all the time
        #[arg(long)]
        turning: bool,
        /// Keep every value in a row of many parts
        #[arg(long, conflicts_with = "turning")]
        parts: bool,
        /// Keep every value in a row of some type, written by commands in transactions
        #[arg(long, conflicts_with_all = ["turning", "parts"])]
        by_command: bool,
    },
    /// Concurrency: many clients with all commands on rows; each history repeats, and is one that could have happened
    /// one after the other
    #[command(after_help = DUMP)]
    Clients {
        #[command(flatten)]
        seeds: Seeds,
        /// What an acknowledgement promises
        #[arg(long, value_enum, default_value = "interval")]
        sync: Sync,
        /// How many clients, five to a group of three keys
        #[arg(long, default_value_t = 1_000)]
        clients: usize,
        /// Commands of each
        #[arg(long, default_value_t = 12)]
        commands: usize,
        /// Partitions of their tenant
        #[arg(long, default_value_t = 1)]
        partitions: u16,
        /// What those keep their rows in: `lsm` or `memory`
        #[arg(long, default_value_t = EngineKind::Lsm)]
        engine: EngineKind,
        /// Draw only these commands, separated by commas: any on rows
        #[arg(long, value_name = "NAMES", value_parser = of_rows, value_delimiter = ',')]
        only: Vec<Id>,
        /// Write the history to this file before it is checked
        #[arg(long, value_name = "FILE", requires = "seed")]
        dump: Option<PathBuf>,
        /// Run nothing: check a dump, and print a verdict on each group
        #[arg(long, value_name = "FILE", exclusive = true)]
        check: Option<PathBuf>,
    },
    /// Crashes: every power cut of one workload, at every change, eight ways of what survives each
    EveryCut {
        #[command(flatten)]
        seeds: Seeds,
        /// What rows are kept in: `lsm` or `memory`
        #[arg(long, default_value_t)]
        engine: EngineKind,
        /// What an acknowledgement promises
        #[arg(long, value_enum, default_value = "always")]
        sync: Sync,
        /// Steps of the workload
        #[arg(long, default_value_t = 800)]
        steps: usize,
    },
    /// Damage: every byte of a database flipped, one at a time
    Flip {
        /// What rows are kept in: `lsm` or `memory`
        #[arg(long, default_value_t)]
        engine: EngineKind,
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
    /// Faults: the nth operation on the disk fails, for every n, in every way
    Fault {
        /// What rows are kept in: `lsm` or `memory`
        #[arg(long, default_value_t)]
        engine: EngineKind,
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
    /// Faults: syncs fail again and again, and forget what they were to make durable
    Syncs {
        #[command(flatten)]
        seeds: Seeds,
        /// What rows are kept in: `lsm` or `memory`
        #[arg(long, default_value_t)]
        engine: EngineKind,
    },
    /// Faults: the disk is full, and then it is not
    Full {
        #[command(flatten)]
        seeds: Seeds,
        /// What rows are kept in: `lsm` or `memory`
        #[arg(long, default_value_t)]
        engine: EngineKind,
        /// What an acknowledgement promises
        #[arg(long, value_enum, default_value = "always")]
        sync: Sync,
    },
    /// Faults: one tenant fills the disk of a node with many, before and after restarts
    FullNode {
        #[command(flatten)]
        seeds: Seeds,
        /// What tenants keep their rows in: `lsm`, `memory`, or both with a comma between, by turns
        #[arg(long, default_value_t)]
        engine: Engines,
        /// What an acknowledgement promises
        #[arg(long, value_enum, default_value = "always")]
        sync: Sync,
    },
    /// Faults: the nth operation of a node with many tenants fails, for every n, in every way
    NodeFault {
        #[command(flatten)]
        seeds: Seeds,
        /// What tenants keep their rows in: `lsm`, `memory`, or both with a comma between, by turns
        #[arg(long, default_value_t)]
        engine: Engines,
        /// What an acknowledgement promises
        #[arg(long, value_enum, default_value = "always")]
        sync: Sync,
        /// Only this operation
        #[arg(long)]
        nth: Option<u64>,
        /// A third of all operations fail for a while, for each of the seeds
        #[arg(long = "while", conflicts_with = "nth")]
        for_a_while: bool,
    },
    /// Answers: the same operations under random options give the same answers
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
    /// Answers: the same seed twice gives the same run
    Twice {
        #[command(flatten)]
        seeds: Seeds,
        /// What rows are kept in: `lsm` or `memory`
        #[arg(long, default_value_t)]
        engine: EngineKind,
        /// What an acknowledgement promises
        #[arg(long, value_enum, default_value = "always")]
        sync: Sync,
        /// Cuts in the history of one seed
        #[arg(long, default_value_t = 10)]
        cuts: u64,
    },
    /// Faults: a disk a hundred times slower, or hung for half a minute
    Slow {
        #[command(flatten)]
        seeds: Seeds,
        /// What rows are kept in: `lsm` or `memory`
        #[arg(long, default_value_t)]
        engine: EngineKind,
    },
    /// Space: caches whose keys expire, at their disk limits, beside others in a shortage; and the same load without
    /// expiry
    Cache {
        #[command(flatten)]
        seeds: Seeds,
        /// Seconds of virtual time
        #[arg(long, default_value_t = 300)]
        seconds: u64,
    },
    /// Faults: the wall clock jumps by up to ten years, forwards and back, over keys that expire
    Clocks {
        #[command(flatten)]
        seeds: Seeds,
        /// Lives of the node of one seed
        #[arg(long, default_value_t = 5)]
        lives: u64,
        /// Steps of each life
        #[arg(long, default_value_t = 150)]
        steps: u64,
    },
    /// Damage: every file of a node's directory in turn lost, emptied, cut, damaged, replaced by an older or another's
    /// copy
    Tamper {
        #[command(flatten)]
        seeds: Seeds,
        /// What tenants keep their rows in: `lsm`, `memory`, or both with a comma between, by turns
        #[arg(long, default_value_t)]
        engine: Engines,
        /// Ways tried on each file of a directory, drawn from about twenty
        #[arg(long, default_value_t = 4)]
        ways: usize,
        /// All ways
        #[arg(long, conflicts_with = "ways")]
        every: bool,
        /// Only this tampering of each directory
        #[arg(long, conflicts_with_all = ["ways", "every"])]
        number: Option<usize>,
    },
    /// Policies: sell the device several times over, and see who is served, profiles side by side
    Shortage {
        #[command(flatten)]
        args: weir_scenario::args::Shortage,
        /// Threads; each runs a profile at a time
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// Policies: all tenants idle, then all read or write from one second to the next
    Surge {
        #[command(flatten)]
        args: weir_scenario::args::Surge,
        /// Threads; each runs a profile at a time
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// Policies: a load just below and just above what the device can do, by turns
    Waves {
        #[command(flatten)]
        args: weir_scenario::args::Waves,
        /// Threads; each runs a profile at a time
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// Policies: replay traffic, generated or recorded by `weir serve --record-traffic`
    Trace {
        #[command(flatten)]
        args: weir_scenario::args::Replay,
        /// Threads; each runs a profile at a time
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// Processes: real servers, sent signals in the middle of backup, restore, create, drop, FLUSHALL, sleep and wake
    Interrupt {
        /// What tenants keep their rows in: `lsm`, `memory`, or both with a comma between, by turns
        #[arg(long, default_value_t)]
        engine: Engines,
        /// Rounds with each signal
        #[arg(long, default_value_t = 200)]
        rounds: u64,
        /// What is sent, separated by commas
        #[arg(long = "signal", value_name = "SIGNAL", value_enum, value_delimiter = ',', default_values_t = interrupt::Sent::ALL)]
        signals: Vec<interrupt::Sent>,
        /// Milliseconds between SIGSTOP and SIGCONT
        #[arg(long, value_name = "MS", default_value_t = 10_000)]
        stopped_ms: u64,
        /// Seed of the moments
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// An empty directory for the data and the backups
        #[arg(long, default_value = "weir-interrupt")]
        dir: PathBuf,
        /// The server's binary; this one if not given
        #[arg(long)]
        binary: Option<PathBuf>,
    },
    /// Processes: real servers, killed under load again and again
    Kill9 {
        /// What the tenant that is loaded keeps its rows in: `lsm` or `memory`
        #[arg(long, default_value_t)]
        engine: EngineKind,
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
            Run::Crash { seeds, engine, sync, cuts, turning, parts, by_command } => {
                let rows = match (turning, parts, by_command) {
                    (true, ..) => "--turning ",
                    (_, true, _) => "--parts ",
                    (.., true) => "--by-command ",
                    _ => "",
                };
                crash(seeds, engine, sync, cuts, rows)
            }
            Run::EveryCut { seeds, engine, sync, steps } => {
                let (scenario, name) = (scenario(engine, sync, 0), sync.name());
                let replay =
                    |seed| format!("weir sim every-cut --engine {engine} --sync {name} --steps {steps} --seed {seed}");
                tell("every-cut", run(&seeds.plan(), replay, |seed| every_cut::<NodeStore>(seed, steps, &scenario)))
            }
            Run::Flip { engine, at, stride, steps, threads } => flip(engine, at, stride, steps, threads),
            Run::Fault { engine, sync, nth, steps, threads } => fault(engine, sync, nth, steps, threads),
            Run::Syncs { seeds, engine } => {
                let options = small_on(engine, SyncMode::Always);
                let replay = |seed| format!("weir sim syncs --engine {engine} --seed {seed}");
                let failing = |seed| failing_syncs::<NodeStore>(seed, 60, &options, Promise::Durable);
                tell("syncs", run(&seeds.plan(), replay, failing))
            }
            Run::Clients { check: Some(dump), .. } => check_dump(&dump),
            Run::Clients { seeds, sync, clients, commands, partitions, engine, only, dump, check: None } => {
                let load = Load { clients, commands, partitions, sync: sync.mode(), only, engine };
                let replay = |seed| load.command(seed);
                let judged = |seed| {
                    let answered = clients::history(seed, &load);
                    if let Some(path) = &dump {
                        write_dump(path, &replay(seed), &answered)?;
                    }
                    clients::judge(answered, seed, &load)
                };
                tell("clients", run(&seeds.plan(), replay, judged))
            }
            Run::Full { seeds, engine, sync } => {
                let (options, name) = (small_on(engine, sync.mode()), sync.name());
                let replay = |seed| format!("weir sim full --engine {engine} --sync {name} --seed {seed}");
                tell("full", run(&seeds.plan(), replay, |seed| full_disk::<NodeStore>(seed, &options, sync.promise())))
            }
            Run::FullNode { seeds, engine, sync } => {
                let replay =
                    |seed| format!("weir sim full-node --engine {engine} --sync {} --seed {seed}", sync.name());
                let setting = Setting { engines: engine.clone(), sync: sync.mode() };
                tell("full-node", run(&seeds.plan(), replay, |seed| full::full_disk(seed, &setting)))
            }
            Run::NodeFault { seeds, engine, sync, nth, for_a_while } => {
                node_fault(seeds, &Setting { engines: engine, sync: sync.mode() }, nth, for_a_while)
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
            Run::Twice { seeds, engine, sync, cuts } => {
                let (scenario, name) = (scenario(engine, sync, cuts), sync.name());
                let replay =
                    |seed| format!("weir sim twice --engine {engine} --sync {name} --cuts {cuts} --seed {seed}");
                tell("twice", run(&seeds.plan(), replay, |seed| crate::crash::twice::<NodeStore>(seed, &scenario)))
            }
            Run::Slow { seeds, engine } => slow(seeds, engine),
            Run::Clocks { seeds, lives, steps } => {
                let replay = |seed| format!("weir sim clocks --lives {lives} --steps {steps} --seed {seed}");
                let jumps = |seed| {
                    crate::clocks::indifferent(seed, false)?;
                    crate::clocks::jump(seed, lives, steps)
                };
                tell("clocks", run(&seeds.plan(), replay, jumps))
            }
            Run::Tamper { seeds, engine, ways, every, number } => {
                let choice = if every { Choice::Every } else { number.map_or(Choice::Ways(ways), Choice::Number) };
                tamper(seeds, &engine, choice)
            }
            Run::Cache { seeds, seconds } => {
                let replay = |seed| format!("weir sim cache --seconds {seconds} --seed {seed}");
                for (name, what) in [("cache", Caches::Expire), ("without expiry", Caches::Overwrite)] {
                    let plan = Plan { progress: false, ..seeds.plan() };
                    tell(name, run(&plan, replay, |seed| crate::cache::run(seed, seconds, what)))?;
                }
                Ok(())
            }
            Run::Shortage { args, threads } => side_by_side(weir_scenario::plan::Plan::new(args)?, threads),
            Run::Surge { args, threads } => side_by_side(args.plan()?, threads),
            Run::Waves { args, threads } => side_by_side(args.plan()?, threads),
            Run::Trace { args, threads } => side_by_side(args.plan()?, threads),
            Run::Interrupt { engine: engines, rounds, signals, stopped_ms, seed, dir, binary } => {
                let stopped = Duration::from_millis(stopped_ms);
                let binary = or_this(binary)?;
                let repeat =
                    format!("repeat with: weir sim interrupt --engine {engines} --rounds {rounds} --seed {seed}");
                let options =
                    interrupt::Options { binary, engines, dir, signals, rounds, stopped, seed, progress: true };
                let figures = interrupt::run(&options)
                    .map_err(|story| format!("interrupt: {story}\n{repeat} (its signals come at other moments)"))?;
                println!("interrupt: {figures}");
                Ok(())
            }
            Run::Kill9 { engine, rounds, seed, dir, binary, arguments } => {
                let launch = Launch { binary: or_this(binary)?, dir, arguments };
                let options = kill9::Options { launch, engine, rounds, seed };
                let kills = kill9::run(&options).map_err(|story| format!("kill9: {story}\nrepeat with: weir sim kill9 --engine {engine} --rounds {rounds} --seed {seed} (its kills fall at other moments)"))?;
                println!("kill9: {kills}");
                Ok(())
            }
        }
    }
}

/// The binary that was named, or this one.
fn or_this(binary: Option<PathBuf>) -> Result<PathBuf, String> {
    let here = || std::env::current_exe().map_err(|error| format!("cannot find this binary: {error}"));
    binary.map_or_else(here, Ok)
}

fn side_by_side(plan: weir_scenario::plan::Plan, threads: usize) -> Result<(), String> {
    print!("{}", weir_scenario::table::heading(&plan));
    let runs = crate::scenario::compare(&plan, threads)?;
    weir_scenario::deliver(&plan, &runs)
}

fn scenario(engine: EngineKind, sync: Sync, cuts: u64) -> Scenario<weir_node::NodeConfig> {
    Scenario { options: small_on(engine, sync.mode()), promise: sync.promise(), cuts, plant: None }
}

fn crash(seeds: Seeds, engine: EngineKind, sync: Sync, cuts: u64, rows: &str) -> Result<(), String> {
    let (scenario, name) = (scenario(engine, sync, cuts), sync.name());
    let replay = |seed| format!("weir sim crash {rows}--engine {engine} --sync {name} --cuts {cuts} --seed {seed}");
    let histories = |seed| match rows {
        "--turning " => history::<Turning>(seed, &scenario),
        "--parts " => history::<RowsOfParts>(seed, &scenario),
        "--by-command " => history::<ByCommand>(seed, &scenario),
        _ => history::<NodeStore>(seed, &scenario),
    };
    tell("crash", run(&seeds.plan(), replay, histories))
}

fn flip(engine: EngineKind, at: Option<u64>, stride: u64, steps: usize, threads: usize) -> Result<(), String> {
    let scenario = scenario(engine, Sync::Interval, 0);
    for closed in [true, false] {
        let victim = Victim::new::<NodeStore>(1, steps, closed, &scenario)?;
        if let Some(at) = at {
            println!("closed {closed}: {}", victim.flip::<NodeStore>(at, &scenario)?);
            continue;
        }
        let plan = Plan { seeds: 0..0, threads, progress: true };
        let replay = |at| format!("weir sim flip --engine {engine} --steps {steps} --at {at}");
        let name = format!("flip ({}, {} bytes)", if closed { "closed" } else { "killed" }, victim.bytes());
        tell(&name, victim.flip_all::<NodeStore>(stride, &plan, replay, &scenario))?;
    }
    Ok(())
}

fn tamper(seeds: Seeds, engines: &Engines, choice: Choice) -> Result<(), String> {
    let replay = |seed| format!("weir sim tamper --engine {engines} --every --seed {seed}");
    let figures = run(&seeds.plan(), replay, |seed| crate::tamper::tamper(seed, engines, choice));
    let figures = figures.map_err(|failure| format!("tamper: {failure}"))?;
    println!("tamper: {figures}");
    for (way, count) in &figures.by_way {
        println!("    {count:>8} {}", way.name());
    }
    match figures.violations(engines) {
        none if none.is_empty() => Ok(()),
        some => Err(format!("tamper: violations\n{some}")),
    }
}

fn fault(engine: EngineKind, sync: Sync, nth: Option<u64>, steps: usize, threads: usize) -> Result<(), String> {
    let (options, promise, name) = (small_on(engine, sync.mode()), sync.promise(), sync.name());
    let operations = operations::<NodeStore>(1, steps, &options, promise)?;
    for way in Way::ALL {
        let seeds = nth.map_or(0..operations, |nth| nth..nth + 1);
        let plan = Plan { seeds, threads, progress: true };
        let replay = |nth| format!("weir sim fault --engine {engine} --sync {name} --steps {steps} --nth {nth}");
        let failing = |nth| fail_nth::<NodeStore>(1, steps, &options, promise, way, nth);
        tell(&format!("fault ({way:?}, each of {operations} operations)"), run(&plan, replay, failing))?;
    }
    Ok(())
}

fn node_fault(seeds: Seeds, setting: &Setting, nth: Option<u64>, for_a_while: bool) -> Result<(), String> {
    let Setting { engines, sync } = setting;
    let command = format!("weir sim node-fault --engine {engines} --sync {}", sync.name());
    for way in node_fault::WAYS.into_iter().filter(|(kind, _)| kind.is_some() || !for_a_while) {
        if for_a_while {
            let replay = |seed| format!("{command} --while --seed {seed}");
            let failing = |seed| node_fault::one_run(seed, setting, way, When::ForAWhile);
            tell(&format!("node-fault ({way:?}, for a while)"), run(&seeds.plan(), replay, failing))?;
            continue;
        }
        let seed = seeds.seed.unwrap_or(1);
        let operations = node_fault::operations(seed, setting, way.0)?;
        let numbers = nth.map_or(0..operations, |nth| nth..nth + 1);
        let plan = Plan { seeds: numbers, threads: seeds.threads, progress: true };
        let replay = |nth| format!("{command} --seed {seed} --nth {nth}");
        let failing = |nth| node_fault::one_run(seed, setting, way, When::Once(nth));
        tell(&format!("node-fault ({way:?}, each of {operations} operations)"), run(&plan, replay, failing))?;
    }
    Ok(())
}

fn slow(seeds: Seeds, engine: EngineKind) -> Result<(), String> {
    for seed in seeds.plan().seeds {
        for trouble in [Trouble::Slow, Trouble::Hung] {
            for sync in [SyncMode::Always, SyncMode::Interval] {
                let outcome = survive(seed, engine, trouble, sync);
                let outcome = outcome.map_err(|story| {
                    format!("slow: {trouble:?}, {sync:?}: {story}\nrepeat with: weir sim slow --engine {engine} --seed {seed}")
                })?;
                println!("slow: {trouble:?}, {sync:?}: {outcome}");
            }
        }
    }
    Ok(())
}
