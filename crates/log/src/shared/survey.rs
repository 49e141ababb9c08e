//! The records that a shared log has of its members, and whether all those are there that must be.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_io::{Error, Fs, Op, Owner, Result};
use weir_model::LogIndex;

use super::MemberOpening;
use super::carried::{self, CarriedLogs};
use super::members::Members;
use super::tag::{MemberId, RecordTag};
use super::unflushed::{Place, Unflushed};
use crate::options::LogAnchor;
use crate::record::HEADER_BYTES;
use crate::recover::{self, Recovery, check_persisted};

/// A shared log that was read, and not changed.
pub struct SharedSurvey {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    identity: u64,
    whole: Recovery,
    members: Members,
    carried: CarriedLogs,
}

impl SharedSurvey {
    /// Reads the shared log in `dir`, which must not be open, from its `floor` on, and changes nothing.
    ///
    /// # Errors
    /// `Corruption` for a damaged record that had been durable, or for one that cannot be in a shared log, naming file
    /// or record.
    pub async fn take(
        fs: &Arc<dyn Fs>,
        dir: &Path,
        owner: Owner,
        anchor: LogAnchor,
        floor: LogIndex,
    ) -> Result<SharedSurvey> {
        let mut members = Members::default();
        let mut show = |place, payload: &[u8]| Op::ready(note(&mut members, &|_| true, dir, place, payload).map(drop));
        let whole = recover::look(fs, dir, owner, anchor, floor, &mut show).await?;
        let carried = carried::list(fs, dir, owner).await?.whole;
        let (fs, dir) = (Arc::clone(fs), dir.to_path_buf());
        Ok(Self { fs, dir, identity: anchor.identity, whole, members, carried })
    }

    /// The records that the log has of a member. They must include every record that its anchor knows and its engine
    /// does not have. Segments are those of all members.
    ///
    /// # Errors
    /// `Corruption` if something is missing; I/O.
    pub async fn member(&self, opening: &MemberOpening) -> Result<Recovery> {
        check_persisted(&self.dir, opening.persisted)?;
        let mut nobody = |_, _: &[u8]| Op::ready(Ok(()));
        let (_, opening) =
            carried::read(&self.fs, &self.dir, self.identity, &self.carried, *opening, &mut nobody).await?;
        let mut unflushed = self.members.unflushed(opening.member, opening.identity);
        unflushed.drop_through(opening.persisted);
        let recovery = judge(&self.dir, &self.whole, &opening, &unflushed)?;
        Ok(Recovery { segments: self.whole.segments, ..recovery })
    }

    /// The identity of the member under that number, if the log has records of it: that of the last record.
    pub fn identity_of(&self, member: MemberId) -> Option<u64> {
        let carried = carried::of_member(&self.carried, member).next_back();
        self.members.identity(member).or(carried.map(|log| log.carrier.1))
    }
}

/// Notes a record that was found at `place`, if its member exists. Then it returns tag and payload.
pub(super) fn note<'a>(
    members: &mut Members,
    exists: &(dyn Fn(MemberId) -> bool + Send + Sync),
    dir: &Path,
    place: Place,
    payload: &'a [u8],
) -> Result<Option<(RecordTag, &'a [u8])>> {
    let outcome = match RecordTag::decode(payload) {
        Err(wrong) => Err(wrong),
        Ok((tag, _)) if !exists(tag.member) => Ok(None),
        Ok((tag, appended)) => {
            let is_later = members.found(&tag, place, (HEADER_BYTES + payload.len()) as u64);
            let wrong = "the record is out of order: its member wrote a later record before it";
            is_later.then_some(Some((tag, appended))).ok_or(wrong)
        }
    };
    outcome.map_err(|wrong| Error::corruption(dir, 0, format!("record {place}: {wrong}")))
}

/// Checks that the `unflushed` records of a member are all that must be there: they begin directly behind the records
/// of its engine, none is missing, and they reach as far as was durable.
pub(super) fn judge(dir: &Path, whole: &Recovery, opening: &MemberOpening, unflushed: &Unflushed) -> Result<Recovery> {
    let MemberOpening { member, persisted, durable, .. } = *opening;
    let last = unflushed.last_index().unwrap_or(0).max(persisted);
    let missing = |what: String| Err(Error::corruption(dir, 0, format!("member {member}: {what}")));
    if let Some(first) = unflushed.first_index().filter(|first| *first > persisted + 1) {
        return missing(format!(
            "its records begin at {first}, but the engine holds records only up to {persisted}: segments are missing, \
             or the engine's files were replaced by an older copy"
        ));
    }
    if let Some(hole) = unflushed.hole() {
        return missing(format!("record {hole} is missing, although later records exist"));
    }
    if last < durable {
        return missing(format!(
            "records up to {durable} were durable, but they end with record {last}: a file is missing, truncated, \
             damaged, or was replaced by an older copy"
        ));
    }
    Ok(Recovery { last, clean: whole.clean, end: whole.end.clone(), ..Recovery::default() })
}
