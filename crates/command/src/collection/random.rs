//! Random members.
//!
//! The members of a packed row are numbered. In a large row a random place is looked up, and one of the members behind
//! it is taken. Places are as good as random, so every member has about the same chance, apart from the gap in front of
//! it.
//!
//! Members that are *popped* leave dead parts behind, which stay until a merge drops them. If pops also looked up
//! random places, each would have to step over more of these. So pops go round: the head of a set says where the last
//! pop was, and the next pop takes the member behind it. The order is that of a hash that nobody knows, and a member
//! that is put back waits for the next round.

use std::collections::BTreeSet;

use weir_io::Rng;
use weir_model::parts::{RowType, place_of};

use super::{Collection, Member};
use crate::context::Context;
use crate::error::{Error, Outcome};
use crate::room::Room;
use crate::turn::{end_turn, end_turn_of};

/// One of this many members behind a random place is taken: the more there are, the less gaps matter.
const NEAR_MEMBERS: usize = 16;

/// How many random places are tried before waiting for the living members behind dead ones.
const TRIES: u32 = 4;

/// If more than one part in this many of all members is wanted, all members are gone through.
const FEW: u64 = 4;

/// How many members are looked up one by one between two turns.
const TURN_MEMBERS: usize = 64;

/// Most bytes of members that are chosen at once.
const CHOSEN_BYTES_MAX: usize = 64 << 20;
/// How many bytes a member takes beside its name and value.
const MEMBER_BYTES: usize = 96;
/// The error for more bytes than that.
const TOO_MANY: Error = Error::new("ERR more than 64 MiB of members: ask for fewer at a time");

/// Room for the members that a command chooses.
pub fn room_to_choose(cx: &Context<'_>) -> Room {
    cx.room(CHOSEN_BYTES_MAX, TOO_MANY)
}

impl Collection<'_> {
    /// A random member; `None` if there is none.
    ///
    /// # Errors
    /// The members cannot be read.
    pub async fn random_member(&self, cx: &mut Context<'_>) -> Outcome<Option<Member>> {
        let mut rng = Rng::new(cx.random());
        if let Some(packed) = self.packed() {
            let at = rng.below(self.len().max(1)) as usize;
            cx.passed_packed(at + 1);
            self.copied(cx, 1);
            return Ok(packed.iter().nth(at).map(Member::packed));
        }
        let near = self.members_near(cx, &mut rng).await?;
        let at = rng.below(near.len().max(1) as u64) as usize;
        Ok(near.into_iter().nth(at))
    }

    /// Up to `count` different random members.
    ///
    /// # Errors
    /// The members cannot be read, or are too many.
    pub async fn random_members(&self, cx: &mut Context<'_>, count: u64, room: &mut Room) -> Outcome<Vec<Member>> {
        if self.packed().is_some() || count.saturating_mul(FEW) >= self.len() {
            return self.sample(cx, count, room).await;
        }
        let (mut found, mut names) = (Vec::new(), BTreeSet::new());
        for tried in 0_usize.. {
            if found.len() as u64 == count {
                break;
            }
            end_turn_of(cx.yields(), TURN_MEMBERS, tried).await;
            let Some(member) = self.random_member(cx).await? else { break };
            if names.insert(member.name.clone()) {
                room.take(size(&member))?;
                found.push(member);
            }
        }
        Ok(found)
    }

    /// Goes through all members, and keeps `count` of them, each with the same chance.
    async fn sample(&self, cx: &mut Context<'_>, count: u64, room: &mut Room) -> Outcome<Vec<Member>> {
        let mut rng = Rng::new(cx.random());
        let (mut kept, mut met, mut from): (Vec<Member>, _, _) = (Vec::new(), 0, Some(0));
        while let Some(place) = from {
            let page = self.members_from(cx, place, NEAR_MEMBERS * NEAR_MEMBERS).await?;
            from = page.next;
            for member in page.members {
                met += 1;
                if (kept.len() as u64) < count {
                    room.take(size(&member))?;
                    kept.push(member);
                } else if let Some(slot) = kept.get_mut(rng.below(met) as usize) {
                    room.take(size(&member))?;
                    room.give_back(size(slot));
                    *slot = member;
                }
            }
            cx.end_step(from.is_some()).await;
        }
        Ok(kept)
    }

    /// Some members from a random place on.
    async fn members_near(&self, cx: &mut Context<'_>, rng: &mut Rng) -> Outcome<Vec<Member>> {
        let mut from = 0;
        for _ in 0..TRIES {
            from = rng.next_u64() as u32;
            let mut page = self.members_from(cx, from, NEAR_MEMBERS).await?;
            if page.members.is_empty() && page.next.is_none() {
                // The first member follows the last one, so the gap behind the last one belongs to the first.
                page = self.members_from(cx, 0, NEAR_MEMBERS).await?;
            }
            if !page.members.is_empty() {
                return Ok(page.members);
            }
            // The page may have met nothing but removed members: another place may be better.
            cx.yields().now().await;
        }
        // Most members near here are gone. Right behind the last pop there are no dead ones.
        for from in [self.popped().unwrap_or(from), 0] {
            let mut next = Some(from);
            while let Some(from) = next {
                let page = self.members_from(cx, from, NEAR_MEMBERS).await?;
                if !page.members.is_empty() {
                    return Ok(page.members);
                }
                next = page.next;
                cx.yields().now().await;
            }
        }
        Ok(Vec::new())
    }

    /// Takes `count` random members out of a set that has more.
    ///
    /// # Errors
    /// The members cannot be read, or are too many.
    pub async fn pop_members(&mut self, cx: &mut Context<'_>, count: u64, room: &mut Room) -> Outcome<Vec<Member>> {
        let popped = match self.packed() {
            Some(_) if count == 1 => self.random_member(cx).await?.into_iter().collect(),
            Some(_) => self.random_members(cx, count, room).await?,
            None => self.members_round(cx, count, room).await?,
        };
        for (index, member) in popped.iter().enumerate() {
            end_turn(cx.yields(), index).await;
            self.remove_member(cx, member)?;
        }
        Ok(popped)
    }

    /// The `count` members of a large set that are to be popped next.
    async fn members_round(&mut self, cx: &mut Context<'_>, count: u64, room: &mut Room) -> Outcome<Vec<Member>> {
        // Starts behind the last popped member. Others at the same place, which are rare, wait for the next round.
        let start = self.popped().map(|place| place.wrapping_add(1));
        let start = start.unwrap_or_else(|| Rng::new(cx.random()).next_u64() as u32);
        let mut found: Vec<Member> = Vec::new();
        let mut names = BTreeSet::new();
        for from in [start, 0] {
            let mut next = Some(from);
            while let Some(from) = next.filter(|_| (found.len() as u64) < count) {
                let wanted = (count - found.len() as u64).min(NEAR_MEMBERS as u64 * NEAR_MEMBERS as u64) as usize;
                let page = self.members_from(cx, from, wanted).await?;
                for member in page.members.into_iter().take(wanted) {
                    if names.insert(member.name.clone()) {
                        room.take(size(&member))?;
                        found.push(member);
                    }
                }
                next = page.next;
                cx.end_step(next.is_some() && (found.len() as u64) < count).await;
            }
        }
        if let Some(last) = found.last() {
            self.note_popped(place_of(self.head.version, &last.name));
        }
        Ok(found)
    }

    /// The place of the member that was popped last, if there is one. It follows the byte that says whether a set is
    /// large.
    fn popped(&self) -> Option<u32> {
        let place = (self.head.kind == RowType::Set).then(|| self.head.detail.get(1..)?.first_chunk()).flatten();
        place.map(|place| u32::from_be_bytes(*place))
    }

    fn note_popped(&mut self, place: u32) {
        let large = self.head.detail.first().copied().unwrap_or(0);
        self.head.detail = [&[large][..], &place.to_be_bytes()].concat();
        self.is_changed = true;
    }
}

fn size(member: &Member) -> usize {
    MEMBER_BYTES + member.name.len() + member.value.len()
}
