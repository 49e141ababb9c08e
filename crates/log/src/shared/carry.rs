//! Carrying: copies the unflushed records of a member out of the shared log, and manages the copies. Where the copies
//! are and how they are read back is in [`carried`].

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use futures_util::lock::Mutex as AsyncMutex;
use weir_io::{Class, Error, Op, Result, Tag};
use weir_model::LogIndex;

use super::carried::{self, CarriedLog, Carrier, dir_of_all};
use super::tag::{MemberId, RecordTag};
use super::unflushed::Unflushed;
use super::{MemberOpening, Shared, replay};
use crate::log::Log;
use crate::options::{LogAnchor, LogOptions, SyncMode};
use crate::recover::Recovery;
use crate::write_ahead_log::WriteAheadLog;

/// Bytes written at a time.
const WRITE_BYTES: u64 = 256 << 10;

impl Shared {
    fn log_tag(&self) -> Tag {
        Tag::new(self.options.log.owner, Class::Log)
    }

    /// The lock for carrying records of `member`, for removing carried ones, for dropping the member, and for beginning
    /// to open it: only one of these is done at a time.
    pub(super) fn turn_of(&self, member: MemberId) -> Arc<AsyncMutex<()>> {
        let mut turns = self.turns.lock();
        turns.retain(|_, turn| turn.strong_count() > 0);
        turns.get(&member).and_then(Weak::upgrade).unwrap_or_else(|| {
            let turn = Arc::default();
            turns.insert(member, Arc::downgrade(&turn));
            turn
        })
    }

    /// Whether the member has a carried log whose records are all in tables, if its engine holds everything up to
    /// `persisted`.
    pub(super) fn is_carried_through(&self, carrier: Carrier, persisted: LogIndex) -> bool {
        let logs = self.carried.lock();
        carried::of_member(&logs, carrier.0).any(|log| log.carrier == carrier && log.last <= persisted)
    }

    /// Removes the carried logs of a member whose records are in its tables, which hold everything up to `persisted`.
    pub(super) async fn drop_carried(&self, carrier: Carrier, persisted: LogIndex) -> Result<()> {
        if !self.is_carried_through(carrier, persisted) {
            return Ok(());
        }
        let turn = self.turn_of(carrier.0);
        let _turn = turn.lock().await;
        self.remove_carried(carrier.0, |log| log.carrier == carrier && log.last <= persisted).await
    }

    /// Removes the carried logs of `member` that are `unneeded`. Call it in the member's turn.
    pub(super) async fn remove_carried(
        &self,
        member: MemberId,
        unneeded: impl Fn(&CarriedLog) -> bool + Send,
    ) -> Result<()> {
        let logs: Vec<CarriedLog> = carried::of_member(&self.carried.lock(), member).filter(unneeded).collect();
        for log in logs {
            carried::remove(&self.fs, &self.dir, log, self.log_tag()).await?;
            self.carried.lock().remove(&log);
        }
        Ok(())
    }

    /// Implements [`SharedLog::carry`](super::SharedLog::carry).
    pub(super) async fn carry(&self, member: MemberId) -> Result<()> {
        {
            let turn = self.turn_of(member);
            let _turn = turn.lock().await;
            let keys = self.members.lock().keeping_of(member);
            for (_, identity) in keys {
                let Some(identity) = identity else {
                    return Err(self.invalid(
                        member,
                        "carry",
                        "its records have tags of version 1, and it has not been opened yet",
                    ));
                };
                self.carry_one((member, identity)).await?;
            }
            self.discard_sorted(member).await;
        }
        self.truncate().await
    }

    async fn carry_one(&self, carrier: Carrier) -> Result<()> {
        let key = (carrier.0, Some(carrier.1));
        loop {
            let failed = self.failed();
            if failed.is_some() {
                // Writes in front of the failed one may still succeed, and are promised then.
                self.log.quiet().await;
            }
            let mut unflushed = {
                let mut members = self.members.lock();
                let Some(member) = members.get(key) else { return Ok(()) };
                if member.is_opening {
                    return Err(self.invalid(carrier.0, "carry", "it is being opened"));
                }
                let mut unflushed = member.unflushed.clone();
                unflushed.drop_behind(self.log.progress().committed);
                unflushed
            };
            // Where records are missing because they were in tables, the records on either side are carried separately:
            // only the code that opens the member knows what its tables hold.
            while let Some((first, last)) = unflushed.first_stretch() {
                let mut stretch = unflushed.clone();
                stretch.drop_from(last + 1);
                self.copy(CarriedLog { carrier, first, last }, &stretch).await?;
                unflushed.drop_through(last);
                if let Some(member) = self.members.lock().get(key) {
                    member.unflushed.drop_through(last);
                }
            }
            match self.failed() {
                Some((_, failure)) if failed.is_some_and(|(before, _)| before == self.log.stats().failures) => {
                    if let Some(member) = self.members.lock().get(key) {
                        member.doubt_rest(failure);
                    }
                    return Ok(());
                }
                // The log has failed meanwhile, with more records committed.
                Some(_) => {}
                None => return Ok(()),
            }
        }
    }

    /// Why the log has failed, if it has, and the number of that failure.
    fn failed(&self) -> Option<(u64, Error)> {
        self.log.failure().map(|failure| (self.log.stats().failures, failure))
    }

    /// Copies the `unflushed` records of a member, which must be exactly those of `wanted`, into the carried log
    /// `wanted`, durably.
    async fn copy(&self, wanted: CarriedLog, unflushed: &Unflushed) -> Result<()> {
        let tag = self.log_tag();
        // An earlier attempt may have been made by a process that was killed, and its files may not be on the device
        // although they can be read: none of them is used.
        self.sweep(wanted.carrier).await?;
        let copied = async {
            self.write_copy(wanted, unflushed).await?;
            self.fs.rename(&wanted.temporary_dir(&self.dir), &wanted.dir(&self.dir), tag).await?;
            carried::sync_names(&self.fs, &self.dir, tag).await
        };
        let copied = copied.await;
        if copied.is_err() {
            // If they cannot be removed, the next attempt or opening tries again.
            let _left_for_the_next_attempt = self.sweep(wanted.carrier).await;
            return copied;
        }
        self.carried.lock().insert(wanted);
        Ok(())
    }

    /// Removes everything that attempts have left behind.
    async fn sweep(&self, carrier: Carrier) -> Result<()> {
        let tag = self.log_tag();
        let listed = carried::list(&self.fs, &self.dir, tag.owner).await?;
        let is_left = |log: &CarriedLog| log.carrier == carrier && !self.carried.lock().contains(log);
        for log in listed.whole.into_iter().filter(is_left) {
            carried::remove(&self.fs, &self.dir, log, tag).await?;
        }
        for log in listed.unfinished.into_iter().filter(|log| log.carrier == carrier) {
            carried::remove_unfinished(&self.fs, &self.dir, log, tag).await?;
        }
        Ok(())
    }

    async fn write_copy(&self, wanted: CarriedLog, unflushed: &Unflushed) -> Result<()> {
        let (member, identity) = wanted.carrier;
        let (all, tag) = (dir_of_all(&self.dir), self.log_tag());
        self.fs.create_dir_all(&all, tag).await?;
        let number = self.carries.fetch_add(1, Ordering::Relaxed);
        let options = LogOptions {
            // The copy is synced once, as a whole, at the end.
            sync: SyncMode::Interval,
            salt: self.options.log.salt.rotate_left(16) ^ number,
            anchor: LogAnchor { durable: 0, ..self.options.log.anchor },
            ..self.options.log
        };
        let (dir, mut nobody) = (wanted.temporary_dir(&self.dir), |_, _: &[u8]| Op::ready(Ok(())));
        let (log, _) = Log::open(Arc::clone(&self.fs), &dir, options, wanted.first - 1, &mut nobody).await?;
        let mut waiting = 0;
        let mut append = |index, payload: &[u8]| {
            let appended = match log.append_tagged(&RecordTag::encode(member, identity, index), payload) {
                Ok(appended) if appended == index => appended,
                Ok(appended) => {
                    let message = format!("record {index} would be carried as record {appended}");
                    return Op::ready(Err(self.invalid(member, "carry", &message)));
                }
                Err(error) => return Op::ready(Err(error)),
            };
            waiting += payload.len() as u64;
            if waiting < WRITE_BYTES {
                return Op::ready(Ok(()));
            }
            waiting = 0;
            let log = log.clone();
            Op::pending(async move { log.commit(appended).await })
        };
        let opening = MemberOpening { member, identity, owner: options.owner, persisted: wanted.first - 1, durable: 0 };
        let copied = replay::read(self, &opening, unflushed, &mut Recovery::default(), &mut append).await;
        // Nothing may be in flight when the copy is removed.
        let closed = log.close().await;
        log.quiet().await;
        copied?;
        closed?;
        if log.last() != wanted.last {
            let message = format!("records up to {} would be carried, not up to record {}", log.last(), wanted.last);
            return Err(self.invalid(member, "carry", &message));
        }
        Ok(())
    }
}
