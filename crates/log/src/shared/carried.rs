//! Records that were carried out of a shared log because their member could not flush them. They are in logs of their
//! own, each with consecutive records of one member, in `carried/` beside the segments. The records have the member's
//! indexes, and the payloads that they had in the shared log, with tags of version 2; the segments have the shared
//! log's identity.
//!
//! The name of such a directory says what is in it. The directory gets this name once all of its content is on the
//! device. Until then its name ends in `.tmp`, and a directory that an attempt has left with such a name is removed. So
//! a name says which records are no longer needed in the shared log. A carried log never changes again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{Class, Error, ErrorKind, Fs, Op, Owner, Result, Tag};
use weir_model::LogIndex;

use super::MemberOpening;
use super::tag::{MemberId, RecordTag};
use crate::log::remove_files;
use crate::options::LogAnchor;
use crate::recover::{self, Recovery};

/// A member, and the identity of its partition.
pub(super) type Carrier = (MemberId, u64);

const TEMPORARY: &str = ".tmp";

/// Records `first..=last` of a member, carried. Ordered by member, and by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CarriedLog {
    pub carrier: Carrier,
    pub first: LogIndex,
    pub last: LogIndex,
}

/// All carried logs.
pub(super) type CarriedLogs = BTreeSet<CarriedLog>;

/// The carried logs of `member`, under any identity.
pub(super) fn of_member(logs: &CarriedLogs, member: MemberId) -> impl DoubleEndedIterator<Item = CarriedLog> {
    let least = CarriedLog { carrier: (member, 0), first: 0, last: 0 };
    let most = CarriedLog { carrier: (member, u64::MAX), first: LogIndex::MAX, last: LogIndex::MAX };
    logs.range(least..=most).copied()
}

impl CarriedLog {
    pub fn dir(&self, segments: &Path) -> PathBuf {
        dir_of_all(segments).join(self.name())
    }

    /// The directory in which it is written.
    pub fn temporary_dir(&self, segments: &Path) -> PathBuf {
        dir_of_all(segments).join(self.name() + TEMPORARY)
    }

    fn name(&self) -> String {
        let Self { carrier: (member, identity), first, last } = self;
        format!("{member:06}-{identity:016x}-{first}-{last}")
    }

    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split('-');
        let mut part = || parts.next();
        let carrier = (part()?.parse().ok()?, u64::from_str_radix(part()?, 16).ok()?);
        let parsed = Self { carrier, first: part()?.parse().ok()?, last: part()?.parse().ok()? };
        // Accept a name only in exactly the form in which it would be written.
        (parsed.name() == name).then_some(parsed)
    }
}

pub(super) fn dir_of_all(segments: &Path) -> PathBuf {
    segments.with_file_name("carried")
}

/// The content of the directory of carried logs: the complete ones, and the unfinished ones.
#[derive(Default)]
pub(super) struct Listed {
    pub whole: CarriedLogs,
    pub unfinished: CarriedLogs,
}

/// Lists what was carried out of the shared log whose segments are in `segments`.
pub(super) async fn list(fs: &Arc<dyn Fs>, segments: &Path, owner: Owner) -> Result<Listed> {
    let mut listed = Listed::default();
    let names = match fs.list(&dir_of_all(segments), Tag::new(owner, Class::Log)).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(listed),
        names => names?,
    };
    for entry in names {
        match entry.name.strip_suffix(TEMPORARY) {
            Some(name) => listed.unfinished.extend(CarriedLog::parse(name)),
            None => listed.whole.extend(CarriedLog::parse(&entry.name)),
        }
    }
    Ok(listed)
}

/// As [`list`], but also makes the names durable: a process that was killed may have left them in memory only.
pub(super) async fn list_durable(fs: &Arc<dyn Fs>, segments: &Path, owner: Owner) -> Result<Listed> {
    let listed = list(fs, segments, owner).await?;
    if !listed.whole.is_empty() {
        sync_names(fs, segments, Tag::new(owner, Class::Log)).await?;
    }
    Ok(listed)
}

/// Makes the names of carried logs durable.
pub(super) async fn sync_names(fs: &Arc<dyn Fs>, segments: &Path, tag: Tag) -> Result<()> {
    let all = dir_of_all(segments);
    if let Some(parent) = all.parent() {
        fs.sync_dir(parent, tag).await?;
    }
    fs.sync_dir(&all, tag).await
}

/// Passes the carried records of a member that are not in its tables to `apply`, in order. The rest of the member is to
/// be opened as if these records were in tables.
///
/// # Errors
/// `Corruption` if a carried log is damaged, or if records are missing between it and the one before or the engine;
/// errors of `apply`; I/O.
pub(super) async fn read(
    fs: &Arc<dyn Fs>,
    segments: &Path,
    identity: u64,
    logs: &CarriedLogs,
    mut opening: MemberOpening,
    apply: &mut (dyn FnMut(LogIndex, &[u8]) -> Op<()> + Send + Sync),
) -> Result<(Recovery, MemberOpening)> {
    let mut all = Recovery::default();
    let carrier = (opening.member, opening.identity);
    for log in of_member(logs, opening.member).filter(|log| log.carrier == carrier) {
        if log.last <= opening.persisted {
            continue;
        }
        let found = read_one(fs, &log.dir(segments), identity, &opening, apply).await?;
        if found.last != log.last {
            let message = format!("the carried log ends with record {}, not with record {}", found.last, log.last);
            return Err(Error::corruption(log.dir(segments), 0, message));
        }
        opening.persisted = log.last;
        all.records += found.records;
        all.payload_bytes += found.payload_bytes;
    }
    Ok((all, opening))
}

async fn read_one(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    identity: u64,
    opening: &MemberOpening,
    apply: &mut (dyn FnMut(LogIndex, &[u8]) -> Op<()> + Send + Sync),
) -> Result<Recovery> {
    let own = |index| RecordTag { member: opening.member, identity: Some(opening.identity), index };
    let mut show = |index, payload: &[u8]| match RecordTag::decode(payload) {
        Ok((tag, appended)) if tag == own(index) => apply(index, appended),
        Ok(_) => Op::ready(Err(Error::corruption(dir, 0, format!("record {index} belongs to another member")))),
        Err(wrong) => Op::ready(Err(Error::corruption(dir, 0, format!("record {index}: {wrong}")))),
    };
    let anchor = LogAnchor { identity, durable: 0 };
    recover::look(fs, dir, opening.owner, anchor, opening.persisted, &mut show).await
}

/// Removes a carried log. It stops being one when its name is gone durably: a crash leaves it complete, or unfinished.
pub(super) async fn remove(fs: &Arc<dyn Fs>, segments: &Path, log: CarriedLog, tag: Tag) -> Result<()> {
    match fs.rename(&log.dir(segments), &log.temporary_dir(segments), tag).await {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        renamed => renamed?,
    }
    fs.sync_dir(&dir_of_all(segments), tag).await?;
    remove_unfinished(fs, segments, log, tag).await
}

/// Removes a directory that an attempt has left behind.
pub(super) async fn remove_unfinished(fs: &Arc<dyn Fs>, segments: &Path, log: CarriedLog, tag: Tag) -> Result<()> {
    let dir = log.temporary_dir(segments);
    remove_files(fs, &dir, tag).await?;
    match fs.remove_dir(&dir, tag).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_called_by_what_is_in_them_and_strangers_are_left_alone() {
        let log = CarriedLog { carrier: (7, 0xab), first: 5, last: 20 };
        let name = log.dir(Path::new("shared-log/log"));
        assert_eq!(name, Path::new("shared-log/carried/000007-00000000000000ab-5-20"));
        assert_eq!(CarriedLog::parse("000007-00000000000000ab-5-20"), Some(log));
        let most = CarriedLog { carrier: (12_345_678, u64::MAX), first: 1, last: u64::MAX };
        assert_eq!(CarriedLog::parse(&most.name()), Some(most));
        let strangers =
            ["000007", "000007-00000000000000ab", "7-00000000000000ab-5-20", "000007-00000000000000ab-05-20"];
        for stranger in strangers.into_iter().chain(["000007-00000000000000AB-5-20", "x-0", "lost+found"]) {
            assert_eq!(CarriedLog::parse(stranger), None, "{stranger}");
        }
    }
}
