//! `weir check`: is everything in a data directory as it was written?

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use weir_io::real::{RealFs, RealFsOptions, block_on, blocking_scope};
use weir_io::{Error, ErrorKind, Fs};
use weir_node::PartitionCheck;

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
A torn last log record and files without an owner are what a crash leaves: they are no problem.
What the server refuses to open may be repaired: `weir repair DIR` says so. Backups have a check of their own:
`weir backup --verify DIR`.";

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
        let found = found.map_err(|error| explain(&self.dir, &error))?;
        bar.finish_and_clear();
        found.partitions.iter().for_each(show);
        if found.unused > 0 {
            println!("{} partitions were never used: they have no files yet", found.unused);
        }
        found.notes.iter().for_each(|note| println!("{note}"));
        found.problems.iter().for_each(|problem| println!("DAMAGED  {problem}"));
        match found.all_problems().count() {
            0 => {
                println!("all is well");
                Ok(())
            }
            count => {
                let dir = self.dir.display();
                Err(format!(
                    "{count} problems: see what `weir repair {dir}` can do, and restore the rest from a backup"
                )
                .into())
            }
        }
    }
}

fn show(check: &PartitionCheck) {
    match &check.tenant {
        Some(tenant) => println!("{}  tenant {tenant}", check.dir.display()),
        None => println!("{}  of a tenant that is not known", check.dir.display()),
    }
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
}

/// What to do about a directory that cannot be checked, or repaired.
pub fn explain(dir: &Path, error: &Error) -> String {
    match error.kind() {
        ErrorKind::NotFound if error.path() == dir => {
            let dir = dir.display();
            format!("{dir} is no directory of Weir's: name the one that was given to `weir serve --dir` ({error})")
        }
        ErrorKind::Locked => format!("{} is in use by a server: stop it first ({error})", dir.display()),
        _ => error.to_string(),
    }
}
