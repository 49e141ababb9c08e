//! One script of a transaction. The commands that it calls run on the transaction's rows, and their changes go behind
//! those of the commands in front of it.
//!
//! It runs on the thread that serves its client, unless it has to leave. In both cases it may ask for rows that are not
//! locked. Then nothing of the transaction is applied, and all of it runs once more with these rows locked, too.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::FutureExt;
use weir_command::acl::{Denied, has_unknown_subcommand};
use weir_command::bill::OwnBill;
use weir_command::error::{Error, Outcome, TOO_LONG};
use weir_command::reply::{Protocol, Replies};
use weir_command::table::{self, Id};
use weir_command::{Args, Call, Command, Context, Draft, Headless, Host, Request, Rows, rows_of};
use weir_io::{Clock, Rng, Spawn};
use weir_model::StoredKey;
use weir_node::request_units::Module;
use weir_script::{Bridge, Ended, Limits, Machine, Run, What, World};

use crate::pubsub::{Kind, PubSub};
use crate::resp::commands::{check_options, count_listeners, debug_protocol, debug_sleep};
use crate::resp::monitored;
use crate::resp::outbox::YIELD;
use crate::resp::rights::Rights;
use crate::resp::tracked::Reader;
use crate::scripts::here::{self, Here, Left, SOURCE_BYTES_MAX};
use crate::scripts::{
    ASKED_BYTES_MAX, Asked, Control, Job, Known, LIMITS, Pace, RunningFunction, TOO_LARGE, TOO_MANY_KEYS,
    WRITTEN_BYTES_MAX,
};
use crate::stats::Calls;

/// How many bytes of lines about the calls of one script are kept for monitors. Further lines are left out.
const MONITORED_BYTES_MAX: usize = 4 << 20;

/// How many refusals of one script go into the log.
const DENIED_MAX: usize = 128;

/// How many different errors of one script are counted, each with how often it came.
const ERRORS_MAX: usize = 32;

/// How many words of a call of a function are shown while it runs, and how many bytes of each word.
const SHOWN_WORDS: usize = 32;
const SHOWN_WORD_BYTES: usize = 128;

/// Bytes that a row takes besides its key when a script has asked for it.
const ROW_BYTES: usize = 64;

/// How many instructions make a slice, in which request units count them.
const SLICE_INSTRUCTIONS: u32 = 100;

/// Longest `DEBUG SLEEP` of a script, in seconds: nobody can kill it while it sleeps.
const SLEEP_SECONDS_MAX: f64 = 1.0;

const UNKNOWN: Error = Error::new("ERR Unknown Redis command called from script");
const NOT_ALLOWED: Error = Error::new("ERR This Redis command is not allowed from script");

/// Where scripts run.
pub(super) enum RunsOn {
    /// On the thread that serves their client, timed by this clock.
    Here(Arc<dyn Clock>),
    /// On one of these threads, until the control says that they have to end.
    Away(Arc<dyn Spawn>, Arc<Control>),
}

/// Where the scripts of a transaction run, with which rows, and what has come of it so far.
pub(super) struct Ground {
    pub(super) place: RunsOn,
    machine: Option<Machine>,
    /// Rows that are locked.
    pub(super) rows: BTreeSet<Vec<u8>>,
    /// Rows that were asked for and are not locked.
    pub(super) missing: BTreeSet<Vec<u8>>,
    /// Why a script has to run elsewhere, if one has.
    pub(super) left: Option<Left>,
}

impl Ground {
    /// For scripts that run on the thread that serves their client, timed by `clock`, unless they are moved elsewhere.
    pub(super) fn new(clock: &Arc<dyn Clock>, machine: Machine, rows: BTreeSet<Vec<u8>>) -> Self {
        let place = RunsOn::Here(Arc::clone(clock));
        Self { place, machine: Some(machine), rows, missing: BTreeSet::new(), left: None }
    }

    /// The machine, if it still exists.
    pub(super) fn into_machine(self) -> Option<Machine> {
        self.machine
    }

    /// Whether the transaction has to be run again: with further rows locked, or elsewhere.
    pub(super) fn runs_again(&mut self) -> bool {
        let runs_again = !self.is_final();
        self.rows.append(&mut self.missing);
        runs_again
    }

    /// The transaction begins, perhaps anew.
    pub(super) fn begin(&mut self) {
        self.missing.clear();
        self.left = None;
    }

    /// Whether the results of the run are final.
    pub(super) fn is_final(&self) -> bool {
        self.missing.is_empty() && self.left.is_none()
    }

    /// The machine, or a new one if it no longer exists.
    fn take_machine(&mut self) -> Outcome<Machine> {
        self.machine.take().map_or_else(Machine::new, Ok)
    }
}

/// A message: the kind of its channel, the channel, and what it says.
pub(super) type Message = (Kind, Vec<u8>, Vec<u8>);

/// What a script may do, and what it needs to know of its session.
pub(super) struct Terms {
    /// The context with which each command begins.
    pub(super) call: Call,
    pub(super) writes_nothing: bool,
    pub(super) is_spread: bool,
    /// Times the calls.
    pub(super) clock: Arc<dyn Clock>,
    /// The limit on the tenant's living bytes on disk, if the tenant has reached it.
    pub(super) full_at: Option<u64>,
    pub(super) seed: u64,
    /// Where the script publishes.
    pub(super) pubsub: Arc<PubSub>,
    /// Remembers what the script reads, if the client keeps values.
    pub(super) reader: Option<Reader>,
    /// The rights of the user who runs the script.
    pub(super) rights: Rights,
    /// The index under which calls of the command that runs the script are counted.
    pub(super) counted_as: usize,
    /// The script may run `DEBUG PROTOCOL` and `DEBUG SLEEP`.
    pub(super) may_debug: bool,
}

/// One script of a transaction.
pub(super) struct Scripted {
    /// Kept for `EVALSHA` once the script has run.
    pub(super) known: Option<Arc<Known>>,
    pace: Arc<Pace>,
    run: Arc<Run>,
    terms: Terms,
    database: u8,
    pub(super) bill: OwnBill,
    host: Headless,
    /// Messages that are sent when the transaction is final.
    published: Vec<Message>,
    published_bytes: usize,
    /// Bytes of the events that the script has caused.
    events_bytes: usize,
    /// Rows that the script was the first to ask for, and that are not locked.
    missing: BTreeSet<Vec<u8>>,
    /// Bytes of all rows that were missing, in this run and in those before it.
    asked_bytes: usize,
    /// Lines for monitors; `None` if there are none.
    monitored: Option<Vec<Vec<u8>>>,
    monitored_bytes: usize,
    /// The commands that the script has called, and the errors with which they were answered.
    pub(super) calls: Calls,
    errors: Vec<(Error, u64)>,
    /// The calls that were not allowed, for the log.
    denied: Vec<(Denied, Vec<u8>)>,
    pub(super) wrote: bool,
    /// Number of commands that the script has asked for, whether or not they could be run.
    asked: u64,
    ended: Option<Ended>,
}

impl Scripted {
    /// A script that has not run yet.
    pub(super) fn new(known: Option<Arc<Known>>, pace: Arc<Pace>, run: Run, terms: Terms) -> Self {
        let monitored = terms.pubsub.has_monitors().then(Vec::new);
        Self {
            known,
            pace,
            run: Arc::new(run),
            database: terms.call.database,
            bill: terms.call.bill.clone(),
            host: Headless::new(Protocol::Resp2, YIELD, Rng::new(terms.seed)),
            terms,
            published: Vec::new(),
            published_bytes: 0,
            events_bytes: 0,
            missing: BTreeSet::new(),
            asked_bytes: 0,
            monitored,
            monitored_bytes: 0,
            calls: Calls::default(),
            errors: Vec::new(),
            denied: Vec::new(),
            wrote: false,
            asked: 0,
            ended: None,
        }
    }

    /// The rows of the keys that the script has declared.
    pub(super) fn declared(&self) -> impl Iterator<Item = Vec<u8>> {
        let number = self.terms.call.databases.number(self.terms.call.database);
        self.run.keys.iter().map(move |key| StoredKey::new(number, key).to_vec())
    }

    /// Whether the script begins on a thread of its own.
    pub(super) fn begins_away(&self, machine: &Machine) -> bool {
        self.pace.begins_away() || !machine.has(&self.run.what, SOURCE_BYTES_MAX)
    }

    /// The function that is run, if it is one.
    pub(super) fn function(&self) -> Option<Arc<RunningFunction>> {
        let What::Function(_, name) = &self.run.what else { return None };
        let Run { keys, argv, .. } = &*self.run;
        let count = keys.len().to_string().into_bytes();
        let words =
            [b"FCALL".to_vec(), name.as_bytes().to_vec(), count].into_iter().chain(keys.iter().chain(argv).cloned());
        let command = words.take(SHOWN_WORDS).map(|mut word| {
            word.truncate(SHOWN_WORD_BYTES);
            word
        });
        Some(Arc::new(RunningFunction { name: name.clone(), command: command.collect() }))
    }

    /// Runs the script. Its changes go behind those in `draft`. It may be run again from its beginning.
    pub(super) async fn run(&mut self, rows: &dyn Rows, ground: &mut Ground, mut draft: Draft) -> Draft {
        self.published.clear();
        self.denied.clear();
        self.errors.clear();
        self.missing.clear();
        self.events_bytes = 0;
        self.calls = Calls::default();
        self.monitored.iter_mut().for_each(Vec::clear);
        (self.ended, self.wrote, self.asked, self.published_bytes, self.monitored_bytes) = (None, false, 0, 0, 0);
        (self.database, self.bill) = (self.terms.call.database, self.terms.call.bill.clone());
        self.host = Headless::new(Protocol::Resp2, YIELD, Rng::new(self.terms.seed));
        let words = (self.run.keys.len() + self.run.argv.len()) as u64;
        self.bill.work.count_all([(Module::Script, 1), (Module::ScriptWord, words)]);
        let before = (draft.mark(), draft.events_len());
        let ended = match &ground.place {
            RunsOn::Here(clock) => {
                let here = Here::begin(clock, self.terms.rights.user());
                let ended = self.run_here(rows, ground, &mut draft, &here);
                self.count_slices(here.looks(), here::LIMITS);
                ended
            }
            RunsOn::Away(threads, control) => {
                let (threads, control) = (Arc::clone(threads), Arc::clone(control));
                control.is_of(self.terms.rights.user());
                let before = control.looks();
                let ended = self.run_away(rows, ground, &mut draft, &threads, Arc::clone(&control)).await;
                self.count_slices(control.looks() - before, LIMITS);
                ended
            }
        };
        if ended.is_err() {
            draft.rewind(before.0);
            draft.forget_events(before.1);
        }
        // A script that has asked for too much is not run again for that.
        let mut missing = std::mem::take(&mut self.missing);
        if !self.asks_for_too_much() {
            ground.missing.append(&mut missing);
        }
        self.note_own_error(&ended);
        self.ended = Some(ended);
        draft
    }

    /// Counts the slices. The script was checked `looks` times: each time it had executed as many instructions as
    /// `limits` say, and before each command that it has asked for.
    fn count_slices(&mut self, looks: u64, limits: Limits) {
        let slices =
            looks.saturating_sub(self.asked).saturating_mul(u64::from(limits.instructions / SLICE_INSTRUCTIONS));
        self.bill.work.count(Module::ScriptSlice, slices);
    }

    fn run_here(&mut self, rows: &dyn Rows, ground: &mut Ground, draft: &mut Draft, here: &Arc<Here>) -> Ended {
        let mut machine = ground.take_machine()?;
        let (run, world) = (Arc::clone(&self.run), Arc::clone(here) as Arc<dyn World>);
        let mut near = Near { scripted: self, rows, ground, draft, here };
        let ended = machine.run(&run, here::LIMITS, &mut near, &world);
        ground.machine = Some(machine);
        ground.left = here.left();
        if ground.left == Some(Left::UsedUp) {
            self.pace.took_long();
        }
        ended
    }

    async fn run_away(
        &mut self,
        rows: &dyn Rows,
        ground: &mut Ground,
        draft: &mut Draft,
        threads: &Arc<dyn Spawn>,
        control: Arc<Control>,
    ) -> Ended {
        let machine = ground.take_machine()?;
        let mut job = Job::begin(threads, Arc::clone(&self.run), machine, control);
        loop {
            match job.next().await {
                Asked::Call(words, protocol) => {
                    let reply = self.command(rows, words, protocol, ground, draft).await;
                    job.answer(reply);
                }
                Asked::Ended(ended, machine) => {
                    ground.machine = machine.map(|machine| *machine);
                    return ended;
                }
            }
        }
    }

    /// Runs the command of `words`, and returns its reply.
    ///
    /// # Errors
    /// The script has asked for more than it may, and has to end.
    async fn command(
        &mut self,
        rows: &dyn Rows,
        words: Vec<Vec<u8>>,
        protocol: Protocol,
        ground: &mut Ground,
        draft: &mut Draft,
    ) -> Outcome<Vec<u8>> {
        self.asked += 1;
        // Whatever the command is, and even if it is refused: its call is no slice of the script.
        self.bill.work.count_all([(Module::ScriptCall, 1), (Module::Word, words.len() as u64)]);
        let events = draft.events_len();
        self.host.replies().protocol = protocol;
        let outcome = self.checked(rows, &words, ground, draft).await;
        let reply = self.host.take_answer(&outcome);
        if let Err(error) = outcome {
            self.note_error(error);
        }
        self.events_bytes += draft.events_bytes(events);
        let written = draft.batch().as_bytes().len();
        match () {
            () if written.max(self.published_bytes).max(self.events_bytes) > WRITTEN_BYTES_MAX => Err(TOO_LARGE),
            () if self.asks_for_too_much() => Err(TOO_MANY_KEYS),
            () => Ok(reply),
        }
    }

    fn asks_for_too_much(&self) -> bool {
        self.asked_bytes > ASKED_BYTES_MAX
    }

    async fn checked(&mut self, rows: &dyn Rows, words: &[Vec<u8>], ground: &mut Ground, draft: &mut Draft) -> Outcome {
        let command = table::find(&words[0]).ok_or(UNKNOWN)?;
        // A client cannot send a longer word, either.
        if words.iter().any(|word| word.len() > self.terms.call.value_bytes_max) {
            return Err(TOO_LONG);
        }
        let request = Request::new(0, 0, words.iter().map(Vec::as_slice));
        let args = request.args();
        if has_unknown_subcommand(command, args) {
            return Err(UNKNOWN);
        }
        if let Err(error) = self.admit(command, args).await {
            self.calls.reject(command, args);
            return Err(error);
        }
        let began = self.terms.clock.now();
        let outcome = if table::reads_blocking(command, args) {
            let name = String::from_utf8_lossy(args.at(0)).into_owned();
            let text = format!("ERR {name} command is not allowed with BLOCK option from scripts");
            Err(Error::bytes(text.into_bytes()))
        } else if command.works_on_rows(args) {
            self.about_rows(rows, command, args, ground, draft).await
        } else {
            self.about_nothing(command, args).await
        };
        self.calls.add(command, args, self.terms.clock.now().saturating_sub(began), outcome.is_err());
        self.show(command, args).await;
        outcome
    }

    /// Whether the script may call this command.
    ///
    /// # Errors
    /// The reason why not.
    async fn admit(&mut self, command: &'static Command, args: Args<'_>) -> Outcome {
        let terms = &self.terms;
        if !command.takes(args.len()) || command.check_subcommand(args).is_err() {
            return Err(Error::new("ERR Wrong number of args calling Redis command from script"));
        }
        check_options(command, args.len())?;
        let is_debug = terms.may_debug && command.id == Id::Debug;
        if (command.flags.contains(&"noscript") && !is_debug) || (terms.is_spread && goes_through_all(command, args)) {
            return Err(NOT_ALLOWED);
        }
        if let Some(denied) = terms.rights.denied(command, args).await {
            if self.denied.len() < DENIED_MAX {
                self.denied.push((denied, denied.object(command, args)));
            }
            return Err(denied.as_error_in_script(command, args));
        }
        if terms.writes_nothing && command.is_replicated() {
            return Err(Error::new("ERR Write commands are not allowed from read-only scripts."));
        }
        if let Some(max) = terms.full_at.filter(|_| command.needs_room(args)) {
            return Err(Error::disk_full(max));
        }
        Ok(())
    }

    /// Counts an error with which a call was answered. A script that tries in vain gets the same errors again.
    fn note_error(&mut self, error: Error) {
        if let Some((_, count)) = self.errors.iter_mut().find(|(other, _)| *other == error) {
            *count += 1;
        } else if self.errors.len() < ERRORS_MAX {
            self.errors.push((error, 1));
        }
    }

    /// If the script returns an error, counts that its own call has failed; and the error, unless it is that of a call.
    fn note_own_error(&mut self, ended: &Ended) {
        let answer = ended.as_ref().ok().and_then(|replies| replies.as_one_piece()?.strip_prefix(b"-"));
        let Some(text) = answer.and_then(|answer| answer.split(|&byte| byte == b'\r').next()) else { return };
        self.calls.fail(self.terms.counted_as);
        if !self.errors.iter().any(|(error, _)| text.starts_with(error.text())) {
            self.note_error(Error::of_script(text.to_vec()));
        }
    }

    /// Keeps the call for monitors, as far as there is room.
    async fn show(&mut self, command: &Command, args: Args<'_>) {
        let Some(lines) = &mut self.monitored else { return };
        if self.monitored_bytes < MONITORED_BYTES_MAX && monitored::is_shown(command, args) {
            let line = monitored::line((self.terms.call.clock_ms, self.database, "lua"), command, args, YIELD).await;
            self.monitored_bytes += line.len();
            lines.push(line);
        }
    }

    async fn about_rows(
        &mut self,
        rows: &dyn Rows,
        command: &'static Command,
        args: Args<'_>,
        ground: &mut Ground,
        draft: &mut Draft,
    ) -> Outcome {
        if let Some(reader) = &self.terms.reader {
            reader.remember_behind(draft, command, args, &self.run.keys);
        }
        for row in rows_of(command, args, self.database, self.terms.call.databases) {
            // What a script in front of this one has asked for is kept once for both.
            let is_known = ground.rows.contains(&row[..]) || ground.missing.contains(&row[..]);
            if !is_known && self.missing.insert(row.to_vec()) {
                self.asked_bytes += ROW_BYTES + row.len();
            }
        }
        let bill = std::mem::take(&mut self.bill);
        let mut call = Call { database: self.database, bill, is_scripted: true, ..self.terms.call.clone() };
        let context = Context::locked(rows, &mut self.host, &mut call, std::mem::take(draft));
        let finished = weir_command::run(command, context, args).await;
        *draft = finished.draft;
        self.bill = call.bill;
        self.wrote |= call.wrote;
        if !call.wrote {
            // A command that has written nothing counts as a look, which costs nothing beside a write. A script may
            // look as often as it likes.
            self.bill.looked();
        }
        finished.outcome
    }

    /// Runs a command that is not about rows.
    async fn about_nothing(&mut self, command: &Command, args: Args<'_>) -> Outcome {
        match command.id {
            Id::Ping if args.len() == 1 => self.host.replies().simple("PONG"),
            Id::Ping | Id::Echo => self.host.replies().bulk(args.at(1)),
            Id::Time => {
                let ms = self.terms.call.clock_ms;
                let replies = self.host.replies();
                replies.array(2);
                replies.bulk((ms / 1000).to_string().as_bytes());
                replies.bulk((ms % 1000 * 1000).to_string().as_bytes());
            }
            // As for a client: the last save is always now.
            Id::LastSave => self.host.replies().integer((self.terms.call.clock_ms / 1000) as i64),
            Id::PubSub if count_listeners(self.host.replies(), &self.terms.pubsub, args)? => {}
            Id::Select => {
                self.database = weir_command::database(args.at(1))?;
                self.host.replies().ok();
            }
            Id::Publish | Id::SPublish => {
                let kind = if command.id == Id::Publish { Kind::Channel } else { Kind::ShardChannel };
                kind.check(args.at(1))?;
                self.bill.work.count(Module::Published, 1);
                // An empty message takes memory, too.
                self.published_bytes += args.at(1).len() + args.at(2).len() + 64;
                self.published.push((kind, args.at(1).to_vec(), args.at(2).to_vec()));
                let listeners = self.terms.pubsub.listeners(kind, args.at(1));
                self.host.replies().integer(listeners as i64);
            }
            Id::Debug if args.len() == 3 && args.at(1).eq_ignore_ascii_case(b"PROTOCOL") => {
                debug_protocol(self.host.replies(), args.at(2))?;
            }
            Id::Debug if args.len() == 3 && args.at(1).eq_ignore_ascii_case(b"SLEEP") => {
                debug_sleep(&self.terms.clock, args.at(2), SLEEP_SECONDS_MAX).await;
                self.host.replies().ok();
            }
            _ => return Err(NOT_ALLOWED),
        }
        Ok(())
    }

    /// Bytes that are kept until the transaction is final, besides its draft: messages, lines for monitors, and rows
    /// that were asked for.
    pub(super) fn kept_bytes(&self) -> usize {
        self.published_bytes + self.monitored_bytes + self.asked_bytes
    }

    /// The messages that the script has published.
    pub(super) fn take_published(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.published)
    }

    /// Lines about the script's calls, for monitors.
    pub(super) fn take_monitored(&mut self) -> Vec<Vec<u8>> {
        self.monitored.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The errors of the script's calls and of the script itself, each with how often it came.
    pub(super) fn take_errors(&mut self) -> Vec<(Error, u64)> {
        std::mem::take(&mut self.errors)
    }

    /// What the script was refused.
    pub(super) fn take_denied(&mut self) -> Vec<(Denied, Vec<u8>)> {
        std::mem::take(&mut self.denied)
    }

    /// The script's answer, when it has run and is final.
    ///
    /// # Errors
    /// The reason why the script had to end.
    pub(super) fn take_ended(&mut self) -> Outcome<Replies> {
        self.ended.take().unwrap_or(Err(Error::new("ERR internal error: the script was not run")))
    }
}

/// Whether a command on rows names no keys, and therefore goes through all of them.
fn goes_through_all(command: &Command, args: Args<'_>) -> bool {
    command.is_of_rows && command.keys_in(args).next().is_none() && command.counted.is_none()
}

/// The bridge of a script that runs on the thread that serves its client. None of its commands may wait.
struct Near<'n> {
    scripted: &'n mut Scripted,
    rows: &'n dyn Rows,
    ground: &'n mut Ground,
    draft: &'n mut Draft,
    here: &'n Here,
}

impl Bridge for Near<'_> {
    fn call(&mut self, words: Vec<Vec<u8>>, protocol: Protocol) -> Outcome<Vec<u8>> {
        let reply = self.scripted.command(self.rows, words, protocol, self.ground, self.draft).now_or_never();
        reply.unwrap_or_else(|| Err(self.here.leave_to_wait()))
    }
}
