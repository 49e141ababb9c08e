//! What was carried out of a shared log, because its member could not flush it: a log of its own for each such member,
//! in `carried/` beside the segments. Its records have the member's indexes, and the payloads that they had in the
//! shared log, with tags of version 2; its segments have the shared log's identity.
//!
//! What is carried was in the shared log before, and leaves it only when the copy is durable. So a copy that a crash has
//! cut short is no loss, and what stands in both is the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{Class, Error, ErrorKind, Fs, Op, Owner, Result, Tag};
use weir_model::LogIndex;

use super::tag::{MemberId, RecordTag};
use super::unflushed::Unflushed;
use super::{MemberOpening, Shared, replay};
use crate::log::{Log, remove_files};
use crate::options::{LogAnchor, LogOptions, SyncMode};
use crate::recover::{self, Recovery};
use crate::salvage::first_index;
use crate::write_ahead_log::WriteAheadLog;

/// A member, and the identity of its partition.
pub(super) type Carrier = (MemberId, u64);
/// Those of which something was carried.
pub(super) type CarriedLogs = BTreeSet<Carrier>;

/// Bytes that are written at a time.
const WRITE_BYTES: u64 = 256 << 10;

/// The last index that is carried of each; the largest there is, before its log was read.
pub(super) type CarriedThrough = BTreeMap<Carrier, LogIndex>;

fn dir_of_all(segments: &Path) -> PathBuf {
    segments.with_file_name("carried")
}

fn dir_of(segments: &Path, (member, identity): Carrier) -> PathBuf {
    dir_of_all(segments).join(format!("{member:06}-{identity:016x}"))
}

fn parse(name: &str) -> Option<Carrier> {
    let (member, identity) = name.split_once('-')?;
    let carrier = (member.parse().ok()?, u64::from_str_radix(identity, 16).ok()?);
    // As it would be written, and in no other way.
    (format!("{:06}-{:016x}", carrier.0, carrier.1) == name).then_some(carrier)
}

/// Of whom something was carried out of the shared log with its `segments` there.
pub(super) async fn list(fs: &Arc<dyn Fs>, segments: &Path, owner: Owner) -> Result<CarriedLogs> {
    match fs.list(&dir_of_all(segments), Tag::new(owner, Class::Log)).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(CarriedLogs::new()),
        names => Ok(names?.iter().filter_map(|entry| parse(&entry.name)).collect()),
    }
}

/// Gives what was carried of a member, and is not in its tables, to `apply`. The log has that `identity`.
pub(super) async fn read(
    fs: &Arc<dyn Fs>,
    segments: &Path,
    identity: u64,
    opening: &MemberOpening,
    apply: &mut (dyn FnMut(LogIndex, &[u8]) -> Op<()> + Send + Sync),
) -> Result<Recovery> {
    let dir = dir_of(segments, (opening.member, opening.identity));
    let own = |index| RecordTag { member: opening.member, identity: Some(opening.identity), index };
    let mut show = |index, payload: &[u8]| match RecordTag::decode(payload) {
        Ok((tag, appended)) if tag == own(index) => apply(index, appended),
        Ok(_) => Op::ready(Err(Error::corruption(&dir, 0, format!("record {index} is another member's")))),
        Err(wrong) => Op::ready(Err(Error::corruption(&dir, 0, format!("record {index}: {wrong}")))),
    };
    let anchor = LogAnchor { identity, durable: 0 };
    recover::look(fs, &dir, opening.owner, anchor, opening.persisted, &mut show).await
}

async fn remove(fs: &Arc<dyn Fs>, segments: &Path, carrier: Carrier, tag: Tag) -> Result<()> {
    let dir = dir_of(segments, carrier);
    remove_files(fs, &dir, tag).await?;
    match fs.remove_dir(&dir, tag).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

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
            remove(&self.fs, &self.dir, carrier, self.log_tag()).await?;
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
        let number = self.carries.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
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

    /// The index in front of what is to be kept of the carried log in `dir`, where `first` is to be carried: all that is
    /// in it, or nothing, where it ends before: then that is in tables, and could not be removed.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_called_by_member_and_identity_and_strangers_are_left_alone() {
        let carrier = (7, 0xab);
        let name = dir_of(Path::new("shared-log/log"), carrier);
        assert_eq!(name, Path::new("shared-log/carried/000007-00000000000000ab"));
        assert_eq!(parse("000007-00000000000000ab"), Some(carrier));
        assert_eq!(parse("12345678-ffffffffffffffff"), Some((12_345_678, u64::MAX)));
        for stranger in ["000007", "7-00000000000000ab", "000007-ab", "000007-00000000000000AB", "x-0", "lost+found"] {
            assert_eq!(parse(stranger), None, "{stranger}");
        }
    }
}
