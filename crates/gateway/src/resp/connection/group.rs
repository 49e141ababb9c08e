//! Runs consecutive writes of a pipeline [as one](super::as_one) if the first of them reads before it writes: one turn
//! at the store's lock, and one record of the log. Each is answered, charged and timed by itself, and if one fails, the
//! others do not. (There is one exception: the counts of the sorted sets that they change are counted once for all. If
//! these cannot be read, all of the writes fail.)
//!
//! A short read of a row that is written in front of it goes along. By itself it would have to wait until that write is
//! committed. In the group it sees the write at once, and its answer waits for the commit like the others.

use std::ops::Range;

use weir_command::bill::Charge;
use weir_command::error::Error;
use weir_command::events::Classes;
use weir_command::reply::{FLUSH_BYTES, Mark, Replies};
use weir_command::{Args, Command, is_plain, rows_of, table};
use weir_node::{Access, Unit};

use super::as_one::{AsOne, Done, Member};
use super::moving::LONG_BYTES;
use super::{Connection, check_options, key_of};
use crate::resp::frame::{PartialRequest, Progress, Span};
use crate::resp::input::Input;
use crate::resp::outbox::{ReplyMode, YIELD};
use crate::resp::parse::parse;
use crate::stats;
use crate::store::Store;
use crate::tenant::tenancy::Standing;

/// Most commands of a group, most words of one command, and bytes of requests after which the group is full. The limits
/// are there because a group is one turn at the lock.
const COMMANDS_MAX: usize = 64;
const WORDS_MAX: usize = 64;
const BYTES_MAX: usize = 64 << 10;
/// How many keys are prepared for reading together.
const PREFETCHED_MAX: usize = 16;
/// Most words of a read that goes along: its name, its key and what it asks for.
const READ_WORDS_MAX: usize = 3;

/// A request of a group, and where it is in the input.
struct GroupedRequest<'b> {
    command: &'static Command,
    key: &'b [u8],
    start: usize,
    /// Its words among the words of all requests.
    words: Range<usize>,
    /// Where the next request begins.
    end: usize,
}

/// The key of `command`, whose request begins at the front of `bytes` and whose words are `args`.
fn key_in<'b>(bytes: &'b [u8], command: &Command, args: Args<'_>) -> &'b [u8] {
    let span = usize::try_from(command.keys.0).ok().and_then(|place| args.spans().get(place));
    let key = span.and_then(|span| bytes.get(span.start as usize..)?.get(..span.len as usize));
    key.unwrap_or_default()
}

/// Whether `command` is about exactly one row.
fn is_of_one_row(command: &Command, args: Args<'_>) -> bool {
    command.is_of_rows && command.has_one_key() && command.takes(args.len())
}

/// Whether `command` is a short write of one row.
fn is_short_write(command: &Command, args: Args<'_>) -> bool {
    command.writes() && args.len() <= WORDS_MAX && is_of_one_row(command, args)
}

/// Whether `command` only reads, and only little of one row.
fn is_short_read(command: &Command, args: Args<'_>) -> bool {
    let reads = command.flags.contains(&"readonly") && command.flags.contains(&"fast") && !command.is_container;
    reads && args.len() <= READ_WORDS_MAX && is_of_one_row(command, args)
}

/// The lengths of the replies of `done`, which stand one after the other from `from` on.
pub(super) fn reply_lens(replies: &Replies, from: Mark, done: &[Done]) -> Vec<u64> {
    let ends = done.iter().map(|done| done.to);
    let begins = std::iter::once(from).chain(ends.clone());
    begins.zip(ends).map(|(begin, end)| replies.len_between(begin, end) as u64).collect()
}

impl<S: Store> Connection<S> {
    /// Runs the writes at the beginning of `input` as one, if there are several and the first one reads before it
    /// writes. The first request has `len` bytes. Returns how many bytes were served: 0 if the first command must be
    /// run by itself.
    pub(super) async fn run_group(&mut self, command: Option<&'static Command>, input: &Input, len: usize) -> usize {
        let bytes = &input.bytes[input.start..];
        if input.state.inline {
            // The words of an inline request are not in `bytes`.
            return 0;
        }
        let first = input.state.args(bytes);
        let Some(command) = command.filter(|command| self.begins_group(command, first)) else {
            return 0;
        };
        let (places, spans) = self.find_group(bytes, command, first, len);
        if places.len() < 2 {
            return 0;
        }
        let (is_limited, database, prices) = (self.is_limited(), self.session.database(), self.prices());
        let number = self.session.number();
        let (mut members, mut charges) = (Vec::with_capacity(places.len()), Vec::new());
        for place in &places {
            let args = Args::new(&bytes[place.start..], &spans[place.words.clone()]);
            if is_limited {
                let charge = Charge::of(place.command, args, YIELD, prices.as_deref()).await;
                if !self.admits_at_once(&charge) {
                    break;
                }
                charges.push(charge);
            }
            members.push(Member { command: place.command, args, database, denied: None });
        }
        if members.is_empty() {
            return 0;
        }
        self.submit().await;
        if let Ok(store) = self.session.store() {
            let mut keys: Vec<&[u8]> = places[..members.len()].iter().map(|place| place.key).collect();
            // A row that is written again and again is looked up only once.
            keys.dedup();
            // A single row is read at once anyway.
            let keys = keys.chunks(PREFETCHED_MAX).filter(|keys| keys.len() > 1);
            keys.for_each(|keys| store.prefetch(number, keys));
            let names = places.iter().zip(&members).filter_map(|(place, Member { command, args, .. })| {
                let name = command.first_member(args.len())?;
                Some((place.key, args.at(name)))
            });
            let names: Vec<(&[u8], &[u8])> = names.collect();
            names.chunks(PREFETCHED_MAX).for_each(|names| store.prefetch_members(number, names));
        }
        let run = self.run_members(&members, &charges).await;
        self.give_back(&members[run..], charges.get(run..).unwrap_or_default());
        places[..run].last().map_or(0, |place| place.end)
    }

    fn begins_group(&self, command: &'static Command, args: Args<'_>) -> bool {
        !is_plain(command, args)
            && is_short_write(command, args)
            && self.session.transaction.is_none()
            && self.session.outbox.reply_mode == ReplyMode::On
            && !self.session.tells_cost
            && !self.session.pause().is_set()
            && self.may_be_grouped(command, args)
    }

    /// Whether nothing prevents the command from running at once.
    fn may_be_grouped(&self, command: &'static Command, args: Args<'_>) -> bool {
        let Ok(store) = self.session.store() else { return false };
        self.session.account().is_ok_and(|account| account.standing() == Standing::Active)
            && !self.session.is_in_subscribed_state()
            && !self.session.is_monitor()
            && check_options(command, args.len()).is_ok()
            && !command.reaches(args, LONG_BYTES)
            && self.session.surely_may(command, args)
            && (store.disk_limit_reached().is_none() || !command.needs_room(args))
    }

    /// Whether reads may go along with the writes in front of them: nobody has to be told what they read, and they are
    /// not charged in advance.
    fn takes_reads(&self) -> bool {
        !self.is_limited() && self.session.tracked.is_none() && self.session.call().wants == Classes::NONE
    }

    /// The short writes to one partition at the beginning of `bytes`: `command`, whose request has `len` bytes, and
    /// those after it, with short reads of what they write. Also returns the words of all of them.
    fn find_group<'b>(
        &self,
        bytes: &'b [u8],
        command: &'static Command,
        args: Args<'_>,
        len: usize,
    ) -> (Vec<GroupedRequest<'b>>, Vec<Span>) {
        let (key, takes_reads) = (key_in(bytes, command, args), self.takes_reads());
        let partition = self.partition_of(key);
        // Most requests of a group are about as long as the first.
        let expected = (bytes.len() / len.max(1)).clamp(1, COMMANDS_MAX);
        let (mut places, mut spans) = (Vec::with_capacity(expected), Vec::with_capacity(expected * args.len()));
        spans.extend_from_slice(args.spans());
        places.push(GroupedRequest { command, key, start: 0, words: 0..spans.len(), end: len });
        let mut state = PartialRequest::new();
        while let Some(&GroupedRequest { end: start, .. }) = places.last()
            && places.len() < COMMANDS_MAX
            && start < BYTES_MAX
            && let Ok(Progress::Request(len)) = parse(&bytes[start..], &self.session.limits, &mut state)
        {
            if state.inline {
                break;
            }
            let args = state.args(&bytes[start..]);
            let Some(command) = table::find(args.at(0)) else { break };
            let key = key_in(&bytes[start..], command, args);
            // Most often the last one is about the same row.
            let is_written = || places.iter().rev().any(|place| place.key == key);
            let goes_along = takes_reads && is_short_read(command, args) && is_written();
            let fits = goes_along || is_short_write(command, args) && self.partition_of(key) == partition;
            if !fits || !self.may_be_grouped(command, args) {
                break;
            }
            let words = spans.len()..spans.len() + args.len();
            spans.extend_from_slice(args.spans());
            places.push(GroupedRequest { command, key, start, words, end: start + len });
        }
        (places, spans)
    }

    /// Takes a charge, if the tenant has that much without waiting. A write of rows costs no read units in advance.
    fn admits_at_once(&self, charge: &Charge) -> bool {
        let Some(quota) = self.session.outbox.quota() else { return true };
        if !quota.try_admit(Unit::Write, charge.units(Unit::Write)) {
            return false;
        }
        if !quota.try_admit(Unit::Request, charge.units(Unit::Request)) {
            quota.refund(Unit::Write, charge.units(Unit::Write));
            return false;
        }
        // A command that would have to wait in the node's queue leaves it, and comes back by itself.
        let waits = quota.enter_node(Access::Write, charge.units(Unit::Request)).is_some_and(|place| place.waits());
        if waits {
            for unit in [Unit::Write, Unit::Request] {
                quota.refund(unit, charge.units(unit));
            }
        }
        !waits
    }

    /// Gives back what was paid for commands that were not run.
    pub(super) fn give_back(&mut self, members: &[Member<'_>], charges: &[Charge]) {
        for (member, charge) in members.iter().zip(charges) {
            let units = Unit::ALL.map(|unit| (charge.units(unit), 0));
            self.settle_units(charge, key_of(member.command, member.args), units);
        }
    }

    /// Runs the commands, and answers those that were run. Returns how many that are, at least one.
    async fn run_members(&mut self, members: &[Member<'_>], charges: &[Charge]) -> usize {
        let call = self.session.call();
        let databases = call.databases;
        let outbox = &mut self.session.outbox;
        // The group must not keep anybody's value while it waits for room.
        outbox.replies.own_values();
        outbox.begin_answer();
        let (from, missing) = (outbox.answer_from(), outbox.replies.missing());
        let Ok((store, outbox, account)) = self.session.parts_to_write() else { return 1 };
        let waiting = &account.waiting_rows;
        let mut run = AsOne {
            answer_bytes_max: Some(FLUSH_BYTES),
            from,
            missing,
            done: Vec::with_capacity(members.len()),
            drafted: Vec::with_capacity(members.len()),
            ..AsOne::new(members, call.clone(), &mut *outbox, &self.server.clock, &account.transactions)
        };
        let rows = |member: &Member<'_>| rows_of(member.command, member.args, member.database, databases);
        let writing = waiting.writing(databases, || members.iter().flat_map(rows).collect());
        let outcome = store.transact(key_of(members[0].command, members[0].args), &mut run).await;
        // Only now is it known which of the commands have written.
        writing.end(false);
        let mut done = run.done;
        let lens = reply_lens(&outbox.replies, from, &done);
        let commit = match outcome {
            Ok(commit) => commit,
            Err(error) => {
                let error = Error::from(error);
                outbox.replies.rewind(from);
                // Nothing of the group was committed. Reads that went along have not failed: they are served by
                // themselves next.
                let writes = members.iter().take_while(|member| member.command.writes()).count();
                done.truncate(writes);
                let (to, at) = (outbox.replies.mark(), self.server.clock.now());
                if done.is_empty() {
                    done.push(Done::without_changes(call, Ok(()), to, at));
                }
                for done in &mut done {
                    outbox.replies.error(error.text());
                    (done.outcome, done.to) = (Err(error.clone()), outbox.replies.mark());
                }
                None
            }
        };
        outbox.end_group(done.len(), commit);
        let written = members.iter().zip(&done).filter(|(_, done)| done.call.wrote && done.outcome.is_ok());
        waiting.written(databases, || written.flat_map(|(member, _)| rows(member)).collect());
        let run = done.len();
        if let Some(last) = members[..run].last() {
            self.session.outbox.client.said(stats::told_as(last.command, last.args));
        }
        for (index, (member, done)) in members.iter().zip(done).enumerate() {
            self.book(member, done, charges.get(index), lens.get(index).copied().unwrap_or(0));
            if self.is_monitored() {
                self.tell_monitors(member.command, member.args).await;
            }
        }
        self.send_events().await;
        self.end_remembering(members.first().map(|member| member.command)).await;
        run
    }

    /// Books the outcome of a command.
    fn book(&mut self, member: &Member<'_>, done: Done, charge: Option<&Charge>, reply_bytes: u64) {
        self.lately.is_long |= done.call.longest >= LONG_BYTES;
        self.session.called(done.call);
        if let Some(charge) = charge {
            self.session.bill.paid(Unit::Request, charge.units(Unit::Request));
        }
        self.end_bill(member.command, member.args, charge, reply_bytes);
        let has_failed = done.outcome.is_err();
        self.session.outbox.count(|stats| stats.called(member.command, member.args));
        if let Err(error) = &done.outcome {
            self.session.outbox.count_errors(error, 1);
        }
        self.took_until(member.command, member.args, has_failed, done.at);
    }
}
