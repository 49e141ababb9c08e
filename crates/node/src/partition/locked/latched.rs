//! The rows that a command has latched.
//!
//! Up to [`TURN_KEYS`] rows are latched together, when the command has begun under the order lock and has to wait. A
//! command of more rows latches them before it begins, and works without the order lock. It latches, and releases,
//! [`TURN_KEYS`] rows under the lock at a time, and others run in between. So nobody waits for the lock, or for the
//! thread, for longer than a turn.
//!
//! **No deadlock.** A command of many rows latches them in their order. While it waits for a row, it has latched only
//! rows in front of that one. All other commands wait for latches while they have none, and a command that has latched
//! all of its rows waits for no latch. Thus everybody who holds what somebody waits for either waits for no latch, or
//! waits for a row further behind. Such a chain ends.
//!
//! **No starvation.** A command of many rows keeps what it has latched while it waits for the next row. So it need not
//! find all of its rows free at the same moment: it waits for each row like a command of this row alone, in a race with
//! the others that wait for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_command::{TURN_KEYS, end_turn};
use weir_io::Yield;
use weir_io::plant::{Plant, is_planted};
use weir_model::StoredKey;

use super::super::Partition;
use super::super::latch::Latches;

/// Rows that are latched for a command, sorted, each once. They are released when this is dropped, whether the command
/// ended, failed or was dropped.
pub(super) struct Latched<'p> {
    partition: &'p Arc<Partition>,
    rows: Vec<Arc<[u8]>>,
    /// Rows that are still to be latched.
    ahead: BTreeSet<Arc<[u8]>>,
}

impl<'p> Latched<'p> {
    /// Latches `keys`, none of which may be latched. `order` is guarded by the order lock, which the caller holds.
    pub(super) fn at_once(partition: &'p Arc<Partition>, keys: &[StoredKey], order: &mut Latches) -> Self {
        let mut rows: Vec<Arc<[u8]>> = keys.iter().map(|key| Arc::from(&key[..])).collect();
        rows.sort_unstable();
        // A key that comes again is latched already.
        rows.retain(|row| order.latch(row));
        Self { partition, rows, ahead: BTreeSet::new() }
    }

    /// Latches `keys` in turns, each as soon as nobody else has it latched.
    pub(super) async fn in_turns(partition: &'p Arc<Partition>, keys: Vec<StoredKey>, yields: Yield) -> Self {
        let mut latched = Self { partition, rows: Vec::new(), ahead: BTreeSet::new() };
        for (index, key) in keys.into_iter().enumerate() {
            end_turn(yields, index).await;
            latched.ahead.insert(Arc::from(&key[..]));
        }
        if is_planted(Plant::RowsNotLatched) {
            latched.ahead.clear();
        }
        // Made here, as nothing is to be allocated under the lock.
        latched.rows.reserve_exact(latched.ahead.len());
        while !latched.ahead.is_empty() {
            yields.now().await;
            partition.progress.wait(|| latched.take()).await;
        }
        latched
    }

    /// Latches the first rows ahead; `None` if somebody else has latched the very first.
    fn take(&mut self) -> Option<()> {
        let before = self.rows.len();
        let mut order = self.partition.order.lock();
        while self.rows.len() < before + TURN_KEYS {
            match self.ahead.pop_first() {
                Some(row) if order.latch(&row) => self.rows.push(row),
                Some(row) => {
                    self.ahead.insert(row);
                    break;
                }
                None => break,
            }
        }
        (self.rows.len() > before).then_some(())
    }

    /// The latched rows, sorted.
    pub(super) fn rows(&self) -> &[Arc<[u8]>] {
        &self.rows
    }

    /// Releases the rows in turns.
    pub(super) async fn release(mut self, yields: Yield) {
        while self.release_some() {
            yields.now().await;
        }
    }

    /// Releases the last rows, and then forgets those ahead; gives whether any are left.
    fn release_some(&mut self) -> bool {
        if self.rows.is_empty() {
            std::iter::from_fn(|| self.ahead.pop_first()).take(TURN_KEYS).for_each(drop);
            return !self.ahead.is_empty();
        }
        let left = self.rows.len().saturating_sub(TURN_KEYS);
        self.partition.order.lock().release(&self.rows[left..]);
        self.partition.progress.notify();
        self.rows.truncate(left);
        left > 0 || !self.ahead.is_empty()
    }
}

impl Drop for Latched<'_> {
    fn drop(&mut self) {
        if !self.release_some() {
            return;
        }
        // A command of many rows has failed, or its client is gone: this thread is not held up by the remaining rows.
        match self.partition.background() {
            Some(background) => {
                let (rows, ahead) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.ahead));
                self.partition.workers.spawn(async move {
                    Latched { partition: background.partition(), rows, ahead }.release(Yield::PLAIN).await;
                });
            }
            None => while self.release_some() {},
        }
    }
}
