//! Scenarios with few arguments of their own: those arguments, and the plan that each scenario makes of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde::{Deserialize, Serialize};

use super::bursts::Bursts;
use super::density::Density;
use super::shortage::{SECONDS_MAX, Shortage};
use super::{Steady, Ycsb};
use crate::pattern::Pattern;
use crate::plan::Plan;
use crate::trace::Trace;
use crate::ycsb::Case;

/// Silence, and then everything at once
///
/// Partitions are idle, and then all of them read (and with `--writes` write) everything they bought from one second to
/// the next. A limiter that follows the load has forgotten what they were sold (FX-E2); one that sizes the background
/// by the last minute has nothing for the first flush (U-9).
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[group(skip)]
pub struct Surge {
    /// Seconds of silence
    #[arg(long, default_value_t = 10)]
    pub idle: u64,
    /// Writes surge as well as reads
    #[arg(long)]
    pub writes: bool,
    /// What `shortage` has as well; `--seconds` counts from the surge
    #[command(flatten)]
    pub common: Shortage,
}

/// A load just below and just above what the device can do, by turns
///
/// Writes need the shares `--low` and `--high` of the background bandwidth, for half of a period each. Controllers
/// should neither miss what is above their threshold nor flap.
#[derive(Clone, Debug, Args, Serialize, Deserialize)]
#[group(skip)]
pub struct Waves {
    /// Share of the background bandwidth that is needed in the first half of a period
    #[arg(long, default_value_t = 0.79)]
    pub low: f64,
    /// Share that is needed in the second half
    #[arg(long, default_value_t = 0.81)]
    pub high: f64,
    /// Seconds of a period
    #[arg(long, default_value_t = 60)]
    pub period: u64,
    /// Background bytes for each byte of a user on this tree; measure them with `shortage --bosr 1`
    #[arg(long, default_value_t = crate::plan::AMPLIFICATION)]
    pub amplification: f64,
    /// What `shortage` has as well
    #[command(flatten)]
    pub common: Shortage,
}

/// A week of a node's traffic, at its own times
///
/// Tenants' usual traffic is heavy-tailed and follows the day. Bursts come at random, some to many tenants at once. The
/// traffic is generated from the seed, or read from a file. `--scale` thins the events and leaves their times, so that
/// controllers keep their seconds.
#[derive(Debug, Args)]
#[group(skip)]
struct ReplayLine {
    /// A trace to replay: `second,tenant,writes,reads`, in shares of what was bought; `--partitions` and `--seconds`
    /// say how many of its tenants are played, and for how long [default: all of them, to its end, but no more than a
    /// week]
    #[arg(long, value_name = "FILE.csv")]
    trace: Option<PathBuf>,
    /// Write the trace that is replayed to this file
    #[arg(long, value_name = "FILE.csv")]
    record: Option<PathBuf>,
    /// What `shortage` has as well; `--seconds 604800` is a week
    #[command(flatten)]
    common: Shortage,
}

/// A week of a node's traffic, and what the command line leaves to the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replay {
    /// The file to replay; the trace is drawn if there is none.
    pub trace: Option<PathBuf>,
    /// The file to which the trace is written.
    pub record: Option<PathBuf>,
    /// What `shortage` has as well.
    pub common: Shortage,
    /// Nobody said how many tenants are played: all of a file.
    pub all_tenants: bool,
    /// Nobody said for how long: a file to its end.
    pub to_end: bool,
}

impl FromArgMatches for Replay {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_default = |id: &str| matches.value_source(id) == Some(ValueSource::DefaultValue);
        let (all_tenants, to_end) = (is_default("partitions"), is_default("seconds"));
        let ReplayLine { trace, record, common } = ReplayLine::from_arg_matches(matches)?;
        Ok(Self { trace, record, common, all_tenants, to_end })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Replay {
    fn augment_args(command: Command) -> Command {
        ReplayLine::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        ReplayLine::augment_args_for_update(command)
    }
}

/// The trace in a user's file, which has one tenant at least. An error names the file.
#[allow(clippy::disallowed_methods, reason = "the user's own files, not the database's")]
pub(super) fn read(path: &Path) -> Result<Trace, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let trace = Trace::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    if trace.tenants() == 0 { Err(format!("{} has no tenants", path.display())) } else { Ok(trace) }
}

#[allow(clippy::disallowed_methods, reason = "the user's own files, not the database's")]
fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

impl Surge {
    /// The plan.
    ///
    /// # Errors
    /// The error says in words what cannot be run.
    pub fn plan(self) -> Result<Plan, String> {
        let mut args = self.common;
        args.seconds = args.seconds.saturating_add(self.idle);
        // Either reads or writes must surge.
        if args.rcu == 0 && !self.writes {
            args.rcu = args.wcu;
        }
        Plan::of("surge", args, Pattern::Surge { idle: self.idle, writes: self.writes })
    }
}

impl Waves {
    /// The plan.
    ///
    /// # Errors
    /// The error says in words what cannot be run.
    pub fn plan(self) -> Result<Plan, String> {
        let rules = [
            (
                [self.low, self.high].iter().all(|share| (0.0..=100.0).contains(share)),
                "--low and --high must be between 0 and 100",
            ),
            ((1..=SECONDS_MAX).contains(&self.period), "--period must be between 1 and 604800 (a week)"),
            (
                self.amplification > 0.0 && self.amplification <= 1000.0,
                "--amplification must be above 0, and at most 1000",
            ),
        ];
        if let Some((_, broken)) = rules.into_iter().find(|(holds, _)| !holds) {
            return Err(broken.to_owned());
        }
        let pattern = Pattern::Waves { low: self.low, high: self.high, period: self.period };
        let plan = Plan::of("waves", Shortage { bosr: 1.0, ..self.common }, pattern)?;
        Ok(Plan { amplification: self.amplification, ..plan })
    }
}

impl Replay {
    /// The plan.
    ///
    /// # Errors
    /// The error says in words what cannot be run.
    pub fn plan(self) -> Result<Plan, String> {
        let mut args = self.common;
        let trace = match &self.trace {
            Some(path) => {
                let trace = read(path)?;
                if self.all_tenants {
                    args.partitions = u16::try_from(trace.tenants()).map_err(|_| "too many tenants".to_owned())?;
                }
                if self.to_end {
                    args.seconds = trace.seconds().min(SECONDS_MAX);
                }
                trace
            }
            None => Trace::generate(usize::from(args.partitions), args.seconds, args.seed),
        };
        if let Some(path) = &self.record {
            write(path, &trace.to_csv())?;
        }
        Plan::of("trace", args, Pattern::Trace(Arc::new(trace)))
    }
}

/// Any scenario, in the form in which it is handed to another process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// See [`Shortage`].
    Shortage(Shortage),
    /// See [`Surge`].
    Surge(Surge),
    /// See [`Waves`].
    Waves(Waves),
    /// See [`Replay`].
    Trace(Replay),
    /// See [`Bursts`].
    Bursts(Bursts),
    /// See [`Steady`].
    Steady(Steady),
    /// See [`Ycsb`].
    Ycsb {
        /// The arguments, which are the same for every case.
        args: Ycsb,
        /// The case that is sent.
        case: Case,
    },
    /// See [`Density`].
    Density {
        /// The arguments, which are the same for every number of tenants.
        machine: Density,
        /// The number of tenants.
        tenants: u16,
    },
}

impl Scenario {
    /// The plan.
    ///
    /// # Errors
    /// The error says in words what cannot be run.
    pub fn plan(self) -> Result<Plan, String> {
        match self {
            Scenario::Shortage(args) => Plan::new(args),
            Scenario::Surge(args) => args.plan(),
            Scenario::Waves(args) => args.plan(),
            Scenario::Trace(args) => args.plan(),
            Scenario::Bursts(args) => args.plan(),
            Scenario::Steady(args) => args.plan(),
            Scenario::Ycsb { args, case } => args.plan(case, args.seed, 0),
            Scenario::Density { machine, tenants } => machine.plan(tenants, machine.seed),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::trace::HEADER;

    #[derive(Parser)]
    struct Line<S: Args> {
        #[command(flatten)]
        args: S,
    }

    #[test]
    fn what_cannot_be_run_is_named() {
        for (line, option) in [
            ("--period 0", "--period"),
            ("--period 18446744073709551615", "--period"),
            ("--high NaN", "--high"),
            ("--low=-1", "--low"),
            ("--amplification 0", "--amplification"),
            ("--after 18446744073709551615", "--after"),
        ] {
            let words = ["waves"].into_iter().chain(line.split(' '));
            let error = Line::<Waves>::parse_from(words).args.plan().expect_err("it cannot be run");
            assert!(error.contains(option), "{line}: {error}");
        }
        let surge = Line::<Surge>::parse_from(["surge", "--idle", "18446744073709551615"]);
        assert!(surge.args.plan().expect_err("it never comes").contains("--seconds"));
        Line::<Waves>::parse_from(["waves"]).args.plan().expect("it can be run");
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a file of the user's")]
    fn a_trace_that_is_not_played_as_a_whole_is_told() {
        let file = std::env::temp_dir().join(format!("weir-replay-a-part-{}.csv", std::process::id()));
        std::fs::write(&file, format!("{HEADER}\n0,0,0.5,0\n0,1,0.5,0\n10,0,0.1,0\n20,1,0.1,0\n")).expect("written");
        let of = |words: &[&str]| {
            let plan = Line::<Replay>::parse_from([&["trace"][..], words].concat()).args.plan().expect("a trace");
            crate::table::heading(&plan)
        };
        let path = file.to_str().expect("text");
        let text = of(&["--trace", path, "--partitions", "32"]);
        assert!(text.contains("the trace has 2 tenants and ") && text.contains("32 tenants are played"), "{text}");
        let text = of(&["--trace", path, "--seconds", "10"]);
        assert!(text.contains("the trace has 2 tenants and 30 s; 2 tenants are played for 10 s"), "{text}");
        let text = of(&["--trace", path]);
        assert!(text.starts_with("2 partitions, ") && !text.contains("the trace has"), "{text}");
        // This one is drawn as it is played, up to a whole step.
        let text = of(&["--seconds", "15"]);
        assert!(!text.contains("the trace has"), "{text}");
        std::fs::remove_file(&file).expect("it was there");
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a file of the user's")]
    fn a_trace_that_cannot_be_replayed_is_named() {
        let file = std::env::temp_dir().join(format!("weir-replay-{}.csv", std::process::id()));
        let path = file.to_str().expect("text");
        for (text, said) in [("0,0,2,0", "line 2"), ("", "has no tenants")] {
            std::fs::write(&file, format!("{HEADER}\n{text}\n")).expect("written");
            let error = Line::<Replay>::parse_from(["trace", "--trace", path]).args.plan().expect_err("it is no trace");
            assert!(error.contains(path) && error.contains(said), "{error}");
        }
        std::fs::remove_file(&file).expect("it was there");
    }
}
