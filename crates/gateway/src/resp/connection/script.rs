//! `EVAL` and its kin: a script is a transaction whose commands nobody knows before it runs, or one step of a larger
//! transaction.
//!
//! Its keys are locked, it runs, and what it has written is one batch. If it has asked for further keys, or had to
//! leave the thread that serves its client, nothing of it is applied, and it runs anew. That is safe: it has had no
//! effect so far, and its random numbers are the same again. A script that asks for other keys every time is given up.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_command::bill::OwnBill;
use weir_command::error::{Error, NOT_AN_INTEGER, Outcome};
use weir_command::table::Id;
use weir_command::{Args, Command, Draft, Rows, Transaction, Waiting};
use weir_io::plant::{Plant, is_planted};
use weir_io::{Result, Yield};
use weir_model::{StoredKey, slot};
use weir_node::request_units::Module;
use weir_script::{Run, Script, What};

use super::Connection;
use super::scripted::{Ground, RunsOn, Scripted, Terms};
use crate::resp::commands::{deliver, gone, number_of_keys};
use crate::resp::outbox::YIELD;
use crate::resp::rights::{Origin, Rights};
use crate::scripts::{Known, Running, RunningFunction};
use crate::server::Server;
use crate::store::Store;
use crate::tenant::account::Account;

/// How many digits the digest of a script has.
const DIGEST_DIGITS: usize = 40;

/// How often scripts are run at most when they ask for further keys.
pub(super) const RUNS_MAX: usize = 16;

const NO_SCRIPT: Error = Error::new("NOSCRIPT No matching script. Please use EVAL.");
const WRITES: Error = Error::new("ERR Can not execute a script with write flag using *_ro command.");
const OTHER_SLOT: Error = Error::new("ERR Script attempted to access a non local key in a cluster node");
pub(super) const OTHER_KEYS: Error = Error::new(
    "ERR the script asks for other keys whenever it runs: declare all of its keys, or build their names from what does not change",
);

/// Whether `command` runs a script or a function.
pub(super) fn is_script(command: &Command) -> bool {
    matches!(command.id, Id::Eval | Id::EvalSha | Id::EvalRo | Id::EvalShaRo | Id::FCall | Id::FCallRo)
}

/// A script that is run by itself.
struct Alone {
    scripted: Scripted,
    ground: Ground,
}

impl Transaction for Alone {
    fn rows(&self) -> Vec<StoredKey> {
        self.ground.rows.iter().map(|row| StoredKey::of(row)).collect()
    }

    fn yields(&self) -> Yield {
        YIELD
    }

    fn run<'a>(&'a mut self, rows: &'a dyn Rows) -> Waiting<'a, Result<Draft>> {
        Box::pin(async move {
            self.ground.begin();
            let mut draft = self.scripted.run(rows, &mut self.ground, Draft::of_several()).await;
            let counts = self.ground.is_final() || is_planted(Plant::ScriptInHalf);
            if !counts {
                return Ok(Draft::default());
            }
            draft.settle(|_, change| self.scripted.bill.left_out(&change));
            Ok(draft)
        })
    }
}

/// A place among the threads of scripts.
pub(super) struct Away<'a> {
    _running: Running<'a>,
}

impl<'a> Away<'a> {
    /// Waits for a place. From now on the scripts of `ground` run there.
    ///
    /// # Errors
    /// The server is ending.
    pub(super) async fn go<S: Store>(
        account: &'a Account,
        server: &Server<S>,
        ground: &mut Ground,
        function: Option<Arc<RunningFunction>>,
    ) -> Outcome<Self> {
        let running = account.scripts.begin(&server.clock, function).await?;
        ground.place = RunsOn::Away(Arc::clone(&server.script_threads), Arc::clone(&running.control));
        Ok(Self { _running: running })
    }
}

/// The key that says in which partition the rows of `ground` are.
///
/// # Errors
/// The rows are in several hash slots.
fn first_key(ground: &Ground, is_spread: bool) -> Outcome<Vec<u8>> {
    let first = ground.rows.first().map_or_else(Vec::new, |row| row[1..].to_vec());
    let is_elsewhere = |row: &Vec<u8>| slot(&row[1..]) != slot(&first);
    if is_spread && ground.rows.iter().any(is_elsewhere) { Err(OTHER_SLOT) } else { Ok(first) }
}

impl<S: Store> Connection<S> {
    /// Runs a script and answers with its result.
    pub(super) async fn eval(&mut self, command: &Command, args: Args<'_>) -> Outcome {
        if self.is_monitored() {
            let line = self.monitored_line(command, args, self.session.database()).await;
            self.send_to_monitors(vec![line]).await;
        }
        let account = Arc::clone(self.session.account()?);
        let (database, bill) = (self.session.database(), self.session.bill.clone());
        let scripted = self.scripted(command, args, database, bill).await?;
        self.session.outbox.replies.own_values();
        let machine = account.scripts.machines.take()?;
        let begins_away = scripted.begins_away(&machine);
        let ground = Ground::new(&self.server.clock, machine, scripted.declared().collect());
        let mut alone = Alone { scripted, ground };
        let outcome = self.run_alone(&account, &mut alone, begins_away).await;
        if let Some(machine) = alone.ground.into_machine() {
            account.scripts.machines.put(machine);
        }
        outcome
    }

    /// The script that `command` runs.
    ///
    /// # Errors
    /// The script does not exist.
    pub(super) async fn scripted(
        &mut self,
        command: &Command,
        args: Args<'_>,
        database: u8,
        bill: OwnBill,
    ) -> Outcome<Scripted> {
        let account = Arc::clone(self.session.account()?);
        let is_function = matches!(command.id, Id::FCall | Id::FCallRo);
        let is_read_only = matches!(command.id, Id::EvalRo | Id::EvalShaRo | Id::FCallRo);
        let (what, known, pace, writes_nothing, keys) = if is_function {
            let (store, now_ms) = (self.session.store()?.clone(), self.session.call().now_ms);
            let libraries = account.scripts.functions.get(&store, now_ms).await?;
            let asked = String::from_utf8_lossy(args.at(1));
            let declared = libraries.function(&asked).ok_or(Error::new("ERR Function not found"))?;
            let keys = number_of_keys(args, Error::new("ERR Bad number of keys provided"))?;
            let name = declared.name.clone();
            let writes_nothing = declared.writes_nothing();
            if is_read_only && !writes_nothing {
                return Err(WRITES);
            }
            let pace = account.scripts.functions.pace(&name);
            (What::Function(libraries, name), None, pace, writes_nothing, keys)
        } else {
            // As in Redis, a word that cannot be a digest is refused before the number is looked at.
            let is_digest = args.at(1).len() == DIGEST_DIGITS;
            if !is_digest && matches!(command.id, Id::EvalSha | Id::EvalShaRo) {
                return Err(NO_SCRIPT);
            }
            let keys = number_of_keys(args, NOT_AN_INTEGER)?;
            let known = self.known(command, args)?;
            let (script, pace) = (Arc::clone(&known.script), Arc::clone(&known.pace));
            if is_read_only && script.says_that_it_writes() {
                return Err(WRITES);
            }
            let writes_nothing = is_read_only || script.writes_nothing;
            (What::Script(script), Some(known), pace, writes_nothing, keys)
        };
        let reader = self.reader();
        let (mut call, store) = (self.session.call(), self.session.store()?);
        (call.database, call.bill) = (database, bill);
        let terms = Terms {
            call,
            writes_nothing,
            is_spread: store.is_spread(),
            clock: Arc::clone(&self.server.clock),
            full_at: store.disk_limit_reached(),
            seed: account.draws.next_u64(),
            pubsub: Arc::clone(&account.pubsub),
            reader,
            rights: Rights::of(&self.session)?,
            counted_as: command.index,
            may_debug: self.server.settings.allow_debug && account.scripts.may_debug.load(Ordering::Relaxed),
        };
        let run = Run {
            what,
            keys: args.iter_from(3).take(keys).map(<[u8]>::to_vec).collect(),
            argv: args.iter_from(3 + keys).map(<[u8]>::to_vec).collect(),
            seed: account.draws.next_u64(),
            protocol: self.session.outbox.replies.protocol,
        };
        Ok(Scripted::new(known, pace, run, terms))
    }

    /// The script that `command` names or contains.
    fn known(&self, command: &Command, args: Args<'_>) -> Outcome<Arc<Known>> {
        let account = self.session.account()?;
        let by_digest = matches!(command.id, Id::EvalSha | Id::EvalShaRo);
        let digest =
            if by_digest { weir_script::parse_digest(args.at(1)) } else { Some(weir_script::digest(args.at(1))) };
        match digest.and_then(|digest| account.scripts.cache.lock().get(&digest)) {
            Some(known) => Ok(known),
            None if by_digest => Err(NO_SCRIPT),
            None => Ok(Arc::new(Known::new(Script::parse(args.at(1))?))),
        }
    }

    async fn run_alone(&mut self, account: &Account, alone: &mut Alone, begins_away: bool) -> Outcome {
        let (store, databases, mut away) = (self.session.store()?.clone(), self.session.databases(), None);
        for _ in 0..RUNS_MAX {
            if away.is_none() && (begins_away || alone.ground.left.is_some()) {
                away = Some(Away::go(account, &self.server, &mut alone.ground, alone.scripted.function()).await?);
            }
            let first = first_key(&alone.ground, store.is_spread())?;
            let rows = alone.rows();
            let writing = account.waiting_rows.writing(databases, || rows.clone());
            let committed = store.transact(&first, alone).await;
            let runs_again = alone.ground.runs_again();
            writing.end(committed.is_ok() && alone.scripted.wrote && !runs_again);
            let commit = committed?;
            if runs_again {
                continue;
            }
            self.session.bill = std::mem::take(&mut alone.scripted.bill);
            self.session.bill.work.count(Module::RowCommand, 1);
            self.session.bill.work.count(Module::Locked, 1);
            self.session.bill.work.count(Module::LogRecord, u64::from(alone.scripted.wrote));
            if let Some(commit) = commit {
                self.session.outbox.depend_on(commit);
            }
            self.show_calls(&mut alone.scripted).await;
            let replies = alone.scripted.take_ended()?;
            if alone.scripted.wrote {
                self.session.outbox.count(|stats| stats.changes.add(1));
            }
            self.end_scripted(&mut alone.scripted).await?;
            // As in Redis, a client that listens to its own messages gets them before it is told how many listeners got
            // them.
            self.session.outbox.take_mail().await.map_err(gone)?;
            self.session.outbox.replies.append(replies);
            return Ok(());
        }
        Err(OTHER_KEYS)
    }

    /// A script has ended well, and its effects are final.
    ///
    /// # Errors
    /// The client is gone.
    pub(super) async fn end_scripted(&mut self, scripted: &mut Scripted) -> Outcome {
        // Only scripts that can be compiled are kept.
        if let Some(known) = &scripted.known {
            self.session.account()?.scripts.cache.lock().put(known);
        }
        for (kind, channel, message) in scripted.take_published() {
            deliver(&mut self.session, kind, &channel, &message).await?;
        }
        Ok(())
    }

    /// Counts the commands that a script has called, sends them to monitors, and logs for the tenant what the script
    /// was refused.
    pub(super) async fn show_calls(&mut self, scripted: &mut Scripted) {
        let calls = std::mem::take(&mut scripted.calls);
        self.session.outbox.count(|stats| stats.add(&calls));
        for (error, count) in scripted.take_errors() {
            self.session.outbox.count_errors(&error, count);
        }
        for (denied, object) in scripted.take_denied() {
            self.session.log_denied(denied, object, Origin::Script);
        }
        let lines = scripted.take_monitored();
        if !lines.is_empty() {
            self.send_to_monitors(lines).await;
        }
    }
}
