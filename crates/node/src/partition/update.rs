//! Read-modify-write: atomic on its keys, holding no thread while it waits.

use std::sync::Arc;

use parking_lot::MutexGuard;
use weir_io::Result;
use weir_log::SyncMode;
use weir_lsm::{Found, Lookup};
use weir_model::Batch;

use super::expired::is_mortal;
use super::latch::Latches;
use super::{Commit, Partition, Record};

/// Lets the latched keys go, whether the update ended, failed or was dropped.
struct Latched<'a> {
    partition: &'a Partition,
    keys: &'a [&'a [u8]],
}

impl Drop for Latched<'_> {
    fn drop(&mut self) {
        self.partition.order.lock().remove(self.keys);
        self.partition.progress.notify();
    }
}

/// How far an update came without waiting.
enum Attempt<R> {
    Done(R, Option<Commit>),
    /// Some key is latched by another update.
    Busy,
    /// The keys are latched now, and these reads are under way.
    Reading(Vec<Lookup>),
}

impl Partition {
    /// Reads `keys`, lets `change` decide on their living records (in the same order) and applies the batch that it fills, with no
    /// other write to these keys in between. `change` may only write to `keys`. There is no commit to wait for where it left the
    /// batch empty and saw nothing that is still on its way.
    ///
    /// # Errors
    /// As [`Partition::write`] and [`Partition::get`].
    pub async fn update<R>(
        self: &Arc<Self>,
        keys: &[&[u8]],
        change: impl FnOnce(&[Option<Record>], &mut Batch) -> R,
    ) -> Result<(R, Option<Commit>)> {
        self.try_update(keys, Batch::new(), &mut Some(change)).await
    }

    /// As [`Partition::update`], with the empty `batch` to fill. After the error `Closed` the `change` is still there: it has not been
    /// asked.
    ///
    /// # Errors
    /// As [`Partition::update`].
    pub async fn try_update<R, F>(
        self: &Arc<Self>,
        keys: &[&[u8]],
        mut batch: Batch,
        change: &mut Option<F>,
    ) -> Result<(R, Option<Commit>)>
    where
        F: FnOnce(&[Option<Record>], &mut Batch) -> R,
    {
        let key_bytes = keys.iter().map(|key| key.len()).sum();
        if self.must_wait() {
            self.wait_out_stall(key_bytes).await?;
        }
        let room = self.room(key_bytes).await?;
        let outcome = self.decided(keys, &mut batch, change).await?;
        drop(room);
        if outcome.1.is_some() {
            self.pay_for(batch.as_bytes().len().saturating_sub(key_bytes)).await;
        }
        Ok(outcome)
    }

    /// Pays for what an update wrote beyond its keys, which nobody knew before it was decided: before its writer is answered and comes
    /// again. So much more than the write memory holds may be taken: what all writers change at the same moment.
    async fn pay_for(self: &Arc<Self>, bytes: usize) {
        if self.must_wait() {
            self.take_turn(bytes).await;
        }
        if let Err(error) = self.room(bytes).await {
            // Waiting has no end in sight; the update is done all the same, and the next one will be refused.
            tracing::debug!(owner = ?self.owner, %error, "no room for what an update has written");
        }
    }

    async fn decided<R, F>(
        self: &Arc<Self>,
        keys: &[&[u8]],
        batch: &mut Batch,
        change: &mut Option<F>,
    ) -> Result<(R, Option<Commit>)>
    where
        F: FnOnce(&[Option<Record>], &mut Batch) -> R,
    {
        let lookups = loop {
            match self.attempt(keys, batch, change)? {
                Attempt::Done(answer, commit) => return Ok((answer, commit)),
                Attempt::Reading(lookups) => break lookups,
                Attempt::Busy => {
                    let free = || !self.order.lock().any(keys.iter().copied());
                    self.progress.wait(|| free().then_some(())).await;
                }
            }
        };
        let latched = Latched { partition: self, keys };
        let mut found = Vec::with_capacity(lookups.len());
        for lookup in lookups {
            found.push(self.timed(lookup).await?);
        }
        let outcome = self.decide(keys, found, batch, change, self.order.lock());
        drop(latched);
        outcome
    }

    /// The part inside the order lock: all of it, if the reads are in memory.
    fn attempt<R, F>(self: &Arc<Self>, keys: &[&[u8]], batch: &mut Batch, change: &mut Option<F>) -> Result<Attempt<R>>
    where
        F: FnOnce(&[Option<Record>], &mut Batch) -> R,
    {
        let mut order = self.order.lock();
        if order.any(keys.iter().copied()) {
            return Ok(Attempt::Busy);
        }
        let mut lookups: Vec<Lookup> = keys.iter().map(|key| self.tree.get_latest(key)).collect();
        if lookups.iter().all(|lookup| matches!(lookup, Lookup::Ready(_))) {
            let found = lookups.iter_mut().map(taken).collect::<Result<Vec<_>>>()?;
            let (answer, commit) = self.decide(keys, found, batch, change, order)?;
            return Ok(Attempt::Done(answer, commit));
        }
        order.insert(keys);
        Ok(Attempt::Reading(lookups))
    }

    fn decide<R, F>(
        self: &Arc<Self>,
        keys: &[&[u8]],
        found: Vec<Option<Found>>,
        batch: &mut Batch,
        change: &mut Option<F>,
        order: MutexGuard<'_, Latches>,
    ) -> Result<(R, Option<Commit>)>
    where
        F: FnOnce(&[Option<Record>], &mut Batch) -> R,
    {
        self.refuse_if_closing()?;
        let newest_seen = found.iter().flatten().map(|found| found.seq).max().unwrap_or(0);
        let mut mortal = Vec::new();
        if found.iter().any(|found| is_mortal(found.as_ref())) {
            mortal.extend(found.iter().map(|found| is_mortal(found.as_ref())));
        }
        let records: Vec<Option<Record>> = found.into_iter().map(|found| self.read(found)).collect();
        let change = change.take().expect("an update is decided once");
        let answer = change(&records, batch);
        if batch.is_empty() {
            // The answer tells of changes that a lost machine could still take back: it waits for their commit.
            let unpublished = self.sync != SyncMode::None && newest_seen > self.tree.published();
            let seen = unpublished.then(|| Commit::new(self, self.log.last(), self.tree.applied_seq()));
            let expired = |(mortal, record): (&bool, &Option<Record>)| *mortal && record.is_none();
            if mortal.iter().zip(&records).any(expired) && self.may_bury() {
                let mut burial = Batch::new();
                let keys = keys.iter().zip(mortal.iter().zip(&records)).filter(|(_, seen)| expired(*seen));
                keys.for_each(|(key, _)| burial.delete(key));
                self.bury_in_order(order, &burial);
            }
            return Ok((answer, seen));
        }
        let commit = self.write_in_order(order, batch)?;
        Ok((answer, Some(commit)))
    }
}

/// The answer of a lookup that is there.
fn taken(lookup: &mut Lookup) -> Result<Option<Found>> {
    match lookup {
        Lookup::Ready(answer) => answer.take().expect("looked at once"),
        Lookup::Pending(_) => unreachable!("every lookup was ready"),
    }
}
