//! `EVAL` and its kin: a script is a transaction whose commands nobody knows before it runs.
//!
//! Its keys are locked, it runs, and what it has written is one batch. It may ask for keys that it has not declared:
//! then nothing of it is applied, and it runs once more with these locked, too. It has had no effect so far, and its
//! chance is the same again. One that finds others every time is given up.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_command::bill::Bill;
use weir_command::error::{Error, Outcome, TOO_LONG};
use weir_command::reply::{Protocol, Replies};
use weir_command::table::{self, Id};
use weir_command::{Args, Call, Command, Context, Draft, Headless, Host, Request, Rows, Transaction, Waiting, rows_of};
use weir_io::{Result, Rng, Spawn};
use weir_model::{StoredKey, slot};
use weir_script::{Ended, Run, Script};

use super::Connection;
use crate::pubsub::Kind;
use crate::resp::commands::{check_options, number_of_keys, send};
use crate::resp::monitored;
use crate::resp::outbox::YIELD;
use crate::scripts::{Asked, Control, Job, WRITTEN_BYTES_MAX};
use crate::store::Store;

/// How often a script is run again because it has found further keys.
const RUNS_MAX: usize = 16;

/// Bytes of lines about what one script calls that are kept for those who are told every command. The rest is left out.
const MONITORED_BYTES_MAX: usize = 4 << 20;

const NO_SCRIPT: Error = Error::new("NOSCRIPT No matching script. Please use EVAL.");
const OTHER_SLOT: Error = Error::new("ERR Script attempted to access a non local key in a cluster node");
const OTHER_KEYS: Error = Error::new(
    "ERR the script asks for other keys whenever it runs: declare all of its keys, or build their names from what does not change",
);

/// A script that is run.
struct Scripted<'a> {
    threads: &'a Arc<dyn Spawn>,
    run: Run,
    control: Arc<Control>,
    rows: BTreeSet<Vec<u8>>,
    /// Rows that it asked for and that are not locked.
    missing: BTreeSet<Vec<u8>>,
    /// What each command begins with.
    call: Call,
    bill: Option<Bill>,
    database: u8,
    writes_nothing: bool,
    is_spread: bool,
    /// The living bytes that its tenant may have on disk, where it has so many.
    full_at: Option<u64>,
    host: Headless,
    seed: u64,
    /// How many listen to a channel.
    listeners: &'a (dyn Fn(Kind, &[u8]) -> usize + Send + Sync),
    /// Messages that are sent when it has ended well.
    published: Vec<(Kind, Vec<u8>, Vec<u8>)>,
    published_bytes: usize,
    /// Lines for those who are told every command; `None` while nobody is.
    monitored: Option<Vec<Vec<u8>>>,
    monitored_bytes: usize,
    wrote: bool,
    ended: Option<Ended>,
}

impl Scripted<'_> {
    /// Runs the command of `words`; gives its reply.
    async fn command(
        &mut self,
        rows: &dyn Rows,
        words: Vec<Vec<u8>>,
        protocol: Protocol,
        draft: &mut Draft,
    ) -> Vec<u8> {
        self.host.replies().protocol = protocol;
        let outcome = self.checked(rows, &words, draft).await;
        if draft.batch().as_bytes().len().max(self.published_bytes) > WRITTEN_BYTES_MAX {
            self.control.end_as_too_large();
        }
        self.host.take_answer(&outcome)
    }

    async fn checked(&mut self, rows: &dyn Rows, words: &[Vec<u8>], draft: &mut Draft) -> Outcome {
        let command = table::find(&words[0]).ok_or(Error::new("ERR Unknown Redis command called from script"))?;
        if !command.takes(words.len()) {
            return Err(Error::new("ERR Wrong number of args calling Redis command from script"));
        }
        check_options(command, words.len())?;
        // A client cannot send a longer one either.
        if words.iter().any(|word| word.len() > self.call.value_bytes_max) {
            return Err(TOO_LONG);
        }
        let request = Request::new(0, 0, words.iter().map(Vec::as_slice));
        let args = request.args();
        if command.flags.contains(&"noscript") || (self.is_spread && goes_through_all(command, args)) {
            return Err(NOT_ALLOWED);
        }
        if self.writes_nothing && command.writes() {
            return Err(Error::new("ERR Write commands are not allowed from read-only scripts."));
        }
        if let Some(max) = self.full_at.filter(|_| command.flags.contains(&"denyoom")) {
            return Err(Error::disk_full(max));
        }
        let outcome = if command.is_of_rows {
            self.about_rows(rows, command, args, draft).await
        } else {
            self.about_nothing(command, args)
        };
        self.show(command, args).await;
        outcome
    }

    /// Remembers the call for those who are told every command, as far as there is room.
    async fn show(&mut self, command: &Command, args: Args<'_>) {
        let Some(lines) = &mut self.monitored else { return };
        if self.monitored_bytes < MONITORED_BYTES_MAX && monitored::is_shown(command, args) {
            let line = monitored::line((self.call.now_ms, self.database, "lua"), command, args, YIELD).await;
            self.monitored_bytes += line.len();
            lines.push(line);
        }
    }

    async fn about_rows(
        &mut self,
        rows: &dyn Rows,
        command: &'static Command,
        args: Args<'_>,
        draft: &mut Draft,
    ) -> Outcome {
        let own = rows_of(command, args, self.database);
        let own = own.iter().map(|row| row.to_vec());
        self.missing.extend(own.filter(|row| !self.rows.contains(row)));
        let mut call = Call { database: self.database, bill: self.bill, ..self.call.clone() };
        let context = Context::locked(rows, &mut self.host, &mut call, std::mem::take(draft));
        let finished = weir_command::run(command, context, args).await;
        *draft = finished.draft;
        self.bill = call.bill;
        self.wrote |= call.wrote;
        if let Some(bill) = self.bill.as_mut().filter(|_| !call.wrote) {
            // A look costs nothing beside a write. A script may look and write nothing, as often as it likes.
            bill.read(None, false);
        }
        finished.outcome
    }

    /// Runs a command that is about no rows.
    fn about_nothing(&mut self, command: &Command, args: Args<'_>) -> Outcome {
        match command.id {
            Id::Ping if args.len() == 1 => self.host.replies().simple("PONG"),
            Id::Ping | Id::Echo => self.host.replies().bulk(args.at(1)),
            Id::Time => {
                let ms = self.call.now_ms;
                let replies = self.host.replies();
                replies.array(2);
                replies.bulk((ms / 1000).to_string().as_bytes());
                replies.bulk((ms % 1000 * 1000).to_string().as_bytes());
            }
            Id::Select => {
                self.database = weir_command::database(args.at(1))?;
                self.host.replies().ok();
            }
            Id::Publish | Id::SPublish => {
                let kind = if command.id == Id::Publish { Kind::Channel } else { Kind::ShardChannel };
                kind.check(args.at(1))?;
                // A message of no bytes takes memory, too.
                self.published_bytes += args.at(1).len() + args.at(2).len() + 64;
                self.published.push((kind, args.at(1).to_vec(), args.at(2).to_vec()));
                let listeners = (self.listeners)(kind, args.at(1));
                self.host.replies().integer(listeners as i64);
            }
            _ => return Err(NOT_ALLOWED),
        }
        Ok(())
    }
}

const NOT_ALLOWED: Error = Error::new("ERR This Redis command is not allowed from script");

/// Whether a command on rows names none: it goes through all keys.
fn goes_through_all(command: &Command, args: Args<'_>) -> bool {
    command.is_of_rows && command.keys_in(args).next().is_none() && command.counted.is_none()
}

impl Transaction for Scripted<'_> {
    fn rows(&self) -> Vec<StoredKey> {
        self.rows.iter().map(|row| StoredKey::of(row)).collect()
    }

    fn run<'a>(&'a mut self, rows: &'a dyn Rows) -> Waiting<'a, Result<Draft>> {
        Box::pin(async move {
            // It may be run again.
            self.missing.clear();
            self.published.clear();
            self.monitored.iter_mut().for_each(Vec::clear);
            (self.ended, self.wrote, self.published_bytes, self.monitored_bytes) = (None, false, 0, 0);
            (self.database, self.bill) = (self.call.database, self.call.bill);
            self.host = Headless::new(Protocol::Resp2, YIELD, Rng::new(self.seed));
            let mut draft = Draft::default();
            let mut job = Job::begin(self.threads, self.run.clone(), Arc::clone(&self.control));
            let ended = loop {
                match job.next().await {
                    Asked::Call(words, protocol) => {
                        let reply = self.command(rows, words, protocol, &mut draft).await;
                        job.answer(reply);
                    }
                    Asked::Ended(ended) => break ended,
                }
            };
            let is_final = self.missing.is_empty();
            let is_applied = is_final && ended.is_ok();
            self.ended = Some(ended);
            Ok(if is_applied { draft } else { Draft::default() })
        })
    }
}

impl<S: Store> Connection<S> {
    /// Runs a script and answers with what it gives.
    pub(super) async fn eval(&mut self, command: &Command, args: Args<'_>) -> Outcome {
        if self.is_monitored() {
            let line = self.monitored_line(command, args, self.session.database()).await;
            self.send_to_monitors(vec![line]).await;
        }
        let keys = number_of_keys(args)?;
        let account = Arc::clone(self.session.account()?);
        let script = if matches!(command.id, Id::EvalSha | Id::EvalShaRo) {
            let found =
                weir_script::parse_digest(args.at(1)).and_then(|digest| account.scripts.cache.lock().get(&digest));
            found.ok_or(NO_SCRIPT)?
        } else {
            // Only what can be compiled is kept: that is seen when it runs.
            Arc::new(Script::parse(args.at(1))?)
        };
        let is_read_only = matches!(command.id, Id::EvalRo | Id::EvalShaRo);
        let run = Run {
            script: Arc::clone(&script),
            keys: args.iter_from(3).take(keys).map(<[u8]>::to_vec).collect(),
            argv: args.iter_from(3 + keys).map(<[u8]>::to_vec).collect(),
            seed: self.server.random(),
            protocol: self.session.outbox.replies.protocol,
        };
        self.session.outbox.replies.own_values();
        let place = account.scripts.places.acquire().await.map_err(|_| Error::new("ERR the server is ending"))?;
        let replies = self.run_script(run, is_read_only || script.writes_nothing).await;
        drop(place);
        let replies = replies?;
        account.scripts.cache.lock().put(&script);
        self.session.outbox.replies.append(replies);
        Ok(())
    }

    async fn run_script(&mut self, run: Run, writes_nothing: bool) -> Outcome<Replies> {
        let account = Arc::clone(self.session.account()?);
        let running = account.scripts.begin(&self.server.clock);
        let (call, seed) = (self.session.call(), self.server.random());
        let listeners = |kind: Kind, channel: &[u8]| account.pubsub.listeners(kind, channel);
        let (is_spread, full_at) = (self.session.store()?.is_spread(), self.session.store()?.disk_limit_reached());
        let rows = run.keys.iter().map(|key| StoredKey::new(call.database, key).to_vec()).collect();
        let mut scripted = Scripted {
            threads: &self.server.script_threads,
            run,
            control: Arc::clone(&running.control),
            rows,
            missing: BTreeSet::new(),
            bill: call.bill,
            database: call.database,
            call,
            writes_nothing,
            is_spread,
            full_at,
            host: Headless::new(Protocol::Resp2, YIELD, Rng::new(seed)),
            seed,
            listeners: &listeners,
            published: Vec::new(),
            published_bytes: 0,
            monitored: account.pubsub.has_monitors().then(Vec::new),
            monitored_bytes: 0,
            wrote: false,
            ended: None,
        };
        for _ in 0..RUNS_MAX {
            let first = scripted.rows.first().map_or_else(Vec::new, |row| row[1..].to_vec());
            if is_spread && scripted.rows.iter().any(|row| slot(&row[1..]) != slot(&first)) {
                return Err(OTHER_SLOT);
            }
            let store = self.session.store()?.clone();
            let commit = store.transact(&first, &mut scripted).await?;
            let ended = scripted.ended.take().ok_or(Error::new("ERR internal error: the script was not run"))?;
            if ended.is_ok() && !scripted.missing.is_empty() {
                scripted.rows.append(&mut scripted.missing);
                continue;
            }
            let Scripted { bill, wrote, rows, published, monitored, .. } = scripted;
            self.session.bill = bill;
            if let Some(commit) = commit {
                self.session.outbox.depend_on(commit);
            }
            if let Some(lines) = monitored.filter(|lines| !lines.is_empty()) {
                self.send_to_monitors(lines).await;
            }
            let replies = ended?;
            if wrote {
                account.waiting_rows.written(|| rows.iter().map(|row| StoredKey::of(row)).collect());
            }
            for (kind, channel, message) in published {
                send(&mut self.session, kind, &channel, &message).await?;
            }
            return Ok(replies);
        }
        Err(OTHER_KEYS)
    }
}
