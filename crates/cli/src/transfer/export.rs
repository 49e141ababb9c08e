//! `weir export`: a tenant into a dump file of Redis.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Args;
use weir_io::Clock;
use weir_io::real::RealClock;
use weir_transfer::export::export;
use weir_transfer::import::Choice;
use weir_transfer::tally::Tally;
use weir_transfer::target::Target;

use super::login::Login;
use crate::operate::Outcome;
use crate::units::bytes;

/// Writes a tenant of a running server into a dump file that redis-server 7.0 and later load.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Export {
    /// The tenant
    tenant: String,
    /// The file to write; it must not exist yet
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    #[command(flatten)]
    login: Login,
    /// A database, 0 to 15; may be given several times [default: all]
    #[arg(long = "db", value_name = "N", value_parser = clap::value_parser!(u8).range(0..16))]
    databases: Vec<u8>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  weir export shop --to shop.rdb --secret -
  redis-check-rdb shop.rdb
  redis-server --dir /srv/redis --dbfilename shop.rdb

Each key is as it was at one moment, but not all of them at the same one, while clients write. For a file of one moment, export a
tenant to which nobody writes: `weir backup shop --to DIR`, `weir restore DIR --as copy`, `weir export copy --to copy.rdb`.
Keys with more than 64 MB in their parts, and hashes whose fields have ends of their own, are not exported: they are listed, and
the exit status is 1 then.";

/// The name of a file until it is whole.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".unfinished");
    name.into()
}

impl Export {
    /// Runs the command.
    #[allow(clippy::disallowed_methods, reason = "the user's file is no part of the data directory")]
    pub fn run(self) -> Outcome {
        let clock: Arc<dyn Clock> = RealClock::new();
        let target = Target::new(self.login.address(&self.tenant)?, Arc::clone(&clock));
        let wrong = |path: &Path, error: std::io::Error| format!("cannot write {}: {error}", path.display());
        if self.to.exists() {
            return Err(format!("{} is there already: choose another name, or remove it", self.to.display()).into());
        }
        let part = unfinished(&self.to);
        let mut file = File::create(&part).map_err(|error| wrong(&part, error))?;
        let seconds = (clock.unix_ms() / 1000).to_string();
        let facts = [("redis-ver", "7.0.15"), ("redis-bits", "64"), ("ctime", seconds.as_str())];
        let choice = Choice { databases: self.databases, ..Choice::default() };
        let tally = Tally::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let exported = runtime.block_on(export(&target, &choice, &tally, &facts, &mut file));
        let written = exported.map_err(|failure| failure.to_string()).and_then(|written| {
            // A file that has its final name is whole, also after a power cut.
            file.sync_all().and_then(|()| fs::rename(&part, &self.to)).map_err(|error| wrong(&part, error))?;
            Ok(written)
        });
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                // If it cannot be removed, its name says that it is unfinished.
                let _ = fs::remove_file(&part);
                return Err(error.into());
            }
        };
        let keys = tally.keys.load(Ordering::Relaxed);
        let refusals = super::import::refused(&tally);
        if self.json {
            let file = self.to.display().to_string();
            println!("{}", serde_json::json!({ "file": file, "keys": keys, "bytes": written, "refused": refusals }));
        } else {
            println!("{} is in {}: {keys} keys, {}", self.tenant, self.to.display(), bytes(written));
        }
        match refusals {
            0 => Ok(()),
            refusals => Err(format!("{refusals} keys were not exported: see above").into()),
        }
    }
}
