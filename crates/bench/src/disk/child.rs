//! The child process: runs one contestant on one directory, reports on standard output line by line, and takes its cues
//! on standard input.
//!
//! ```text
//! parent: go          it is under the throttle, which limits nothing yet
//! child:  ready       opened, every tree settled
//! parent: go          the caps are set
//! child:  second {…}  every second
//! child:  run {…}     the outcome
//! parent: go          the caps are gone: close
//! ```

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use weir_admission::{Limits, Rates};
use weir_io::Rng;
use weir_io::real::{block_on, blocking_scope, forgo_huge_pages};
use weir_lsm::TreeOptions;
use weir_node::NodeConfig;
use weir_scenario::args::Scenario;
use weir_scenario::data::{WARM_KEY, fill};
use weir_scenario::outcome::{Outcome, Second};
use weir_scenario::plan::Plan;
use weir_scenario::{preload, profile};

use super::drive::{Disk, drive};
use super::fleet::Fleet;
use super::weir::{self, Weir};
use super::{Entry, Setup, WORLD};
use crate::Result;
use crate::harness::session::Said;
use crate::peer::fleet::{FleetOptions, RocksFleet};
#[cfg(feature = "redb")]
use crate::peer::redb::RedbFleet;
use crate::throttle::Caps;

/// Level-0 runs at which writes stop, in both engines: those of the peer's own papers.
const L0_STOP: usize = 32;
/// The upper limit of the peer's auto-tuned limiter, as a multiple of what a partition was sold to write: 1.2 times
/// what compacting that takes (27).
const AUTO_TUNED_TIMES_SOLD: f64 = 33.0;
/// Largest sizes that the peer's options take without overflowing.
const SIZE_MAX: u64 = 1 << 50;

/// Why a child cannot be a redb.
#[cfg(not(feature = "redb"))]
const NO_REDB: &str = "this program was built without redb";

/// Everything a child needs to know; the parent passes it as JSON on the child's command line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// What to do.
    pub task: Task,
    /// The contestant to run.
    pub contestant: Entry,
    /// The directory to run in.
    pub dir: PathBuf,
    /// The scenario.
    pub scenario: Scenario,
    /// Slow the disk down to this many bytes a second, in this process. Weir only.
    pub slowed: Option<u64>,
    /// The caps of the disk while the load runs.
    pub caps: Caps,
    /// Whether Weir takes the caps for the device, as a calibration under them would find it. Otherwise it takes what
    /// the scenario says.
    pub calibrated: bool,
    /// The round, from 1.
    pub round: u32,
}

/// What a child is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// Write the data that is there before the load.
    Preload,
    /// Send the load.
    Drive,
}

/// What a child reports.
#[derive(Clone, Debug)]
pub enum Line {
    /// The stores are open and settled.
    Ready,
    /// A second of the load is over.
    Second(Box<Second>),
    /// The load is over.
    Run(Box<(Outcome, Disk)>),
}

impl Said for Line {
    fn parse(text: &str) -> Option<Self> {
        let (word, json) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            "ready" => Some(Line::Ready),
            "second" => serde_json::from_str(json).ok().map(Line::Second),
            "run" => serde_json::from_str(json).ok().map(Line::Run),
            _ => None,
        }
    }
}

/// Carries out `order` (JSON).
pub fn main(order: &str) -> Result<()> {
    let order: Order = serde_json::from_str(order)?;
    // A parent that is killed leaves no child running.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let plan = Plan { caps: order.caps.all(), ..order.scenario.clone().plan()? };
    // Not before the plan, which may read a trace. The scenario's settings name the node's directory relative to the
    // current one.
    std::env::set_current_dir(&order.dir).map_err(|error| format!("{}: {error}", order.dir.display()))?;
    if matches!(order.contestant, Entry::Weir(_)) {
        // As `weir serve` does.
        forgo_huge_pages()?;
    }
    wait_for_word()?;
    match order.task {
        Task::Preload => write_all(&order, &plan),
        Task::Drive => {
            let fleet = order.open(&plan)?;
            for partition in 0..usize::from(plan.args.partitions) {
                fleet.settle(partition)?;
                fleet.put(partition, &WARM_KEY, &[])?;
            }
            say("ready", &())?;
            wait_for_word()?;
            let mut told = |second: &Second| {
                // If the parent is gone, the end of our standard input ends us.
                let _ = say("second", second);
            };
            let (mut run, disk) = drive(&*fleet, &plan, &order.contestant.name(), order.caps, order.round, &mut told)?;
            run.outcome.params.insert("l0_stop".to_owned(), L0_STOP.into());
            say("run", &(&run.outcome, &disk))?;
            wait_for_word()?;
            fleet.close()
        }
    }
}

fn say(word: &str, what: &impl Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{word} {}", serde_json::to_string(what)?)?;
    Ok(out.flush()?)
}

fn wait_for_word() -> Result<()> {
    let mut word = String::new();
    match std::io::stdin().lock().read_line(&mut word)? {
        0 => Err("the parent is gone".into()),
        _ => Ok(()),
    }
}

impl Order {
    fn open(&self, plan: &Plan) -> Result<Box<dyn Fleet>> {
        match &self.contestant {
            Entry::Weir(name) => Ok(Box::new(Weir::open(&self.node_config(name, plan)?, plan, self.slowed)?)),
            #[cfg(feature = "redb")]
            Entry::Redb => Ok(Box::new(RedbFleet::open(Path::new("."), plan)?)),
            #[cfg(not(feature = "redb"))]
            Entry::Redb => Err(NO_REDB.into()),
            Entry::Rocksdb { library, setup } => {
                let options = Order::fleet_options(plan, TreeOptions { l0_stop: L0_STOP, ..plan.tree() }, *setup);
                Ok(Box::new(RocksFleet::open(library, Path::new("."), usize::from(plan.args.partitions), &options)?))
            }
        }
    }

    fn node_config(&self, name: &str, plan: &Plan) -> Result<NodeConfig> {
        let mut config = profile::config(name, plan)?;
        config.tree.l0_stop = L0_STOP;
        if let Some(bandwidth) = config.bandwidth.as_mut().filter(|_| self.calibrated) {
            bandwidth.device =
                Limits::Split { read: Rates::bytes(self.caps.read), write: Rates::bytes(self.caps.write) };
        }
        Ok(config)
    }

    fn fleet_options(plan: &Plan, tree: TreeOptions, setup: Setup) -> FleetOptions {
        let sold_bytes = plan.sold_writes_per_sec() * f64::from(plan.args.item_bytes);
        FleetOptions {
            tree,
            cache_bytes: plan.cache_bytes(),
            compaction_threads: plan.compactions(),
            auto_tuned: (setup == Setup::AutoTuned).then_some((sold_bytes * AUTO_TUNED_TIMES_SOLD) as u64),
            merging: setup == Setup::Merging,
            log_synced: Some(Duration::from_nanos(plan.sync_interval())),
        }
    }
}

/// Preloads, in both engines level by level, the deepest first.
fn write_all(order: &Order, plan: &Plan) -> Result<()> {
    match &order.contestant {
        Entry::Weir(_) => {
            let _scope = blocking_scope();
            let machine = weir::machine(None)?;
            Ok(block_on(preload::preload(&machine, plan, &ProgressBar::hidden()))?)
        }
        #[cfg(feature = "redb")]
        Entry::Redb => RedbFleet::open(Path::new("."), plan)?.fill(plan),
        #[cfg(not(feature = "redb"))]
        Entry::Redb => Err(NO_REDB.into()),
        Entry::Rocksdb { library, .. } => {
            plan.preload().into_iter().try_for_each(|(level, items)| write_level(plan, library, level, items))
        }
    }
}

/// Writes `items` of every partition in the order of their keys, under settings that let them sink to `level`.
fn write_level(plan: &Plan, library: &Path, level: usize, items: std::ops::Range<u64>) -> Result<()> {
    let tree = preload::tree(plan, level);
    let tree = TreeOptions {
        level1_bytes: tree.level1_bytes.min(SIZE_MAX),
        level_factor: tree.level_factor.min(SIZE_MAX),
        ..tree
    };
    let partitions = usize::from(plan.args.partitions);
    let fleet = RocksFleet::open(
        library,
        Path::new("."),
        partitions,
        &FleetOptions { log_synced: None, ..Order::fleet_options(plan, tree, Setup::Plain) },
    )?;
    for partition in 0..partitions {
        let mut keys: Vec<_> = items.clone().map(|item| (plan.sizes().key(item), item)).collect();
        keys.sort_unstable();
        let mut rng = Rng::new(plan.args.seed ^ (partition as u64) << 32 ^ (level as u64) << 56);
        let mut longest = vec![0; plan.sizes().value_bytes_max()];
        for (key, item) in keys {
            let value = &mut longest[..plan.sizes().value_bytes(item)];
            fill(value, &mut rng);
            fleet.put(partition, &key, value)?;
        }
        fleet.settle(partition)?;
    }
    Ok(())
}

/// The contestant's name, for messages.
pub fn title(order: &Order) -> String {
    format!("{} on the {WORLD}, round {}", order.contestant.name(), order.round)
}
