//! A member of a shared log, as a log of its own.

use std::sync::Arc;
use std::task::{Context, Poll};

use weir_io::{BoxFuture, Error, ErrorKind, Result};
use weir_model::LogIndex;

use super::carried::Carrier;
use super::members::{Appended, Member};
use super::tag::{MemberId, RecordTag, TAG_BYTES};
use super::{FRONT_BYTES, Shared};
use crate::record::PAYLOAD_BYTES_MAX;
use crate::stats::LogStats;
use crate::write_ahead_log::{OutsideSync, Waiter, WriteAheadLog};

/// The log of one member of a [`SharedLog`](super::SharedLog); its indexes are the member's own. Once all clones are
/// dropped the member can be opened again, and is given the records back that it had not flushed.
#[derive(Clone)]
pub struct MemberLog(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
    member: MemberId,
    identity: u64,
    /// Distinguishes this opening of the member from others.
    number: u64,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.members.lock().release((self.member, Some(self.identity)), self.number);
    }
}

impl MemberLog {
    pub(super) fn new(shared: Arc<Shared>, (member, identity): Carrier, number: u64) -> Self {
        Self(Arc::new(Handle { shared, member, identity, number }))
    }

    fn carrier(&self) -> Carrier {
        (self.0.member, self.0.identity)
    }

    /// The number of the member.
    pub fn member(&self) -> MemberId {
        self.0.member
    }

    /// Calls `then` with the member, which this handle has open.
    pub(super) fn held<T>(&self, then: impl FnOnce(&mut Member) -> T) -> Result<T> {
        let Handle { shared, member, identity, number } = &*self.0;
        match shared.members.lock().held((*member, Some(*identity)), *number) {
            Some(held) => Ok(then(held)),
            None => Err(self.error(ErrorKind::Closed, "use", "it was dropped, or opened again")),
        }
    }

    fn error(&self, kind: ErrorKind, action: &'static str, message: &str) -> Error {
        Error::new(kind, action, &self.0.shared.dir, format!("member {}: {message}", self.0.member))
    }

    /// Whether the log was told to refuse this member's records, or has failed.
    fn is_fenced(&self) -> bool {
        self.failure().is_some()
    }

    /// The place up to which the log has to be durable so that this member is.
    fn last_unflushed(&self) -> Result<LogIndex> {
        self.held(|held| held.unflushed.last_place().unwrap_or(0))
    }

    /// Removes carried logs that are in tables up to `persisted`, and the segments that nobody needs any more. Each is
    /// tried even if the other fails.
    async fn give_back(&self, persisted: LogIndex) -> Result<()> {
        let truncated = self.0.shared.truncate().await;
        self.0.shared.drop_carried(self.carrier(), persisted).await.and(truncated)
    }

    async fn make_durable(&self) -> Result<()> {
        // Records in doubt become durable only by a flush.
        if let Some(fence) = self.held(|held| held.in_doubt.and(held.fence.clone()))? {
            return Err(fence);
        }
        let (place, log) = (self.last_unflushed()?, &self.0.shared.log);
        if log.progress().durable >= place {
            return Ok(());
        }
        // The lost records may all be others', appended meanwhile.
        log.sync().await.or_else(|error| if log.progress().durable >= place { Ok(()) } else { Err(error) })
    }

    async fn close_member(&self) -> Result<()> {
        loop {
            self.make_durable().await?;
            let closed = self.error(ErrorKind::Invalid, "append to", "its log is closed");
            let log = &self.0.shared.log;
            let outcome = self.held(|held| {
                let durable = log.progress().durable;
                if held.unflushed.last_place().is_some_and(|place| place > durable) {
                    // Another record was appended meanwhile.
                    return None;
                }
                if let Some(fence) = &held.fence {
                    return Some(Err(fence.clone()));
                }
                (held.fence, held.is_closed) = (Some(closed), true);
                Some(Ok(()))
            })?;
            if let Some(outcome) = outcome {
                return outcome;
            }
        }
    }
}

impl WriteAheadLog for MemberLog {
    fn append(&self, payload: &[u8]) -> Result<LogIndex> {
        if payload.len() > PAYLOAD_BYTES_MAX - TAG_BYTES {
            let message = format!(
                "the record has {} bytes, and at most {} are possible",
                payload.len(),
                PAYLOAD_BYTES_MAX - TAG_BYTES
            );
            return Err(self.error(ErrorKind::Invalid, "append to", &message));
        }
        let Handle { shared, member, identity, .. } = &*self.0;
        self.held(|held| {
            if let Some(fence) = &held.fence {
                return Err(fence.clone());
            }
            let index = held.last + 1;
            let place = shared.log.append_tagged(&RecordTag::encode(*member, *identity, index), payload)?;
            let (length, bytes) = (payload.len() as u64, FRONT_BYTES + payload.len() as u64);
            held.last = index;
            held.unflushed.push(index, place, bytes);
            held.appended.records += 1;
            held.appended.payload_bytes += length;
            held.appended.bytes += bytes;
            Ok(index)
        })?
    }

    fn poll_commit(&self, index: LogIndex, waiter: &mut Waiter, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let log = &self.0.shared.log;
        let place = self.held(|held| match &held.fence {
            Some(fence) if held.is_in_doubt(index) => Err(fence.clone()),
            _ => Ok(held.unflushed.place_of(index)),
        });
        match place.flatten() {
            Ok(Some(place)) => log.poll_commit(place, waiter, cx),
            // The record is in tables, or was carried.
            Ok(None) => {
                log.forget(waiter);
                Poll::Ready(Ok(()))
            }
            Err(error) => {
                log.forget(waiter);
                Poll::Ready(Err(error))
            }
        }
    }

    fn forget(&self, waiter: &mut Waiter) {
        self.0.shared.log.forget(waiter);
    }

    fn sync(&self) -> BoxFuture<Result<()>> {
        let log = self.clone();
        Box::pin(async move { log.make_durable().await })
    }

    fn begin_outside_sync(&self) -> Option<Box<dyn OutsideSync>> {
        if self.is_durable() { None } else { self.0.shared.log.begin_outside_sync() }
    }

    fn is_durable(&self) -> bool {
        let log = &self.0.shared.log;
        self.last_unflushed().map_or(true, |place| log.progress().durable >= place)
    }

    fn wants_maintenance(&self) -> bool {
        self.0.shared.log.wants_maintenance() || self.0.shared.is_claim_due()
    }

    fn maintain(&self) -> BoxFuture<Result<()>> {
        let log = self.clone();
        Box::pin(async move { log.0.shared.maintain().await })
    }

    /// Whether any record of this member would be given back: then its segments may go at any time, when others flush.
    fn would_truncate(&self, persisted: LogIndex) -> bool {
        self.0.shared.is_carried_through(self.carrier(), persisted)
            || self
                .held(|held| held.unflushed.first_index())
                .is_ok_and(|first| first.is_some_and(|first| first <= persisted))
    }

    fn truncate(&self, persisted: LogIndex) -> BoxFuture<Result<()>> {
        let log = self.clone();
        Box::pin(async move {
            log.held(|held| held.persist(persisted))?;
            log.give_back(persisted).await
        })
    }

    fn refuse(&self, error: Error) {
        // A member that is gone accepts nothing anyway.
        let _gone = self.held(|held| held.fence.get_or_insert(error).clone());
    }

    fn replace(&self, persisted: LogIndex) -> BoxFuture<Result<()>> {
        let log = self.clone();
        Box::pin(async move {
            if !log.is_fenced() {
                return Ok(());
            }
            let last = log.last();
            if persisted < last {
                let message = format!("record {last} is not persisted yet (only records up to {persisted} are)");
                return Err(log.error(ErrorKind::Invalid, "replace the log of", &message));
            }
            log.held(|held| held.persist(persisted))?;
            let shared = &log.0.shared;
            if shared.log.failure().is_some() {
                shared.replace().await?;
            }
            log.held(|held| {
                held.fence = None;
                held.is_closed = false;
            })?;
            // The member takes records again, even if this fails: the next truncation tries it again.
            let _left_for_the_next_truncation = shared.drop_carried(log.carrier(), persisted).await;
            Ok(())
        })
    }

    fn close(&self) -> BoxFuture<Result<()>> {
        let log = self.clone();
        Box::pin(async move {
            let closed = log.close_member().await;
            if let Err(error) = &closed {
                // The caller of `close` is done with the member even if closing failed. Otherwise the member could not
                // be opened again for as long as somebody, for example a long read, holds on to this handle.
                let _gone = log.held(|held| {
                    held.fence.get_or_insert_with(|| error.clone());
                    held.is_closed = true;
                });
            }
            closed
        })
    }

    fn remove(&self, persisted: LogIndex) -> BoxFuture<Result<()>> {
        let log = self.clone();
        Box::pin(async move {
            let last = log.last();
            if !log.is_fenced() || persisted < last {
                let message = format!(
                    "it still takes records, or record {last} is not persisted yet (only records up to {persisted} are)"
                );
                return Err(log.error(ErrorKind::Invalid, "remove the log of", &message));
            }
            log.held(|held| held.persist(persisted))?;
            log.give_back(persisted).await
        })
    }

    fn failure(&self) -> Option<Error> {
        match self.held(|held| held.fence.clone()) {
            Ok(fence) => fence.or_else(|| self.0.shared.log.failure()),
            Err(gone) => Some(gone),
        }
    }

    fn last(&self) -> LogIndex {
        self.held(|held| held.last).unwrap_or(0)
    }

    /// The counters of this member's records. Writes, syncs and segments are shared by all members, and not counted
    /// here.
    fn stats(&self) -> LogStats {
        let log = &self.0.shared.log;
        let of = |held: &mut Member| {
            let progress = log.progress();
            // Records that were dropped from the runs are in tables, or were carried.
            let kept = held.unflushed.first_index().or(held.in_doubt);
            let flushed = kept.map_or(held.last, |first| first - 1);
            let up_to = |place| held.unflushed.index_at(place).unwrap_or(flushed);
            let Appended { records, payload_bytes, bytes } = held.appended;
            LogStats {
                records,
                payload_bytes,
                bytes_written: bytes,
                last: held.last,
                committed: up_to(progress.committed),
                durable: up_to(progress.durable),
                live_bytes: held.unflushed.bytes(),
                ..LogStats::default()
            }
        };
        let failures = log.stats().failures;
        self.held(of).map_or_else(|_| LogStats::default(), |stats| LogStats { failures, ..stats })
    }
}
