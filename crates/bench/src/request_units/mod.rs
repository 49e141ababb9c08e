//! What the modules of requests take (XS-17 to XS-19). Commands of every family run on a server of their own, and are
//! counted and timed there. The costs of the modules are those that explain the times best.
//!
//! - There is a server of each engine, in a process of its own. What counts is the processor time of the threads that
//!   serve clients, by the kernel's account, and the device bytes of reads and of the log, by the ledger. What flushes
//!   and compactions take is on nobody's bill (U-17).
//! - Commands come in pipelines, so that what they take themselves stands out against what each round of a connection
//!   takes; and they come alone, to measure that round.
//! - `RU SUM` tells how often they go through each module meanwhile.

mod cases;
mod families;
mod fit;
mod measured;
mod report;

use std::path::{Path, PathBuf};

use serde_json::json;
use weir_admission::request_units::{CostTable, Dimension, Module, THOUSAND, default_table};

use self::cases::cases;
pub use self::measured::Measured;
pub use self::report::{print_check, print_table, print_told_apart, source};
use crate::Result;
use crate::child_server::{self, ChildServer};
use crate::tenants::user::User;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The directory for the servers' data, which is removed in the end.
    pub dir: PathBuf,
    /// The `weir` binary.
    pub weir: PathBuf,
    /// Milliseconds of each measurement.
    pub millis: u64,
}

/// One engine's measurements, and the table that explains them.
#[derive(Clone, Debug)]
pub struct Calibrated {
    /// The costs of modules.
    pub table: CostTable,
    /// Commands, as they were measured.
    pub measured: Vec<Measured>,
    /// How well the measured commands tell the processor time of each module apart from that of all others, in the
    /// order of [`Module::ALL`]: from 0, not at all, to 1. `None` if no command goes through the module, or if its cost
    /// is set.
    pub told_apart: Vec<Option<f64>>,
}

/// Measures every case on a server whose default engine is `engine` (`lsm` or `memory`). `progress` hears the case and
/// how many thousandths are done.
pub fn measure(plan: &Plan, engine: &str, progress: &mut dyn FnMut(&str, u64)) -> Result<Vec<Measured>> {
    let dir = plan.dir.join(format!("request-units-{engine}"));
    child_server::remove(&dir)?;
    let server = ChildServer::start(&plan.weir, &dir, "threads = 1\nhibernate_after_seconds = 0\n")?;
    let order = json!({ "name": "measured", "engine": engine });
    let user = User::order_at(server.admin(), &order)?;
    let mut client = user.connect(server.port())?;
    let measured = measured::measure(&server, &mut client, &cases(), plan.millis, &mut |case, done| {
        progress(&format!("{engine}: {case}"), done);
    })?;
    drop(client);
    server.stop()?;
    child_server::remove(&dir)?;
    Ok(measured)
}

/// Long scripts run on threads that do other work, too, so that what they take there cannot be measured: this cost is
/// set.
const SET: Module = Module::ScriptSlice;

/// The table that explains `measured` best. Costs about which no case tells anything are those of the built-in table.
pub fn fit(measured: Vec<Measured>, in_memory: bool) -> Calibrated {
    let before = default_table(in_memory);
    let fitted: Vec<&Measured> = measured.iter().filter(|one| !one.held_out).collect();
    let (mut table, mut told_apart) = (before, Vec::new());
    for (dimension, of) in
        [(Dimension::Cpu, (|one| one.nanos) as fn(&Measured) -> f64), (Dimension::Io, |one| one.device_bytes)]
    {
        // The cost that is set is known already: the others explain the rest.
        let known = |one: &Measured| one.counts[SET as usize] * before[SET][dimension] as f64 / THOUSAND as f64;
        let rows: Vec<(Vec<f64>, f64)> = fitted
            .iter()
            .map(|one| (Module::ALL.map(|module| one.counts[module as usize]).to_vec(), of(one) - known(one)))
            .filter(|(_, value)| *value > 0.0)
            .collect();
        // A module that moves no bytes of the device has none in the table, whatever is measured.
        let may = |module: Module| module != SET && (dimension == Dimension::Cpu || before[module][dimension] > 0);
        let costs = fit::robust_fit(&rows, &Module::ALL.map(may));
        if dimension == Dimension::Cpu {
            told_apart = fit::told_apart(&rows, &Module::ALL.map(may));
        }
        for (module, cost) in Module::ALL.into_iter().zip(costs) {
            if let Some(cost) = cost {
                table[module][dimension] = (cost * 1000.0).round().max(0.0) as u64;
            }
        }
    }
    Calibrated { table, measured, told_apart }
}

/// Bytes a second that one thread moves in memory, counting both directions.
pub fn memory_bytes_per_second() -> u64 {
    const BYTES: usize = 64 << 20;
    let (from, mut to) = (vec![1_u8; BYTES], vec![0_u8; BYTES]);
    let mut best = 0;
    for _ in 0..5 {
        let watch = crate::meter::Stopwatch::start();
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&to);
        best = best.max((2.0 * BYTES as f64 / watch.seconds()) as u64);
    }
    best
}

/// Whether servers may have their data below `path`, because nothing is there yet.
pub fn is_free(path: &Path) -> bool {
    !path.join("request-units-lsm").exists() && !path.join("request-units-memory").exists()
}
