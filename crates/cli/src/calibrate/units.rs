//! Measures what requests take of this machine, and compares that with what the table says.

use std::path::Path;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use weir_admission::Limits;
use weir_admission::request_units::{CostTable, Pod, default_pod, default_table};
use weir_bench::request_units::{self, Calibrated, Measured, Plan};
use weir_io::real::block_on;
use weir_io::{ErrorKind, Fs};
use weir_node::EngineKind;

use super::stored::{self, Measurement, OUTDATED_UNITS, RequestUnits};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How long each command is measured, five times, in milliseconds.
const MILLIS: u64 = 50;

/// Measures what modules take, and shows it.
pub fn measure(dir: &Path, measured_unix_ms: u64, device: &Measurement) -> Outcome<RequestUnits> {
    let [lsm, memory] = each_engine(dir)?;
    let (lsm, memory) = (request_units::fit(lsm, false), request_units::fit(memory, true));
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let bandwidth = request_units::memory_bytes_per_second();
    let units = RequestUnits::new(measured_unix_ms, cores, bandwidth, [&lsm.table, &memory.table]);
    let limits = device.limits().unwrap_or(Limits::UNLIMITED);
    for (name, Calibrated { table, measured, told_apart }) in [("lsm", &lsm), ("memory", &memory)] {
        request_units::print_table(name, table, &units.pod(&limits));
        request_units::print_told_apart(told_apart);
        request_units::print_check(name, table, measured);
    }
    Ok(units)
}

/// Shows what commands take beside what the table of `dir` says, or else the built-in table.
pub fn check(fs: &Arc<dyn Fs>, dir: &Path) -> Outcome {
    let units = match block_on(stored::load(fs, dir)) {
        Ok(calibration) => {
            if calibration.has_outdated_units {
                println!("{OUTDATED_UNITS}");
            }
            calibration.request_units.map(|units| (units, calibration.measurement))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    let of = |engine: EngineKind| -> (CostTable, Pod) {
        match &units {
            Some((units, device)) => (units.table(engine), units.pod(&device.limits().unwrap_or(Limits::UNLIMITED))),
            None => (default_table(engine == EngineKind::Memory), default_pod()),
        }
    };
    println!("{} table", if units.is_some() { "the calibrated" } else { "the built-in" });
    let measured = each_engine(dir)?;
    for (engine, measured) in PRICED.into_iter().zip(measured) {
        let (table, pod) = of(engine);
        request_units::print_table(&engine.to_string(), &table, &pod);
        request_units::print_check(&engine.to_string(), &table, &measured);
    }
    Ok(())
}

/// Prints the table that is stored for `dir` as the source of the built-in one.
pub fn print_source(fs: &Arc<dyn Fs>, dir: &Path) -> Outcome {
    let calibration = block_on(stored::load(fs, dir))?;
    let units = calibration.request_units.ok_or_else(|| {
        let reason = if calibration.has_outdated_units { OUTDATED_UNITS } else { "requests were not measured there" };
        format!("{reason}: `weir calibrate {} --request-units` measures them", dir.display())
    })?;
    let [lsm, memory] = PRICED.map(|engine| units.table(engine));
    let pod = units.pod(&calibration.measurement.limits().unwrap_or(Limits::UNLIMITED));
    print!("{}", request_units::source([&lsm, &memory], &pod));
    Ok(())
}

/// The engines that have prices of their own: a tree has the same prices with and without a level 0.
const PRICED: [EngineKind; 2] = [EngineKind::Lsm, EngineKind::Memory];

/// The measurements with tenants of each engine, in the order of [`PRICED`].
fn each_engine(dir: &Path) -> Outcome<[Vec<Measured>; 2]> {
    let weir = std::env::current_exe()?;
    let plan = Plan { dir: dir.to_owned(), weir, millis: MILLIS };
    if !request_units::is_free(dir) {
        return Err(format!(
            "{} has the servers of a measurement that was interrupted: remove request-units-lsm and request-units-memory there",
            dir.display()
        )
        .into());
    }
    let bar = ProgressBar::new(2000).with_style(ProgressStyle::with_template("{msg:36} {wide_bar} {percent} %")?);
    let one = |engine: EngineKind, before: u64| {
        request_units::measure(&plan, &engine.to_string(), &mut |what, done| {
            bar.set_message(what.to_owned());
            bar.set_position(before + done);
        })
    };
    let [first, second] = PRICED;
    let measured = [one(first, 0)?, one(second, 1000)?];
    bar.finish_and_clear();
    Ok(measured)
}
