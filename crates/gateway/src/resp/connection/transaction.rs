//! `EXEC`: what was queued is run.
//!
//! Commands on rows that follow one another are one [`Transaction`]: their rows are locked together, each sees what
//! those in front of it have written, and all of it is one record of the log. What is about the session, or goes
//! through all keys, is run between them, in its place: nobody else's rows are involved, or it holds none.

use weir_command::bill::{Bill, Charge};
use weir_command::error::{CROSS_SLOT, Error, Outcome};
use weir_command::reply::{Protocol, Replies};
use weir_command::table::Id;
use weir_command::{Call, Command, Context, Draft, Host, Rows, Transaction, Waiting, rows_of, run};
use weir_io::Result;
use weir_model::{StoredKey, slot};

use super::Connection;
use crate::resp::commands;
use crate::resp::part::Part;
use crate::resp::transaction::{Queued, Watched};
use crate::store::Store;

/// A run of queued commands.
enum Step<'q> {
    /// Commands on rows, with the database that each is about.
    Rows(Vec<(u8, &'q Queued)>),
    /// Any other.
    Alone(&'q Queued),
}

/// What was queued, in runs. The first one is of rows, so that there is one to look at what is watched.
fn steps(queued: &[Queued], mut database: u8) -> Vec<Step<'_>> {
    let mut steps = vec![Step::Rows(Vec::new())];
    for one in queued {
        if one.command.is_of_rows && has_rows(one) {
            match steps.last_mut() {
                Some(Step::Rows(rows)) => rows.push((database, one)),
                _ => steps.push(Step::Rows(vec![(database, one)])),
            }
            continue;
        }
        if one.command.id == Id::Select
            && let Some(chosen) = one.request.args().get(1).and_then(|word| weir_command::database(word).ok())
        {
            database = chosen;
        }
        steps.push(Step::Alone(one));
    }
    steps
}

fn has_rows(one: &Queued) -> bool {
    !rows_of(one.command, one.request.args(), 0).is_empty()
}

impl<S: Store> Connection<S> {
    /// Runs what was queued since `MULTI`, and answers each command of it.
    pub(super) async fn exec(&mut self) -> Outcome {
        let Some(queue) = self.session.transaction.take() else { return Err(Error::new("ERR EXEC without MULTI")) };
        let watched = std::mem::take(&mut self.session.watched);
        if queue.is_spoiled {
            return Err(Error::new("EXECABORT Transaction discarded because of previous errors."));
        }
        self.submit().await;
        self.session.outbox.replies.own_values();
        let mut watched = &watched[..];
        let mut header = Some(queue.commands.len());
        for step in steps(&queue.commands, self.session.database()) {
            match step {
                Step::Rows(commands) => {
                    if !self.exec_rows(&commands, watched, &mut header).await? {
                        self.session.outbox.replies.null_array();
                        return Ok(());
                    }
                    watched = &[];
                }
                Step::Alone(queued) => self.exec_alone(queued).await,
            }
        }
        Ok(())
    }

    /// Runs commands on rows as one; `false` if something that is watched was changed, and nothing was run.
    async fn exec_rows(
        &mut self,
        commands: &[(u8, &Queued)],
        watched: &[Watched],
        header: &mut Option<usize>,
    ) -> Outcome<bool> {
        let limited = self.is_limited();
        let mut charges = Vec::new();
        for (_, queued) in commands.iter().filter(|_| limited) {
            charges.push(self.charge(queued.command, queued.request.args()).await?);
        }
        let call = self.session.call();
        let flushes = self.session.account()?.flushes();
        let (store, outbox) = self.session.parts()?;
        let mut run =
            Run { commands, watched, flushes, limited, call, host: outbox, done: Vec::new(), is_stale: false };
        let rows = run.rows();
        if !rows.is_empty() {
            let of_key = |row: &StoredKey| slot(&row[1..]);
            if store.is_spread() && rows.iter().any(|row| of_key(row) != of_key(&rows[0])) {
                return Err(CROSS_SLOT);
            }
            let commit = store.transact(&rows[0][1..], &mut run).await?;
            let Run { done, is_stale, .. } = run;
            if let Some(commit) = commit {
                outbox.depend_on(commit);
            }
            if is_stale {
                return Ok(false);
            }
            self.begin_exec(header);
            self.answer_rows(commands, &charges, done);
        } else {
            self.begin_exec(header);
        }
        Ok(true)
    }

    fn begin_exec(&mut self, header: &mut Option<usize>) {
        if let Some(len) = header.take() {
            self.session.outbox.replies.array(len);
        }
    }

    fn answer_rows(&mut self, commands: &[(u8, &Queued)], charges: &[Charge], done: Vec<Done>) {
        for (index, ((_, queued), Done { answer, call, has_failed })) in commands.iter().zip(done).enumerate() {
            self.session.outbox.replies.append_whole(answer);
            self.session.called(&call);
            if let (Some(charge), Some(bill)) = (charges.get(index), self.session.bill.take()) {
                self.settle(*charge, bill, super::key_of(queued.command, queued.request.args()));
            }
            self.count_queued(queued.command, has_failed);
        }
    }

    /// Runs a command that is about the session, or goes through all keys.
    async fn exec_alone(&mut self, queued: &Queued) {
        let Queued { command, request } = queued;
        let (args, before) = (request.args(), self.session.outbox.replies.mark());
        let missing = self.session.outbox.replies.begin_element();
        let outcome = if command.is_of_rows {
            self.execute_on_rows(command, args).await
        } else {
            commands::run(command, &mut self.session, args).await
        };
        let replies = &mut self.session.outbox.replies;
        match (outcome, self.session.blocked.take()) {
            (Ok(()), Some(blocked)) => {
                // Nobody waits within a transaction.
                replies.integer(blocked.timed_out);
                replies.end_element(missing);
                self.count_queued(command, false);
            }
            (Ok(()), None) if replies.is_whole() => {
                replies.end_element(missing);
                self.count_queued(command, false);
            }
            (outcome, _) => {
                replies.rewind(before);
                let error = outcome.err().unwrap_or(Error::new("ERR internal error: the reply was not whole"));
                replies.begin_element();
                replies.error(error.text());
                replies.end_element(missing);
                self.count_queued(command, true);
            }
        }
    }

    fn count_queued(&mut self, command: &Command, has_failed: bool) {
        self.session.outbox.count(|stats| {
            stats.called(command.index);
            stats.took(command.index, 0, has_failed);
        });
    }
}

/// What has become of a command.
struct Done {
    answer: Replies,
    call: Call,
    has_failed: bool,
}

/// Commands on rows, as whoever has the rows runs them.
struct Run<'a> {
    commands: &'a [(u8, &'a Queued)],
    watched: &'a [Watched],
    flushes: u64,
    /// They are charged.
    limited: bool,
    /// What each begins with.
    call: Call,
    host: &'a mut dyn Host,
    done: Vec<Done>,
    /// Something that is watched was changed.
    is_stale: bool,
}

impl Transaction for Run<'_> {
    fn rows(&self) -> Vec<StoredKey> {
        let of_command = |(database, queued): &(u8, &Queued)| rows_of(queued.command, queued.request.args(), *database);
        let watched = self.watched.iter().map(|watched| StoredKey::new(watched.database, &watched.key));
        self.commands.iter().flat_map(of_command).chain(watched).collect()
    }

    fn run<'a>(&'a mut self, rows: &'a dyn Rows) -> Waiting<'a, Result<Draft>> {
        Box::pin(async move {
            self.done.clear();
            let mut draft = Draft::default();
            for watched in self.watched {
                if watched.is_changed(rows, self.call.now_ms, self.flushes).await? {
                    self.is_stale = true;
                    return Ok(draft);
                }
            }
            let protocol = self.host.replies().protocol;
            for (database, queued) in self.commands {
                let bill = self.limited.then(Bill::default);
                let mut call = Call { database: *database, bill, ..self.call };
                let mut part = Part::new(self.host, protocol);
                let context = Context::locked(rows, &mut part, &mut call, draft);
                let finished = run(queued.command, context, queued.request.args()).await;
                let mut answer = part.into_answer();
                draft = finished.draft;
                let outcome = finished.outcome.and_then(|()| match answer.is_whole() {
                    true => Ok(()),
                    false => Err(Error::new("ERR internal error: the reply was not whole")),
                });
                if let Err(error) = &outcome {
                    answer = whole_error(error, protocol);
                }
                self.done.push(Done { answer, call, has_failed: outcome.is_err() });
            }
            Ok(draft)
        })
    }
}

fn whole_error(error: &Error, protocol: Protocol) -> Replies {
    let mut answer = Replies::default();
    answer.protocol = protocol;
    answer.begin();
    answer.error(error.text());
    answer
}
