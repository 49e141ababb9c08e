//! Carrying: copying what a member has unflushed out of the shared log, and what becomes of the copy. Where it stands
//! and how it is read back: [`carried`].

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_io::{Class, ErrorKind, Op, Result, Tag};
use weir_model::LogIndex;

use super::carried::{self, Carrier, dir_of, dir_of_all};
use super::tag::{MemberId, RecordTag};
use super::unflushed::Unflushed;
use super::{MemberOpening, Shared, replay};
use crate::log::Log;
use crate::options::{LogAnchor, LogOptions, SyncMode};
use crate::recover::{self, Recovery};
use crate::salvage::first_index;
use crate::write_ahead_log::WriteAheadLog;

/// Bytes that are written at a time.
const WRITE_BYTES: u64 = 256 << 10;

impl Shared {
    fn log_tag(&self) -> Tag {
        Tag::new(self.options.log.owner, Class::Log)
    }

    /// Of whom something was carried under the number of `member`.
    pub(super) fn carriers(&self, member: MemberId) -> Vec<Carrier> {
        self.carried.lock().range((member, 0)..=(member, u64::MAX)).map(|(carrier, _)| *carrier).collect()
    }

    /// Removes what was carried, if it is in tables up to `persisted`.
    pub(super) async fn drop_carried(&self, carrier: Carrier, persisted: LogIndex) -> Result<()> {
        let is_over = || self.carried.lock().get(&carrier).is_some_and(|through| *through <= persisted);
        if !is_over() {
            return Ok(());
        }
        let _turn = self.carrying.lock().await;
        if is_over() {
            carried::remove(&self.fs, &self.dir, carrier, self.log_tag()).await?;
            self.carried.lock().remove(&carrier);
        }
        Ok(())
    }

    /// See [`SharedLog::carry`](super::SharedLog::carry).
    pub(super) async fn carry(&self, member: MemberId) -> Result<()> {
        {
            let _turn = self.carrying.lock().await;
            let keys = self.members.lock().keeping_of(member);
            for (_, identity) in keys {
                let Some(identity) = identity else {
                    return Err(self.invalid(member, "carry", "its tags are of version 1, and it was not opened yet"));
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
            let has_failed = self.log.failure().is_some();
            let unflushed = {
                let mut members = self.members.lock();
                let Some(member) = members.get(key) else { return Ok(()) };
                if member.is_opening {
                    return Err(self.invalid(carrier.0, "carry", "it is being opened"));
                }
                let mut unflushed = member.unflushed.clone();
                unflushed.drop_behind(self.log.progress().committed);
                unflushed
            };
            if !unflushed.is_empty() {
                let through = self.copy(carrier, &unflushed).await?;
                self.carried.lock().insert(carrier, through);
                if let Some(member) = self.members.lock().get(key) {
                    member.unflushed.drop_through(through);
                }
            }
            match self.log.failure() {
                // It may have failed meanwhile, with more committed.
                Some(_) if !has_failed => {}
                Some(failure) => {
                    if let Some(member) = self.members.lock().get(key) {
                        member.doubt_rest(failure);
                    }
                    return Ok(());
                }
                None => return Ok(()),
            }
        }
    }

    /// Makes a durable copy of the `unflushed` records of a member. Gives the last index in it.
    async fn copy(&self, carrier: Carrier, unflushed: &Unflushed) -> Result<LogIndex> {
        let (member, identity) = carrier;
        let Some(first) = unflushed.first_index() else { return Ok(0) };
        let (all, tag) = (dir_of_all(&self.dir), self.log_tag());
        self.fs.create_dir_all(&all, tag).await?;
        if let Some(parent) = all.parent() {
            self.fs.sync_dir(parent, tag).await?;
        }
        // Known from here on, so that it goes where the rest fails.
        self.carried.lock().entry(carrier).or_insert(LogIndex::MAX);
        let number = self.carries.fetch_add(1, Ordering::Relaxed);
        let options = LogOptions {
            // What it is synced for is the whole, at the end.
            sync: SyncMode::Interval,
            salt: self.options.log.salt.rotate_left(16) ^ number,
            anchor: LogAnchor { durable: 0, ..self.options.log.anchor },
            ..self.options.log
        };
        let (dir, mut nobody) = (dir_of(&self.dir, carrier), |_, _: &[u8]| Op::ready(Ok(())));
        let before = self.before_carried(&dir, first).await?;
        let (log, _) = Log::open(Arc::clone(&self.fs), &dir, options, before, &mut nobody).await?;
        let mut rest = unflushed.clone();
        rest.drop_through(log.last());
        let mut waiting = 0;
        let mut append = |index, payload: &[u8]| {
            let appended = match log.append_tagged(&RecordTag::encode(member, identity, index), payload) {
                Ok(appended) if appended == index => appended,
                Ok(appended) => {
                    let message = format!("record {index} would be carried as {appended}");
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
        let opening = MemberOpening { member, identity, owner: options.owner, persisted: log.last(), durable: 0 };
        replay::read(self, &opening, &rest, &mut Recovery::default(), &mut append).await?;
        log.close().await?;
        Ok(log.last())
    }

    /// The index in front of what is to be kept of the carried log in `dir`, where `first` is to be carried: all that
    /// is in it, or nothing, where it ends before: then that is in tables, and could not be removed.
    async fn before_carried(&self, dir: &Path, first: LogIndex) -> Result<LogIndex> {
        let owner = self.options.log.owner;
        let begins = match first_index(&self.fs, dir, owner).await {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            begins => begins?,
        };
        let Some(begins) = begins.filter(|begins| *begins < first) else { return Ok(first - 1) };
        let anchor = LogAnchor { durable: 0, ..self.options.log.anchor };
        let kept = recover::check(&self.fs, dir, owner, anchor, begins - 1).await?;
        Ok(if kept.last + 1 < first { first - 1 } else { begins - 1 })
    }

    /// Removes what was carried of members that do not exist any more, and of other partitions under the number of one
    /// that was opened.
    pub(super) async fn forget_carried(&self, forgotten: Vec<Carrier>) -> Result<()> {
        for carrier in forgotten {
            if let Some(through) = self.carried.lock().get_mut(&carrier) {
                *through = 0;
            }
            self.drop_carried(carrier, 0).await?;
        }
        Ok(())
    }
}
