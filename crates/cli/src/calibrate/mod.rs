//! `weir calibrate`: what can the disk below a directory do?

mod measure;
pub mod stored;
mod units;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use weir_admission::{Limits, Rates};
use weir_io::real::{RealClock, RealFs, RealFsOptions, block_on};
use weir_io::{Class, Clock, ErrorKind, Fs, Owner, Tag};

use self::measure::Plan;
use self::stored::{Calibration, Measurement};

/// Measures what the disk below a directory can do, for the setting `device_bandwidth = "calibrated"`; and, if asked
/// to, what requests take of this machine.
///
/// It runs five mixes of reads and writes, from only reads to only writes, in large blocks (bandwidth) and in pages
/// (operations per second), with direct I/O on a scratch file of at most 1 GiB, which is removed. The result is printed
/// and stored as DIR/calibration.json.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Calibrate {
    /// The directory that is, or will be, given to `weir serve --dir`
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// How long to measure, in seconds; a short run measures the device's cache
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Also measure what requests take of processors and device, by the modules that they go through: the table of
    /// request units. This takes three minutes more, with servers of its own below DIR
    #[arg(long)]
    request_units: bool,
    /// Measure neither: run each command, and show what it takes beside what the table stored for DIR says, or else the
    /// built-in table
    #[arg(long, conflicts_with = "request_units")]
    check: bool,
    /// Measure nothing: print the table of request units that is stored for DIR as Rust source, in the form of
    /// crates/admission/src/request_units/default_rows.rs
    #[arg(long, conflicts_with_all = ["request_units", "check"])]
    print_table: bool,
}

const EXAMPLES: &str = "\
Examples:
  weir calibrate ./weir-data                 30 seconds; nobody else should use the disk meanwhile
  weir calibrate ./weir-data --request-units what requests cost on this machine, too
  weir calibrate ./weir-data --check         how near what they cost is to what they take
  weir calibrate ./weir-data --seconds 300   for devices that slow down once their cache is full
  echo 'device_bandwidth = \"calibrated\"' >> weir.toml && weir serve --config weir.toml

A directory that a server has open is refused: the server would be measured too, and would suffer.";

impl Calibrate {
    /// Measures, stores, prints.
    pub fn run(self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let real = RealFs::new(RealFsOptions::default());
        let fs: Arc<dyn Fs> = real;
        if self.print_table {
            return units::print_source(&fs, &self.dir);
        }
        let clock: Arc<dyn Clock> = RealClock::new();
        let tag = Tag::new(Owner::default(), Class::Maintenance);
        block_on(fs.create_dir_all(&self.dir, tag))?;
        let _lock = block_on(fs.lock(&self.dir.join("LOCK"))).map_err(|error| match error.kind() {
            ErrorKind::Locked => {
                format!("a server has {} open: stop it while the disk is measured ({error})", self.dir.display())
            }
            _ => error.to_string(),
        })?;
        if self.check {
            return units::check(&fs, &self.dir);
        }
        let bar = ProgressBar::new(1000)
            .with_style(ProgressStyle::with_template("{msg:24} {wide_bar} {percent} % of ~{prefix} s")?)
            .with_prefix(self.seconds.to_string());
        let measurement = measure::measure(&fs, &clock, &Plan::new(&self.dir, self.seconds), &mut |what, done| {
            bar.set_message(what.to_owned());
            bar.set_position(done);
        })?;
        bar.finish_and_clear();
        print(&measurement);
        // An earlier measurement of requests stays, if they are not measured again.
        let before = block_on(stored::load(&fs, &self.dir));
        if let Some(words) = before.as_ref().err().and_then(|error| lost(error, self.request_units)) {
            println!("{words}");
        }
        let before = before.ok();
        if !self.request_units && before.as_ref().is_some_and(|before| before.has_outdated_units) {
            println!("{}: measure it again, with --request-units", stored::OUTDATED_UNITS);
        }
        let before = before.and_then(|before| before.request_units);
        let request_units = match self.request_units {
            true => Some(units::measure(&self.dir, clock.unix_ms(), &measurement)?),
            false => before,
        };
        let calibration = Calibration { measurement, request_units, has_outdated_units: false };
        let limits = block_on(keep(&fs, &self.dir, &calibration))?;
        println!("stored in {}", stored::path(&self.dir).display());
        println!("device_bandwidth = \"calibrated\" means {}", in_words(&limits));
        if calibration.request_units.is_some() {
            println!("and request units by the table that was measured here");
        }
        Ok(())
    }
}

/// Stores `calibration`, and gives what it means. One that cannot be used does not take the place of an earlier one.
async fn keep(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    calibration: &Calibration,
) -> Result<Limits, Box<dyn std::error::Error + Send + Sync>> {
    let limits = calibration.measurement.limits();
    let limits = limits.map_err(|problem| format!("this cannot be used, and is not stored: {problem}"))?;
    stored::store(fs, dir, calibration).await?;
    Ok(limits)
}

/// Says what is lost with an earlier calibration that cannot be read, if anything is: what requests take, unless that
/// is measured again.
fn lost(error: &weir_io::Error, measured_again: bool) -> Option<String> {
    let is_lost = error.kind() != ErrorKind::NotFound && !measured_again;
    let advice = "it is replaced; if it said what requests take, measure that again, with --request-units";
    is_lost.then(|| format!("{error}: {advice}"))
}

fn print(measurement: &Measurement) {
    let megabytes = |ops: u64, block: u64| ops.saturating_mul(block) / 1_000_000;
    println!("             {:^23}   {:^23}", "MB/s in 256 KiB", "operations/s in 4 KiB");
    println!("{:>12} {:>11} {:>11}   {:>11} {:>11}", "read:write", "read", "written", "reads", "writes");
    for mix in &measurement.mixes {
        let (large, small) = (&mix.large, &mix.small);
        let name = format!("{}:{}", mix.read_percent, 100 - mix.read_percent);
        let (read, written) = (megabytes(large.reads, large.block_bytes), megabytes(large.writes, large.block_bytes));
        println!("{name:>12} {read:>11} {written:>11}   {:>11} {:>11}", small.reads, small.writes);
    }
    if !measurement.direct {
        println!("the file system refuses direct I/O: this is the page cache's speed, not the device's");
    }
}

/// What a limit means, for people.
pub fn in_words(limits: &Limits) -> String {
    let rates = |rates: &Rates| format!("{} MB/s and {} operations/s", rates.bytes / 1_000_000, rates.ops);
    match limits {
        Limits::Shared(shared) => format!("{} for reads and writes together", rates(shared)),
        Limits::Split { read, write } => format!("{} for reads, {} for writes", rates(read), rates(write)),
    }
}

#[cfg(test)]
mod tests {
    use weir_io::sim::{DeviceSpec, FaultPlan, Sim, SimFs};

    use super::stored::{Loop, Mix};
    use super::*;

    #[test]
    fn what_cannot_be_used_does_not_replace_an_earlier_calibration() {
        let sim = Sim::new(1);
        let fs: Arc<dyn Fs> = SimFs::new(sim.clock(), DeviceSpec::instant(), FaultPlan::none(), sim.rng());
        let dir = Path::new("/data");
        let calibration = |ops: u64| {
            let of = |block_bytes| Loop { block_bytes, depth: 1, reads: ops, writes: ops };
            let mixes = measure::MIXES.map(|read_percent| Mix { read_percent, large: of(1 << 18), small: of(1 << 12) });
            let (seconds, file_bytes, mixes) = (1, 1, mixes.into());
            let measurement = Measurement { measured_unix_ms: ops, seconds, file_bytes, direct: true, mixes };
            Calibration { measurement, request_units: None, has_outdated_units: false }
        };
        sim.block_on(async {
            let tag = Tag::new(Owner::default(), Class::Maintenance);
            fs.create_dir_all(dir, tag).await.expect("a directory");
            keep(&fs, dir, &calibration(1000)).await.expect("it can be used");
            let error = keep(&fs, dir, &calibration(0)).await.expect_err("the device did nothing").to_string();
            assert!(error.contains("not stored"), "{error}");
            assert_eq!(stored::load(&fs, dir).await.expect("it is still there"), calibration(1000));
        });
    }

    #[test]
    fn an_earlier_calibration_that_cannot_be_read_is_not_replaced_in_silence() {
        let error = |kind| weir_io::Error::new(kind, "read", "calibration.json", "its checksum is wrong");
        let words = lost(&error(ErrorKind::Invalid), false).expect("a warning");
        assert!(words.contains("checksum") && words.contains("--request-units"), "{words}");
        assert_eq!(lost(&error(ErrorKind::Invalid), true), None, "everything is measured again");
        assert_eq!(lost(&error(ErrorKind::NotFound), false), None, "there was none");
    }

    /// On the real disk, as short as possible: the loops end, count and clean up.
    #[test]
    fn a_short_calibration_measures_every_mix_and_leaves_only_its_result() {
        let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp-calibrate");
        let dir = dir.join(std::process::id().to_string());
        let run = |print_table| {
            Calibrate { dir: dir.clone(), seconds: 1, request_units: false, check: false, print_table }.run()
        };
        run(false).expect("measured");
        let nothing = run(true).expect_err("requests were not measured").to_string();
        assert!(nothing.contains("--request-units"), "{nothing}");
        let fs: Arc<dyn Fs> = RealFs::new(RealFsOptions::default());
        let measurement = block_on(stored::load(&fs, &dir)).expect("stored").measurement;
        assert_eq!(measurement.mixes.iter().map(|mix| mix.read_percent).collect::<Vec<_>>(), measure::MIXES);
        assert!(measurement.mixes.iter().all(|mix| mix.read_percent == 0 || mix.small.reads > 0));
        let tag = Tag::new(Owner::default(), Class::Maintenance);
        let names: Vec<_> = block_on(fs.list(&dir, tag)).expect("listed").into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["LOCK", "calibration.json"]);
        for name in names {
            block_on(fs.remove(&dir.join(name), tag)).expect("removed");
        }
        block_on(fs.remove_dir(&dir, tag)).expect("removed");
    }
}
