//! The members of a shared log, and what each keeps of it: a state machine without locks or I/O.

use std::collections::BTreeMap;

use weir_io::Error;
use weir_model::LogIndex;

use super::tag::MemberId;
use super::unflushed::{Place, Unflushed};

/// What a member has appended since it was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Appended {
    pub records: u64,
    pub payload_bytes: u64,
    /// With the bytes in front of each payload.
    pub bytes: u64,
}

#[derive(Default)]
pub(super) struct Member {
    pub unflushed: Unflushed,
    /// The last index appended.
    pub last: LogIndex,
    /// Who has it open: the number of a handle.
    pub holder: Option<u64>,
    /// Why it takes no records, though the log may: it was told so, or is closed.
    pub fence: Option<Error>,
    /// Closed: somebody else may open it.
    pub is_closed: bool,
    pub appended: Appended,
}

#[derive(Default)]
pub(super) struct Members {
    by_id: BTreeMap<MemberId, Member>,
    /// Handles given out so far.
    handles: u64,
}

impl Members {
    /// A record found in the log at `place`. False if the member had a later one before: nobody writes that.
    pub fn found(&mut self, member: MemberId, index: LogIndex, place: Place, bytes: u64) -> bool {
        let member = self.by_id.entry(member).or_default();
        let is_later = index > member.last;
        member.last = index;
        member.unflushed.push(index, place, bytes);
        is_later
    }

    /// What `member` has unflushed.
    pub fn unflushed(&self, member: MemberId) -> Unflushed {
        self.by_id.get(&member).map(|member| member.unflushed.clone()).unwrap_or_default()
    }

    /// The number of a new handle of `member`; `None` if somebody has it open.
    pub fn hold(&mut self, member: MemberId) -> Option<u64> {
        let member = self.by_id.entry(member).or_default();
        if member.holder.is_some() && !member.is_closed {
            return None;
        }
        self.handles += 1;
        (member.holder, member.fence, member.is_closed) = (Some(self.handles), None, false);
        member.appended = Appended::default();
        Some(self.handles)
    }

    /// The member, as long as handle `number` has it.
    pub fn held(&mut self, member: MemberId, number: u64) -> Option<&mut Member> {
        self.by_id.get_mut(&member).filter(|member| member.holder == Some(number))
    }

    /// Handle `number` is gone. Nothing is remembered of a member that keeps nothing.
    pub fn release(&mut self, member: MemberId, number: u64) {
        let Some(held) = self.held(member, number) else { return };
        held.holder = None;
        if held.unflushed.is_empty() {
            self.by_id.remove(&member);
        }
    }

    /// Members that are open, or keep something.
    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    /// The member does not exist any more.
    pub fn forget(&mut self, member: MemberId) {
        self.by_id.remove(&member);
    }

    /// Up to where nobody needs the log, of which `last` is the last place (DF-12): every record up to there is in its
    /// member's tables.
    pub fn floor(&self, last: Place) -> Place {
        self.by_id.values().filter_map(|member| member.unflushed.first_place()).min().map_or(last, |first| first - 1)
    }

    /// Who has something unflushed at `place` or in front of it, in the order of their numbers, and the last of those
    /// records of each.
    pub fn keeping(&self, place: Place) -> Vec<(MemberId, LogIndex)> {
        let last = |member: &Member| member.unflushed.index_at(place);
        self.by_id.iter().filter_map(|(&id, member)| Some((id, last(member)?))).collect()
    }
}
