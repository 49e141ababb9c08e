//! One connection that writes batches, whatever happens to it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Batch, Target, select};
use crate::failure::{Failure, Remedy, Result};
use crate::resp::{Connection, Reply, Verdict, judge};
use crate::tally::Tally;
use crate::within::pause;

/// Times that the target may break off one batch.
const BREAKS_MAX: u32 = 20;

/// See the module.
pub(super) struct Lane {
    target: Target,
    tally: Arc<Tally>,
    /// A connection, and the database that is chosen on it.
    connection: Option<(Connection, u8)>,
    /// What the server calls the connection that was opened last.
    id: Option<i64>,
    /// Keys of the batch at hand of which something was refused.
    refused: BTreeSet<u32>,
}

impl Lane {
    /// Not connected yet.
    pub(super) fn new(target: Target, tally: Arc<Tally>) -> Self {
        Self { target, tally, connection: None, id: None, refused: BTreeSet::new() }
    }

    /// Writes `batch`. When this is done, everything in it is in the target, or counted as refused.
    pub(super) async fn write(&mut self, batch: &Batch) -> Result {
        // How many requests are done for good, and whether those behind them may have been done.
        let (mut done, mut may_be_done, mut breaks) = (0, false, 0);
        self.refused.clear();
        while done < batch.requests.len() {
            match self.try_from(batch, &mut done, may_be_done).await {
                Ok(None) => {}
                Ok(Some(wait_ms)) => {
                    may_be_done = true;
                    pause(&self.target.clock, wait_ms).await;
                }
                Err(failure) if failure.remedy == Remedy::Reconnect && breaks < BREAKS_MAX => {
                    self.connection = None;
                    may_be_done = true;
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

    /// A new connection. What the one before it has sent is not done any more: that would be behind what is sent now.
    async fn connect(&mut self) -> Result<Connection> {
        let mut connection = self.target.connect_again().await?;
        if let Some(id) = self.id.take() {
            // Nearly always it is gone already, and none is killed.
            connection.ask(&["CLIENT", "KILL", "ID", &id.to_string()]).await?;
        }
        match connection.ask(&["CLIENT", "ID"]).await? {
            Reply::Number(id) => self.id = Some(id),
            _ => return Err(Failure::new("CLIENT ID is answered with something else")),
        }
        Ok(connection)
    }

    /// Sends what is not `done`. Gives after how many milliseconds to go on, where the target asks for time.
    async fn try_from(&mut self, batch: &Batch, done: &mut usize, may_be_done: bool) -> Result<Option<u64>> {
        let (mut connection, mut database) = match self.connection.take() {
            Some(open) => open,
            None => (self.connect().await?, 0),
        };
        if database != batch.database {
            select(&mut connection, batch.database).await?;
            database = batch.database;
        }
        let replies = connection.exchange(&batch.requests, *done).await?;
        self.connection = Some((connection, database));
        let from = *done;
        for (at, reply) in replies.iter().enumerate() {
            let Some(error) = reply.error() else { continue };
            match judge(error, may_be_done) {
                Verdict::Fine => {}
                // Those behind it are sent again with it, in order.
                Verdict::Again(wait_ms) => {
                    *done = from + at;
                    return Ok(Some(wait_ms));
                }
                Verdict::Refused => {
                    self.tally.refuse(u64::from(batch.database), batch.key_of(from + at), error);
                    self.refused.extend(batch.owners.get(from + at));
                }
                Verdict::End => return Err(Failure::new(format!("the target takes nothing more: {error}"))),
            }
        }
        *done = batch.requests.len();
        Ok(None)
    }
}
