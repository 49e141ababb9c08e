//! The members of a sorted set in the order of their scores, and of their names where scores are the same.
//!
//! A *place* in this order is the bytes of a score with a name behind them, whether a member has them or not; a
//! *stretch* goes from one place up to another.

use std::ops::Bound;

use weir_model::parts::{OrderDetail, PackedPart, score_of, scored, take_f64};

use super::Collection;
use super::counted::{Counted, damaged};
use super::members::Member;
use crate::context::{Context, StoredPartsPage, Subkeys};
use crate::error::Outcome;
use crate::reply::FLUSH_BYTES;
use crate::stored_parts::StoredPart;

/// The space that has the order.
pub(super) const ORDER: u8 = 1;

/// Most members that are read between two turns.
const PAGE_MEMBERS: usize = 500;

/// A member with its score.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// Its name.
    pub name: Vec<u8>,
    /// Its score.
    pub score: f64,
}

impl Scored {
    pub(super) fn packed(part: PackedPart<'_>) -> Option<Self> {
        Some(Self { name: part.subkey.into(), score: score_of(part.value)? })
    }

    fn spread(part: StoredPart<'_>) -> Option<Self> {
        let mut name = part.key;
        let score = take_f64(&mut name)?;
        // What stands beside it says that the zero is a negative one.
        let score = if part.value.is_empty() { score } else { -score };
        Some(Self { name: name.into(), score })
    }

    /// Where it stands.
    pub fn place(&self) -> Vec<u8> {
        place(self.score, &self.name)
    }
}

/// The score of `member`, which is one of a sorted set.
///
/// # Errors
/// It has none.
pub fn score_of_member(member: &Member) -> Outcome<f64> {
    score_of(&member.value).ok_or_else(damaged)
}

/// Where a member called `name` with this score stands.
pub fn place(score: f64, name: &[u8]) -> Vec<u8> {
    scored(score, name).0
}

/// The first place behind `place`.
pub fn above(mut place: Vec<u8>) -> Vec<u8> {
    place.push(0);
    place
}

/// Members that stand one behind the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The first place.
    pub from: Vec<u8>,
    /// The place behind the last; `None`: to the end of all.
    pub to: Option<Vec<u8>>,
}

impl Stretch {
    /// All members.
    pub const ALL: Self = Self { from: Vec::new(), to: None };

    fn has(&self, place: &[u8]) -> bool {
        place >= &self.from[..] && self.to.as_ref().is_none_or(|to| place < &to[..])
    }
}

impl<'k> Collection<'k> {
    /// What the head of a spread row knows of its order.
    pub(super) fn order(&self) -> Outcome<OrderDetail> {
        OrderDetail::decode(&self.head.detail).ok_or_else(damaged)
    }

    /// The counts over the order of a spread row.
    fn counted(&self) -> Outcome<Counted<'k>> {
        Ok(Counted::new(self.key, self.life(), ORDER, &self.order()?))
    }

    /// All members of a packed row, in order: it keeps them so.
    fn in_order(&self, cx: &mut Context<'_>) -> Option<impl DoubleEndedIterator<Item = Scored> + use<>> {
        let members: Vec<Scored> = self.packed()?.iter().filter_map(Scored::packed).collect();
        cx.passed_packed(members.len());
        cx.copied_parts(members.len());
        Some(members.into_iter())
    }

    /// The score of the member that is called `name`.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn score(&self, cx: &mut Context<'_>, name: &[u8]) -> Outcome<Option<f64>> {
        self.member(cx, name).await?.as_ref().map(score_of_member).transpose()
    }

    /// How many members stand in front of `place`.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn count_before(&self, cx: &mut Context<'_>, place: &[u8]) -> Outcome<u64> {
        match self.in_order(cx) {
            Some(members) => Ok(members.take_while(|member| &member.place()[..] < place).count() as u64),
            None => self.counted()?.before(cx, place).await,
        }
    }

    /// How many members are in `stretch`.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn count_in(&self, cx: &mut Context<'_>, stretch: &Stretch) -> Outcome<u64> {
        let front = if stretch.from.is_empty() { 0 } else { self.count_before(cx, &stretch.from).await? };
        let end = match &stretch.to {
            Some(to) => self.count_before(cx, to).await?,
            None => self.len(),
        };
        Ok(end.saturating_sub(front))
    }

    /// Where the member stands in front of which there are `rank` others; behind all where there are not so many.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn place_at(&self, cx: &mut Context<'_>, rank: u64) -> Outcome<Option<Vec<u8>>> {
        if rank == 0 {
            return Ok(Some(Vec::new()));
        }
        if rank >= self.len() {
            return Ok(None);
        }
        match self.in_order(cx) {
            Some(mut members) => Ok(members.nth(rank as usize).map(|member| member.place())),
            None => Ok(self.ranked(cx, rank, rank + 1).await?.pop().map(|member| member.place())),
        }
    }

    /// The members with the ranks from `first` up to `end`, which is behind the last.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn stretch_of_ranks(&self, cx: &mut Context<'_>, first: u64, end: u64) -> Outcome<Stretch> {
        let Some(from) = self.place_at(cx, first).await?.filter(|_| first < end) else {
            return Ok(Stretch { from: Vec::new(), to: Some(Vec::new()) });
        };
        Ok(Stretch { from, to: self.place_at(cx, end).await? })
    }

    /// Those members themselves, in order: for a few, without a look at where they begin and end. If their names are
    /// longer than what is told at a time, not all of them.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn ranked(&self, cx: &mut Context<'_>, first: u64, end: u64) -> Outcome<Vec<Scored>> {
        let end = end.min(self.len());
        let wanted = end.saturating_sub(first) as usize;
        if let Some(members) = self.in_order(cx) {
            return Ok(members.skip(first as usize).take(wanted).collect());
        }
        if first == 0 || wanted == 0 {
            return self.in_a_row(cx, Stretch::ALL, false, 0, wanted).await;
        }
        // The last ones need no counts.
        if end == self.len() {
            let mut members = self.in_a_row(cx, Stretch::ALL, true, 0, wanted).await?;
            members.reverse();
            return Ok(members);
        }
        let (from, passed) = self.counted()?.near(cx, first).await?.ok_or_else(damaged)?;
        self.in_a_row(cx, Stretch { from, to: None }, false, passed as usize, wanted).await
    }

    /// Members of `stretch` of a spread row, as many as are `wanted` behind those that are `passed`.
    async fn in_a_row(
        &self,
        cx: &mut Context<'_>,
        stretch: Stretch,
        reverse: bool,
        mut passed: usize,
        wanted: usize,
    ) -> Outcome<Vec<Scored>> {
        let mut members: Vec<Scored> = Vec::with_capacity(wanted.min(PAGE_MEMBERS));
        let (mut bytes, mut left) = (0, Some(stretch));
        while let Some(stretch) = left.take_if(|_| members.len() < wanted && bytes < FLUSH_BYTES) {
            let (page, rest) = self.stored_page(cx, stretch, reverse, passed + wanted - members.len()).await?;
            let (here, told) = (passed.min(page.iter().len()), members.len());
            passed -= here;
            // What is passed is not copied.
            for part in page.iter().skip(here) {
                members.push(Scored::spread(part).ok_or_else(damaged)?);
            }
            cx.copied_parts(members.len() - told);
            bytes += members[told..].iter().map(|member| member.name.len()).sum::<usize>();
            left = rest;
        }
        Ok(members)
    }

    /// Some of `stretch`, up to `limit`, the last ones first if `reverse`; and what is left of it, if there is more.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn scored_page(
        &self,
        cx: &mut Context<'_>,
        stretch: Stretch,
        reverse: bool,
        limit: usize,
    ) -> Outcome<(Vec<Scored>, Option<Stretch>)> {
        if let Some(members) = self.in_order(cx) {
            let members = members.filter(|member| stretch.has(&member.place()));
            let members = if reverse { members.rev().take(limit).collect() } else { members.take(limit).collect() };
            return Ok((members, None));
        }
        let (page, left) = self.stored_page(cx, stretch, reverse, limit).await?;
        cx.copied_parts(page.iter().len());
        let members: Outcome<Vec<Scored>> = page.iter().map(|part| Scored::spread(part).ok_or_else(damaged)).collect();
        Ok((members?, left))
    }

    /// The same of a spread row, where the members stand.
    async fn stored_page(
        &self,
        cx: &mut Context<'_>,
        stretch: Stretch,
        reverse: bool,
        limit: usize,
    ) -> Outcome<(StoredPartsPage, Option<Stretch>)> {
        let Stretch { from, to } = self.within_ends(stretch)?;
        let (from, to) = (Bound::Included(from), to.map_or(Bound::Unbounded, Bound::Excluded));
        let subkeys = Subkeys { space: ORDER, from, to, reverse };
        let mut page = cx.stored_parts(self.key, self.life(), subkeys, limit.clamp(1, PAGE_MEMBERS)).await?;
        let left = page.next.take().map(|left| Stretch {
            from: match left.from {
                Bound::Included(from) => from,
                Bound::Excluded(from) => above(from),
                Bound::Unbounded => Vec::new(),
            },
            to: match left.to {
                Bound::Included(to) => Some(above(to)),
                Bound::Excluded(to) => Some(to),
                Bound::Unbounded => None,
            },
        });
        Ok((page, left))
    }

    /// `stretch` without what is known to be in front of the first member of a spread row and behind its last one:
    /// these may be very many dead parts.
    fn within_ends(&self, stretch: Stretch) -> Outcome<Stretch> {
        let Some(ends) = self.order()?.ends else { return Ok(stretch) };
        let to = match (stretch.to, ends.behind()) {
            (Some(to), Some(behind)) => Some(to.min(behind)),
            (to, behind) => to.or(behind),
        };
        Ok(Stretch { from: stretch.from.max(ends.first), to })
    }

    /// The first member of all, or the last.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn outermost(&self, cx: &mut Context<'_>, is_last: bool) -> Outcome<Option<Scored>> {
        let mut left = Some(Stretch::ALL);
        while let Some(stretch) = left {
            let page = self.scored_page(cx, stretch, is_last, 1).await?;
            if let Some(member) = page.0.into_iter().next() {
                return Ok(Some(member));
            }
            left = page.1;
        }
        Ok(None)
    }
}
