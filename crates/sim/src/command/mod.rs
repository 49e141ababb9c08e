//! `weir sim …`: every run as a command, with its seed, its figures, and the command that repeats a failure.

mod runs;
mod scenarios;
mod settings;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use weir_io::Rng;
use weir_log::SyncMode;
use weir_scenario::{print, println, save};

use self::runs::{crash, fault, flip, node_fault, scenario, side_by_side, slow, tamper, tell, ycsb};
use self::scenarios::Run;
use self::settings::Terms;
use crate::cache::Caches;
use crate::clients::{self, Load, check_dump, write_dump};
use crate::enumerate::every_cut;
use crate::fault::{failing_syncs, full_disk};
use crate::interrupt;
use crate::kill9;
use crate::life::Promise;
use crate::metamorphic::compare;
use crate::node_store::{NodeStore, draw, small_on};
use crate::process::Launch;
use crate::runner::{Plan, run};
use crate::served;
use crate::steps::Steps;
use crate::tamper::Choice;
use crate::tenants::Setting;
use crate::tenants::full;

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
  weir sim shortage --bosr 7 --profile weir,weir-without-stage-2    what an ingredient of the default profile pays
  weir sim trace --trace week.csv --profile weir       replays what `weir serve --record-traffic week.csv` wrote
  weir sim bursts --profile rocksdb,silk,weir          peaks of 100 s with valleys of 10 s: whose compactions come too late?
  weir sim steady --gets 50                            how evenly a hundred clients are served, by profile
  weir sim ycsb --workload A,E --seeds 3               two of YCSB's workloads, profiles side by side, three seeds
  weir sim density --seeds 3                           how many bursty tenants one machine carries, by profile
  weir sim sleepers                                    more partitions than fit awake, which sleep and are woken
  weir sim delta-buffer                                who waits for write memory beside tenants that use all of it
  weir sim delta-cache                                 how soon a tenant that rested has its blocks in the cache again
  weir sim delta-rmw                                   the same for a tenant that reads and writes, and needs memory, too
  weir sim delta-mix                                   the same with 64 tenants of many kinds
  weir sim crash --seeds 1000 --sync interval          a thousand histories of power cuts
  weir sim served --faults full --engine memory        a whole server on a full disk that has space again later, and power cuts
  weir sim interrupt --rounds 10                       real servers; leaves its data in ./weir-interrupt

All but kill9 and interrupt run in virtual time, on a simulated disk: they touch no file but those that --json and the like name. The same seed
gives the same run, and a failure prints the command that repeats it. docs/testing.md has what came out.";

impl Sim {
    /// Runs the scenario.
    ///
    /// # Errors
    /// The error says what went wrong, with the command that repeats it.
    pub fn run(self) -> Result<(), String> {
        match self.scenario {
            Run::Crash { seeds, terms: Terms { engine, sync }, cuts, turning, parts, by_command } => {
                let rows = match (turning, parts, by_command) {
                    (true, ..) => "--turning ",
                    (_, true, _) => "--parts ",
                    (.., true) => "--by-command ",
                    _ => "",
                };
                crash(seeds, engine, sync, cuts, rows)
            }
            Run::Served { seeds, terms: Terms { engine, sync }, cuts, faults } => {
                let setting = served::Setting { engine, sync: sync.mode(), cuts, faults };
                let replay = |seed| setting.command(seed);
                tell("served", run(&seeds.plan(), replay, |seed| served::history(seed, setting)))
            }
            Run::EveryCut { seeds, terms: Terms { engine, sync }, steps } => {
                let (scenario, name) = (scenario(engine, sync, 0), sync.name());
                let replay =
                    |seed| format!("weir sim every-cut --engine {engine} --sync {name} --steps {steps} --seed {seed}");
                tell("every-cut", run(&seeds.plan(), replay, |seed| every_cut::<NodeStore>(seed, steps, &scenario)))
            }
            Run::Flip { engine, at, stride, steps, threads } => flip(engine, at, stride, steps, threads),
            Run::Fault { terms: Terms { engine, sync }, nth, steps, threads } => {
                fault(engine, sync, nth, steps, threads)
            }
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
            Run::Full { seeds, terms: Terms { engine, sync } } => {
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
            Run::Twice { seeds, terms: Terms { engine, sync }, cuts } => {
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
            Run::Bursts { args, threads } => side_by_side(args.plan()?, threads),
            Run::Trace { args, threads } => side_by_side(args.plan()?, threads),
            Run::Steady { args, threads } => side_by_side(args.plan()?, threads),
            Run::Ycsb { args, threads } => ycsb(&args, threads),
            Run::Density { args, threads } => {
                if !save::is_stdout(args.json.as_deref()) {
                    print!("{}", weir_scenario::density::heading(&args));
                }
                let found = crate::scenario::density(&args, threads)?;
                weir_scenario::density::deliver(&args, crate::scenario::WORLD, &found)
            }
            Run::Sleepers { args, threads } => side_by_side(args.plan()?, threads),
            Run::DeltaBuffer(args) => crate::delta::side_by_side(&args),
            Run::DeltaCache(args) => crate::delta::caches_side_by_side(&args),
            Run::DeltaFlush(args) => crate::delta::flushes_side_by_side(&args),
            Run::WalCascade(args) => crate::delta::cascades_side_by_side(&args),
            Run::DeltaRmw(args) => crate::delta::changes_side_by_side(&args),
            Run::DeltaMix(args) => crate::delta::mixes_side_by_side(&args),
            Run::Interrupt { engine: engines, rounds, signals, stopped_ms, seed, dir, binary } => {
                let stopped = Duration::from_millis(stopped_ms);
                let binary = or_this(binary)?;
                let options =
                    interrupt::Options { binary, engines, dir, signals, rounds, stopped, seed, progress: true };
                let figures = interrupt::run(&options).map_err(|story| {
                    let repeat = options.command();
                    format!("interrupt: {story}\nrepeat with: {repeat} (its signals come at other moments)")
                })?;
                println!("interrupt: {figures}");
                Ok(())
            }
            Run::Kill9 { engine, log, by_command, rounds, seed, dir, binary, arguments } => {
                let launch = Launch { binary: or_this(binary)?, dir, arguments };
                let options = kill9::Options { launch, engine, log, rounds, seed };
                let (run, how): (fn(&_) -> _, _) =
                    if by_command { (kill9::run::<Steps>, "--by-command ") } else { (kill9::run::<kill9::Line>, "") };
                let kills = run(&options).map_err(|story| {
                    let repeat = options.command(how);
                    format!("kill9: {story}\nrepeat with: {repeat} (its kills fall at other moments)")
                })?;
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
