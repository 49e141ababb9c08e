//! `weir bench`: the load, the peers, and the table of results.

#![allow(clippy::disallowed_methods, reason = "it writes a report where the user asked for it")]

mod density;
mod large;
mod scenario;
mod tenants;
mod types;
mod ycsb;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use weir_bench::entry::{Engine, Entry};
use weir_bench::harness::session::Program;
use weir_bench::outcome::Outcome;
use weir_bench::rounds::{ChildProcess, Plan};
use weir_bench::settings::Settings;
use weir_bench::work::{Size, Until, Work};
use weir_bench::{Result, child, disk, ledger, peer, redis, report, rounds};
use weir_scenario::args::{self, Scenario};
use weir_scenario::progress::spinner;

/// Measure Weir, next to a peer where one is named.
#[derive(Debug, Args)]
#[command(after_help = STATUS)]
pub struct Bench {
    #[command(subcommand)]
    what: What,
}

const STATUS: &str = "\
Ends with status 0 if everything was measured, whatever the verdicts on the figures (met, MISSED, not met): these are of
this machine, and of this hour.";

#[derive(Debug, Subcommand)]
enum What {
    /// The storage engine, in process, against RocksDB
    Engine(EngineArgs),
    /// The server, over the wire, against Redis: `redis-benchmark`, unchanged
    ///
    /// Three servers in turn, in every round: `weir serve` with its defaults; the same with a tenant that has a secret
    /// and limits far above the load, and other tenants beside it (weir-tenants); and redis-server. The second table
    /// compares weir-tenants with the other two: the rows of weir show what a login, limits and tenants cost, in
    /// requests per second and in processor time per request.
    Redis(RedisArgs),
    Types(types::TypesArgs),
    /// The server's ledger against the kernel's: a mixed load, then the booked bytes beside /proc/PID/io
    Ledger(LedgerArgs),
    Tenants(tenants::TenantsArgs),
    Large(large::LargeArgs),
    /// Sells the disk several times over, and shows which tenants are served; next to RocksDB
    Shortage(scenario::OnDisk<args::Shortage>),
    /// No requests for a while, and then all of them at once, on the disk
    Surge(scenario::OnDisk<args::Surge>),
    /// A load that alternates between just below and just above what the disk can do
    Waves(scenario::OnDisk<args::Waves>),
    /// Peaks of the clients' load with short valleys between them, on the disk; next to RocksDB
    Bursts(scenario::OnDisk<args::Bursts>),
    /// Inserts, gets and scans as fast as they are answered, on the disk; next to RocksDB and a B-tree
    Steady(scenario::OnDisk<args::Steady>),
    Ycsb(ycsb::YcsbArgs),
    /// Replays a trace of a node's traffic, at the times that it has, on the disk
    Trace(scenario::OnDisk<args::Replay>),
    Density(density::DensityArgs),
    /// One contestant's run in this process: `bench shortage` runs each of its measurements so
    #[command(hide = true)]
    ScenarioChild {
        /// The order, as JSON
        order: String,
    },
    /// One task in this process: `bench engine` runs each of its measurements so
    #[command(hide = true)]
    Child {
        /// The order, as JSON
        order: String,
    },
}

#[derive(Debug, Args)]
struct EngineArgs {
    /// Works, separated by commas, or `all`: fillseq, fillrandom, fillsync, readrandom, readrandom16, readcached, scan,
    /// readwhilewriting, recovery, deleterow
    #[arg(long, default_value = "all")]
    work: String,
    /// Contestants to compare with, separated by commas: rocksdb, weir-ungated, weir-memory
    #[arg(long)]
    peer: Option<String>,
    /// RocksDB's shared library; else WEIR_ROCKSDB_LIB, .tools/, ~/.cache/weir/ and the system's directories are
    /// searched
    #[arg(long, value_name = "FILE")]
    peer_lib: Option<PathBuf>,
    /// Measure the peers alone
    #[arg(long, requires = "peer")]
    alone: bool,
    /// Items that the fills write, and items of the tree that is read
    #[arg(long, default_value_t = Size::default().items, value_parser = clap::value_parser!(u32).range(1..))]
    items: u32,
    /// Bytes of a value
    #[arg(long, default_value_t = Size::default().value_bytes)]
    value_bytes: usize,
    /// Commits of fillsync
    #[arg(long, default_value_t = Size::default().sync_items)]
    sync_items: u32,
    /// Parts of the row that deleterow deletes
    #[arg(long, default_value_t = Size::default().parts)]
    parts: u32,
    /// Seconds of every read work, after a warm-up of a quarter of that
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Rounds; every round runs every work on every contestant
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Directory on the disk to measure; created if missing
    #[arg(long, default_value = "weir-bench-data")]
    dir: PathBuf,
    /// Leave the loaded trees in the directory, and use those that an earlier run left
    #[arg(long)]
    keep: bool,
    /// Also write every run as a JSON array to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct RedisArgs {
    /// Rounds; every round starts every server afresh
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Measure Redis alone
    #[arg(long)]
    alone: bool,
    /// Multiplies the requests of every load; with 1 each takes five to ten seconds on two cores
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Connections
    #[arg(long, default_value_t = 50)]
    clients: u32,
    /// Keys to draw from
    #[arg(long, default_value_t = 1_000_000)]
    keys: u32,
    /// Bytes of a value
    #[arg(long, default_value_t = 128)]
    value_bytes: u32,
    /// Directory on the disk to measure; created if missing
    #[arg(long, default_value = "weir-bench-data")]
    dir: PathBuf,
    /// Also write every run as a JSON array to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct LedgerArgs {
    /// Seconds of load in every sync mode
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Sync modes, separated by commas
    #[arg(long, default_value = "interval,always,none")]
    sync: String,
    /// Directory on the disk to measure; created if missing
    #[arg(long, default_value = "weir-bench-data")]
    dir: PathBuf,
    /// Also write the ledger's and the kernel's figures as a JSON array to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Bench {
    /// Runs the chosen benchmark.
    pub fn run(self) -> Result<()> {
        match self.what {
            What::Engine(args) => args.run(),
            What::Redis(args) => args.run(),
            What::Types(args) => args.run(),
            What::Ledger(args) => args.run(),
            What::Tenants(args) => args.run(),
            What::Large(args) => args.run(),
            What::Shortage(args) => args.run(Scenario::Shortage),
            What::Surge(args) => args.run(Scenario::Surge),
            What::Waves(args) => args.run(Scenario::Waves),
            What::Bursts(args) => args.run(Scenario::Bursts),
            What::Steady(args) => args.run(Scenario::Steady),
            What::Ycsb(args) => args.run(),
            What::Trace(args) => args.run(Scenario::Trace),
            What::Density(args) => args.run(),
            What::ScenarioChild { order } => disk::child::main(&order),
            What::Child { order } => child::main(&order),
        }
    }
}

impl EngineArgs {
    fn run(self) -> Result<()> {
        let works = match self.work.as_str() {
            "all" => Work::ALL.to_vec(),
            names => names.split(',').map(Work::parse).collect::<Result<_>>()?,
        };
        if !(self.seconds > 0.0 && self.seconds.is_finite()) {
            return Err("--seconds must be above 0".into());
        }
        let mut engines = if self.alone { Vec::new() } else { vec![Engine::Weir] };
        for name in self.peer.iter().flat_map(|names| names.split(',')) {
            engines.push(Engine::parse(name)?);
        }
        let entries = engines.iter().map(|engine| self.entry(*engine)).collect::<Result<_>>()?;
        let size = Size {
            items: self.items,
            value_bytes: self.value_bytes,
            sync_items: self.sync_items,
            parts: self.parts,
            reads: Until::Seconds(self.seconds),
            ..Size::default()
        };
        let ours = !self.dir.exists();
        let plan = Plan { works, entries, rounds: self.rounds, size, dir: self.dir, keep: self.keep };
        let launch = ChildProcess { program: Program::this(&["bench", "child"])?, children: Default::default() };
        let outcomes = rounds::run(&plan, &launch)?;
        let subjects: Vec<_> = Work::ALL.iter().map(|work| work.subject(&plan.size)).collect();
        let names: Vec<_> = engines.iter().map(|engine| engine.name()).collect();
        println!("{} items of 16 + {} bytes; {}", plan.size.items, plan.size.value_bytes, Settings::default());
        println!("{}\n", medians_of(plan.rounds));
        print!("{}", report::table(&outcomes, &subjects, &names));
        write_json(self.json.as_deref(), &outcomes)?;
        remove_dir(&plan.dir, ours && !plan.keep)
    }

    fn entry(&self, engine: Engine) -> Result<Entry> {
        let library = match engine {
            Engine::Rocksdb => Some(peer::locate::rocksdb(self.peer_lib.as_deref())?),
            Engine::Weir | Engine::WeirUngated | Engine::WeirMemory => None,
        };
        Ok(Entry { engine, library })
    }
}

impl RedisArgs {
    fn run(self) -> Result<()> {
        use redis::Kind::{Redis, Weir, WeirTenants};
        let servers = if self.alone { vec![Redis] } else { vec![Weir, WeirTenants, Redis] };
        let Self { rounds, scale, clients, keys, value_bytes, .. } = self;
        let ours = !self.dir.exists();
        let weir = std::env::current_exe()?;
        let plan = redis::Plan { servers, rounds, scale, clients, keys, value_bytes, dir: self.dir, weir };
        let outcomes = redis::run(&plan)?;
        println!(
            "redis-benchmark -c {clients} -d {value_bytes} -r {keys}; appendonly yes, appendfsync everysec, no snapshots"
        );
        println!("{}\n", medians_of(rounds));
        let table = |servers: &[redis::Kind]| {
            let names: Vec<_> = servers.iter().map(|server| server.name()).collect();
            report::table(&outcomes, &redis::subjects(), &names)
        };
        if self.alone {
            print!("{}", table(&[Redis]));
        } else {
            print!("{}\n{}", table(&[Weir, Redis]), table(&[WeirTenants, Weir, Redis]));
        }
        write_json(self.json.as_deref(), &outcomes)?;
        remove_dir(&plan.dir, ours)
    }
}

impl LedgerArgs {
    fn run(self) -> Result<()> {
        let ours = !self.dir.exists();
        let modes = self.sync.split(',').map(str::to_owned).collect();
        let weir = std::env::current_exe()?;
        let plan = ledger::Plan { modes, seconds: self.seconds, dir: self.dir, weir };
        let bar = spinner();
        let books = ledger::run(&plan, |line| bar.set_message(line.to_owned()))?;
        bar.finish_and_clear();
        print!("{}", ledger::table(&books));
        write_as_json(self.json.as_deref(), &books)?;
        remove_dir(&plan.dir, ours)
    }
}

fn as_json(value: &impl serde::Serialize) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// Writes `json` to `path`, if there is one: after the table, which must not be lost if the file cannot be written.
fn write_text(path: Option<&Path>, json: &str) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    fs::write(path, json).map_err(|error| format!("{}: {error}", path.display()).into())
}

fn write_as_json(path: Option<&Path>, value: &impl serde::Serialize) -> Result<()> {
    write_text(path, &as_json(value)?)
}

fn write_json(path: Option<&Path>, outcomes: &[Outcome]) -> Result<()> {
    write_text(path, &report::json(outcomes)?)
}

/// Removes the directory that was measured, if it `is_ours`: last of all, because it must not cost the results. It
/// stays if the user has let a file be written into it.
fn remove_dir(dir: &Path, is_ours: bool) -> Result<()> {
    if !is_ours {
        return Ok(());
    }
    match fs::remove_dir(dir) {
        Err(error) if error.kind() != ErrorKind::DirectoryNotEmpty => Err(format!("{}: {error}", dir.display()).into()),
        _ => Ok(()),
    }
}

fn medians_of(rounds: u32) -> String {
    format!(
        "medians of {rounds} rounds; a ratio is the first contestant's median over the row's, its range that within rounds"
    )
}
