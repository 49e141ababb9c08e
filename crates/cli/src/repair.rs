//! `weir repair`: makes a directory that the server refuses openable again.

use std::io::{BufRead, IsTerminal, Write, stdin, stdout};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use weir_io::real::{RealClock, RealFs, RealFsOptions, block_on, blocking_scope};
use weir_io::{Clock, Fs};
use weir_node::repair::{self, Role};

use crate::check::explain;

/// Repairs a directory that the server refuses to open, if the remaining files allow it: `FORMAT`, either copy of the
/// catalogue, a partition's `tree/CURRENT`, its `ANCHOR`, its log.
///
/// Says what is wrong and what it would do, and does it only with --yes, or after it has asked and you have agreed. The
/// server must be stopped.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Repair {
    /// The directory that was given to `weir serve --dir`
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Do it without asking
    #[arg(long)]
    yes: bool,
    /// The copy of the catalogue that is right, if the files do not say which
    #[arg(long, value_enum, value_name = "COPY")]
    believe: Option<Copy>,
    /// Keep the beginning of a damaged log, and give up everything from the damage on
    #[arg(long)]
    accept_loss: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Copy {
    /// The first one, catalogue/
    #[value(name = "catalogue")]
    First,
    /// The second one, catalogue.mirror/
    #[value(name = "catalogue.mirror")]
    Mirror,
}

const EXAMPLES: &str = "\
Examples:
  weir repair ./weir-data                          what is wrong, what would be done; asks before it does anything
  weir repair ./weir-data --yes                    does it
  weir repair ./weir-data --accept-loss            where a log is damaged and there is no backup: keeps what is in front of the damage
  weir repair ./weir-data --believe catalogue      where both copies of the catalogue can be read and contradict each other

Nothing is deleted: what is replaced is kept in DIR/repaired-001 (then 002 and so on), which the server never looks at.
Make a copy of the directory first if there is room. Afterwards `weir check DIR` says whether all is well.
Ends with status 0 if there is nothing (more) to repair, else with 1.";

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

impl Repair {
    /// Shows the plan, and carries it out if that is wanted.
    pub fn run(self) -> Outcome {
        let _scope = blocking_scope();
        let fs: Arc<dyn Fs> = RealFs::new(RealFsOptions::default());
        let believe = self.believe.map(|copy| match copy {
            Copy::First => Role::First,
            Copy::Mirror => Role::Mirror,
        });
        let salt = RealClock::new().unix_ms() ^ u64::from(std::process::id()) << 44;
        let plan = block_on(repair::Repair::plan(&fs, &self.dir, believe, salt));
        let mut plan = plan.map_err(|error| explain(&self.dir, &error))?;
        if self.accept_loss {
            plan.accept_loss();
        }
        for (number, finding) in (1..).zip(plan.findings()) {
            println!("{number}. {}", finding.problem);
            println!("   {}  {}", if finding.can_be_repaired() { "REPAIR" } else { "NEEDS YOU" }, finding.advice);
        }
        let (all, can) = (plan.findings().len(), plan.findings().iter().filter(|it| it.can_be_repaired()).count());
        let dir = self.dir.display();
        match (all, can) {
            (0, _) => {
                println!("nothing to repair; `weir check {dir}` looks at everything else");
                return Ok(());
            }
            (_, 0) => return Err("nothing was changed: none of it can be repaired as it was asked for".into()),
            _ => println!("Nothing is deleted: what is replaced is kept in {dir}/repaired-NNN."),
        }
        if !self.yes && !confirmed(can)? {
            return Err("nothing was changed".into());
        }
        let kept = block_on(plan.apply())?;
        println!("done, {can} repaired; what was replaced is in {}. Next: `weir check {dir}`", kept.display());
        match all - can {
            0 => Ok(()),
            left => Err(format!("{left} could not be repaired: see above").into()),
        }
    }
}

fn confirmed(repairs: usize) -> Outcome<bool> {
    if !stdin().is_terminal() {
        return Err("nothing was changed: say --yes, as there is nobody to ask".into());
    }
    print!("Repair {repairs} of them? Type yes: ");
    stdout().flush()?;
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim() == "yes")
}
