//! The sweep: it takes out fields of hashes that have expired, even if nobody asks for them.
//!
//! Whoever writes a hash keeps the agenda, which says which hash has the next field to expire, and when
//! ([`weir_model::parts::fields`]). Once in each round of the control loop, the fields that are due are swept, a few at
//! a time, by commands that write like any other. So the counts in the head are right at any time, also after a crash,
//! and other writes can come in between.
//!
//! Reads do not wait for the sweep: to them, a field is gone by the clock.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_command::FieldSweep;
use weir_io::{ErrorKind, Nanos, Result, yield_now};
use weir_model::engine::Range;
use weir_model::parts::fields::{agenda, agenda_key, agenda_of};

use super::{Background, Partition};

/// Hashes of the agenda that are read at once.
const PAGE_ROWS: usize = 32;

/// Hashes that cannot be swept are tried again this often, in nanoseconds. Damage stays, and each attempt reads
/// everything in front of it.
const AGAIN_AFTER: Nanos = 60_000_000_000;

/// Nothing is on the agenda.
const NEVER: u64 = u64::MAX;

impl Partition {
    /// Something was put on the agenda.
    pub(super) fn fields_due(&self, due_ms: Option<u64>) {
        if let Some(due_ms) = due_ms {
            self.agenda_due_ms.fetch_min(due_ms, Ordering::SeqCst);
        }
    }

    /// Called once in each round: costs a load if nothing is due.
    pub(super) fn look_after_fields(self: &Arc<Self>) {
        let due_ms = self.agenda_due_ms.load(Ordering::SeqCst);
        if due_ms == NEVER || due_ms > self.clock.unix_ms() || !self.may_bury() {
            return;
        }
        if due_ms == 0 && !self.engine.holds_heads() {
            self.agenda_due_ms.compare_exchange(0, NEVER, Ordering::SeqCst, Ordering::SeqCst).ok();
            return;
        }
        if self.is_sweeping.swap(true, Ordering::SeqCst) {
            return;
        }
        match self.background() {
            None => self.is_sweeping.store(false, Ordering::SeqCst),
            Some(background) => self.workers.spawn(async move { sweep_fields(&background).await }),
        }
    }

    /// Sweeps what is due. Nothing is due before `from_ms`. Hashes that cannot be swept are passed over, so that they
    /// do not keep the others from being swept. Gives when the next field is due, and the first time on the agenda of
    /// the hashes that were passed over.
    async fn sweep_due(self: &Arc<Self>, from_ms: u64) -> Result<(u64, u64)> {
        let mut due = self.agenda_page(from_ms).await?;
        let mut passed_ms = NEVER;
        while !due.is_empty() {
            let (now_ms, mut last) = (self.clock.unix_ms(), Vec::new());
            for (first_ms, row) in due {
                if first_ms > now_ms {
                    return Ok((first_ms, passed_ms));
                }
                last = agenda_key(first_ms, &row);
                let mut sweep = FieldSweep::new(&row, first_ms, now_ms);
                loop {
                    if !self.may_bury() {
                        return Ok((first_ms, passed_ms));
                    }
                    // What the sweep has seen need not be durable, and what it has written is as durable as any burial.
                    match self.transact(&mut sweep).await.map(drop) {
                        Ok(()) if sweep.is_done() => break,
                        // There are more. The log first takes what was written, so that no more than that waits there.
                        Ok(()) => {
                            self.publish_all().await;
                            yield_now().await;
                        }
                        // The fields cannot be read, or the head is wrong about them.
                        Err(error) if matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Corruption) => {
                            tracing::debug!(owner = ?self.owner, %error, "cannot remove expired fields of a hash");
                            passed_ms = passed_ms.min(first_ms);
                            break;
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            due = self.agenda_from(Bound::Excluded(last)).await?;
        }
        Ok((NEVER, passed_ms))
    }

    /// The first entries of the agenda from `from_ms` on: the time, and whose row. Entries before that leave tombstones
    /// for a while, which should not be gone through each time.
    pub(super) async fn agenda_page(self: &Arc<Self>, from_ms: u64) -> Result<Vec<(u64, Vec<u8>)>> {
        self.agenda_from(Bound::Included(agenda_key(from_ms, b""))).await
    }

    async fn agenda_from(self: &Arc<Self>, from: Bound<Vec<u8>>) -> Result<Vec<(u64, Vec<u8>)>> {
        let range = Range { from, to: Bound::Excluded(agenda().1), reverse: false };
        let mut scan = self.scan(range).await?;
        scan.expect(PAGE_ROWS);
        let mut page = Vec::new();
        while page.len() < PAGE_ROWS
            && let Some(entry) = scan.next().await?
        {
            page.extend(agenda_of(entry.key).map(|(first_ms, row)| (first_ms, row.to_vec())));
        }
        Ok(page)
    }
}

async fn sweep_fields(background: &Background) {
    let partition = background.partition();
    // Before looking: an entry that is put on the agenda meanwhile is noted after this.
    let from_ms = partition.agenda_due_ms.swap(NEVER, Ordering::SeqCst);
    let (next_ms, passed_ms) = match partition.sweep_due(from_ms).await {
        Ok(swept) => swept,
        Err(error) => {
            tracing::debug!(owner = ?partition.owner, %error, "cannot remove expired fields of hashes");
            // The next round tries again.
            (from_ms, NEVER)
        }
    };
    partition.fields_due(Some(next_ms));
    partition.is_sweeping.store(false, Ordering::SeqCst);
    // One task waits for all: a hash that is passed over meanwhile is tried again together with the others.
    if passed_ms != NEVER && partition.agenda_passed_ms.fetch_min(passed_ms, Ordering::SeqCst) == NEVER {
        partition.pause(AGAIN_AFTER).await;
        partition.fields_due(Some(partition.agenda_passed_ms.swap(NEVER, Ordering::SeqCst)));
    }
}
