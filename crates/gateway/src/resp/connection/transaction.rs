//! `EXEC`: runs the queued commands.
//!
//! Consecutive commands on rows, and scripts, are run [as one](super::as_one): their rows are locked together, each
//! command sees what those in front of it have written, and all of it is one record of the log. Commands about the
//! session, or that go through all keys, are run in their places in between: the former involve nobody else's rows, and
//! the latter lock none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_command::acl::Denied;
use weir_command::bill::{Charge, OwnBill};
use weir_command::error::{CROSS_SLOT, Error, Outcome};
use weir_command::reply::Mark;
use weir_command::table::Id;
use weir_command::{Args, Command, TURN_KEYS, end_turn, rows_of};
use weir_io::Nanos;
use weir_model::{Databases, slot};
use weir_node::Unit;
use weir_node::request_units::Module;

use super::Connection;
use super::as_one::{AsOne, Done, Member, Scripts};
use super::charging::Demand;
use super::group::reply_lens;
use super::script::{Away, OTHER_KEYS, RUNS_MAX, is_script};
use super::scripted::Ground;
use crate::resp::commands;
use crate::resp::outbox::YIELD;
use crate::resp::rights::Origin;
use crate::resp::transaction::{Queued, Watched};
use crate::store::Store;
use crate::tenant::account::Account;
use crate::tenant::byte_budget::Hold;

/// A run of consecutive queued commands.
enum Step<'q> {
    /// Commands on rows.
    Rows(Vec<Member<'q>>),
    /// Any other command.
    Alone(&'q Queued),
    /// A command that is not allowed any more.
    Denied(&'q Queued, Denied),
}

/// The queued commands in runs. The first run is one of rows, even if it is empty, so that one looks at the watched
/// rows. All of them are about `database`, unless a command in front of them chooses another one when it is run.
async fn steps(queued: &[Queued], database: u8) -> Vec<Step<'_>> {
    let mut steps = vec![Step::Rows(Vec::new())];
    for (index, one) in queued.iter().enumerate() {
        end_turn(YIELD, index).await;
        let args = one.request.args();
        if is_script(one.command)
            || one.command.works_on_rows(args) && !rows_of(one.command, args, 0, Databases::AS_NAMED).is_empty()
        {
            let member = Member { command: one.command, args, database, denied: None };
            match steps.last_mut() {
                Some(Step::Rows(members)) => members.push(member),
                _ => steps.push(Step::Rows(vec![member])),
            }
            continue;
        }
        steps.push(Step::Alone(one));
    }
    steps
}

impl<'q> Step<'q> {
    /// The commands on rows of this step.
    fn members(&self) -> &[Member<'q>] {
        match self {
            Step::Rows(members) => members,
            Step::Alone(_) | Step::Denied(..) => &[],
        }
    }

    /// Says that the commands on rows of this step are about `database`.
    fn choose(&mut self, database: u8) {
        if let Step::Rows(members) = self {
            members.iter_mut().for_each(|member| member.database = database);
        }
    }
}

impl<S: Store> Connection<S> {
    /// `command` was refused with `error` before it was run; `None` if there is no such command. As in Redis, that
    /// spoils the transaction that the client has begun, and if the command is `EXEC` it ends the transaction: the
    /// client counts on that, and begins another one. Returns the error for the client.
    pub(super) fn refused(&mut self, command: Option<&Command>, error: Error) -> Error {
        let Some(queue) = &mut self.session.transaction else { return error };
        queue.is_spoiled = true;
        if command.is_none_or(|command| command.id != Id::Exec) {
            return error;
        }
        self.session.end_transaction();
        let why = error.text().strip_prefix(b"ERR ").unwrap_or(error.text());
        Error::bytes([&b"EXECABORT Transaction discarded because of: "[..], why].concat())
    }

    /// Runs the commands queued since `MULTI`, and answers each of them.
    pub(super) async fn exec(&mut self) -> Outcome {
        let outcome = self.exec_queued().await;
        (self.alone, self.entered) = (None, None);
        outcome
    }

    async fn exec_queued(&mut self) -> Outcome {
        let Some(queue) = self.session.transaction.take() else { return Err(Error::new("ERR EXEC without MULTI")) };
        let watched = std::mem::take(&mut self.session.watched);
        if queue.is_spoiled {
            return Err(Error::new("EXECABORT Transaction discarded because of previous errors."));
        }
        self.submit().await;
        self.become_alone_for(&queue.commands).await?;
        let steps = steps(&queue.commands, self.session.database()).await;
        let members: Vec<Member<'_>> = steps.iter().flat_map(Step::members).copied().collect();
        // Before a command waits, the replies in front of it are written. So everything is paid for before anything is
        // answered, and before anything is run.
        let charges = self.charge_members(&members).await?;
        self.enter_databases().await;
        let mut ran = 0;
        let outcome = self.exec_steps(&queue.commands, steps, &watched, &charges, &mut ran).await;
        // What was charged for commands that were not run is given back.
        self.give_back_in_turns(&members[ran..], charges.get(ran..).unwrap_or_default()).await;
        outcome
    }

    /// Gives back what was paid for `members`, none of which was run.
    async fn give_back_in_turns(&mut self, members: &[Member<'_>], charges: &[Charge]) {
        for (members, charges) in members.chunks(TURN_KEYS).zip(charges.chunks(TURN_KEYS)) {
            self.give_back(members, charges);
            YIELD.now().await;
        }
    }

    /// Pays for all of `members`, or for none of them. What they cost together is one demand, as if they were one
    /// command: a demand that is dearer than what the tenant may save up passes with a debt, and if each member asked
    /// for itself, the next one would have to wait for that debt, longer than any command may.
    async fn charge_members(&mut self, members: &[Member<'_>]) -> Outcome<Vec<Charge>> {
        let mut charges = Vec::new();
        if !self.is_limited() {
            return Ok(charges);
        }
        let (prices, mut all) = (self.prices(), None::<Demand<'_>>);
        for (index, Member { command, args, .. }) in members.iter().enumerate() {
            end_turn(YIELD, index).await;
            let charge = Charge::of(command, *args, YIELD, prices.as_deref()).await;
            let own = Demand::of(command, *args, &charge);
            match &mut all {
                Some(all) => all.add(&own),
                None => all = Some(own),
            }
            charges.push(charge);
        }
        if let Some(all) = &all {
            if self.pay(all).await? {
                let charged = members.iter().zip(&mut charges);
                let queries = charged.filter(|(member, _)| member.command.is_query(member.args));
                queries.for_each(|(_, charge)| charge.pay_from_savings());
            }
            self.entered = Some(all.milli_units());
        }
        Ok(charges)
    }

    /// Runs the `steps` of `queued`, whose commands on rows were charged `charges`; `ran` counts those that have run.
    /// Until it is known that the `watched` rows have not changed, nothing may flush the replies.
    async fn exec_steps(
        &mut self,
        queued: &[Queued],
        steps: Vec<Step<'_>>,
        mut watched: &[Watched],
        charges: &[Charge],
        ran: &mut usize,
    ) -> Outcome {
        self.session.in_transaction = Some(Box::default());
        let replies = &mut self.session.outbox.replies;
        replies.own_values();
        let begin = replies.mark();
        replies.array(queued.len());
        let elements = replies.take_announced();
        let work = &mut self.session.bill.work;
        work.count(Module::ReplyElement, elements);
        // Each command was found, checked and answered when it was queued, and this is done once more when it is run.
        work.count(Module::Command, queued.len() as u64);
        work.count(Module::Word, queued.iter().map(|queued| queued.request.args().len() as u64).sum());
        for (index, mut step) in steps.into_iter().enumerate() {
            end_turn(YIELD, index).await;
            // A `SELECT` in front of this step may have chosen a database, or may have been refused.
            step.choose(self.session.database());
            // A command in front of this step may have changed what is allowed.
            let step = self.check_step(step).await;
            match step {
                Step::Rows(members) => {
                    let replies = &self.session.outbox.replies;
                    let (from, missing, before) = (replies.mark(), replies.missing(), *ran);
                    match self.exec_rows(&members, watched, charges, ran).await {
                        Ok(true) => watched = &[],
                        Ok(false) => {
                            self.session.outbox.replies.restart(begin);
                            self.session.outbox.replies.null_array();
                            return Ok(());
                        }
                        // Either nothing was run, or everything was and the client is gone.
                        Err(error) if index == 0 || *ran > before => return Err(error),
                        // The commands in front of it were run, and their effects stay. As in Redis, the others are run
                        // as well.
                        Err(error) => {
                            self.session.outbox.replies.rewind_elements(from, missing);
                            self.refuse_rows(&members, charges, ran, &error).await;
                        }
                    }
                }
                Step::Alone(queued) => self.exec_alone(queued, None).await,
                Step::Denied(queued, denied) => self.exec_alone(queued, Some(denied)).await,
            }
        }
        Ok(())
    }

    /// Answers each of `members` with `error`, because none of them was run. Their charges, which come after those of
    /// the first `ran` commands, are given back.
    async fn refuse_rows(&mut self, members: &[Member<'_>], charges: &[Charge], ran: &mut usize, error: &Error) {
        let own = charges.get(*ran..*ran + members.len()).unwrap_or_default();
        self.give_back_in_turns(members, own).await;
        *ran += members.len();
        let now = self.server.clock.now();
        for (index, member) in members.iter().enumerate() {
            end_turn(YIELD, index).await;
            let replies = &mut self.session.outbox.replies;
            let others = replies.begin_element();
            replies.error(error.text());
            replies.end_element(others);
            self.count_queued(member.command, member.args, &Err(error.clone()), now);
        }
    }

    /// `step`, with what is not allowed any more marked as denied.
    async fn check_step<'q>(&mut self, step: Step<'q>) -> Step<'q> {
        if self.session.has_full_rights() {
            return step;
        }
        match step {
            Step::Rows(mut members) => {
                for (index, member) in members.iter_mut().enumerate() {
                    end_turn(YIELD, index).await;
                    member.denied = self.session.denied_now(member.command, member.args, Origin::Transaction).await;
                }
                Step::Rows(members)
            }
            Step::Alone(queued) => {
                let args = queued.request.args();
                match self.session.denied_now(queued.command, args, Origin::Transaction).await {
                    Some(denied) => Step::Denied(queued, denied),
                    None => Step::Alone(queued),
                }
            }
            denied @ Step::Denied(..) => denied,
        }
    }

    /// Runs commands on rows, and scripts, as one; `false` if a watched row was changed and nothing was run. Their
    /// charges are in `charges`, after those of the first `ran` commands.
    async fn exec_rows(
        &mut self,
        members: &[Member<'_>],
        watched: &[Watched],
        charges: &[Charge],
        ran: &mut usize,
    ) -> Outcome<bool> {
        let charges = charges.get(*ran..).unwrap_or_default();
        let account = Arc::clone(self.session.account()?);
        let mut scripts = self.scripts_of(members, watched).await?;
        let outcome = self.exec_as_one(&account, members, watched, scripts.as_mut()).await;
        let mut scripted = BTreeMap::new();
        if let Some(Scripts { ground, members, .. }) = scripts {
            scripted = members;
            if let Some(machine) = ground.into_machine() {
                account.scripts.machines.put(machine);
            }
        }
        let (done, is_stale, from, held) = outcome?;
        let lens = reply_lens(&self.session.outbox.replies, from, &done);
        let own = std::mem::take(&mut self.session.bill);
        *ran += done.len();
        for (index, (member, done)) in members.iter().zip(done).enumerate() {
            end_turn(YIELD, index).await;
            self.session.called(done.call);
            let charge = charges.get(index);
            if let Some(charge) = charge {
                self.session.bill.paid(Unit::Request, charge.units(Unit::Request));
            }
            self.end_bill(member.command, member.args, charge, lens.get(index).copied().unwrap_or(0));
            if let Some(all) = &mut self.session.in_transaction {
                all.add(&self.session.last);
            }
            self.count_queued(member.command, member.args, &done.outcome, done.at);
            if self.is_monitored() {
                let line = self.monitored_line(member.command, member.args, member.database).await;
                self.send_to_monitors(vec![line]).await;
            }
            if let Some(Ok(scripted)) = scripted.get_mut(&index) {
                self.show_calls(scripted).await;
                if done.outcome.is_ok() {
                    self.end_scripted(scripted).await?;
                }
            }
        }
        self.session.outbox.held_answers.extend(held);
        self.session.bill = own;
        Ok(!is_stale)
    }

    /// The scripts among `members`, if there are any.
    async fn scripts_of(&mut self, members: &[Member<'_>], watched: &[Watched]) -> Outcome<Option<Scripts>> {
        if !members.iter().any(|member| is_script(member.command)) {
            return Ok(None);
        }
        let machine = self.session.account()?.scripts.machines.take()?;
        let databases = self.session.databases();
        let watched = watched.iter().flat_map(|watched| watched.rows(databases)).map(|row| row.to_vec());
        let (mut rows, mut scripted, mut begins_away) = (watched.collect::<BTreeSet<_>>(), BTreeMap::new(), false);
        for (index, member) in members.iter().enumerate() {
            end_turn(YIELD, index).await;
            if is_script(member.command) {
                let one = self.scripted(member.command, member.args, member.database, OwnBill::default()).await;
                if let Ok(one) = &one {
                    rows.extend(one.declared());
                    begins_away |= one.begins_away(&machine);
                }
                scripted.insert(index, one);
            } else {
                let own = rows_of(member.command, member.args, member.database, databases);
                rows.extend(own.iter().map(|row| row.to_vec()));
            }
        }
        let ground = Ground::new(&self.server.clock, machine, rows);
        Ok(Some(Scripts { ground, begins_away, members: scripted }))
    }

    /// Runs `members`. Returns the outcome of each of them, whether a watched row was changed, where the replies begin,
    /// and what is booked for answers, and for messages that scripts have yet to send.
    async fn exec_as_one(
        &mut self,
        account: &Account,
        members: &[Member<'_>],
        watched: &[Watched],
        mut scripts: Option<&mut Scripts>,
    ) -> Outcome<(Vec<Done>, bool, Mark, Option<Hold>)> {
        let (call, upheavals) = (self.session.call(), account.upheavals());
        let knows_partitions = self.session.knows_partitions;
        let reader = self.reader();
        let (store, outbox) = self.session.parts()?;
        let (from, missing, mut away) = (outbox.replies.mark(), outbox.replies.missing(), None);
        let mut held = None;
        for _ in 0..RUNS_MAX {
            if let Some(scripts) = &mut scripts
                && away.is_none()
                && (scripts.begins_away || scripts.ground.left.is_some())
            {
                away = Some(Away::go(account, &self.server, &mut scripts.ground, None).await?);
            }
            let mut run = AsOne {
                watched,
                upheavals,
                from,
                missing,
                held: held.take(),
                reader: reader.clone(),
                scripts: scripts.as_deref_mut(),
                ..AsOne::new(members, call.clone(), &mut *outbox, &self.server.clock, &account.transactions)
            };
            let rows = weir_command::Transaction::rows(&run);
            if rows.is_empty() && run.scripts.is_none() {
                return Ok((Vec::new(), false, from, None));
            }
            let first = rows.first().map_or(&[][..], |row| &row[1..]);
            let is_apart = |key: &[u8]| match knows_partitions {
                true => store.partition_of(key) != store.partition_of(first),
                false => slot(key) != slot(first),
            };
            if store.is_spread() && rows.iter().any(|row| is_apart(&row[1..])) {
                return Err(CROSS_SLOT);
            }
            let writing = account.waiting_rows.writing(call.databases, || rows.clone());
            let committed = store.transact(first, &mut run).await;
            let AsOne { done, is_stale, refused, held: left, .. } = run;
            // A run that does not count keeps its messages until the next one begins.
            held = left;
            let is_void = is_stale || refused.is_some();
            let runs_again = !is_void && scripts.as_mut().is_some_and(|scripts| scripts.ground.runs_again());
            let is_applied = committed.is_ok() && !is_void && !runs_again;
            writing.end(is_applied && done.iter().any(|done| done.call.wrote));
            let commit = committed?;
            if let Some(error) = refused {
                // What was charged for them is given back, but not their work: that belongs to `EXEC` now.
                for (index, done) in done.into_iter().enumerate() {
                    end_turn(YIELD, index).await;
                    self.session.bill.work += &done.call.bill.work;
                }
                return Err(error);
            }
            if runs_again {
                continue;
            }
            if let Some(commit) = commit {
                outbox.depend_on(commit);
            }
            return Ok((done, is_stale, from, held));
        }
        Err(OTHER_KEYS)
    }

    /// Runs a command that is about the session, or that goes through all keys, unless it is `denied`.
    async fn exec_alone(&mut self, queued: &Queued, denied: Option<Denied>) {
        let Queued { command, request } = queued;
        let (args, before) = (request.args(), self.session.outbox.place());
        self.remember(command, args);
        let others = self.session.outbox.replies.begin_element();
        let outcome = if let Some(denied) = denied {
            Err(denied.as_error_at_exec(command, args))
        } else if command.works_on_rows(args) {
            self.execute_on_rows(command, args).await
        } else if command.id == Id::SwapDb {
            self.swap_databases(args).await
        } else if command.id == Id::Monitor {
            Err(Error::new("ERR MONITOR isn't allowed for DENY BLOCKING client"))
        } else {
            commands::run(command, &mut self.session, args).await
        };
        if let Some(blocked) = self.session.blocked.take() {
            // No command waits within a transaction, so there is no wait that others could end.
            drop(self.session.outbox.client.take_ticket());
            self.session.outbox.replies.answer_with(&blocked.timed_out);
        }
        let replies = &mut self.session.outbox.replies;
        let outcome = outcome.and_then(|()| match replies.is_whole() {
            true => Ok(()),
            false => Err(Error::new("ERR internal error: the reply was not whole")),
        });
        if let Err(error) = &outcome {
            let outbox = &mut self.session.outbox;
            if outbox.take_back_to(before) {
                outbox.replies.error(error.text());
            } else {
                // The commands after it are run all the same, but their replies are not sent.
                outbox.break_off();
            }
        }
        self.session.outbox.replies.end_element(others);
        let now = self.server.clock.now();
        self.count_queued(command, args, &outcome, now);
        if self.is_monitored() {
            self.tell_monitors(command, args).await;
        }
    }

    /// Counts a queued command that has ended at `at`.
    fn count_queued(&mut self, command: &Command, args: Args<'_>, outcome: &Outcome, at: Nanos) {
        self.session.outbox.count(|stats| stats.called(command, args));
        if let Err(error) = outcome {
            self.session.outbox.count_errors(error, 1);
        }
        self.took_until(command, args, outcome.is_err(), at);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use weir_command::{Request, table};

    use super::*;

    #[test]
    fn s14_queued_commands_are_put_into_steps_in_turns() {
        let request = Request::new(0, 0, [&b"SET"[..], b"k", b"v"]);
        let command = table::find(b"SET").expect("a command");
        let queued = vec![Queued { command, request }; 3 * TURN_KEYS];
        let mut steps = pin!(steps(&queued, 0));
        let (mut cx, mut turns) = (Context::from_waker(Waker::noop()), 0);
        let steps = loop {
            match steps.as_mut().poll(&mut cx) {
                Poll::Ready(steps) => break steps,
                Poll::Pending => turns += 1,
            }
        };
        assert_eq!((steps.len(), steps[0].members().len(), turns), (1, 3 * TURN_KEYS, 3));
    }
}
