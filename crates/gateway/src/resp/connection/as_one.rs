//! Runs several commands on rows as one, in the partition of their rows: commands queued for `EXEC`, or commands of a
//! pipeline that follow one another.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_command::acl::Denied;
use weir_command::bill::OwnBill;
use weir_command::error::{Error, Outcome, REPLY_TOO_LONG};
use weir_command::reply::{FLUSH_BYTES, Mark};
use weir_command::{
    Args, Call, Command, Context, Draft, Host, Rows, Transaction, Waiting, end_turn, must_settle_counts, rows_of, run,
    settle_counts,
};
use weir_io::{Clock, Nanos, Result, Yield};
use weir_model::{BatchMark, StoredKey};
use weir_node::request_units::Module;

use super::charging::key_of;
use super::moving::LONG_BYTES;
use super::script::is_script;
use super::scripted::{Ground, Scripted};
use crate::resp::tracked::Reader;
use crate::resp::transaction::Watched;
use crate::tenant::account::Upheavals;
use crate::tenant::byte_budget::{ByteBudget, Hold};

/// Beyond this many bytes of changes, or of all else that is kept in memory until all of its commands have run, a
/// transaction runs no further command. Short commands can write long values, or tell of many keys, and each script may
/// keep as much as if it were alone. As many bytes may wait for `EXEC`.
const WRITTEN_BYTES_MAX: usize = 256 << 20;

/// As many bytes of a transaction are not booked on the tenant; beyond that, it books as many at a time.
const HELD_STEP_BYTES: u64 = 64 << 10;

const TOO_LARGE: Error = Error::new(
    "ERR the transaction writes more than 256 MB at once, or has more than 256 MB of events, messages and undeclared \
     keys: these commands wrote nothing, send smaller ones",
);
const NO_ROOM: Error = Error::new(
    "ERR the tenant's transactions have too much in hand: these commands wrote nothing, send smaller ones, or fewer \
     at a time",
);
const NO_PLACE: Error = Error::new("ERR internal error: a script is run where none is expected");

/// One of the commands.
#[derive(Clone, Copy)]
pub(super) struct Member<'a> {
    pub(super) command: &'static Command,
    pub(super) args: Args<'a>,
    /// The name of the database that the command is about.
    pub(super) database: u8,
    /// Set if the user may not run the command any more. It is answered with this, and not run.
    pub(super) denied: Option<Denied>,
}

/// The outcome of one command.
pub(super) struct Done {
    pub(super) call: Call,
    pub(super) outcome: Outcome,
    /// Where the answer of the command ends.
    pub(super) to: Mark,
    /// When the command ended.
    pub(super) at: Nanos,
}

impl Done {
    /// The outcome of a command that has written nothing.
    pub(super) fn without_changes(call: Call, outcome: Outcome, to: Mark, at: Nanos) -> Self {
        Self { call, outcome, to, at }
    }
}

/// The scripts among the commands by their positions, or the error of one that cannot be run.
pub(super) struct Scripts {
    /// Where the scripts run, with the rows of all commands.
    pub(super) ground: Ground,
    /// Whether the scripts begin on a thread of their own.
    pub(super) begins_away: bool,
    pub(super) members: BTreeMap<usize, Outcome<Scripted>>,
}

/// Commands that are run as one. Their answers stand one after the other in the host's replies.
pub(super) struct AsOne<'a> {
    pub(super) members: &'a [Member<'a>],
    pub(super) watched: &'a [Watched],
    /// The events that have concerned all keys of the tenant so far.
    pub(super) upheavals: Upheavals,
    /// The context with which each command begins.
    pub(super) call: Call,
    /// When the answers exceed this many bytes, the remaining commands are left; `None` if all must be run.
    pub(super) answer_bytes_max: Option<usize>,
    pub(super) host: &'a mut dyn Host,
    pub(super) clock: &'a Arc<dyn Clock>,
    /// Where the answers begin.
    pub(super) from: Mark,
    /// How many elements of the reply under way were missing at that mark.
    pub(super) missing: i64,
    /// The outcomes of the commands that were run.
    pub(super) done: Vec<Done>,
    /// Where the changes of a command end in the batch, in order, and the index of that command.
    pub(super) drafted: Vec<(BatchMark, usize)>,
    /// A watched row was changed, and nothing was run.
    pub(super) is_stale: bool,
    /// Why the commands would write or keep too much; then nothing of them was written.
    pub(super) refused: Option<Error>,
    /// What the tenant's transactions may hold together.
    pub(super) budget: &'a ByteBudget,
    /// What this one has booked of it: for its changes until these are applied, for what its scripts keep, and for its
    /// answers.
    pub(super) held: Option<Hold>,
    /// Bytes that its scripts keep until it is final and their messages are sent.
    pub(super) kept_by_scripts: usize,
    /// Bytes of the answers beyond those that any connection may hold. They wait for the commit.
    pub(super) long_answers: usize,
    /// Remembers what is read, if the client keeps values.
    pub(super) reader: Option<Reader>,
    /// `None` if there are no scripts.
    pub(super) scripts: Option<&'a mut Scripts>,
}

impl<'a> AsOne<'a> {
    /// Commands of which none has been run yet, without scripts and watched rows. Their answers begin where the replies
    /// of `host` end now.
    pub(super) fn new(
        members: &'a [Member<'a>],
        call: Call,
        host: &'a mut dyn Host,
        clock: &'a Arc<dyn Clock>,
        budget: &'a ByteBudget,
    ) -> Self {
        let (from, missing) = (host.replies().mark(), host.replies().missing());
        Self {
            members,
            watched: &[],
            upheavals: Upheavals::default(),
            call,
            answer_bytes_max: None,
            host,
            clock,
            from,
            missing,
            done: Vec::new(),
            drafted: Vec::new(),
            is_stale: false,
            refused: None,
            budget,
            held: None,
            kept_by_scripts: 0,
            long_answers: 0,
            reader: None,
            scripts: None,
        }
    }
}

impl AsOne<'_> {
    /// Books the changes, which take `written` bytes, and all else that is kept, as far as that is not booked yet.
    ///
    /// # Errors
    /// That is more than this transaction may have, or than there is room for.
    fn book(&mut self, written: usize, kept: usize) -> Outcome {
        if written.max(kept) > WRITTEN_BYTES_MAX {
            return Err(TOO_LARGE);
        }
        let (bytes, budget) = ((written + kept) as u64, self.budget);
        // Most transactions are short: they book nothing.
        if bytes <= self.held.as_ref().map_or(HELD_STEP_BYTES, Hold::bytes) {
            return Ok(());
        }
        let held = self.held.get_or_insert_with(|| budget.hold());
        if held.try_grow_within(bytes.next_multiple_of(HELD_STEP_BYTES)) { Ok(()) } else { Err(NO_ROOM) }
    }

    /// Runs the command `member`, which has the position `index`, and writes its answer.
    async fn run_one(&mut self, rows: &dyn Rows, index: usize, member: Member<'_>, mut draft: Draft) -> Draft {
        let counts_as_read = !member.command.writes_with(member.args);
        // The commands that a script calls are not known here.
        let counts_later = self.scripts.is_none() && member.command.leaves_counts();
        let (database, bill) = (member.database, OwnBill::default());
        let mut call = Call { database, bill, counts_as_read, counts_later, ..self.call.clone() };
        let unwritten = (draft.mark(), draft.events_len());
        let begin = self.host.replies().mark();
        let others = self.host.replies().begin_element();
        let (outcome, mut draft) = if let Some(denied) = member.denied {
            (Err(denied.as_error_at_exec(member.command, member.args)), draft)
        } else if is_script(member.command) {
            self.run_script(rows, index, draft, &mut call).await
        } else {
            if let Some(reader) = &self.reader {
                reader.remember_behind(&mut draft, member.command, member.args, &[]);
            }
            let context = Context::locked(rows, self.host, &mut call, draft);
            let finished = run(member.command, context, member.args).await;
            (finished.outcome, finished.draft)
        };
        let replies = self.host.replies();
        // The same limit as for a command by itself.
        let answered = match replies.is_whole() {
            true if replies.is_too_long() => Err(REPLY_TOO_LONG),
            true => Ok(()),
            false => Err(Error::new("ERR internal error: the reply was not whole")),
        };
        if outcome.is_ok() && answered.is_err() {
            // What the client is not told must not be written.
            draft.rewind(unwritten.0);
            draft.forget_events(unwritten.1);
            call.wrote = false;
        }
        let outcome = outcome.and(answered);
        if let Err(error) = &outcome {
            replies.rewind(begin);
            replies.error(error.text());
        }
        replies.end_element(others);
        let to = replies.mark();
        // Counts the answer of a script; other commands have counted theirs.
        call.bill.work.count(Module::ReplyElement, replies.take_announced());
        let (is_first, is_first_write) = (self.done.is_empty(), self.done.iter().all(|done| !done.call.wrote));
        call.bill.work.count(Module::Member, 1);
        // The first command pays for what is done only once.
        call.bill.work.count(Module::RowCommand, u64::from(is_first));
        call.bill.work.count(Module::Locked, u64::from(is_first));
        call.bill.work.count(Module::LogRecord, u64::from(call.wrote && is_first_write));
        self.drafted.push((draft.mark(), index));
        self.done.push(Done { call, outcome, to, at: self.clock.now() });
        draft
    }

    /// Counts what the commands that were run have left uncounted. The last of those that left something pays. If the
    /// counting fails, none of the commands has written anything, and all of them are answered with the error. If the
    /// commands have to be answered together, so are those that were not run.
    async fn settle_counts(&mut self, rows: &dyn Rows, draft: Draft) -> Result<Draft, Draft> {
        let has_left = |(member, done): (&Member<'_>, &Done)| done.call.wrote && member.command.leaves_counts();
        let Some(last) = self.members[..self.done.len()].iter().zip(&self.done).rposition(has_left) else {
            return Ok(draft);
        };
        let (outcome, draft) = settle_counts(rows, self.host, &mut self.done[last].call, draft).await;
        let Err(error) = outcome else {
            self.drafted.push((draft.mark(), last));
            return Ok(draft);
        };
        let are_together = self.answer_bytes_max.is_none();
        for member in self.members[self.done.len()..].iter().filter(|_| are_together) {
            let call = Call { database: member.database, bill: OwnBill::default(), ..self.call.clone() };
            self.done.push(Done::without_changes(call, Ok(()), self.from, self.clock.now()));
        }
        let replies = self.host.replies();
        replies.rewind_elements(self.from, self.missing);
        for done in &mut self.done {
            let others = replies.begin_element();
            replies.error(error.text());
            replies.end_element(others);
            (done.outcome, done.to, done.call.wrote) = (Err(error.clone()), replies.mark(), false);
            done.call.bill.forget();
        }
        Err(Draft::default())
    }

    /// How many bytes the script at this position, if it is one, keeps besides the draft.
    fn kept_by_script(&self, index: usize) -> usize {
        let script = self.scripts.as_ref().and_then(|scripts| scripts.members.get(&index));
        script.and_then(|script| script.as_ref().ok()).map_or(0, Scripted::kept_bytes)
    }

    async fn run_script(&mut self, rows: &dyn Rows, index: usize, draft: Draft, call: &mut Call) -> (Outcome, Draft) {
        let Some(scripts) = &mut self.scripts else { return (Err(NO_PLACE), draft) };
        let scripted = match scripts.members.get_mut(&index) {
            Some(Ok(scripted)) => scripted,
            Some(Err(error)) => return (Err(error.clone()), draft),
            None => return (Err(NO_PLACE), draft),
        };
        let draft = scripted.run(rows, &mut scripts.ground, draft).await;
        (call.bill, call.wrote) = (scripted.bill.clone(), scripted.wrote);
        let outcome = scripted.take_ended().map(|replies| self.host.replies().append(replies));
        (outcome, draft)
    }
}

impl Transaction for AsOne<'_> {
    fn rows(&self) -> Vec<StoredKey> {
        if let Some(scripts) = &self.scripts {
            return scripts.ground.rows.iter().map(|row| StoredKey::of(row)).collect();
        }
        let databases = self.call.databases;
        let mut rows: Vec<StoredKey> = self.watched.iter().flat_map(|watched| watched.rows(databases)).collect();
        rows.reserve(self.members.len());
        let mut before = None;
        for Member { command, args, database, .. } in self.members {
            let key = if command.has_one_key() { command.keys_in(*args).next() } else { None };
            let one = key.map(|key| (*database, key));
            match one {
                // A row that is written again and again is locked only once.
                Some(_) if one == before => {}
                Some((database, key)) => rows.push(StoredKey::new(databases.number(database), key)),
                None => rows.extend(rows_of(command, *args, *database, databases)),
            }
            before = one;
        }
        rows
    }

    /// With a script nobody knows what it reads, and it waits in its own way.
    fn may_begin_again(&self) -> bool {
        self.scripts.is_none()
    }

    /// The values in the answers that were written so far, and what was booked for the draft.
    fn let_go(&mut self) {
        self.held = None;
        self.host.replies().rewind_elements(self.from, self.missing);
        self.host.let_go();
    }

    /// Of what is booked, what the scripts keep and the answers stay booked: they have yet to be sent.
    fn ended(&mut self) {
        if let Some(held) = &mut self.held {
            held.shrink_to((self.kept_by_scripts + self.long_answers) as u64);
        }
    }

    fn yields(&self) -> Yield {
        self.host.yields()
    }

    fn members(&self) -> Vec<(StoredKey, &[u8])> {
        let named = self.members.iter().filter_map(|member| {
            let name = member.command.first_member(member.args.len())?;
            let number = self.call.databases.number(member.database);
            Some((StoredKey::new(number, key_of(member.command, member.args)), member.args.at(name)))
        });
        named.collect()
    }

    fn run<'a>(&'a mut self, rows: &'a dyn Rows) -> Waiting<'a, Result<Draft>> {
        Box::pin(async move {
            // This may be another run.
            self.let_go();
            self.done.clear();
            self.drafted.clear();
            (self.is_stale, self.refused, self.kept_by_scripts, self.long_answers) = (false, None, 0, 0);
            if let Some(scripts) = &mut self.scripts {
                scripts.ground.begin();
            }
            let len_before = self.host.replies().len();
            let (mut draft, mut events_bytes, mut in_front) = (Draft::of_several(), 0, (0, 0));
            for watched in self.watched {
                if watched.is_changed(rows, &self.call, &self.upheavals).await? {
                    self.is_stale = true;
                    return Ok(draft);
                }
            }
            for (index, &member) in self.members.iter().enumerate() {
                // In front of everything that this transaction may wait for.
                in_front = (draft.bytes(), events_bytes + self.kept_by_scripts);
                if let Err(error) = self.book(in_front.0, in_front.1 + self.long_answers) {
                    if self.answer_bytes_max.is_some() {
                        break;
                    }
                    self.refused = Some(error);
                    return Ok(Draft::default());
                }
                // From then on others wait for these rows alone, and not for their partition or for this thread.
                end_turn(self.host.yields(), index).await;
                if must_settle_counts(&draft, member.command, member.args, member.database) {
                    draft = match self.settle_counts(rows, draft).await {
                        Ok(draft) => draft,
                        Err(nothing) => return Ok(nothing),
                    };
                }
                let events = draft.events_len();
                draft = self.run_one(rows, index, member, draft).await;
                events_bytes += draft.events_bytes(events);
                self.kept_by_scripts += self.kept_by_script(index);
                self.long_answers = self.host.replies().len().saturating_sub(len_before + FLUSH_BYTES);
                if self.scripts.as_ref().is_some_and(|scripts| scripts.ground.left.is_some()) {
                    break;
                }
                if let Some(max) = self.answer_bytes_max {
                    // Commands after a long value would copy it each time, while everybody else waits.
                    let is_long = self.done.last().is_some_and(|done| done.call.longest >= LONG_BYTES);
                    if is_long || self.host.replies().len_since(self.from) > max {
                        break;
                    }
                }
            }
            let mut draft = match self.settle_counts(rows, draft).await {
                Ok(draft) => draft,
                Err(nothing) => return Ok(nothing),
            };
            let is_final = self.scripts.as_ref().is_none_or(|scripts| scripts.ground.is_final());
            if !is_final {
                return Ok(Draft::default());
            }
            // The answer of the last one waits for the commit, too.
            if self.answer_bytes_max.is_none()
                && let Err(error) = self.book(in_front.0, in_front.1 + self.long_answers)
            {
                self.refused = Some(error);
                return Ok(Draft::default());
            }
            let (done, drafted) = (&mut self.done, &self.drafted);
            draft.settle(|place, change| {
                let by = drafted.get(drafted.partition_point(|&(end, _)| end <= place));
                if let Some(done) = by.and_then(|&(_, index)| done.get_mut(index)) {
                    done.call.bill.left_out(&change);
                }
            });
            Ok(draft)
        })
    }
}

#[cfg(test)]
mod tests;
