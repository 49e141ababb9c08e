//! Members by chance.
//!
//! A packed row's are numbered. In a large row a random place is looked up, and one of the members behind it is taken:
//! places are as good as random, so every member has about the same chance, but for the gaps in front of it.

use std::collections::BTreeSet;

use weir_io::Rng;

use super::{Collection, Member};
use crate::context::Context;
use crate::error::Outcome;

/// Members behind a random place among which one is taken: the more, the less gaps matter.
const NEAR_MEMBERS: usize = 16;

/// Where more than this part of all members is wanted, all are gone through.
const FEW: u64 = 4;

impl Collection<'_> {
    /// A member by chance; `None` if there is none.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn random_member(&self, cx: &mut Context<'_>) -> Outcome<Option<Member>> {
        let mut rng = Rng::new(cx.random());
        let near = match self.packed() {
            Some(_) => self.members_from(cx, 0, NEAR_MEMBERS).await?.members,
            None => self.members_near(cx, rng.next_u64() as u32).await?,
        };
        let at = rng.below(near.len().max(1) as u64) as usize;
        Ok(near.into_iter().nth(at))
    }

    /// Up to `count` different members by chance.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn random_members(&self, cx: &mut Context<'_>, count: u64) -> Outcome<Vec<Member>> {
        if self.packed().is_some() || count.saturating_mul(FEW) >= self.len() {
            return self.sample(cx, count).await;
        }
        let (mut found, mut names) = (Vec::new(), BTreeSet::new());
        while (found.len() as u64) < count {
            let Some(member) = self.random_member(cx).await? else { break };
            if names.insert(member.name.clone()) {
                found.push(member);
            }
        }
        Ok(found)
    }

    /// Goes through all members, and keeps `count` of them: each with the same chance.
    async fn sample(&self, cx: &mut Context<'_>, count: u64) -> Outcome<Vec<Member>> {
        let mut rng = Rng::new(cx.random());
        let (mut kept, mut met, mut from) = (Vec::new(), 0, Some(0));
        while let Some(place) = from {
            let page = self.members_from(cx, place, NEAR_MEMBERS * NEAR_MEMBERS).await?;
            from = page.next;
            for member in page.members {
                met += 1;
                if (kept.len() as u64) < count {
                    kept.push(member);
                } else if let Some(slot) = kept.get_mut(rng.below(met) as usize) {
                    *slot = member;
                }
            }
            cx.yields().now().await;
        }
        Ok(kept)
    }

    /// Some members from `place` on, or from the beginning, where there are none behind it.
    async fn members_near(&self, cx: &mut Context<'_>, place: u32) -> Outcome<Vec<Member>> {
        let members = self.members_from(cx, place, NEAR_MEMBERS).await?.members;
        if members.is_empty() { Ok(self.members_from(cx, 0, NEAR_MEMBERS).await?.members) } else { Ok(members) }
    }
}
