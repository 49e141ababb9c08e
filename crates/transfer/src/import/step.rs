//! Some of what a source did, in order, as one transaction of the tenant: with it goes the position behind it, so that
//! after any break-off the tenant itself says whether it has been done.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::position::{EXCHANGED, MARK, Position};
use crate::failure::{Failure, Remedy, Result};
use crate::resp::{Connection, Reply, Requests, Verdict, judge};
use crate::tally::Tally;
use crate::target::{DATABASES, Target, select};
use crate::within::pause;

/// Times that the target may break off one step.
const BREAKS_MAX: u32 = 20;

/// The words of a command.
pub(super) type Words = Vec<Vec<u8>>;

/// Commands of one database.
#[derive(Default)]
pub(super) struct Step {
    /// The database.
    pub(super) database: u8,
    /// Commands, each with the position behind it.
    pub(super) commands: Vec<(Words, u64)>,
    /// It is one command that is not about single keys, and so no part of a transaction.
    pub(super) is_alone: bool,
    /// It empties these databases, their marks included.
    pub(super) empties: Vec<u8>,
    /// It exchanges these two, their marks included, and is nothing else.
    pub(super) exchanges: Option<(u8, u8)>,
}

/// Writes steps into a tenant.
pub(super) struct Steps {
    pub(super) target: Target,
    pub(super) tally: Arc<Tally>,
    pub(super) connection: Option<(Connection, u8)>,
    /// The mark of each database, as far as it is known.
    pub(super) marks: BTreeMap<u8, Position>,
}

/// What has become of some commands.
pub(super) enum Tried {
    Done,
    /// Those of these numbers were refused, and nothing was done.
    Without(Vec<usize>),
    /// Nothing was done: after so many milliseconds it may be.
    Again(u64),
    /// Nothing was done, and it is too much at once.
    TooMuch(String),
    /// Somebody else has written the mark.
    Unclear,
}

impl Steps {
    /// Writes into `target`, which has no marks.
    pub(super) fn new(target: &Target, tally: &Arc<Tally>) -> Self {
        Self { target: target.clone(), tally: Arc::clone(tally), connection: None, marks: BTreeMap::new() }
    }

    /// The newest mark in the tenant.
    pub(super) async fn newest_mark(&mut self) -> Result<Option<Position>> {
        self.connection = None;
        self.marks.clear();
        let mut connection = self.target.connect_again().await?;
        for database in 0..DATABASES {
            select(&mut connection, database).await?;
            if let Some(mark) = mark(&mut connection).await? {
                self.marks.insert(database, mark);
            }
        }
        Ok(self.marks.values().max_by_key(|mark| mark.offset).cloned())
    }

    /// Writes the first mark, for all that was written without one.
    pub(super) async fn begin(&mut self, database: u8, position: &Position) -> Result {
        self.connection = None;
        let mut connection = self.target.connect_again().await?;
        select(&mut connection, database).await?;
        connection.ask(&[b"SET".as_slice(), MARK, position.to_string().as_bytes()]).await?;
        self.marks = BTreeMap::from([(database, position.clone())]);
        Ok(())
    }

    /// Removes all marks: nothing will be followed any more, or everything is begun anew.
    pub(super) async fn end(&mut self) -> Result {
        self.connection = None;
        let mut connection = self.target.connect_again().await?;
        for database in 0..DATABASES {
            select(&mut connection, database).await?;
            connection.ask(&[b"DEL".as_slice(), MARK, EXCHANGED]).await?;
        }
        self.marks.clear();
        Ok(())
    }

    /// Does a step, which ends at `end`. When this is done, all of it is in the tenant, or counted as refused.
    pub(super) async fn apply(&mut self, step: &Step, end: &Position) -> Result {
        let mut runs: Vec<(Vec<&(Words, u64)>, Position)> = vec![(step.commands.iter().collect(), end.clone())];
        let mut breaks = 0;
        while let Some((mut commands, end)) = runs.pop() {
            loop {
                let tried = match step.is_alone {
                    true if step.exchanges.is_some() => self.try_exchange(step, &end).await,
                    true => self.try_alone(step, &commands, &end).await,
                    false => self.try_as_one(step.database, &commands, &end).await,
                };
                match tried {
                    Ok(Tried::Done) => break,
                    Ok(Tried::Again(wait_ms)) => pause(&self.target.clock, wait_ms).await,
                    Ok(Tried::Unclear) => self.connection = None,
                    Ok(Tried::Without(refused)) => {
                        let mut at = 0;
                        commands.retain(|_| {
                            at += 1;
                            !refused.contains(&(at - 1))
                        });
                    }
                    Ok(Tried::TooMuch(error)) if commands.len() < 2 => {
                        commands.iter().for_each(|(words, _)| self.refuse(step.database, words, &error));
                        commands.clear();
                    }
                    Ok(Tried::TooMuch(_)) => {
                        let behind = commands.split_off(commands.len() / 2);
                        let offset = commands.last().map_or(end.offset, |(_, offset)| *offset);
                        runs.push((behind, end.clone()));
                        runs.push((commands, Position { offset, ..end.clone() }));
                        break;
                    }
                    Err(failure) if failure.remedy == Remedy::Reconnect && breaks < BREAKS_MAX => {
                        self.connection = None;
                        breaks += 1;
                        self.tally.note(format!("the target is away: {failure}"));
                        pause(&self.target.clock, 100).await;
                    }
                    Err(failure) => return Err(failure),
                }
            }
        }
        Ok(())
    }

    pub(super) fn refuse(&self, database: u8, words: &Words, error: &str) {
        let shown: Vec<&[u8]> = words.iter().take(2).map(Vec::as_slice).collect();
        self.tally.refuse(u64::from(database), &shown.join(&b' '), error);
    }

    /// The connection, on which `database` is chosen; and whether the step that ends at `end` has been done, where the
    /// one before broke off.
    pub(super) async fn ready(&mut self, database: u8, end: &Position, is_checked: bool) -> Result<(Connection, bool)> {
        let (mut connection, is_new, chosen) = match self.connection.take() {
            Some((connection, chosen)) => (connection, false, chosen),
            None => (self.target.connect_again().await?, true, 0),
        };
        if chosen != database {
            select(&mut connection, database).await?;
        }
        if !is_new {
            return Ok((connection, false));
        }
        // What the connection before has sent may still be done, until the mark is written on this one.
        connection.ask(&[b"WATCH".as_slice(), MARK]).await?;
        let mark = mark(&mut connection).await?;
        if mark.as_ref() == Some(end) {
            return Ok((connection, true));
        }
        match mark.as_ref() == self.marks.get(&database) || !is_checked {
            true => Ok((connection, false)),
            false => {
                Err(Failure::lost("the tenant is not where this import left it: it has lost writes, or was emptied"))
            }
        }
    }

    async fn try_as_one(&mut self, database: u8, commands: &[&(Words, u64)], end: &Position) -> Result<Tried> {
        let (mut connection, is_done) = self.ready(database, end, true).await?;
        if is_done {
            self.connection = Some((connection, database));
            self.marks.insert(database, end.clone());
            return Ok(Tried::Done);
        }
        let mut requests = Requests::default();
        requests.push(&["MULTI"]);
        commands.iter().for_each(|(words, _)| requests.push(words));
        requests.push(&[b"SET".as_slice(), MARK, end.to_string().as_bytes()]);
        requests.push(&["EXEC"]);
        let mut replies = connection.exchange(&requests, 0).await?;
        self.connection = Some((connection, database));
        let answer = replies.pop();
        let mut refused = Vec::new();
        for (at, reply) in replies.iter().enumerate() {
            let Some(error) = reply.error() else { continue };
            let Some((words, _)) = at.checked_sub(1).and_then(|at| commands.get(at)) else {
                return Err(Failure::new(format!("the target takes no transaction: {error}")));
            };
            match judge(error, false) {
                Verdict::Again(wait_ms) => return Ok(Tried::Again(wait_ms)),
                Verdict::End => return Err(ended(error)),
                _ if error.contains("queued too much") => return Ok(Tried::TooMuch(error.to_owned())),
                _ => {
                    self.refuse(database, words, error);
                    refused.push(at - 1);
                }
            }
        }
        match answer {
            _ if !refused.is_empty() => Ok(Tried::Without(refused)),
            Some(Reply::Array(None) | Reply::Bulk(None)) => Ok(Tried::Unclear),
            Some(Reply::Array(Some(answers))) => {
                for ((words, _), answer) in commands.iter().zip(&answers) {
                    let Some(error) = answer.error() else { continue };
                    match judge(error, false) {
                        Verdict::End => return Err(ended(error)),
                        _ => self.refuse(database, words, error),
                    }
                }
                self.marks.insert(database, end.clone());
                Ok(Tried::Done)
            }
            Some(Reply::Error(error)) => match judge(&error, false) {
                Verdict::Again(wait_ms) => Ok(Tried::Again(wait_ms)),
                Verdict::End => Err(ended(&error)),
                _ if error.starts_with("CROSSSLOT") => Err(Failure::new(
                    "the tenant has several partitions, and what a source does can only be followed into a tenant of \
                     one: import a dump file, or create the tenant with --partitions 1",
                )),
                _ => Ok(Tried::TooMuch(error)),
            },
            _ => Err(Failure::broken("the target answers something else")),
        }
    }

    async fn try_alone(&mut self, step: &Step, commands: &[&(Words, u64)], end: &Position) -> Result<Tried> {
        let database = step.database;
        let (mut connection, is_done) = self.ready(database, end, false).await?;
        if !is_done {
            for (words, _) in commands {
                if let Reply::Error(error) = connection.call(words).await? {
                    match judge(&error, false) {
                        Verdict::Again(wait_ms) => {
                            self.connection = Some((connection, database));
                            return Ok(Tried::Again(wait_ms));
                        }
                        Verdict::End => return Err(ended(&error)),
                        _ => self.refuse(database, words, &error),
                    }
                }
            }
            connection.ask(&[b"SET".as_slice(), MARK, end.to_string().as_bytes()]).await?;
        }
        step.empties.iter().for_each(|emptied| drop(self.marks.remove(emptied)));
        self.connection = Some((connection, database));
        self.marks.insert(database, end.clone());
        Ok(Tried::Done)
    }
}

pub(super) fn ended(error: &str) -> Failure {
    Failure::new(format!("the target takes nothing more: {error}"))
}

pub(super) async fn mark(connection: &mut Connection) -> Result<Option<Position>> {
    let reply = connection.ask(&[b"GET".as_slice(), MARK]).await?;
    Ok(reply.text().and_then(Position::parse))
}
