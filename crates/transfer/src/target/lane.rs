//! One connection that writes batches, and is opened again when it breaks.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Batch, Breaks, Target, select};
use crate::failure::{Failure, Result};
use crate::resp::{Connection, Reply, Requests, Verdict, judge};
use crate::tally::Tally;
use crate::within::pause;

/// Most bytes of the words of strings that are set together. The server reads requests of up to 64 KiB into buffers
/// that it has anyway.
const JOINED_BYTES_MAX: usize = 48 << 10;

/// A lane: writes its batches one after the other.
pub(super) struct Lane {
    target: Target,
    tally: Arc<Tally>,
    /// A connection, and the database that is chosen on it.
    connection: Option<(Connection, u8)>,
    /// The server's id of the connection that was opened last.
    id: Option<i64>,
    /// Most bytes of the words of strings that are set together; 0 = the target does not take them together.
    joined_bytes_max: usize,
    /// Keys of the current batch of which something was left out or refused.
    refused: BTreeSet<u32>,
    /// The database and the name of the last key of the batch before, if that counts as refused: the current batch may
    /// go on with this key.
    refused_before: Option<(u8, Vec<u8>)>,
}

/// How far a batch has come.
struct Progress {
    /// The number of requests that are done for good.
    done: usize,
    /// Requests before this one may have been done.
    may_be_done: usize,
    /// At most this many requests are sent together.
    together: usize,
    /// The request that the target put off last.
    put_off: Option<usize>,
    /// The first request of those that were sent when the connection broke the last time.
    broke_at: Option<usize>,
}

/// What became of requests that were sent together.
enum Tried {
    /// All were done, or counted as refused.
    Done,
    /// The target has put off the request of this number for so many milliseconds. Those before it are done, those
    /// behind it may have been done.
    PutOff(usize, u64),
    /// Nothing was done. Fewer requests may pass after this many milliseconds.
    TooMany(u64),
}

impl Lane {
    /// A lane that is not connected yet.
    pub(super) fn new(target: Target, tally: Arc<Tally>) -> Self {
        let (joined_bytes_max, refused) = (JOINED_BYTES_MAX, BTreeSet::new());
        Self { target, tally, connection: None, id: None, joined_bytes_max, refused, refused_before: None }
    }

    /// Writes `batch`. When this is done, everything in it is in the target, or counted as refused.
    pub(super) async fn write(&mut self, batch: &Batch) -> Result {
        let mut progress = Progress { done: 0, may_be_done: 0, together: usize::MAX, put_off: None, broke_at: None };
        let mut breaks = Breaks::default();
        self.refused.clear();
        let before = self.refused_before.take();
        if before.is_some_and(|(database, key)| batch.database == database && batch.keys.first() == Some(&key)) {
            self.refused.insert(0);
        }
        batch.left_out.iter().for_each(|(&key, reason)| self.refuse(batch, key, reason));
        while progress.done < batch.requests.len() {
            // A request that was put off goes alone: those behind it would take the units that it waits for, each time.
            let is_put_off = progress.put_off == Some(progress.done);
            let range = batch.sent_together(progress.done, if is_put_off { 1 } else { progress.together });
            let half = (range.len() / 2).max(1);
            match self.try_range(batch, range.clone(), progress.may_be_done).await {
                Ok(Tried::Done) => progress.done = range.end,
                Ok(Tried::PutOff(at, wait_ms)) => {
                    progress.done = at;
                    progress.put_off = Some(at);
                    if at + 1 < range.end {
                        progress.may_be_done = progress.may_be_done.max(range.end);
                    }
                    pause(&self.target.clock, wait_ms).await;
                }
                Ok(Tried::TooMany(wait_ms)) => {
                    progress.together = half;
                    pause(&self.target.clock, wait_ms).await;
                }
                Err(failure) => {
                    self.connection = None;
                    breaks.wait(failure, &self.target, &self.tally).await?;
                    progress.may_be_done = progress.may_be_done.max(range.end);
                    progress.done = batch.again_from(range.start);
                    if progress.broke_at.replace(progress.done) == Some(progress.done) {
                        // Perhaps they take too long: fewer are answered sooner.
                        progress.together = half;
                    }
                }
            }
        }
        let taken = batch.finished.iter().filter(|key| !self.refused.contains(key)).count();
        self.tally.keys.fetch_add(taken as u64, Ordering::Relaxed);
        let last = batch.keys.last().filter(|_| self.refused.contains(&batch.last()));
        self.refused_before = last.map(|key| (batch.database, key.clone()));
        Ok(())
    }

    /// A new connection. Requests that the old connection has sent are not done any more: they might be done after the
    /// requests that are sent now.
    async fn connect(&mut self) -> Result<Connection> {
        let mut connection = self.target.connect_again().await?;
        if let Some(id) = self.id {
            // Nearly always the old connection is gone already, and none is killed.
            connection.ask(&["CLIENT", "KILL", "ID", &id.to_string()]).await?;
        }
        match connection.ask(&["CLIENT", "ID"]).await? {
            Reply::Number(id) => self.id = Some(id),
            _ => return Err(Failure::new("CLIENT ID is answered with something else")),
        }
        Ok(connection)
    }

    /// Sends the requests in `range`: one each of several keys, or several of one key. Those before `may_be_done` may
    /// have been done.
    ///
    /// # Errors
    /// The target takes nothing more, or nobody knows which of the requests were done.
    async fn try_range(&mut self, batch: &Batch, range: Range<usize>, may_be_done: usize) -> Result<Tried> {
        let (mut connection, mut database) = match self.connection.take() {
            Some(open) => open,
            None => (self.connect().await?, 0),
        };
        if database != batch.database {
            select(&mut connection, batch.database).await?;
            database = batch.database;
        }
        let is_of_one_key = range.len() > 1 && batch.end_of_key(range.start) >= range.end;
        let tried = match is_of_one_key {
            true => self.try_as_one(&mut connection, batch, range, may_be_done).await?,
            false => self.try_pipelined(&mut connection, batch, range, may_be_done).await?,
        };
        self.connection = Some((connection, database));
        Ok(tried)
    }

    /// Sends requests of which no two are of the same key. The target may put off one of them and do those behind it:
    /// they are sent again with it. Strings are set together: one `MSET` costs the server far less than so many `SET`s.
    async fn try_pipelined(
        &mut self,
        connection: &mut Connection,
        batch: &Batch,
        range: Range<usize>,
        may_be_done: usize,
    ) -> Result<Tried> {
        let mut requests = Requests::default();
        let sent = requests.copy_joined(&batch.requests, range, self.joined_bytes_max);
        let replies = connection.exchange(&requests, 0).await?;
        for (joined, reply) in sent.into_iter().zip(&replies) {
            let at = joined.start;
            let wait_ms = match joined.len() {
                1 => self.take(batch, at, reply, at < may_be_done)?,
                _ => self.take_joined(reply)?,
            };
            if let Some(wait_ms) = wait_ms {
                return Ok(Tried::PutOff(at, wait_ms));
            }
        }
        Ok(Tried::Done)
    }

    /// What the reply to strings that were set together says: after how many milliseconds they have to be sent again,
    /// if so. From then on each is set by itself, and an error is about that one alone. The login may have no right but
    /// to `SET`, the keys may be in several partitions, or all together cost more than the tenant may save up.
    ///
    /// # Errors
    /// Nobody knows whether they were set.
    fn take_joined(&mut self, reply: &Reply) -> Result<Option<u64>> {
        let Some(error) = reply.error() else { return Ok(None) };
        let wait_ms = match judge(error, false) {
            Verdict::Unclear => return Err(Failure::broken(error)),
            Verdict::Again(wait_ms) => wait_ms,
            Verdict::Fine | Verdict::Refused | Verdict::End => 0,
        };
        self.joined_bytes_max = 0;
        Ok(Some(wait_ms))
    }

    /// Sends requests of one key as a transaction: either the target does all of them, or it puts all of them off. In a
    /// pipeline it could put off one and do the next, and values of a list or a stream would be lost or out of order.
    async fn try_as_one(
        &mut self,
        connection: &mut Connection,
        batch: &Batch,
        range: Range<usize>,
        may_be_done: usize,
    ) -> Result<Tried> {
        // A login that may not use transactions is told here: requests that were sent along would be done one by one.
        if connection.call(&["MULTI"]).await?.error().is_some() {
            return Ok(Tried::TooMany(0));
        }
        let mut requests = Requests::default();
        requests.copy(&batch.requests, range.clone());
        requests.push(&["EXEC"]);
        let mut replies = connection.exchange(&requests, 0).await?;
        match replies.pop() {
            Some(Reply::Array(Some(answers))) if answers.len() == range.len() => {
                for (at, answer) in range.zip(&answers) {
                    if self.take(batch, at, answer, at < may_be_done)?.is_some() {
                        return Err(Failure::broken("the target has put off a part of a transaction"));
                    }
                }
                Ok(Tried::Done)
            }
            // A command was not queued: the transaction is too large for the target, or the command is none that it
            // accepts. By itself it is told why.
            Some(Reply::Error(error)) if error.starts_with("EXECABORT ") => Ok(Tried::TooMany(0)),
            Some(Reply::Error(error)) => match judge(&error, false) {
                // Fewer commands cost less, and pass sooner where other clients use the tenant's units, too.
                Verdict::Again(wait_ms) => Ok(Tried::TooMany(wait_ms)),
                Verdict::End => Err(Failure::ended(&error)),
                _ => Err(Failure::broken(error)),
            },
            _ => Err(Failure::broken("the target answers something else")),
        }
    }

    /// Counts a key as refused: once, with the first reason, however many of its requests are left out or refused.
    fn refuse(&mut self, batch: &Batch, key: u32, reason: &str) {
        if self.refused.insert(key) {
            self.tally.refuse(u64::from(batch.database), batch.name(key), reason);
        }
    }

    /// What the reply to request `at` says: after how many milliseconds it has to be sent again, if so.
    ///
    /// # Errors
    /// The target takes nothing more, or nobody knows whether the request was done.
    fn take(&mut self, batch: &Batch, at: usize, reply: &Reply, may_be_done: bool) -> Result<Option<u64>> {
        let Some(error) = reply.error() else { return Ok(None) };
        match judge(error, may_be_done) {
            Verdict::Fine => {}
            Verdict::Again(wait_ms) => return Ok(Some(wait_ms)),
            Verdict::Unclear => return Err(Failure::broken(error)),
            Verdict::Refused => self.refuse(batch, batch.owners[at], error),
            Verdict::End => return Err(Failure::ended(error)),
        }
        Ok(None)
    }
}
