//! Several connections that write a snapshot side by side: each key on one of them, so that its parts stay in order.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::lane::Lane;
use super::{Batch, Target};
use crate::failure::{Failure, Result};
use crate::tally::Tally;

/// Number of connections.
const LANES: usize = 4;
/// Batches that wait for each connection, beside the one that it writes.
const WAITING: usize = 2;
/// Bytes at which a batch is sent.
const BATCH_BYTES: usize = 256 << 10;
/// Requests at which a batch is sent.
const BATCH_REQUESTS: usize = 512;

/// The connections of a snapshot's import.
pub struct Lanes {
    senders: Vec<mpsc::Sender<Batch>>,
    tasks: Vec<JoinHandle<()>>,
    open: Vec<Batch>,
    /// How a batch begins.
    empty: Batch,
    failed: Arc<Mutex<Option<Failure>>>,
}

impl Lanes {
    /// Makes the connections to `target`.
    pub fn new(target: &Target, tally: &Arc<Tally>) -> Self {
        let failed = Arc::new(Mutex::new(None));
        let (senders, tasks) = (0..LANES)
            .map(|_| {
                let (sender, mut batches) = mpsc::channel::<Batch>(WAITING);
                let mut lane = Lane::new(target.clone(), Arc::clone(tally));
                let failed = Arc::clone(&failed);
                let task = tokio::spawn(async move {
                    while let Some(batch) = batches.recv().await {
                        if let Err(failure) = lane.write(&batch).await {
                            // It was tried often enough. Another snapshot of the source would not help.
                            failed.lock().get_or_insert(Failure::new(failure.message));
                            return;
                        }
                    }
                });
                (sender, task)
            })
            .unzip();
        Self { senders, tasks, open: vec![Batch::default(); LANES], empty: Batch::default(), failed }
    }

    /// The same connections, to a target whose longest value has this many bytes: requests that are too long for it are
    /// left out.
    #[must_use]
    pub fn within(mut self, value_bytes_max: usize) -> Self {
        self.empty = Batch::within(value_bytes_max);
        self.open = vec![self.empty.clone(); LANES];
        self
    }

    /// The batch for `key` of `database`: it is sent when it is full.
    ///
    /// # Errors
    /// A connection has failed for good.
    pub async fn batch(&mut self, database: u8, key: &[u8]) -> Result<&mut Batch> {
        let lane =
            key.iter().fold(usize::from(database), |hash, &byte| hash.wrapping_mul(0x0100_0193) ^ usize::from(byte))
                % LANES;
        let batch = &self.open[lane];
        let is_full = batch.bytes >= BATCH_BYTES || batch.requests.len() >= BATCH_REQUESTS;
        if (is_full || batch.database != database) && !batch.is_empty() {
            self.send(lane).await?;
        }
        let batch = &mut self.open[lane];
        batch.database = database;
        batch.begin(key);
        Ok(batch)
    }

    async fn send(&mut self, lane: usize) -> Result {
        let batch = std::mem::replace(&mut self.open[lane], self.empty.clone());
        if self.senders[lane].send(batch).await.is_err() {
            return Err(self.failure());
        }
        Ok(())
    }

    fn failure(&self) -> Failure {
        self.failed.lock().clone().unwrap_or_else(|| Failure::new("a connection to the target ended"))
    }

    /// Sends the remaining batches, and waits until the target has everything.
    ///
    /// # Errors
    /// A connection has failed for good.
    pub async fn finish(mut self) -> Result {
        for lane in 0..LANES {
            if !self.open[lane].is_empty() && self.send(lane).await.is_err() {
                // Wait for what the others have sent all the same: none of it may be done after what comes next.
                break;
            }
        }
        self.senders.clear();
        for task in std::mem::take(&mut self.tasks) {
            task.await.map_err(|_| Failure::new("a connection to the target ended"))?;
        }
        match self.failed.lock().take() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
