//! `weir plan`: does this machine carry its tenants, which ratio is safe, how many more fit?

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use weir_admission::Limits;
use weir_io::Fs;
use weir_io::real::{RealFs, RealFsOptions, block_on};
use weir_scenario::args::Capacity;
use weir_scenario::capacity::{Question, heading};
use weir_scenario::save;

use crate::calibrate::stored;

/// Say whether a machine carries its tenants, how often its disk may be sold, and how many more fit
///
/// Plays the recorded requests of tenants through the scheduler, in virtual time: first the busiest hour of the trace,
/// as it is; then with a device that is sold more often (or less often, if the tenants are not served as it is); then
/// with more tenants like them. The answers hold for this traffic: a week of it says more than an hour. It takes from a
/// minute to half an hour, and writes only the files that you ask for.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Plan {
    #[command(flatten)]
    capacity: Capacity,
    /// What the device can do, in MB a second, reads and writes together [default: what `weir calibrate` has measured
    /// and stored in --dir; if reads and writes each have a bandwidth of their own, the lower one]
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    device: Option<u64>,
    /// The data directory whose calibration is used
    #[arg(long, value_name = "DIR", default_value = "weir-data", conflicts_with = "device")]
    dir: PathBuf,
    /// Threads; one looks for the ratio, another for the number of tenants
    #[arg(long, value_name = "N", default_value_t = 2)]
    threads: usize,
}

const EXAMPLES: &str = "\
Examples:
  weir serve --record-traffic week.csv              writes down what tenants ask for; after a week:
  weir plan week.csv                                is all well, and what more would be
  weir plan week.csv --add 10 --grow 1.5            ten more like them, and everybody busier by half
  weir plan week.csv --remove 3,17 --device 500     two go, and the disk is another one
  weir plan week.csv --report plan.html             with the time series of what was served and what was not
  weir sim trace --seconds 604800 --record week.csv --profile weir   draws a week where none was recorded

Ends with status 0 if all tenants are served as it is, with what --add, --remove and --grow change; with 1 if not. The
ratio and the number of tenants that would fit have no part in that.";

impl Plan {
    /// Plays the trace, prints the answers, and writes the files that were asked for.
    ///
    /// # Errors
    /// The trace cannot be played, or it was, and not all tenants are served.
    pub fn run(self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let (device, from) = self.device()?;
        let question = Question::new(&self.capacity, self.capacity.recorded()?, device)?;
        if !save::is_stdout(self.capacity.json.as_deref()) {
            print!("{}", heading(&question, from));
        }
        let answer = weir_sim::scenario::capacity(&question, self.threads)?;
        question.deliver(&answer)?;
        match answer.today.tried.are_served {
            true => Ok(()),
            false => Err("as it is, not all tenants are served: see the answer".into()),
        }
    }

    /// The device's bytes a second, and where this number comes from.
    fn device(&self) -> Result<(u64, &'static str), String> {
        if let Some(mb) = self.device {
            return Ok((mb * 1_000_000, "as told"));
        }
        let fs: Arc<dyn Fs> = RealFs::new(RealFsOptions::default());
        let measured = block_on(stored::load(&fs, &self.dir)).map_err(|error| {
            let dir = self.dir.display();
            format!("what the device can do is not known: {error}\n  say it (--device MB), name the data directory (--dir), or measure it: `weir calibrate {dir}`")
        })?;
        let limits = measured.measurement.limits();
        let limits = limits.map_err(|problem| format!("{}: {problem}", stored::path(&self.dir).display()))?;
        let bytes = match limits {
            Limits::Shared(rates) => rates.bytes,
            Limits::Split { read, write } => read.bytes.min(write.bytes),
        };
        Ok((bytes, "as calibrated"))
    }
}
