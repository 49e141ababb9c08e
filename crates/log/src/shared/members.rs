//! The members of a shared log, and the records of each that are still needed: a state machine without locks or I/O.
//!
//! Records with one number and two identities belong to two partitions. One of them is gone, because only one directory
//! has the number. Which one is known when the member is opened; until then the records of both are kept.

use std::collections::BTreeMap;

use weir_io::Error;
use weir_model::LogIndex;

use super::tag::{MemberId, RecordTag};
use super::unflushed::{Place, Unflushed};

/// A member, and the identity of its partition; `None` for records with tags of version 1, until the member is opened.
pub(super) type MemberKey = (MemberId, Option<u64>);

/// Counters of what a member has appended since it was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Appended {
    pub records: u64,
    pub payload_bytes: u64,
    /// Including the bytes in front of each payload.
    pub bytes: u64,
}

#[derive(Default)]
pub(super) struct Member {
    pub unflushed: Unflushed,
    /// The last index appended.
    pub last: LogIndex,
    /// The number of the handle that has it open.
    pub holder: Option<u64>,
    /// Why the member takes no records, even if the log does: it was told to refuse them, or is closed.
    pub fence: Option<Error>,
    /// Whether it is closed: then it may be opened again.
    pub is_closed: bool,
    /// Whether its records are being read: then they stay where they are.
    pub is_opening: bool,
    /// The first of the records, up to [`Member::last`], that are not in tables and may not be on disk: the log failed,
    /// and has gone on without this member. The member is fenced until they are in tables.
    pub in_doubt: Option<LogIndex>,
    pub appended: Appended,
}

impl Member {
    /// The member's engine holds every record up to `persisted`.
    pub fn persist(&mut self, persisted: LogIndex) {
        self.unflushed.drop_through(persisted);
        self.in_doubt = self.in_doubt.map(|first| first.max(persisted + 1)).filter(|first| *first <= self.last);
    }

    /// The log has failed and goes on: the records that this member has in it may not be on disk.
    pub fn doubt_rest(&mut self, failure: Error) {
        if let Some(first) = std::mem::take(&mut self.unflushed).first_index() {
            self.in_doubt = Some(first);
            self.fence.get_or_insert(failure);
        }
    }

    /// Whether record `index` may only be in memory.
    pub fn is_in_doubt(&self, index: LogIndex) -> bool {
        self.in_doubt.is_some_and(|first| index >= first)
    }
}

#[derive(Default)]
pub(super) struct Members {
    by_key: BTreeMap<MemberKey, Member>,
    /// How many handles were given out so far.
    handles: u64,
}

/// A member that was opened.
pub(super) struct Held {
    /// The number of its handle.
    pub number: u64,
    /// Records under its number that belong to another partition, and are no longer needed.
    pub foreign: u64,
}

impl Members {
    /// Adds a record found in the log at `place`. False if the member had a later record before: nobody writes that.
    pub fn found(&mut self, tag: &RecordTag, place: Place, bytes: u64) -> bool {
        let member = self.by_key.entry((tag.member, tag.identity)).or_default();
        let is_later = tag.index > member.last;
        member.last = tag.index;
        member.unflushed.push(tag.index, place, bytes);
        is_later
    }

    /// Records of that member up to `last` were carried: they are no longer needed here.
    pub fn carried(&mut self, member: MemberId, identity: u64, last: LogIndex) {
        if let Some(member) = self.by_key.get_mut(&(member, Some(identity))) {
            member.unflushed.drop_through(last);
        }
    }

    fn keys_of(&self, member: MemberId) -> Vec<MemberKey> {
        self.by_key.range((member, None)..=(member, Some(u64::MAX))).map(|(key, _)| *key).collect()
    }

    /// The unflushed records of `member` with that `identity`.
    pub fn unflushed(&self, member: MemberId, identity: u64) -> Unflushed {
        let of = |identity| self.by_key.get(&(member, identity)).map(|member| member.unflushed.clone());
        adopt(of(None).unwrap_or_default(), of(Some(identity)).unwrap_or_default()).0
    }

    /// The identity in the last record of `member`, if it has any.
    pub fn identity(&self, member: MemberId) -> Option<u64> {
        let streams = self.by_key.range((member, None)..=(member, Some(u64::MAX)));
        streams.max_by_key(|(_, member)| member.unflushed.last_place()).and_then(|((_, identity), _)| *identity)
    }

    /// A new handle of `member`; `None` if somebody has it open. From here on it is known which records are its own.
    pub fn hold(&mut self, member: MemberId, identity: u64) -> Option<Held> {
        let keys = self.keys_of(member);
        let is_open = |key: &MemberKey| self.by_key[key].holder.is_some() && !self.by_key[key].is_closed;
        if keys.iter().any(is_open) {
            return None;
        }
        let (mut own, mut without_identity, mut foreign) = (Member::default(), Unflushed::default(), 0);
        for key in keys {
            let Some(found) = self.by_key.remove(&key) else { continue };
            match key.1 {
                None => without_identity = found.unflushed,
                Some(found_identity) if found_identity == identity => own = found,
                Some(_) => foreign += found.unflushed.count(),
            }
        }
        let (unflushed, passed) = adopt(without_identity, own.unflushed);
        self.handles += 1;
        let last = own.last.max(unflushed.last_index().unwrap_or(0));
        let member_now = Member { unflushed, last, holder: Some(self.handles), is_opening: true, ..Member::default() };
        self.by_key.insert((member, Some(identity)), member_now);
        Some(Held { number: self.handles, foreign: foreign + passed })
    }

    /// The member, as long as the handle `number` has it open.
    pub fn held(&mut self, key: MemberKey, number: u64) -> Option<&mut Member> {
        self.by_key.get_mut(&key).filter(|member| member.holder == Some(number))
    }

    /// The member, whichever handle has it open.
    pub fn get(&mut self, key: MemberKey) -> Option<&mut Member> {
        self.by_key.get_mut(&key)
    }

    /// The handle `number` is gone. A member of which no record is needed is forgotten.
    pub fn release(&mut self, key: MemberKey, number: u64) {
        let Some(held) = self.held(key, number) else { return };
        (held.holder, held.is_opening) = (None, false);
        if held.unflushed.is_empty() {
            self.by_key.remove(&key);
        }
    }

    /// The number of members that are open, or have records that are needed.
    pub fn count(&self) -> usize {
        self.by_key.len()
    }

    /// The member does not exist any more.
    pub fn forget(&mut self, member: MemberId) {
        for key in self.keys_of(member) {
            self.by_key.remove(&key);
        }
    }

    /// The place up to which nobody needs the log, whose last place is `last` (DF-12): every record up to there is in
    /// its member's tables.
    pub fn floor(&self, last: Place) -> Place {
        self.by_key.values().filter_map(|member| member.unflushed.first_place()).min().map_or(last, |first| first - 1)
    }

    /// The members that have something unflushed at `place` or in front of it, in the order of their numbers, each with
    /// the last of these records.
    pub fn keeping(&self, place: Place) -> Vec<(MemberId, LogIndex)> {
        let mut keeping: Vec<(MemberId, LogIndex)> = Vec::new();
        for (&(id, _), member) in &self.by_key {
            let Some(last) = member.unflushed.index_at(place) else { continue };
            match keeping.last_mut() {
                Some((before, through)) if *before == id => *through = last.max(*through),
                _ => keeping.push((id, last)),
            }
        }
        keeping
    }

    /// The keys of `member` that have something unflushed.
    pub fn keeping_of(&self, member: MemberId) -> Vec<MemberKey> {
        let mut keys = self.keys_of(member);
        keys.retain(|key| !self.by_key[key].unflushed.is_empty());
        keys
    }
}

/// The records of a member that has records `without_identity`, with tags of version 1; and how many of those are not
/// its own. Version 1 was no longer written when version 2 was, so the member's own records of version 1 are in front
/// of `own` in both orders.
fn adopt(without_identity: Unflushed, own: Unflushed) -> (Unflushed, u64) {
    let is_before =
        without_identity.last_index() < own.first_index() && without_identity.last_place() < own.first_place();
    match own.is_empty() || is_before {
        true => (without_identity.followed_by(own), 0),
        false => {
            let passed = without_identity.count();
            (own, passed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(members: &mut Members, identity: Option<u64>, index: LogIndex, place: Place) {
        assert!(members.found(&RecordTag { member: 7, identity, index }, place, 40));
    }

    #[test]
    fn records_of_another_identity_are_passed_over_and_keep_nothing() {
        let mut members = Members::default();
        (1..=3).for_each(|index| found(&mut members, Some(1), index, index));
        (1..=2).for_each(|index| found(&mut members, Some(2), index, 3 + index));
        assert_eq!(members.keeping(9), [(7, 3)], "nobody knows yet which of them there is");
        assert_eq!((members.identity(7), members.floor(9)), (Some(2), 0));
        assert_eq!(members.unflushed(7, 2).last_place(), Some(5));
        let held = members.hold(7, 2).expect("nobody has it");
        assert_eq!((held.foreign, members.floor(9)), (3, 3));
        assert_eq!(members.held((7, Some(2)), held.number).map(|member| member.last), Some(2));
        assert!(members.hold(7, 1).is_none(), "whoever has the number open has it");
        members.forget(7);
        assert_eq!((members.count(), members.floor(9)), (0, 9));
    }

    #[test]
    fn records_of_version_1_are_those_of_whoever_goes_on_behind_them() {
        let mut members = Members::default();
        (1..=3).for_each(|index| found(&mut members, None, index, index));
        (4..=5).for_each(|index| found(&mut members, Some(2), index, index));
        assert_eq!(members.unflushed(7, 2).first_index(), Some(1));
        let held = members.hold(7, 2).expect("nobody has it");
        assert_eq!((held.foreign, members.floor(9), members.count()), (0, 0, 1));
        // A member that begins again at index 1 is somebody else.
        let mut members = Members::default();
        (1..=3).for_each(|index| found(&mut members, None, index, index));
        (1..=2).for_each(|index| found(&mut members, Some(2), index, 3 + index));
        let held = members.hold(7, 2).expect("nobody has it");
        assert_eq!((held.foreign, members.floor(9)), (3, 3));
    }
}
