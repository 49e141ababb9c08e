//! Expired keys that somebody has asked for are deleted. The rule of expiry, in one place:
//!
//! - A key is gone while the machine's wall clock shows its deadline or more. Reads, scans and merges judge by what the
//!   clock shows at that moment.
//! - A clock that is set back gives keys their time again, except for keys that are gone for good: those that a merge
//!   has met after their deadline, and those that somebody has asked for by key after their deadline. For the latter,
//!   the read that finds the key gone deletes it, as `DEL` would.
//!
//! While the tenant's expiry is [paused](crate::Expirations::pause_at), that clock stands still for its partitions
//! ([`crate::tenant_clock`]).
//!
//! A lower bound for the clock would be simpler, and worse: after an hour in which the clock was ten years ahead, every
//! key that is given a deadline would be expired from the start for ten years.
//!
//! The deletion waits for nothing and nobody waits for it. It is as durable as a write that was answered, at the latest
//! when the log is synced next. Where writes have to wait or fail (a stall, a full disk, the last of the write memory),
//! the deletion is left out: a read never waits or fails for it.

use std::iter::once;
use std::sync::Arc;

use parking_lot::MutexGuard;
use weir_command::events::{Classes, KeyEvent};
use weir_io::plant::{Plant, is_planted};
use weir_model::engine::{Found, Lookup};
use weir_model::parts::is_part;
use weir_model::{Batch, Row};

use super::covers::Elsewhere;
use super::latch::Latches;
use super::write::{Events, WriteKind};
use super::{Background, Partition};

/// Keys that are looked at and deleted under the order lock at once: tens of microseconds.
const BURIED_AT_ONCE: usize = 64;
/// A key that could not be read or deleted is looked at again after this time, if somebody is to be told of it.
const AFTER_ERROR_MS: u64 = 1_000;

/// Whether this is a value, or the head of a row, that may expire.
#[inline]
pub(super) fn is_mortal(found: Option<&Found>) -> bool {
    found.is_some_and(|found| found.kind.is_value() && found.expire_at_ms != 0)
}

impl Partition {
    /// Deletes keys that a read has just found expired.
    #[cold]
    pub(super) fn bury(self: &Arc<Self>, expired: &[&[u8]]) {
        if !self.may_bury() {
            // Not now. If somebody is to be told, it is tried again.
            expired.iter().for_each(|key| self.look_again(key, None));
            return;
        }
        let order = self.order.lock();
        let (mut batch, mut rows, mut unsure) = (Batch::new(), 0, Vec::new());
        // Somebody may have written them meanwhile, or be about to write them.
        for &key in expired {
            if order.any(once(key)) {
                self.look_again(key, None);
                continue;
            }
            match self.engine.get_latest(key) {
                Lookup::Ready(Some(Ok(Some(found)))) if is_mortal(Some(&found)) => {
                    if found.is_expired(self.clock.unix_ms()) {
                        // A damaged head is left to the next reader.
                        let Ok(elsewhere) = Elsewhere::found(key, &found) else { continue };
                        elsewhere.bury(&mut batch, key);
                        rows += 1;
                    } else {
                        self.look_again(key, Some(found.expire_at_ms));
                    }
                }
                Lookup::Ready(_) => {}
                Lookup::Pending(_) => unsure.push(key.to_vec()),
            }
        }
        let events = self.expired_events(batch.as_ref().iter().map(|change| change.key()));
        self.bury_in_order(order, &batch, rows, [events, Vec::new()]);
        if let (false, Some(background)) = (unsure.is_empty(), self.background()) {
            self.workers.spawn(async move { bury_after_reading(&background, &unsure).await });
        }
    }

    /// Deletes keys that a job has found expired. Those that it cannot delete now are found again.
    pub(crate) fn bury_found(self: &Arc<Self>, keys: &[Vec<u8>]) {
        for keys in keys.chunks(BURIED_AT_ONCE) {
            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            self.bury(&keys);
        }
    }

    /// Whether nothing speaks against a write that no client has asked for.
    pub(super) fn may_bury(&self) -> bool {
        !is_planted(Plant::ExpiredLeft)
            && !self.witnessed.expirations.are_held(|| self.clock.now())
            && !self.must_wait()
            && !self.memory.is_short()
            && !self.is_closing()
            && self.log.failure().is_none()
    }

    /// The events of `rows` that have expired: one for each row, and none for parts of rows.
    pub(super) fn expired_events<'k>(&self, rows: impl Iterator<Item = &'k [u8]>) -> Vec<KeyEvent> {
        let wants = self.witnessed.wants();
        if !wants.has(Classes::EXPIRED.and(Classes::CHANGED)) {
            return Vec::new();
        }
        rows.filter(|row| !is_part(row)).flat_map(|row| KeyEvent::expired(row, wants)).collect()
    }

    /// Deletes the keys of `batch`, of `rows` rows that have expired in the version that the caller, which holds the
    /// order lock, has just seen, and tells `events`.
    pub(super) fn bury_in_order(
        self: &Arc<Self>,
        order: MutexGuard<'_, Latches>,
        batch: &Batch,
        rows: usize,
        events: Events,
    ) {
        if batch.is_empty() {
            events.into_iter().for_each(|events| self.tell(events));
            return;
        }
        match self.write_in_order(order, batch, events, WriteKind::Burial) {
            Ok(_) => self.witnessed.expirations.count(rows),
            // They are gone by the clock all the same. If somebody is to be told, it is tried again.
            Err(error) => {
                tracing::debug!(owner = ?self.owner, %error, "cannot delete expired rows");
                let again_ms = self.clock.unix_ms().saturating_add(AFTER_ERROR_MS);
                let rows = batch.as_ref().iter().map(|change| change.key()).filter(|key| !is_part(key));
                rows.for_each(|row| self.look_again(row, Some(again_ms)));
            }
        }
    }
}

/// Looks once more at keys that are no longer in memory, in the way of a read-modify-write that changes nothing: that
/// deletes the keys that have expired. If somebody is to be told of a key that cannot be read or deleted now, it is
/// tried again.
async fn bury_after_reading(background: &Background, keys: &[Vec<u8>]) {
    let partition = background.partition();
    for key in keys {
        let deadline = |rows: &[Option<Row>], _: &mut Batch| rows.iter().flatten().find_map(|row| row.expire_at_ms);
        match partition.update(&[key], deadline).await {
            Ok((None, _)) if partition.may_bury() => {}
            Ok((later_ms, _)) => partition.look_again(key, later_ms),
            Err(error) => {
                tracing::debug!(owner = ?partition.owner, %error, "cannot delete an expired row");
                partition.look_again(key, Some(partition.clock.unix_ms().saturating_add(AFTER_ERROR_MS)));
            }
        }
    }
}
