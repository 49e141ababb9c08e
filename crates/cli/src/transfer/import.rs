//! `weir import`: imports a dump file, or the data and changes of a running Redis, into a tenant.

use std::fs::File;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use clap::Args;
use futures_util::future::{Either, select};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use weir_io::real::RealClock;
use weir_io::{Clock, local_path};
use weir_transfer::address::Address;
use weir_transfer::import::{Choice, Import as Work, import_file, import_live};
use weir_transfer::rdb::WHOLE_BYTES_MAX;
use weir_transfer::tally::Tally;
use weir_transfer::target::Target;
use weir_transfer::verify::{Compared, verify_file, verify_live};

use super::login::Login;
use super::progress::{Shown, show};
use crate::operate::Outcome;
use crate::units::parse_bytes;

/// Imports a dump file, or the data and changes of a running Redis, into a tenant of a running server.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Import {
    /// A dump file of Redis (RDB), or redis://USER:PASSWORD@HOST:PORT of a running Redis, which is followed
    #[arg(value_name = "SOURCE")]
    source: String,
    /// The tenant that takes it
    #[arg(long = "to", value_name = "TENANT")]
    tenant: String,
    #[command(flatten)]
    login: Login,
    /// A database, 0 to 15, to import into the one of the same number; may be given several times [default: all]
    #[arg(long = "db", value_name = "N", value_parser = clap::value_parser!(u8).range(0..16))]
    databases: Vec<u8>,
    /// Allow a tenant that has keys: keys of the same name are replaced, the others stay
    #[arg(long)]
    replace: bool,
    /// Leave out keys of modules, and count them
    #[arg(long)]
    skip_modules: bool,
    /// Bytes a second that are read of a file or a snapshot at most, such as 20MB. Changes behind it are not slowed
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    rate_limit: Option<u64>,
    /// With a running Redis: end as soon as the tenant has all its data
    #[arg(long)]
    until_in_step: bool,
    /// Import nothing: compare the tenant's keys with those of the source. With a file or --sample, keys that only the
    /// tenant has are not found
    #[arg(long, conflicts_with_all = ["replace", "until_in_step", "rate_limit", "skip_modules"])]
    verify: bool,
    /// With a running Redis: compare only about N keys of each database, chosen at random
    #[arg(long, value_name = "N", requires = "verify", value_parser = clap::value_parser!(u64).range(1..))]
    sample: Option<u64>,
    /// Print progress and result as JSON, one object per line
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  weir import dump.rdb --to shop --secret -           the secret comes from standard input
  weir import redis://old-host:6379 --to shop         everything, and then whatever changes there, until SIGINT
  weir import redis://old-host:6379 --to shop --until-in-step
  weir import redis://old-host:6379 --to shop --verify --sample 10000

To move an application from a Redis without losing a write:
  1. weir import redis://OLD --to TENANT              wait for `in step: lag 0 bytes`; clients go on writing to OLD
  2. stop the writers, or: redis-cli -u redis://OLD CLIENT PAUSE 60000 WRITE
  3. wait 5 seconds, then for the same line again     all that OLD has acknowledged is in the tenant now
  4. Ctrl-C                                           prints what was moved; then start the application with the tenant's address
The way back is open until step 4: OLD is only read.

A running Redis is followed as one of its replicas does. Where the connection breaks, it goes on from where it was; where the
source cannot (its backlog is too short), everything comes anew, after the tenant was emptied. Until the end the tenant
has keys `weir:import:position`, by which an import that was killed goes on when it is started again; where the source cannot, that
one ends and says so. Whatever the tenant refuses is counted and listed with the reason, and the exit status is 1 then. Dumps of
Redis 2.4 to 7.4 are read; functions come along where the server takes them. docs/operations.md has more.";

/// Where data is imported from.
enum Source {
    File(File, u64),
    Server(Address),
}

impl Import {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        let source = self.source()?;
        let clock: Arc<dyn Clock> = RealClock::new();
        let address = self.login.address(&self.tenant)?;
        let choice = Choice {
            databases: self.databases.clone(),
            replace: self.replace,
            skip_modules: self.skip_modules,
            rate: self.rate_limit,
            until_in_step: self.until_in_step,
        };
        let target = Target::new(address, Arc::clone(&clock));
        let work = Work { target, choice, tally: Arc::default(), whole_bytes_max: WHOLE_BYTES_MAX, clock };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        runtime.block_on(self.work(source, work))
    }

    #[allow(clippy::disallowed_methods, reason = "the user's file is no part of the data directory")]
    fn source(&self) -> Outcome<Source> {
        if self.source.starts_with("redis://") || self.source.starts_with("rediss://") {
            return Ok(Source::Server(Address::parse(&self.source)?));
        }
        if self.until_in_step || self.sample.is_some() {
            return Err("--until-in-step and --sample are for a running Redis: a file has an end".into());
        }
        let path = local_path(Path::new(&self.source).to_path_buf())?;
        let wrong = |error| format!("cannot read {}: {error}", path.display());
        let file = File::open(&path).map_err(wrong)?;
        let bytes = file.metadata().map_err(wrong)?.len();
        Ok(Source::File(file, bytes))
    }

    async fn work(&self, source: Source, work: Work) -> Outcome {
        let (stop, stopped) = watch::channel(false);
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut ends = signal(SignalKind::terminate())?;
        let mut told = async || {
            tokio::select! {
                _ = interrupts.recv() => {}
                _ = ends.recv() => {}
            }
        };
        let told_twice = async {
            told().await;
            // This fails only if nobody listens any more, when all is done.
            let _ = stop.send(true);
            told().await;
        };
        let shown = Shown { json: self.json, is_verifying: self.verify };
        let shower = tokio::spawn(show(shown, Arc::clone(&work.tally), Arc::clone(&work.clock)));
        let doing = async {
            match self.verify {
                true => self.verify(source, &work, stopped).await,
                false => self.import(source, &work, stopped).await,
            }
        };
        let done = match select(pin!(doing), pin!(told_twice)).await {
            Either::Left((done, _)) => done,
            Either::Right(_) => {
                Err("interrupted twice: what was on its way may be in the tenant or not. The same command \
                                     goes on from there, if the snapshot was whole"
                    .into())
            }
        };
        shower.abort();
        done
    }

    async fn import(&self, source: Source, work: &Work, mut stopped: watch::Receiver<bool>) -> Outcome {
        let (done, at) = match source {
            Source::Server(address) => match import_live(work, &address, stopped).await {
                Ok(position) => (Ok(()), Some(position)),
                Err(failure) => (Err(failure), None),
            },
            Source::File(file, bytes) => {
                let importing = pin!(import_file(work, file, bytes));
                let stopped = pin!(stopped.wait_for(|&stop| stop));
                match select(importing, stopped).await {
                    Either::Left((done, _)) => (done, None),
                    Either::Right(_) => {
                        return Err("interrupted: the tenant has some of the keys, empty it and start again".into());
                    }
                }
            }
        };
        let refusals = refused(&work.tally);
        let shown = Shown { json: self.json, is_verifying: false };
        shown.end(&work.tally, at.as_ref().map(ToString::to_string).as_deref(), done.is_ok());
        done?;
        match refusals {
            0 => Ok(()),
            refusals => Err(format!("{refusals} times the tenant did not take what came: see above").into()),
        }
    }

    async fn verify(&self, source: Source, work: &Work, mut stopped: watch::Receiver<bool>) -> Outcome {
        let stopped = pin!(stopped.wait_for(|&stop| stop));
        let comparing = async {
            match source {
                Source::Server(address) => verify_live(work, &address, self.sample).await,
                Source::File(file, _) => verify_file(work, file).await,
            }
        };
        let compared = match select(pin!(comparing), stopped).await {
            Either::Left((compared, _)) => compared?,
            Either::Right(_) => return Err("interrupted: not all was compared".into()),
        };
        let Compared { keys, by_size, different, differences } = compared;
        if self.json {
            let each = differences
                .iter()
                .map(|one| serde_json::json!({ "database": one.database, "key": one.key, "what": one.what }));
            let each: Vec<_> = each.collect();
            let told = serde_json::json!({
                "keys": keys, "by_size_only": by_size, "different": different, "differences": each
            });
            println!("{told}");
        } else {
            for one in &differences {
                eprintln!("differs  database {}, \"{}\": {}", one.database, one.key, one.what);
            }
            println!("compared {keys} keys ({by_size} of them by their size only): {different} differ");
        }
        match different {
            0 => Ok(()),
            different => Err(format!("{different} keys are not the same").into()),
        }
    }
}

/// Lists what was refused, and gives how many refusals there were.
pub fn refused(tally: &Tally) -> u64 {
    let (first, reasons) = tally.refused();
    for one in &first {
        eprintln!("refused  database {}, \"{}\": {}", one.database, one.what, one.reason);
    }
    if tally.refusals() > first.len() as u64 {
        reasons.iter().for_each(|(reason, count)| eprintln!("refused  {count} times: {reason}"));
    }
    tally.refusals()
}
