//! Several commands that run as one.
//!
//! They have many rows, and would read them one after the other. So they are first stopped with nothing latched, the
//! rows that they are known to read are read into memory all at a time, and they begin again.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use weir_command::{TURN_KEYS, Transaction};
use weir_io::{Result, Yield};
use weir_model::StoredKey;

use super::super::{Commit, Partition};
use super::latched::Latched;
use super::rows::LockedRows;
use super::{Attempt, Done, Latching, ToLatch};

impl Partition {
    /// Runs `transaction` on its rows, with no other write to them in between, and applies its changes as one batch.
    /// Otherwise as [`Partition::execute`].
    ///
    /// # Errors
    /// As [`Partition::execute`], and those of the transaction.
    pub async fn transact(self: &Arc<Self>, transaction: &mut dyn Transaction) -> Result<Option<Commit>> {
        let keys = transaction.rows();
        let key_bytes = keys.iter().map(|key| key.len()).sum();
        // Boxed, for it is large: every connection has room for what it may wait for, and most wait for nothing.
        let transacted = Box::pin(async {
            let done = self.transacted(transaction, keys).await;
            // Its changes have their place. If it still waits for room, it holds nothing for them.
            transaction.ended();
            done
        });
        Ok(self.admitted(key_bytes, transacted).await?.commit)
    }

    async fn transacted(self: &Arc<Self>, transaction: &mut dyn Transaction, keys: Vec<StoredKey>) -> Result<Done<()>> {
        let yields = transaction.yields();
        if keys.len() > TURN_KEYS {
            return self.transacted_latched(transaction, keys, yields).await;
        }
        let keys_to_latch = || keys.clone();
        if transaction.may_begin_again() {
            {
                let rows = LockedRows::new(self);
                let mut run = pin!(rows.decided_by(transaction));
                match self.attempted(&rows, &keys_to_latch, run.as_mut(), Latching::UnlessMissing).await? {
                    Attempt::Done(done) => return Ok(done),
                    Attempt::Waits(latched) if !rows.misses() => {
                        return self.finished(&rows, run, latched, yields).await;
                    }
                    Attempt::Waits(_) => rows.forget_reads(),
                }
            }
            transaction.let_go();
            self.read_ahead(&keys, &transaction.members(), yields).await;
        }
        let rows = LockedRows::new(self);
        let run = pin!(rows.decided_by(transaction));
        self.decided(&rows, &ToLatch { count: keys.len(), rows: &keys_to_latch, yields }, run).await
    }

    /// Runs `transaction`, which has many rows, `keys`, when all of them are latched.
    async fn transacted_latched(
        self: &Arc<Self>,
        transaction: &mut dyn Transaction,
        keys: Vec<StoredKey>,
        yields: Yield,
    ) -> Result<Done<()>> {
        if transaction.may_begin_again() {
            let misses = self.would_miss(transaction).await;
            transaction.let_go();
            if misses {
                self.read_ahead(&keys, &transaction.members(), yields).await;
            }
        }
        let latched = Latched::in_turns(self, keys, yields).await;
        let rows = LockedRows::new(self);
        let run = pin!(rows.decided_by(transaction));
        self.finished(&rows, run, latched, yields).await
    }

    /// Whether `transaction` asks for something that is not in memory before it has to wait for the first time. That
    /// run counts for nothing, and its rows are not latched. It has the order lock: between two of its reads nobody may
    /// change a row, or the row would look damaged.
    async fn would_miss(self: &Arc<Self>, transaction: &mut dyn Transaction) -> bool {
        let rows = LockedRows::new(self);
        let mut run = pin!(rows.decided_by(transaction));
        poll_fn(|task| {
            let _order = self.order.lock();
            rows.is_in_order.store(true, Ordering::Relaxed);
            let _ = run.as_mut().poll(task);
            Poll::Ready(())
        })
        .await;
        rows.forget_reads();
        rows.misses()
    }
}
