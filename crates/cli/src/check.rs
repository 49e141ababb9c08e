//! `weir check`: is everything in a directory as it was written?

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use weir_io::real::{RealFs, RealFsOptions, block_on, blocking_scope};
use weir_io::{Error, ErrorKind, Fs};

/// Reads every byte of a directory that no server has open, and verifies every checksum, order and invariant.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Check {
    /// The directory that was given to `weir serve --dir`
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  weir check ./weir-data          says what is there and what is wrong, changes nothing

Ends with status 0 if all is well, 1 if anything is damaged; each problem names file and offset.
A torn last log record and files without an owner are what a crash leaves: they are no problem.";

impl Check {
    /// Runs the check.
    pub fn run(self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let _scope = blocking_scope();
        let fs: Arc<dyn Fs> = RealFs::new(RealFsOptions::default());
        let bar = ProgressBar::new(0)
            .with_style(ProgressStyle::with_template("checking tables {wide_bar} {pos}/{len} ({eta} left)")?);
        let found = block_on(weir_node::check(&fs, &self.dir, |done, total| {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        }));
        let found = found.map_err(|error| self.explain(&error))?;
        bar.finish_and_clear();
        let mut problems = 0;
        for check in &found.partitions {
            println!("{}  tenant {}", check.dir.display(), check.tenant);
            let tree = &check.tree;
            println!("  tables   {} with {} entries in {} bytes", tree.tables, tree.entries, tree.bytes);
            if let Some(log) = &check.log {
                let newer = log.last.saturating_sub(tree.persisted);
                println!("  log      {newer} records newer than the tables, in {} segments", log.segments);
            }
            if !tree.orphans.is_empty() {
                println!("  left by a crash, removed at the next start: {}", tree.orphans.join(", "));
            }
            for problem in &check.problems {
                println!("  DAMAGED  {problem}");
            }
            problems += check.problems.len();
        }
        if found.unused > 0 {
            println!("{} partitions were never used: they have no files yet", found.unused);
        }
        match problems {
            0 => {
                println!("all is well");
                Ok(())
            }
            count => Err(format!("{count} problems: restore what is damaged from a backup").into()),
        }
    }

    /// What to do about a directory that cannot be checked.
    fn explain(&self, error: &Error) -> String {
        let dir = self.dir.display();
        match error.kind() {
            ErrorKind::NotFound if error.path().parent() == Some(&self.dir) => {
                format!("{dir} is no directory of Weir's: name the one that was given to `weir serve --dir` ({error})")
            }
            ErrorKind::Locked => {
                format!("{dir} is in use by a server: stop it first ({error})")
            }
            _ => error.to_string(),
        }
    }
}
