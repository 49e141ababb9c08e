//! The runs, and the arguments of each on the command line.

use std::path::PathBuf;

use clap::Subcommand;
use weir_command::table::Id;
use weir_node::{EngineKind, LogKind};

use super::settings::{Seeds, Sync, Terms};
use crate::clients::of_rows;
use crate::engines::Engines;
use crate::interrupt;
use crate::served::DiskFaults;

const SERVED: &str = "\
Each client takes steps, one after the other: step n writes to fifteen rows of every type, by a transaction, a script or a function. Another client waits for the number
that each step pushes, by BLMOVE. After every cut, the rows must be those after some step that is not older than what was promised, and each number must be there once.

With --faults a client may also be refused. It then waits until the server accepts writes again, looks which step was the last, and goes on from there. In half of the
lives the disk works again after a while: then the server must accept writes without a restart, every client that waits must be woken by the next push, and the rows
must be those after some step, before the power goes. In the other half the power goes while the disk fails. Reads never fail.

  weir sim served --sync interval --seeds 20           power cuts on a disk that works
  weir sim served --faults eio --engine sp-lsm         writes, syncs, renames and the like fail, too
  weir sim served --faults full --seed 7               what seed 7 draws on a disk that is full for a while";

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

/// The runs of `weir sim`.
#[derive(Clone, Debug, Subcommand)]
pub(super) enum Run {
    /// Crashes: power cuts at random moments, one after the other on the same disk
    Crash {
        #[command(flatten)]
        seeds: Seeds,
        #[command(flatten)]
        terms: Terms,
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
    /// Crashes: power cuts under a whole server, which is asked over its port by scripts, functions, transactions and
    /// clients that wait; on a disk that also fails for a while, if you ask for it
    #[command(after_help = SERVED)]
    Served {
        #[command(flatten)]
        seeds: Seeds,
        #[command(flatten)]
        terms: Terms,
        /// Cuts in the history of one seed
        #[arg(long, default_value_t = 20)]
        cuts: u64,
        /// Let the disk fail for a while in each life of the server (default: it only loses its power)
        #[arg(long, value_enum)]
        faults: Option<DiskFaults>,
    },
    /// Concurrency: many clients with all commands on rows; each history repeats, and could have happened one after the
    /// other
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
        /// Commands of each client
        #[arg(long, default_value_t = 12)]
        commands: usize,
        /// Partitions of their tenant
        #[arg(long, default_value_t = 1)]
        partitions: u16,
        /// The engine in which those keep their rows: `lsm`, `memory` or `sp-lsm`
        #[arg(long, default_value_t = EngineKind::Lsm)]
        engine: EngineKind,
        /// Draw only these commands on rows, separated by commas (default: all)
        #[arg(long, value_name = "NAMES", value_parser = of_rows, value_delimiter = ',')]
        only: Vec<Id>,
        /// Write the history to this file before it is checked
        #[arg(long, value_name = "FILE", requires = "seed")]
        dump: Option<PathBuf>,
        /// Run nothing: check a dump, and print a verdict on each group
        #[arg(long, value_name = "FILE", exclusive = true)]
        check: Option<PathBuf>,
    },
    /// Crashes: every power cut of one workload, at every change, with eight different survivors each
    EveryCut {
        #[command(flatten)]
        seeds: Seeds,
        #[command(flatten)]
        terms: Terms,
        /// Steps of the workload
        #[arg(long, default_value_t = 800)]
        steps: usize,
    },
    /// Damage: every byte of a database flipped, one at a time
    Flip {
        /// The engine that keeps the rows: `lsm`, `memory` or `sp-lsm`
        #[arg(long, default_value_t)]
        engine: EngineKind,
        /// Only this byte
        #[arg(long)]
        at: Option<u64>,
        /// Flip one byte in every STRIDE
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
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
        #[command(flatten)]
        terms: Terms,
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
        /// The engine that keeps the rows: `lsm`, `memory` or `sp-lsm`
        #[arg(long, default_value_t)]
        engine: EngineKind,
    },
    /// Faults: the disk is full, and then it is not
    Full {
        #[command(flatten)]
        seeds: Seeds,
        #[command(flatten)]
        terms: Terms,
    },
    /// Faults: one tenant fills the disk of a node with many, before and after restarts
    FullNode {
        #[command(flatten)]
        seeds: Seeds,
        /// The engines that keep tenants' rows: `lsm`, `memory`, `sp-lsm`, or several with commas between, by turns
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
        /// The engines that keep tenants' rows: `lsm`, `memory`, `sp-lsm`, or several with commas between, by turns
        #[arg(long, default_value_t)]
        engine: Engines,
        /// What an acknowledgement promises
        #[arg(long, value_enum, default_value = "always")]
        sync: Sync,
        /// Only this operation
        #[arg(long)]
        nth: Option<u64>,
        /// Instead of one operation, let a third of all operations fail for a while, for each of the seeds
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
        #[command(flatten)]
        terms: Terms,
        /// Cuts in the history of one seed
        #[arg(long, default_value_t = 10)]
        cuts: u64,
    },
    /// Faults: a disk a hundred times slower, or hung for half a minute
    Slow {
        #[command(flatten)]
        seeds: Seeds,
        /// The engine that keeps the rows: `lsm`, `memory` or `sp-lsm`
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
    /// Damage: every file of a node's directory in turn lost, emptied, cut, damaged, or replaced by an older copy or by
    /// another file's
    Tamper {
        #[command(flatten)]
        seeds: Seeds,
        /// The engines that keep tenants' rows: `lsm`, `memory`, `sp-lsm`, or several with commas between, by turns
        #[arg(long, default_value_t)]
        engine: Engines,
        /// Ways to try on each file of a directory, drawn from about twenty
        #[arg(long, default_value_t = 4)]
        ways: usize,
        /// Try all ways
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
    /// Policies: peaks of the clients' load with short valleys between them, in which compactions must catch up
    Bursts {
        #[command(flatten)]
        args: weir_scenario::args::Bursts,
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
    /// Policies: inserts, gets and scans, each sent as soon as the one before is answered, and how evenly they are
    /// served
    Steady {
        #[command(flatten)]
        args: weir_scenario::args::Steady,
        /// Threads; each runs a profile at a time
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// Policies: YCSB's core workloads A to F, profiles side by side
    Ycsb {
        #[command(flatten)]
        args: weir_scenario::args::Ycsb,
        /// Threads; each runs a profile at a time
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// Policies: how many bursty tenants one machine carries under each profile
    Density {
        #[command(flatten)]
        args: weir_scenario::args::Density,
        /// Threads; each looks for one profile's answer at a time
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// Policies: more partitions than fit awake, which sleep and are woken all the time
    Sleepers {
        #[command(flatten)]
        args: weir_scenario::args::Sleepers,
        /// Threads; each runs a profile at a time
        #[arg(long, default_value_t = 2)]
        threads: usize,
    },
    /// Policies: tenants that rest and then want their share of the write memory, beside tenants that use all of it
    DeltaBuffer(crate::delta::Buffer),
    /// Policies: tenants that rest and then want their blocks back, beside tenants that read all they can
    DeltaCache(crate::delta::cached::Cached),
    /// Policies: a tenant that wants to flush while others do, on few flush slots
    DeltaFlush(crate::delta::flush::Flush),
    /// Policies: a log that tenants share is full, all tenants that keep it long flush at once, and one writes on
    WalCascade(crate::delta::cascade::Cascade),
    /// Policies: tenants that rest and then read and write all they have, beside others that read or write all they can
    DeltaRmw(crate::delta::rmw::Rmw),
    /// Policies: how long the most unlucky of 64 tenants of many kinds waits, and how much all of them get done
    DeltaMix(crate::delta::mix::Mix),
    /// Processes: real servers, sent signals in the middle of backup, restore, create, drop, FLUSHALL, sleep and wake
    Interrupt {
        /// The engines that keep tenants' rows: `lsm`, `memory`, `sp-lsm`, or several with commas between, by turns
        #[arg(long, default_value_t)]
        engine: Engines,
        /// Rounds with each signal
        #[arg(long, default_value_t = 200)]
        rounds: u64,
        /// Signals to send, separated by commas
        #[arg(long = "signal", value_name = "SIGNAL", value_enum, value_delimiter = ',', default_values_t = interrupt::Sent::ALL)]
        signals: Vec<interrupt::Sent>,
        /// Milliseconds between SIGSTOP and SIGCONT
        #[arg(long, value_name = "MS", default_value_t = 10_000)]
        stopped_ms: u64,
        /// Seed of the moments at which signals are sent
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
        /// The engine that keeps the loaded tenant's rows: `lsm`, `memory` or `sp-lsm`
        #[arg(long, default_value_t)]
        engine: EngineKind,
        /// The log that it writes to: `own` or `shared`
        #[arg(long, default_value_t)]
        log: LogKind,
        /// Write to rows of every type, by transactions, scripts and functions
        #[arg(long)]
        by_command: bool,
        /// Kills
        #[arg(long, default_value_t = 100)]
        rounds: u64,
        /// Seed of the moments at which the server is killed
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
