//! One connection that writes batches, and is opened again when it breaks.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Batch, Target, select};
use crate::failure::{Failure, Remedy, Result};
use crate::resp::{Connection, Reply, Requests, Verdict, judge};
use crate::tally::Tally;
use crate::within::pause;

/// How often the connection may break during one batch.
const BREAKS_MAX: u32 = 20;

/// A lane: writes its batches one after the other.
pub(super) struct Lane {
    target: Target,
    tally: Arc<Tally>,
    /// A connection, and the database that is chosen on it.
    connection: Option<(Connection, u8)>,
    /// The server's id of the connection that was opened last.
    id: Option<i64>,
    /// Keys of the current batch of which a request was refused.
    refused: BTreeSet<u32>,
}

impl Lane {
    /// A lane that is not connected yet.
    pub(super) fn new(target: Target, tally: Arc<Tally>) -> Self {
        Self { target, tally, connection: None, id: None, refused: BTreeSet::new() }
    }

    /// Writes `batch`. When this is done, everything in it is in the target, or counted as refused.
    pub(super) async fn write(&mut self, batch: &Batch) -> Result {
        let (mut progress, mut breaks) = (Progress::default(), 0);
        self.refused.clear();
        while progress.done < batch.requests.len() {
            match self.try_next(batch, &mut progress).await {
                Ok(None) => {}
                Ok(Some(wait_ms)) => {
                    progress.may_be_done = true;
                    pause(&self.target.clock, wait_ms).await;
                }
                Err(failure) if failure.remedy == Remedy::Reconnect && breaks < BREAKS_MAX => {
                    self.connection = None;
                    progress.may_be_done = true;
                    breaks += 1;
                    self.tally.note(format!("the target is away: {failure}"));
                    pause(&self.target.clock, 100).await;
                }
                Err(failure) => return Err(failure),
            }
        }
        let taken = batch.finished.iter().filter(|key| !self.refused.contains(key)).count();
        self.tally.keys.fetch_add(taken as u64, Ordering::Relaxed);
        Ok(())
    }

    /// A new connection. Requests that the old connection has sent are not done any more: they might be done after the
    /// requests that are sent now.
    async fn connect(&mut self) -> Result<Connection> {
        let mut connection = self.target.connect_again().await?;
        if let Some(id) = self.id.take() {
            // Nearly always the old connection is gone already, and none is killed.
            connection.ask(&["CLIENT", "KILL", "ID", &id.to_string()]).await?;
        }
        match connection.ask(&["CLIENT", "ID"]).await? {
            Reply::Number(id) => self.id = Some(id),
            _ => return Err(Failure::new("CLIENT ID is answered with something else")),
        }
        Ok(connection)
    }

    /// Sends some of the requests that are not done. If the target asks for time, gives after how many milliseconds to
    /// go on.
    async fn try_next(&mut self, batch: &Batch, progress: &mut Progress) -> Result<Option<u64>> {
        let (mut connection, mut database) = match self.connection.take() {
            Some(open) => open,
            None => (self.connect().await?, 0),
        };
        if database != batch.database {
            select(&mut connection, batch.database).await?;
            database = batch.database;
        }
        let from = progress.done;
        let of_key = batch.of_same_key(from);
        let outcome = match (of_key.len(), progress.one_by_one_until > from) {
            (_, true) => self.try_pipelined(&mut connection, batch, from..from + 1, progress).await?,
            (1, _) => self.try_pipelined(&mut connection, batch, batch.of_single_requests(from), progress).await?,
            _ => self.try_as_one(&mut connection, batch, of_key, progress).await?,
        };
        self.connection = Some((connection, database));
        Ok(outcome)
    }

    /// Sends requests of which no two are of the same key. The target may put off one of them and do those behind it:
    /// they are sent again with it.
    async fn try_pipelined(
        &mut self,
        connection: &mut Connection,
        batch: &Batch,
        range: Range<usize>,
        progress: &mut Progress,
    ) -> Result<Option<u64>> {
        let mut requests = Requests::default();
        requests.copy(&batch.requests, range.clone());
        let replies = connection.exchange(&requests, 0).await?;
        for (at, reply) in range.clone().zip(&replies) {
            if let Some(wait_ms) = self.take(batch, at, reply, progress.may_be_done)? {
                progress.done = at;
                return Ok(Some(wait_ms));
            }
        }
        progress.done = range.end;
        Ok(None)
    }

    /// Sends requests of one key as a transaction: either the target does all of them, or it puts all of them off. In a
    /// pipeline it could put off one and do the next, and values of a list or a stream would be lost or out of order.
    async fn try_as_one(
        &mut self,
        connection: &mut Connection,
        batch: &Batch,
        range: Range<usize>,
        progress: &mut Progress,
    ) -> Result<Option<u64>> {
        let mut requests = Requests::default();
        requests.push(&["MULTI"]);
        requests.copy(&batch.requests, range.clone());
        requests.push(&["EXEC"]);
        let mut replies = connection.exchange(&requests, 0).await?;
        let answer = replies.pop();
        // Nothing was done where a command was not queued.
        let unqueued = replies.iter().find_map(Reply::error);
        match (unqueued, answer) {
            (None, Some(Reply::Array(Some(answers)))) if answers.len() == range.len() => {
                for (at, answer) in range.clone().zip(&answers) {
                    if let Some(wait_ms) = self.take(batch, at, answer, progress.may_be_done)? {
                        return Ok(Some(wait_ms));
                    }
                }
                progress.done = range.end;
                Ok(None)
            }
            (unqueued, Some(Reply::Error(error))) => {
                if let Verdict::Again(wait_ms) = judge(unqueued.unwrap_or(&error), progress.may_be_done) {
                    return Ok(Some(wait_ms));
                }
                // The transaction is too large for the target, or the login may not use transactions, or one command is
                // not accepted. One by one, the target says which.
                progress.one_by_one_until = range.end;
                Ok(None)
            }
            _ => Err(Failure::broken("the target answers something else")),
        }
    }

    /// What the reply to request `at` says: after how many milliseconds it has to be sent again, if so.
    fn take(&mut self, batch: &Batch, at: usize, reply: &Reply, may_be_done: bool) -> Result<Option<u64>> {
        let Some(error) = reply.error() else { return Ok(None) };
        match judge(error, may_be_done) {
            Verdict::Fine => {}
            Verdict::Again(wait_ms) => return Ok(Some(wait_ms)),
            Verdict::Refused => {
                self.tally.refuse(u64::from(batch.database), batch.key_of(at), error);
                self.refused.extend(batch.owners.get(at));
            }
            Verdict::End => return Err(Failure::new(format!("the target takes nothing more: {error}"))),
        }
        Ok(None)
    }
}

/// How far a batch has come.
#[derive(Default)]
struct Progress {
    /// The number of requests that are done for good.
    done: usize,
    /// Whether the requests behind these may have been done, too.
    may_be_done: bool,
    /// Requests before this one are sent one by one.
    one_by_one_until: usize,
}
