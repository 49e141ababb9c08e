//! Commands on rows: the store that has the rows executes them. Plain writes are gathered on the way.

use weir_command::error::{Error, NO_AUTH, Outcome};
use weir_command::events::{Classes, Witness};
use weir_command::{Args, Call, Command, Context, Host, NoRows, Split, TURN_KEYS, is_plain, letting_go, rows_of, run};
use weir_model::StoredKey;
use weir_node::request_units::Module;

use super::Connection;
use super::moving::LONG_BYTES;
use crate::resp::part::{Part, check_parts, parts};
use crate::store::Store;

/// A gathered batch goes to the store when it reaches this many bytes.
const BATCH_BYTES: usize = 256 << 10;

impl<S: Store> Connection<S> {
    /// Runs `command`. Its reply waits for the commit.
    pub(super) async fn execute_on_rows(&mut self, command: &'static Command, args: Args<'_>) -> Outcome {
        let mut call = self.session.begin_call();
        let is_long = args.len() > 1 + TURN_KEYS * command.keys.2 as usize;
        let outcome = match command.split.filter(|_| is_long) {
            Some(split) => self.execute_in_parts(command, args, split, &mut call).await,
            None if call.wants == Classes::NONE && is_plain(command, args) => {
                self.gather(command, args, &mut call).await
            }
            None if command.writes_with(args) => self.execute_locked(command, args, &mut call).await,
            None => {
                self.submit().await;
                call.bill.work.count(Module::RowCommand, 1);
                let (store, outbox) = self.session.parts()?;
                let context = Context::reading(store.rows(), outbox, &mut call);
                let finished = run(command, context, args).await;
                let (_, events) = finished.draft.into_parts();
                if !events.is_empty() {
                    self.session.account()?.key_events.tell(events);
                }
                finished.outcome
            }
        };
        self.lately.is_long |= call.longest >= LONG_BYTES;
        self.session.called(call);
        outcome
    }

    /// Runs a command that reads and writes.
    async fn execute_locked(&mut self, command: &'static Command, args: Args<'_>, call: &mut Call) -> Outcome {
        self.submit().await;
        let (store, outbox, account) = self.session.parts_to_write()?;
        // The command may wait for the very memory that values in front of it keep, and during the wait nobody else has
        // the replies.
        outbox.replies.own_values();
        let (database, databases) = (call.database, call.databases);
        let writing = account.waiting_rows.writing(databases, || rows_of(command, args, database, databases));
        let done = store.execute(command, args, outbox, call).await;
        writing.end(done.is_ok() && call.wrote);
        let (outcome, commit) = done?;
        call.bill.work.count_all([(Module::RowCommand, 1), (Module::Locked, 1)]);
        call.bill.work.count(Module::LogRecord, u64::from(call.wrote));
        if let Some(commit) = commit {
            outbox.depend_on(commit);
        }
        outcome
    }

    /// Runs a command of many keys as several commands of some keys each, so that nobody's rows are locked for long.
    /// Other connections are served between them.
    async fn execute_in_parts(
        &mut self,
        command: &'static Command,
        args: Args<'_>,
        split: Split,
        call: &mut Call,
    ) -> Outcome {
        // Nothing may be written if a later part would be refused.
        check_parts(command, args)?;
        self.submit().await;
        let (store, outbox, account) = self.session.parts_to_write()?;
        outbox.replies.own_values();
        let (database, databases) = (call.database, call.databases);
        call.bill.work.count(Module::RowCommand, 1);
        let mut sum = 0;
        for spans in parts(command, args) {
            let protocol = outbox.replies.protocol;
            let mut part = Part::new(outbox, protocol);
            let rows = || rows_of(command, args.with_spans(&spans), database, databases);
            let writing = account.waiting_rows.writing(databases, rows);
            let done = store.execute(command, args.with_spans(&spans), &mut part, call).await;
            writing.end(done.is_ok() && call.wrote);
            let (outcome, commit) = done?;
            call.bill.work.count(Module::Locked, 1);
            call.bill.work.count(Module::LogRecord, u64::from(call.wrote));
            let answer = part.into_answer();
            if let Some(commit) = commit {
                outbox.depend_on(commit);
            }
            outcome?;
            if split == Split::Sum {
                sum += answer.as_integer().ok_or(Error::new("ERR internal error: a part gave no number"))?;
            }
            outbox.note_cost(&call.bill);
            tokio::task::yield_now().await;
        }
        match split {
            Split::Sum => outbox.replies.integer(sum),
            Split::Ok => outbox.replies.ok(),
        }
        Ok(())
    }

    /// Runs a command that writes regardless of what was there before, together with its neighbours in the pipeline.
    async fn gather(&mut self, command: &'static Command, args: Args<'_>, call: &mut Call) -> Outcome {
        let from = self.session.outbox.answer_from();
        if self.gathered.batch.as_bytes().len() >= BATCH_BYTES || self.gathered.to != from {
            self.submit().await;
        }
        if self.gathered.batch.is_empty() {
            self.gathered.from = from;
            // The first command of a batch pays for what is done only once.
            call.bill.work.count(Module::LogRecord, 1);
        }
        call.bill.work.count(Module::Gathered, 1);
        let batch = std::mem::take(&mut self.gathered.batch);
        let context = Context::locked(&NoRows, &mut self.session.outbox, call, batch.into());
        let finished = run(command, context, args).await;
        self.gathered.batch = finished.draft.into_batch();
        self.gathered.is_open = finished.outcome.is_ok();
        finished.outcome
    }

    /// Hands the gathered writes to the store, so that the commands after them see them.
    pub(super) async fn submit(&mut self) {
        if self.gathered.batch.is_empty() {
            return;
        }
        let begun = self.server.clock.now();
        let written = match self.session.parts() {
            Ok((store, outbox)) => {
                let write = store.write(&self.gathered.batch);
                letting_go(write, || outbox.replies.own_values()).await.map_err(Error::from)
            }
            Err(_) => Err(NO_AUTH),
        };
        self.submitted(written);
        self.session.outbox.took(self.server.clock.now() - begun, "set");
    }

    /// Hands the gathered writes to the store together with those of the thread's other connections that have requests
    /// ([`write_group`](crate::write_group)). `false` if nothing was handed over.
    pub(super) async fn submit_in_group(&mut self) -> bool {
        let Ok(store) = self.session.store() else { return false };
        let Ok(account) = self.session.account() else { return false };
        if !store.takes_groups() {
            return false;
        }
        let groups = &self.server.write_groups;
        let Some(member) = groups.join(self.thread.index, account.tenant, &self.gathered.batch) else {
            return false;
        };
        self.session.outbox.yield_to_others().await;
        let Ok(store) = self.session.store() else { return false };
        let commit = member.hand_over(|batch, members, commits| store.write_together(batch, members, commits));
        let Some(commit) = commit else { return false };
        self.submitted(Ok(commit));
        true
    }

    /// The store has taken the gathered writes, or has refused them.
    fn submitted(&mut self, written: Outcome<S::Commit>) {
        // If they are refused at once, or are not safe in the end, their replies say so when everything is written.
        if let (Ok(_), Ok(account)) = (&written, self.session.account()) {
            // Nobody waits for a string, but one may take the place of a row for which somebody waits.
            let changes = self.gathered.batch.as_ref();
            let rows = || changes.iter().map(|change| StoredKey::of(change.key())).collect();
            account.waiting_rows.written(self.session.databases(), rows);
        }
        self.session.outbox.gathered_depend_on(&mut self.gathered, written);
    }
}
