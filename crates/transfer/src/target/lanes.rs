//! Several connections that write a snapshot side by side: each key on one of them, so that its parts stay in order.
//!
//! ```text
//!  strings ──► Texts ──sorted──► Batch ─┐     (while these are written, the next ones are gathered)
//!                                       ├──► 4 lanes, each a connection ──► the tenant
//!  parts of other keys ───────► Batch ──┘     (by the hash of the key)
//! ```

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::lane::Lane;
use super::texts::{TEXTS_BYTES_MAX, Texts};
use super::{Batch, Target, Whole};
use crate::failure::{Failure, Result};
use crate::tally::Tally;

/// Number of connections.
const LANES: usize = 4;
/// Batches that wait for each connection, beside the one that it writes.
const WAITING: usize = 2;

/// The connections of a snapshot's import.
pub struct Lanes {
    senders: Vec<mpsc::Sender<Batch>>,
    tasks: Vec<JoinHandle<()>>,
    open: Vec<Batch>,
    /// Strings that are being gathered.
    texts: Texts,
    /// Hands strings that were gathered to the connections, in order, and gives them back: their memory is used again.
    sorting: Option<JoinHandle<Texts>>,
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
        let texts = Texts::new(TEXTS_BYTES_MAX);
        let (open, empty) = (vec![Batch::default(); LANES], Batch::default());
        Self { senders, tasks, open, texts, sorting: None, empty, failed }
    }

    /// The same connections, to a target whose longest value has this many bytes: requests that are too long for it are
    /// left out.
    #[must_use]
    pub fn within(mut self, value_bytes_max: usize) -> Self {
        self.empty = Batch::within(value_bytes_max);
        self.open = vec![self.empty.clone(); LANES];
        self
    }

    /// The same connections, for a source that is read at `rate` bytes a second; `None` = as fast as it goes. The
    /// target shall not get what was read in many seconds all at once.
    #[must_use]
    pub fn at_rate(mut self, rate: Option<u64>) -> Self {
        let second = rate.filter(|&rate| rate > 0).and_then(|rate| usize::try_from(rate).ok());
        self.texts = Texts::new(second.unwrap_or(TEXTS_BYTES_MAX));
        self
    }

    /// Writes a key of `database` with the string `text`, sooner or later.
    ///
    /// # Errors
    /// A connection has failed for good.
    pub async fn set(&mut self, database: u8, whole: &Whole<'_>, text: &[u8]) -> Result {
        if !Texts::fits(whole, text) {
            let batch = self.batch(database, whole.key).await?;
            whole.push_text(batch, text);
            batch.finish();
            return Ok(());
        }
        if !self.texts.takes(database) {
            self.send_texts(database).await?;
        }
        self.texts.push(whole, text);
        Ok(())
    }

    /// Has the strings that were gathered sent; those of `database` are gathered next.
    async fn send_texts(&mut self, database: u8) -> Result {
        if self.texts.is_empty() {
            self.texts.reset(database);
            return Ok(());
        }
        let mut next = self.wait_for_texts().await?.unwrap_or_else(|| Texts::new(self.texts.bytes_max));
        next.reset(database);
        let mut texts = std::mem::replace(&mut self.texts, next);
        let (senders, empty) = (self.senders.clone(), self.empty.clone());
        self.sorting = Some(tokio::spawn(async move {
            texts.sort();
            // Batches that follow one another are written at the same time: they are neighbours, too.
            for (batch, sender) in texts.batches(&empty, LANES).zip(senders.iter().cycle()) {
                if sender.send(batch).await.is_err() {
                    // The connection has told why it failed.
                    break;
                }
            }
            texts
        }));
        Ok(())
    }

    /// Waits until the strings that were gathered before have all been handed to the connections, and gives them back.
    async fn wait_for_texts(&mut self) -> Result<Option<Texts>> {
        let Some(sorting) = &mut self.sorting else { return Ok(None) };
        let texts = sorting.await;
        self.sorting = None;
        let texts = texts.map_err(|_| Failure::new("the strings of the dump could not be put in order"))?;
        if self.failed.lock().is_some() { Err(self.failure()) } else { Ok(Some(texts)) }
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
        if (batch.is_full() || batch.database != database) && !batch.is_empty() {
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
        // If this fails, a connection has told why, and what follows ends as soon as nothing is under way.
        let handed = match self.send_texts(0).await {
            Ok(()) => self.wait_for_texts().await.map(drop),
            failed => failed,
        };
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
            None => handed,
        }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.sorting.iter().for_each(JoinHandle::abort);
    }
}
