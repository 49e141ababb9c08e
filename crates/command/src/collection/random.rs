//! Members by chance.
//!
//! A packed row's are numbered. In a large row a random place is looked up, and one of the members behind it is taken:
//! places are as good as random, so every member has about the same chance, but for the gaps in front of it.

use std::collections::BTreeSet;

use weir_io::Rng;

use super::{Collection, Member};
use crate::context::Context;
use crate::error::{Error, Outcome};

/// Members behind a random place among which one is taken: the more, the less gaps matter.
const NEAR_MEMBERS: usize = 16;

/// Where more than this part of all members is wanted, all are gone through.
const FEW: u64 = 4;

/// Members that are looked up one by one between two turns.
const TURN_MEMBERS: usize = 64;

/// Most bytes of members that are chosen together.
const CHOSEN_BYTES_MAX: usize = 64 << 20;
/// What a member takes beside its bytes.
const MEMBER_BYTES: usize = 96;
/// There are more.
const TOO_MANY: Error = Error::new("ERR more than 64 MiB of members: ask for fewer at a time");

impl Collection<'_> {
    /// A member by chance; `None` if there is none.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn random_member(&self, cx: &mut Context<'_>) -> Outcome<Option<Member>> {
        let mut rng = Rng::new(cx.random());
        if let Some(packed) = self.packed() {
            let at = rng.below(self.len().max(1)) as usize;
            cx.passed_packed(at + 1);
            return Ok(packed.iter().nth(at).map(Member::packed));
        }
        let near = self.members_near(cx, rng.next_u64() as u32).await?;
        let at = rng.below(near.len().max(1) as u64) as usize;
        Ok(near.into_iter().nth(at))
    }

    /// Up to `count` different members by chance.
    ///
    /// # Errors
    /// They cannot be read; they are too many.
    pub async fn random_members(&self, cx: &mut Context<'_>, count: u64) -> Outcome<Vec<Member>> {
        if self.packed().is_some() || count.saturating_mul(FEW) >= self.len() {
            return self.sample(cx, count).await;
        }
        let (mut found, mut names, mut bytes) = (Vec::new(), BTreeSet::new(), 0);
        for tried in 0_usize.. {
            if found.len() as u64 == count {
                break;
            }
            if tried % TURN_MEMBERS == TURN_MEMBERS - 1 {
                cx.yields().now().await;
            }
            let Some(member) = self.random_member(cx).await? else { break };
            if names.insert(member.name.clone()) {
                grow(&mut bytes, &member)?;
                found.push(member);
            }
        }
        Ok(found)
    }

    /// Goes through all members, and keeps `count` of them: each with the same chance.
    async fn sample(&self, cx: &mut Context<'_>, count: u64) -> Outcome<Vec<Member>> {
        let mut rng = Rng::new(cx.random());
        let (mut kept, mut met, mut from, mut bytes): (Vec<Member>, _, _, _) = (Vec::new(), 0, Some(0), 0);
        while let Some(place) = from {
            let page = self.members_from(cx, place, NEAR_MEMBERS * NEAR_MEMBERS).await?;
            from = page.next;
            for member in page.members {
                met += 1;
                if (kept.len() as u64) < count {
                    grow(&mut bytes, &member)?;
                    kept.push(member);
                } else if let Some(slot) = kept.get_mut(rng.below(met) as usize) {
                    grow(&mut bytes, &member)?;
                    bytes -= size(slot);
                    *slot = member;
                }
            }
            cx.yields().now().await;
        }
        Ok(kept)
    }

    /// Some members from `place` on, or from the beginning, where there are none behind it.
    async fn members_near(&self, cx: &mut Context<'_>, place: u32) -> Outcome<Vec<Member>> {
        for from in [place, 0] {
            let mut next = Some(from);
            while let Some(from) = next {
                let page = self.members_from(cx, from, NEAR_MEMBERS).await?;
                if !page.members.is_empty() {
                    return Ok(page.members);
                }
                // A page may have met nothing but what was removed.
                next = page.next;
                cx.yields().now().await;
            }
        }
        Ok(Vec::new())
    }
}

/// Books `member` among `bytes`.
fn grow(bytes: &mut usize, member: &Member) -> Outcome {
    *bytes += size(member);
    if *bytes > CHOSEN_BYTES_MAX { Err(TOO_MANY) } else { Ok(()) }
}

fn size(member: &Member) -> usize {
    MEMBER_BYTES + member.name.len() + member.value.len()
}
