//! The members of a sorted set in the order of their scores; members with the same score are in the order of their
//! names.
//!
//! A *place* in this order is the bytes of a score followed by a name, whether or not a member has them. A *stretch*
//! reaches from one place up to another.

use std::ops::Bound;

use weir_model::parts::{OrderDetail, PackedPart, score_of, scored, take_f64};

use super::Collection;
use super::counted::{Counted, damaged};
use crate::context::{Context, StoredPartsPage, Subkeys};
use crate::error::Outcome;
use crate::reply::FLUSH_BYTES;
use crate::stored_parts::{StoredPart, StoredParts};

/// The space of that order.
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

    /// The member's place in the order.
    pub fn place(&self) -> Vec<u8> {
        place(self.score, &self.name)
    }
}

/// A member, borrowed from where it was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoredRef<'p> {
    /// Its name.
    pub name: &'p [u8],
    /// Its score.
    pub score: f64,
}

impl<'p> ScoredRef<'p> {
    fn spread(part: StoredPart<'p>) -> Option<Self> {
        let mut name = part.key;
        let score = take_f64(&mut name)?;
        // A value beside the place says that the zero is a negative one.
        let score = if part.value.is_empty() { score } else { -score };
        Some(Self { name, score })
    }

    fn to_scored(self) -> Scored {
        Scored { name: self.name.into(), score: self.score }
    }
}

/// Members that were read, without a copy of each: for code that looks at each member once.
#[derive(Default)]
pub struct ScoredPage {
    parts: StoredPartsPage,
    /// How many parts at the front do not belong to the page.
    skipped: usize,
    /// The page is iterated from its end.
    is_turned: bool,
}

impl ScoredPage {
    fn new(parts: StoredPartsPage, skipped: usize) -> Self {
        Self { parts, skipped, is_turned: false }
    }

    /// A page of members that stand in a head.
    fn of(members: impl Iterator<Item = Scored>) -> Self {
        let mut parts = StoredParts::default();
        for member in members {
            let (place, beside) = scored(member.score, &member.name);
            parts.push(&place, beside);
        }
        Self::new(StoredPartsPage::of_subkeys(parts, None), 0)
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.parts.iter().len().saturating_sub(self.skipped)
    }

    /// The same members in reverse order.
    pub fn turned(self) -> Self {
        Self { is_turned: !self.is_turned, ..self }
    }

    /// Each member, in order.
    pub fn iter(&self) -> impl Iterator<Item = Outcome<ScoredRef<'_>>> {
        let (len, skipped) = (self.len(), self.skipped);
        (0..len).map(move |index| {
            let place = skipped + if self.is_turned { len - 1 - index } else { index };
            self.parts.get(place).and_then(ScoredRef::spread).ok_or_else(damaged)
        })
    }

    fn to_members(&self, cx: &mut Context<'_>) -> Outcome<Vec<Scored>> {
        cx.copied_parts(self.len());
        self.iter().map(|member| member.map(ScoredRef::to_scored)).collect()
    }
}

/// The score in the `value` of a member of a sorted set.
///
/// # Errors
/// The value has no score.
pub fn score_in(value: &[u8]) -> Outcome<f64> {
    score_of(value).ok_or_else(damaged)
}

/// The place of a member called `name` with this score.
pub fn place(score: f64, name: &[u8]) -> Vec<u8> {
    scored(score, name).0
}

/// The first place behind `place`.
pub fn above(mut place: Vec<u8>) -> Vec<u8> {
    place.push(0);
    place
}

/// Consecutive members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The first place.
    pub from: Vec<u8>,
    /// The place behind the last; `None` = to the end of the order.
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
    /// What the head of a spread row says about its order.
    pub(super) fn order(&self) -> Outcome<OrderDetail> {
        OrderDetail::decode(&self.head.detail).ok_or_else(damaged)
    }

    /// The counts over the order of a spread row.
    fn counted(&self) -> Outcome<Counted<'k>> {
        Ok(Counted::new(self.key, self.life(), ORDER, &self.order()?))
    }

    /// All members of a packed row, in order; the row keeps them in that order.
    fn in_order(&self, cx: &mut Context<'_>) -> Option<impl DoubleEndedIterator<Item = Scored> + use<>> {
        let members: Vec<Scored> = self.packed()?.iter().filter_map(Scored::packed).collect();
        cx.passed_packed(members.len());
        cx.copied_parts(members.len());
        Some(members.into_iter())
    }

    /// The score of the member `name`.
    ///
    /// # Errors
    /// The member cannot be read.
    pub async fn score(&self, cx: &mut Context<'_>, name: &[u8]) -> Outcome<Option<f64>> {
        self.member_value(cx, name).await?.map(|value| score_in(&value)).transpose()
    }

    /// How many members stand in front of `place`.
    ///
    /// # Errors
    /// The row cannot be read.
    pub async fn count_before(&self, cx: &mut Context<'_>, place: &[u8]) -> Outcome<u64> {
        match self.in_order(cx) {
            Some(members) => Ok(members.take_while(|member| &member.place()[..] < place).count() as u64),
            None => self.counted()?.before(cx, place).await,
        }
    }

    /// How many members are in `stretch`.
    ///
    /// # Errors
    /// The row cannot be read.
    pub async fn count_in(&self, cx: &mut Context<'_>, stretch: &Stretch) -> Outcome<u64> {
        let front = if stretch.from.is_empty() { 0 } else { self.count_before(cx, &stretch.from).await? };
        let end = match &stretch.to {
            Some(to) => self.count_before(cx, to).await?,
            None => self.len(),
        };
        Ok(end.saturating_sub(front))
    }

    /// The place of the member with `rank` others in front of it; `None`, which is behind all, if there are not so
    /// many.
    ///
    /// # Errors
    /// The row cannot be read.
    pub async fn place_at(&self, cx: &mut Context<'_>, rank: u64) -> Outcome<Option<Vec<u8>>> {
        if rank == 0 {
            return Ok(Some(Vec::new()));
        }
        if rank >= self.len() {
            return Ok(None);
        }
        match self.in_order(cx) {
            Some(mut members) => Ok(members.nth(rank as usize).map(|member| member.place())),
            None => {
                let page = self.ranked(cx, rank, rank + 1).await?;
                let member = page.iter().next().transpose()?;
                Ok(member.map(|member| place(member.score, member.name)))
            }
        }
    }

    /// The members with the ranks from `first` up to `end`, which is not included.
    ///
    /// # Errors
    /// The row cannot be read.
    pub async fn stretch_of_ranks(&self, cx: &mut Context<'_>, first: u64, end: u64) -> Outcome<Stretch> {
        let Some(from) = self.place_at(cx, first).await?.filter(|_| first < end) else {
            return Ok(Stretch { from: Vec::new(), to: Some(Vec::new()) });
        };
        Ok(Stretch { from, to: self.place_at(cx, end).await? })
    }

    /// The members with these ranks, in order. For few members: it does not look up where they begin and end. If their
    /// names are longer than what is answered at a time, only the first of them are returned.
    ///
    /// # Errors
    /// The members cannot be read.
    pub async fn ranked(&self, cx: &mut Context<'_>, first: u64, end: u64) -> Outcome<ScoredPage> {
        let end = end.min(self.len());
        let wanted = end.saturating_sub(first) as usize;
        if let Some(members) = self.in_order(cx) {
            return Ok(ScoredPage::of(members.skip(first as usize).take(wanted)));
        }
        if wanted == 0 {
            return Ok(ScoredPage::default());
        }
        if first == 0 {
            return self.in_a_row(cx, Stretch::ALL, false, 0, wanted).await;
        }
        // The last members need no counts.
        if end == self.len() {
            return Ok(self.in_a_row(cx, Stretch::ALL, true, 0, wanted).await?.turned());
        }
        let (from, passed) = self.counted()?.near(cx, first).await?.ok_or_else(damaged)?;
        self.in_a_row(cx, Stretch { from, to: None }, false, passed as usize, wanted).await
    }

    /// Members of `stretch` of a spread row: `wanted` members, after skipping `passed` others.
    async fn in_a_row(
        &self,
        cx: &mut Context<'_>,
        stretch: Stretch,
        reverse: bool,
        mut passed: usize,
        wanted: usize,
    ) -> Outcome<ScoredPage> {
        let (first, mut left) = self.stored_page(cx, stretch, reverse, passed + wanted).await?;
        if left.is_none() || first.iter().len() >= passed + wanted {
            // Mostly one page has them all.
            return Ok(ScoredPage::new(first, passed));
        }
        let (mut page, mut parts, mut bytes) = (first, StoredParts::default(), 0);
        loop {
            let here = passed.min(page.iter().len());
            passed -= here;
            // Members that are skipped are not copied.
            for part in page.iter().skip(here) {
                bytes += part.key.len();
                parts.push_stored(part);
            }
            let Some(stretch) = left.filter(|_| parts.len() < wanted && bytes < FLUSH_BYTES) else { break };
            (page, left) = self.stored_page(cx, stretch, reverse, passed + wanted - parts.len()).await?;
        }
        cx.copied_parts(parts.len());
        Ok(ScoredPage::new(StoredPartsPage::of_subkeys(parts, None), 0))
    }

    /// Up to `limit` members of `stretch`, the last ones first if `reverse`; and what is left of the stretch, if there
    /// is more.
    ///
    /// # Errors
    /// The members cannot be read.
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
        Ok((ScoredPage::new(page, 0).to_members(cx)?, left))
    }

    /// As [`Collection::scored_page`], without a copy of each member.
    ///
    /// # Errors
    /// The members cannot be read.
    pub async fn scored_in_place(
        &self,
        cx: &mut Context<'_>,
        stretch: Stretch,
        reverse: bool,
        limit: usize,
    ) -> Outcome<(ScoredPage, Option<Stretch>)> {
        if self.packed().is_some() {
            let (members, left) = self.scored_page(cx, stretch, reverse, limit).await?;
            return Ok((ScoredPage::of(members.into_iter()), left));
        }
        let (page, left) = self.stored_page(cx, stretch, reverse, limit).await?;
        Ok((ScoredPage::new(page, 0), left))
    }

    /// As [`Collection::scored_in_place`], for a spread row.
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

    /// `stretch` without the range that is known to be in front of the first member of a spread row or behind its last
    /// one: there may be very many dead parts in it.
    fn within_ends(&self, stretch: Stretch) -> Outcome<Stretch> {
        let Some(ends) = self.order()?.ends else { return Ok(stretch) };
        let to = match (stretch.to, ends.behind()) {
            (Some(to), Some(behind)) => Some(to.min(behind)),
            (to, behind) => to.or(behind),
        };
        Ok(Stretch { from: stretch.from.max(ends.first), to })
    }

    /// The first member of all, or with `is_last` the last.
    ///
    /// # Errors
    /// The members cannot be read.
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
