//! What was carried out of a shared log, because its member could not flush it: a log of its own for each such member,
//! in `carried/` beside the segments. Its records have the member's indexes, and the payloads that they had in the
//! shared log, with tags of version 2; its segments have the shared log's identity.
//!
//! What is carried was in the shared log before, and leaves it only when the copy is durable. So a copy that a crash
//! has cut short is no loss, and what stands in both is the same.

use std::collections::{BTreeMap, BTreeSet};
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
/// Those of which something was carried.
pub(super) type CarriedLogs = BTreeSet<Carrier>;

/// The last index that is carried of each; the largest there is, before its log was read.
pub(super) type CarriedThrough = BTreeMap<Carrier, LogIndex>;

pub(super) fn dir_of_all(segments: &Path) -> PathBuf {
    segments.with_file_name("carried")
}

pub(super) fn dir_of(segments: &Path, (member, identity): Carrier) -> PathBuf {
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

pub(super) async fn remove(fs: &Arc<dyn Fs>, segments: &Path, carrier: Carrier, tag: Tag) -> Result<()> {
    let dir = dir_of(segments, carrier);
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
