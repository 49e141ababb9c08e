//! A step: some commands of a source, in order, done as one transaction in each partition of the tenant. The position
//! behind the step goes with it, so that after any break the tenant itself says whether the step has been done.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::partitions::{Partitions, Words};
use super::position::{CHOSEN, EXCHANGED, Position};
use super::repeatable::{is_script, is_so_already};
use crate::failure::{Failure, Result};
use crate::resp::{Connection, Reply, Requests, Verdict, judge};
use crate::tally::Tally;
use crate::target::{Breaks, DATABASES, Target, select};
use crate::within::pause;

/// Part of the error of a tenant that has no room for the commands of a transaction.
const TOO_MUCH: &str = "queued too much";
/// A partition that gets no commands, perhaps because none of them is imported, is told the position when its mark is
/// this many bytes behind: the source has to keep everything after the least position of all.
const BEHIND_BYTES_MAX: u64 = 64 << 10;
/// A transaction that the target has put off so often is cut in two: what costs less passes sooner where other clients
/// use the tenant's units, too.
const PUT_OFF_MAX: u32 = 10;
/// Requests that may be done in any order are sent together, at most this many: each may wait for units.
const ASKED_MAX: usize = 16;
/// The longest pause before a transaction that was put off is sent again, in milliseconds.
const PAUSE_MS_MAX: u64 = 10_000;

/// Commands of one database.
#[derive(Default)]
pub(super) struct Step {
    /// The database.
    pub(super) database: u8,
    /// Commands, each with the position behind it.
    pub(super) commands: Vec<(Words, u64)>,
    /// The step is a single command that is not about single keys, and so cannot be part of a transaction with others.
    pub(super) is_alone: bool,
    /// The step empties these databases, their marks included.
    pub(super) empties: Vec<u8>,
    /// The step exchanges these two databases, their marks included, and does nothing else.
    pub(super) exchanges: Option<(u8, u8)>,
}

/// Writes steps into a tenant.
pub(super) struct Steps {
    pub(super) target: Target,
    pub(super) tally: Arc<Tally>,
    pub(super) connection: Option<(Connection, u8)>,
    /// The marks, by database and partition, that were written on this connection. For these, requests that an earlier
    /// connection has sent are not done any more.
    settled: BTreeSet<(u8, usize)>,
    pub(super) partitions: Partitions,
    /// The marks of each partition, by database, as far as they are known. A partition's newest mark says up to where
    /// it has everything.
    pub(super) marks: Vec<BTreeMap<u8, Position>>,
    /// A database, and what [`CHOSEN`] says there.
    chosen: Option<(u8, String)>,
}

/// The outcome of an attempt to do some commands.
pub(super) enum Tried {
    Done,
    /// The commands of these numbers were refused, and nothing was done.
    Without(Vec<usize>),
    /// Nothing was done: it may succeed after this many milliseconds.
    Again(u64),
    /// The commands were done, or counted as refused, and their mark is not written.
    Unmarked,
    /// These are too many commands for one transaction, or the target does not take one of them.
    TooMuch(String),
    /// Somebody else has written the mark.
    Unclear,
}

impl Steps {
    /// A writer into `target`, of which no marks are known yet.
    pub(super) fn new(target: &Target, tally: &Arc<Tally>, partitions: Partitions) -> Self {
        let marks = vec![BTreeMap::new(); partitions.count()];
        let settled = BTreeSet::new();
        let (target, tally) = (target.clone(), Arc::clone(tally));
        Self { target, tally, connection: None, settled, partitions, marks, chosen: None }
    }

    /// The numbers of the databases that are imported, as an import noted them that was here before.
    pub(super) async fn chosen(&self) -> Result<Option<String>> {
        let mut connection = self.target.connect_again().await?;
        let get = |at| (at, vec![b"GET".to_vec(), CHOSEN.to_vec()]);
        let asked: Vec<_> = (0..DATABASES).map(get).collect();
        let replies = self.ask_all(&mut connection, &asked).await?;
        Ok(replies.iter().find_map(Reply::text).map(|text| String::from_utf8_lossy(text).into_owned()))
    }

    /// Notes the numbers of the databases that are imported, in the first of them.
    pub(super) async fn choose(&mut self, database: u8, numbers: String) -> Result {
        let mut connection = self.target.connect_again().await?;
        self.chosen = Some((database, numbers));
        self.note_chosen(&mut connection).await
    }

    /// Writes [`CHOSEN`]. Afterwards another database is chosen on `connection`.
    async fn note_chosen(&self, connection: &mut Connection) -> Result {
        let Some((database, numbers)) = &self.chosen else { return Ok(()) };
        let set = vec![b"SET".to_vec(), CHOSEN.to_vec(), numbers.clone().into_bytes()];
        self.ask_all(connection, &[(*database, set)]).await.map(drop)
    }

    /// The position from which the source has to be followed: the least of any partition. `None` if not all partitions
    /// have one: then the tenant never had a whole snapshot, or was emptied.
    pub(super) async fn resume_point(&mut self) -> Result<Option<Position>> {
        self.connection = None;
        let mut connection = self.target.connect_again().await?;
        self.marks = self.read_marks(&mut connection).await?;
        let newest: Option<Vec<_>> = (0..self.partitions.count()).map(|at| self.newest_of(at)).collect();
        let least = newest.and_then(|newest| newest.into_iter().min_by_key(|(_, mark)| mark.offset));
        Ok(least.map(|(_, mark)| mark.clone()))
    }

    /// Up to where a partition has everything, and the database whose mark says so.
    fn newest_of(&self, partition: usize) -> Option<(u8, &Position)> {
        let marks = self.marks[partition].iter().map(|(&database, mark)| (database, mark));
        marks.max_by_key(|(_, mark)| mark.offset)
    }

    /// Writes the first marks, for the data that was written without marks.
    pub(super) async fn begin(&mut self, database: u8, position: &Position) -> Result {
        self.connection = None;
        let mut connection = self.target.connect_again().await?;
        select(&mut connection, database).await?;
        self.marks.iter_mut().for_each(BTreeMap::clear);
        self.mark_all(&mut connection, database, position).await
    }

    /// Removes all marks: nothing will be followed any more, or everything begins anew. The newest mark of a partition
    /// goes last: an import that was killed here and finds only an older one would do commands twice. [`CHOSEN`] stays
    /// as long as there is a position to go on from.
    pub(super) async fn end(&mut self) -> Result {
        self.connection = None;
        let mut connection = self.target.connect_again().await?;
        self.marks = self.read_marks(&mut connection).await?;
        let newest = |at| self.newest_of(at).map(|(database, _)| database);
        let newest: Vec<Option<u8>> = (0..self.partitions.count()).map(newest).collect();
        let del = |database: u8, key: Vec<u8>| (database, vec![b"DEL".to_vec(), key]);
        let (mut asked, mut last, mut chosen) = (Vec::new(), Vec::new(), Vec::new());
        for database in 0..DATABASES {
            asked.push(del(database, EXCHANGED.to_vec()));
            chosen.push(del(database, CHOSEN.to_vec()));
            for (partition, newest) in newest.iter().enumerate() {
                let marks = if *newest == Some(database) { &mut last } else { &mut asked };
                marks.push(del(database, self.partitions.mark(partition).to_vec()));
                asked.push(del(database, self.partitions.probe(partition)));
            }
        }
        for keys in [&asked, &last, &chosen] {
            self.ask_all(&mut connection, keys).await?;
        }
        self.marks.iter_mut().for_each(BTreeMap::clear);
        Ok(())
    }

    /// Does a step that ends at `end`, except the parts that have been done already, as the marks say. When this is
    /// done, all of the step is in the tenant, or counted as refused.
    pub(super) async fn apply(&mut self, step: &Step, end: &Position) -> Result {
        let reached = |steps: &Self, partition| steps.newest_of(partition).map_or(0, |(_, mark)| mark.offset);
        if self.has_no_transaction(step) {
            let home = self.partitions.home();
            return match reached(self, home) >= end.offset {
                true => Ok(()),
                false => self.apply_in(home, step, step.commands.iter().collect(), end).await,
            };
        }
        for (partition, commands) in self.partitions.deal(&step.commands).iter().enumerate() {
            let reached = reached(self, partition);
            let left: Vec<_> = commands.iter().map(Cow::as_ref).filter(|(_, offset)| *offset > reached).collect();
            if !left.is_empty() || end.offset.saturating_sub(reached) > BEHIND_BYTES_MAX {
                self.apply_in(partition, step, left, end).await?;
            }
        }
        Ok(())
    }

    /// Whether a step cannot be done as a transaction. A script can where there is one partition; otherwise it may use
    /// keys that are not in the partition of its mark.
    fn has_no_transaction(&self, step: &Step) -> bool {
        let is_of_scripts = || step.commands.iter().all(|(words, _)| is_script(words));
        step.is_alone && !(self.partitions.count() == 1 && is_of_scripts())
    }

    /// Does `commands`, one partition's part of a step that ends at `end`.
    async fn apply_in(
        &mut self,
        partition: usize,
        step: &Step,
        commands: Vec<&(Words, u64)>,
        end: &Position,
    ) -> Result {
        let mut runs = vec![(commands, end.clone())];
        let (mut breaks, mut wait_ms) = (Breaks::default(), 0);
        let is_alone = self.has_no_transaction(step);
        while let Some((mut commands, end)) = runs.pop() {
            let mut put_off = 0;
            loop {
                let before_ms = std::mem::take(&mut wait_ms);
                if is_alone {
                    pause(&self.target.clock, before_ms).await;
                }
                let tried = match is_alone {
                    true if step.exchanges.is_some() => self.try_exchange(step, &end).await,
                    true => self.try_alone(step, &commands, &end).await,
                    false => self.try_as_one(step.database, partition, &commands, &end, before_ms).await,
                };
                match tried {
                    Ok(Tried::Done) => break,
                    Ok(Tried::Again(told_ms)) => {
                        put_off += 1;
                        // Longer each time: the tries themselves cost some request units.
                        wait_ms = told_ms.saturating_mul(u64::from(put_off)).min(PAUSE_MS_MAX);
                        if put_off >= PUT_OFF_MAX
                            && let Some(at) = middle(&commands)
                        {
                            runs.extend(cut(commands, at, end));
                            break;
                        }
                    }
                    Ok(Tried::Unclear) => self.connection = None,
                    Ok(Tried::Unmarked) => {
                        self.connection = None;
                        commands.clear();
                    }
                    Ok(Tried::Without(refused)) => {
                        let mut at = 0;
                        commands.retain(|_| {
                            at += 1;
                            !refused.contains(&(at - 1))
                        });
                    }
                    Ok(Tried::TooMuch(error)) => match middle(&commands) {
                        Some(at) => {
                            runs.extend(cut(commands, at, end));
                            break;
                        }
                        None if commands.is_empty() => return Err(Failure::ended(&error)),
                        None => {
                            commands.iter().for_each(|(words, _)| self.refuse(step.database, words, &error));
                            commands.clear();
                        }
                    },
                    // Whether anything was done is found out on another connection, from the mark.
                    Err(failure) => {
                        self.connection = None;
                        breaks.wait(failure, &self.target, &self.tally).await?;
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn refuse(&self, database: u8, words: &Words, error: &str) {
        let shown: Vec<&[u8]> = words.iter().take(2).map(Vec::as_slice).collect();
        self.tally.refuse(u64::from(database), &shown.join(&b' '), error);
    }

    /// The connection, with `database` chosen; and, if the outcome of the attempt before is not known, whether
    /// `partition` has done the step that ends at `end`.
    pub(super) async fn ready(
        &mut self,
        database: u8,
        partition: usize,
        end: &Position,
        is_checked: bool,
    ) -> Result<(Connection, bool)> {
        let (mut connection, is_new, chosen) = match self.connection.take() {
            Some((connection, chosen)) => (connection, false, chosen),
            None => (self.target.connect_again().await?, true, 0),
        };
        if is_new {
            self.settled.clear();
            if self.partitions.count() > 1 {
                connection.ask(&["CLIENT", "CAPA", "partition-transactions"]).await.map_err(|failure| {
                    failure
                        .of("the tenant has several partitions, and to follow a source into those needs a newer server")
                })?;
            }
        }
        if chosen != database {
            select(&mut connection, database).await?;
        }
        if self.settled.contains(&(database, partition)) {
            return Ok((connection, false));
        }
        // Requests of an earlier connection may still be done, until the mark is written on this one.
        let key = self.partitions.mark(partition).to_vec();
        connection.ask(&[b"WATCH".as_slice(), &key]).await?;
        // While the partition's log has failed, a read does not show a mark that was written last and will be there
        // once the log is replaced. A write fails until then.
        connection.ask(&[b"SET".as_slice(), &self.partitions.probe(partition), b"1"]).await?;
        let mark = mark(&mut connection, &key).await?;
        let is_done = mark.as_ref() == Some(end);
        let is_known = is_done || mark.as_ref() == self.marks[partition].get(&database);
        if is_checked && !(is_known && (!is_new || self.has_others(&mut connection, (database, partition)).await?)) {
            return Err(Failure::lost(
                "the tenant is not where this import left it: it has lost writes, or was emptied",
            ));
        }
        if is_checked && is_new {
            select(&mut connection, database).await?;
        }
        if is_done {
            connection.ask(&["UNWATCH"]).await?;
        }
        Ok((connection, is_done))
    }

    /// Whether the tenant has the marks that are known, not counting that of `at`. Afterwards another database is
    /// chosen on `connection`.
    async fn has_others(&self, connection: &mut Connection, at: (u8, usize)) -> Result<bool> {
        let (mut there, mut known) = (self.read_marks(connection).await?, self.marks.clone());
        for marks in [&mut there, &mut known] {
            marks[at.1].remove(&at.0);
        }
        Ok(there == known)
    }

    /// Does `commands` and writes the mark `end` in one transaction, after a pause of `wait_ms`.
    async fn try_as_one(
        &mut self,
        database: u8,
        partition: usize,
        commands: &[&(Words, u64)],
        end: &Position,
        wait_ms: u64,
    ) -> Result<Tried> {
        let (mut connection, is_done) = self.ready(database, partition, end, true).await?;
        if is_done {
            self.connection = Some((connection, database));
            self.settled.insert((database, partition));
            self.marks[partition].insert(database, end.clone());
            return Ok(Tried::Done);
        }
        // Commands that are sent along with a `MULTI` that is refused would be done one by one.
        if let Some(error) = connection.call(&["MULTI"]).await?.error() {
            let Verdict::Again(told_ms) = judge(error, false) else {
                return Err(Failure::new(format!("the target takes no transaction: {error}")));
            };
            self.connection = Some((connection, database));
            return Ok(Tried::Again(told_ms));
        }
        // The pause comes behind `MULTI`, which costs request units itself: a transaction that is dearer than what the
        // tenant may save up passes only when nothing was used since.
        pause(&self.target.clock, wait_ms).await;
        let mut requests = Requests::default();
        commands.iter().for_each(|(words, _)| requests.push(words));
        requests.push(&[b"SET".as_slice(), self.partitions.mark(partition), end.mark().as_bytes()]);
        requests.push(&["EXEC"]);
        let mut replies = connection.exchange(&requests, 0).await?;
        self.connection = Some((connection, database));
        let answer = replies.pop();
        let mut refused = Vec::new();
        for (at, reply) in replies.iter().enumerate() {
            let Some(error) = reply.error() else { continue };
            match judge(error, false) {
                Verdict::Again(told_ms) => return Ok(Tried::Again(told_ms)),
                Verdict::End => return Err(Failure::ended(error)),
                Verdict::Unclear => return Err(Failure::broken(error)),
                _ if error.contains(TOO_MUCH) => return Ok(Tried::TooMuch(error.to_owned())),
                _ if at < commands.len() => refused.push((at, error)),
                _ => return Err(Failure::new(format!("the target takes no transaction: {error}"))),
            }
        }
        // Counted only now: after any other outcome the same commands are sent again.
        refused.iter().for_each(|&(at, error)| self.refuse(database, &commands[at].0, error));
        match answer {
            _ if !refused.is_empty() => Ok(Tried::Without(refused.into_iter().map(|(at, _)| at).collect())),
            Some(Reply::Array(None) | Reply::Bulk(None)) => Ok(Tried::Unclear),
            Some(Reply::Array(Some(answers))) => {
                if let Some(error) = answers.last().and_then(Reply::error) {
                    // Without its mark, nothing of the step counts as done.
                    return Err(match judge(error, false) {
                        Verdict::End => Failure::ended(error),
                        _ => Failure::broken(error),
                    });
                }
                self.settled.insert((database, partition));
                self.marks[partition].insert(database, end.clone());
                // The mark is there, so none of them is ever sent again: each has to be listed.
                let mut ended = None;
                for ((words, _), error) in
                    commands.iter().zip(&answers).filter_map(|(at, one)| Some((at, one.error()?)))
                {
                    self.refuse(database, words, error);
                    ended = ended.or((judge(error, false) == Verdict::End).then(|| Failure::ended(error)));
                }
                ended.map_or(Ok(Tried::Done), Err)
            }
            Some(Reply::Error(error)) => match judge(&error, false) {
                Verdict::Again(wait_ms) => Ok(Tried::Again(wait_ms)),
                Verdict::End => Err(Failure::ended(&error)),
                Verdict::Unclear => Err(Failure::broken(error)),
                _ if error.starts_with("CROSSSLOT") => Err(Failure::new(
                    "the tenant's keys are not in the partitions that it told of: start the import again",
                )),
                _ if error.starts_with("EXECABORT ") || error.contains(TOO_MUCH) => Ok(Tried::TooMuch(error)),
                // One of the commands may be the reason, and nothing was done. If something was, the mark says so on
                // another connection.
                _ => {
                    self.connection = None;
                    Ok(Tried::TooMuch(error))
                }
            },
            _ => Err(Failure::broken("the target answers something else")),
        }
    }

    async fn try_alone(&mut self, step: &Step, commands: &[&(Words, u64)], end: &Position) -> Result<Tried> {
        let database = step.database;
        let (mut connection, is_done) = self.ready(database, self.partitions.home(), end, false).await?;
        connection.ask(&["UNWATCH"]).await?;
        for (words, _) in commands.iter().filter(|_| !is_done) {
            let unclear = match connection.call_patiently(words).await {
                Ok(reply) => match reply.error().map(|error| (error, judge(error, false))) {
                    None => continue,
                    Some((error, Verdict::End)) => return Err(Failure::ended(error)),
                    Some((error, Verdict::Unclear)) => Failure::broken(error),
                    Some((error, _)) => {
                        if !is_so_already(words, error) {
                            self.refuse(database, words, error);
                        }
                        continue;
                    }
                },
                Err(failure) => failure,
            };
            // Anything but a script may be done once more.
            if !is_script(words) {
                return Err(unclear);
            }
            self.refuse(database, words, &format!("it is not known whether this was done: {unclear}"));
            return Ok(Tried::Unmarked);
        }
        step.empties.iter().for_each(|emptied| {
            self.marks.iter_mut().for_each(|marks| drop(marks.remove(emptied)));
        });
        if !step.empties.is_empty() {
            self.note_chosen(&mut connection).await?;
        }
        match self.mark_all(&mut connection, database, end).await {
            // The next try has only the marks to write, and fails as well if the reason is there to stay.
            Err(_) if commands.iter().any(|(words, _)| is_script(words)) => return Ok(Tried::Unmarked),
            marked => marked?,
        }
        self.connection = Some((connection, database));
        Ok(Tried::Done)
    }

    /// Writes `end` as the mark of every partition in `database`, which is then chosen on `connection`. The home's mark
    /// is written last: if it is there, all are.
    async fn mark_all(&mut self, connection: &mut Connection, database: u8, end: &Position) -> Result {
        let text = end.mark().into_bytes();
        let mark = |partition| [b"SET".to_vec(), self.partitions.mark(partition).to_vec(), text.clone()].to_vec();
        let asked: Vec<_> = self.partitions.home_last().map(|partition| (database, mark(partition))).collect();
        let (others, home) = asked.split_at(asked.len() - 1);
        self.ask_all(connection, others).await?;
        self.ask_all(connection, home).await?;
        self.marks.iter_mut().for_each(|marks| drop(marks.insert(database, end.clone())));
        Ok(())
    }

    /// All marks that the tenant has. Afterwards another database is chosen on `connection`.
    pub(super) async fn read_marks(&self, connection: &mut Connection) -> Result<Vec<BTreeMap<u8, Position>>> {
        let places = (0..DATABASES).flat_map(|at| (0..self.partitions.count()).map(move |partition| (at, partition)));
        let get = |(at, partition)| (at, vec![b"GET".to_vec(), self.partitions.mark(partition).to_vec()]);
        let asked: Vec<_> = places.clone().map(get).collect();
        let replies = self.ask_all(connection, &asked).await?;
        let mut marks = vec![BTreeMap::new(); self.partitions.count()];
        for ((database, partition), reply) in places.zip(&replies) {
            if let Some(mark) = reply.text().and_then(Position::parse) {
                marks[partition].insert(database, mark);
            }
        }
        Ok(marks)
    }

    /// Sends requests, each to a database, that may be done in any order. Those that the target puts off are sent
    /// again, and only those: they would never pass behind others that use up the units each time. Gives the replies in
    /// the order of the requests.
    async fn ask_all(&self, connection: &mut Connection, asked: &[(u8, Words)]) -> Result<Vec<Reply>> {
        let mut replies = Vec::new();
        for some in asked.chunks(ASKED_MAX) {
            let mut met = vec![None; some.len()];
            while met.contains(&None) {
                let (mut requests, mut sent, mut chosen) = (Requests::default(), Vec::new(), None);
                for (at, (database, words)) in some.iter().enumerate().filter(|&(at, _)| met[at].is_none()) {
                    if chosen.replace(database) != Some(database) {
                        requests.push(&["SELECT", &database.to_string()]);
                        sent.push(None);
                    }
                    requests.push(words);
                    sent.push(Some(at));
                }
                let mut wait_ms = 0;
                for (at, reply) in sent.into_iter().zip(connection.exchange(&requests, 0).await?) {
                    match (reply.error().map(|error| (judge(error, true), error)), at) {
                        (None | Some((Verdict::Fine, _)), Some(at)) => met[at] = Some(reply),
                        (None | Some((Verdict::Fine, _)), None) => {}
                        (Some((Verdict::Again(told_ms), _)), Some(_)) => wait_ms = told_ms.max(wait_ms),
                        // What was sent behind a `SELECT` that is put off was done in another database.
                        (Some((Verdict::Again(_) | Verdict::Unclear, error)), _) => return Err(Failure::broken(error)),
                        (Some((_, error)), _) => return Err(Failure::ended(error)),
                    }
                }
                pause(&self.target.clock, wait_ms).await;
            }
            replies.extend(met.into_iter().flatten());
        }
        Ok(replies)
    }
}

/// Where to cut commands in two: behind a command of the source, as near to the middle as possible. The parts of a
/// command that was taken apart have the same position, and stay together.
fn middle(commands: &[&(Words, u64)]) -> Option<usize> {
    let cuts = (1..commands.len()).filter(|&at| commands[at - 1].1 != commands[at].1);
    cuts.min_by_key(|at| at.abs_diff(commands.len() / 2))
}

/// The two parts of `commands`, which end at `end`, each with the position behind it. The part in front of command `at`
/// is last, and so the next to be popped.
fn cut(mut commands: Vec<&(Words, u64)>, at: usize, end: Position) -> [(Vec<&(Words, u64)>, Position); 2] {
    let behind = commands.split_off(at);
    let offset = commands.last().map_or(end.offset, |(_, offset)| *offset);
    let middle = Position { offset, ..end.clone() };
    [(behind, end), (commands, middle)]
}

/// The mark in `key` of the chosen database.
async fn mark(connection: &mut Connection, key: &[u8]) -> Result<Option<Position>> {
    let reply = connection.ask(&[b"GET".as_slice(), key]).await?;
    Ok(reply.text().and_then(Position::parse))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_cut_behind_one_of_the_source() {
        let middle_of = |offsets: &[u64]| {
            let commands: Vec<(Words, u64)> = offsets.iter().map(|&offset| (Words::new(), offset)).collect();
            middle(&commands.iter().collect::<Vec<_>>())
        };
        assert_eq!(middle_of(&[1, 2, 3, 4]), Some(2));
        assert_eq!(middle_of(&[1, 5, 5, 5, 5]), Some(1));
        assert_eq!(middle_of(&[5, 5, 5, 5, 6]), Some(4));
        assert_eq!([middle_of(&[5, 5]), middle_of(&[5]), middle_of(&[])], [None; 3]);
    }
}
