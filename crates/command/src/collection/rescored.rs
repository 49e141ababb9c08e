//! Changes of sorted sets. Every member is stored by its name and by its score, and is counted.

use std::ops::Bound;

use weir_io::plant::{Plant, is_planted};
use weir_model::parts::{ELEMENT_SPACE, OrderDetail, OrderEnds, Packed, PackedPart, score_value, scored};

use super::counted::{Counted, damaged};
use super::scored::{ORDER, Scored, place};
use super::{Collection, PACKED_BYTES_MAX, PACKED_PARTS_MAX};
use crate::context::{Context, Subkeys};
use crate::error::{Error, Outcome};

/// How many parts are read in one step at an end of the order.
const PAGE_PARTS: usize = 256;

/// How many bytes a score counts for.
const SCORE_BYTES: usize = 8;

/// Redis keeps a sorted set in one piece up to this many members, and bytes of each, by its defaults.
const SMALL_MEMBERS: u64 = 128;
const SMALL_BYTES: usize = 64;

/// Most bytes of members that one command changes or combines at once: they are in memory until it is done.
pub const AT_ONCE_BYTES_MAX: usize = 64 << 20;
/// The error for more members than that.
pub const TOO_MANY_AT_ONCE: Error = Error::new(
    "ERR too many members for one command: with 64 bytes for each, those that are changed or combined at once may have 64 MB",
);

/// The error for a score that would be NaN.
pub const NOT_A_SCORE: Error = Error::new("ERR resulting score is not a number (NaN)");

/// How many bytes a member called `name` takes of [`AT_ONCE_BYTES_MAX`].
pub fn weight(name: &[u8]) -> usize {
    name.len() + 64
}

/// The number of the first part of `packed` that does not stand in front of `place`.
fn index_behind(packed: &Packed, place: &[u8]) -> usize {
    let is_in_front = |part: &PackedPart<'_>| Scored::packed(*part).is_some_and(|member| &member.place()[..] < place);
    packed.iter().take_while(is_in_front).count()
}

fn value_of(score: f64) -> Outcome<[u8; SCORE_BYTES]> {
    score_value(score).map_err(|_| NOT_A_SCORE)
}

/// Changes the scores of `members` to those that Redis keeps when it adds the members one after the other to a new row.
/// Such a row is small for as long as it can be. But if Redis knows beforehand how many members there are (`is_known`),
/// the row is large from the beginning if they are too many. Only a large row knows that a zero was a negative one.
pub fn stored_one_by_one(members: &mut [Scored], is_known: bool) {
    let mut is_large = is_known && members.len() as u64 > SMALL_MEMBERS;
    for (member, before) in members.iter_mut().zip(0_u64..) {
        is_large |= before >= SMALL_MEMBERS || member.name.len() > SMALL_BYTES;
        if is_large {
            return;
        }
        member.score += 0.0;
    }
}

impl Context<'_> {
    /// Writes what was changed of `zset`, and counts its members: now, or later along with what others change of it.
    ///
    /// # Errors
    /// As [`Context::save`], and if the counts cannot be read.
    pub async fn save_sorted(&mut self, zset: &mut Collection<'_>) -> Outcome {
        zset.count_some(self).await?;
        self.save(zset)
    }
}

impl Collection<'_> {
    /// Notes whether Redis would still keep the row in one piece: it does while the members are few and short.
    fn note_member(&mut self, name: &[u8], members: u64) {
        if name.len() > SMALL_BYTES || members > SMALL_MEMBERS {
            self.note_large();
        }
    }

    /// `score` as it is kept: as in Redis, only a large row knows that a zero was a negative one.
    fn kept(&self, score: f64) -> f64 {
        if self.is_large() { score } else { score + 0.0 }
    }

    /// Counts the members that came and went, unless the caller of the command does that. The row has to be saved
    /// either way.
    ///
    /// # Errors
    /// The counts cannot be read.
    pub async fn count_some(&mut self, cx: &mut Context<'_>) -> Outcome {
        if cx.counts_later() { Ok(()) } else { self.count_changes(cx).await }
    }

    /// Counts the members that came and went. A row without members goes away, and its counts with it.
    ///
    /// # Errors
    /// The counts cannot be read.
    pub(crate) async fn count_changes(&mut self, cx: &mut Context<'_>) -> Outcome {
        let changes = cx.take_uncounted(self.life());
        if changes.is_empty() || self.is_empty() {
            return Ok(());
        }
        let mut order = self.order()?;
        let mut counted = Counted::new(self.key, self.life(), ORDER, &order);
        counted.changed(cx, &changes, self.len()).await?;
        counted.tell(&mut order);
        self.note_order(&order);
        Ok(())
    }

    /// Gives the member `name` this score; `before` is its score so far, if it is there. The row has to be
    /// [saved](Context::save_sorted).
    ///
    /// # Errors
    /// The name is too long; or the parts around the member cannot be read.
    pub async fn put_score(&mut self, cx: &mut Context<'_>, before: Option<f64>, name: &[u8], score: f64) -> Outcome {
        let is_new = before.is_none();
        if is_new {
            self.note_member(name, self.len() + 1);
            self.count(1, (name.len() + SCORE_BYTES) as i64);
        } else {
            // The head is written even so: whoever watches the row looks at it.
            self.count(0, 0);
        }
        let score = self.kept(score);
        let value = value_of(score)?;
        let (new, beside) = scored(score, name);
        if self.packed().is_some() {
            // The old member is looked for, and the place of the new one; and the places of the members in front of it
            // are made.
            cx.passed_packed(self.len() as usize);
            let mut in_front = 0;
            self.change_packed(cx, |packed| {
                packed.remove(ELEMENT_SPACE, name);
                let part = PackedPart { space: ELEMENT_SPACE, subkey: name, value: &value, expire_at_ms: None };
                in_front = index_behind(packed, &new);
                packed.insert(in_front, part);
            })?;
            cx.copied_parts(in_front);
            return Ok(());
        }
        let life = self.life();
        cx.put_member_part(life, ELEMENT_SPACE, name, &value)?;
        let old = before.map(|before| place(before, name)).filter(|old| *old != new);
        if let Some(old) = old.as_ref().filter(|_| !is_planted(Plant::IndexEntryLeft)) {
            cx.delete_part(life, ORDER, old)?;
        }
        cx.put_part(life, ORDER, &new, beside)?;
        let mut order = self.order()?;
        if let Some(ends) = &mut order.ends {
            let left = old.as_ref().map(|old| (old.starts_with(&ends.first), old.starts_with(&ends.last)));
            ends.include(&new);
            self.find_ends(cx, ends, left.unwrap_or_default(), 1).await?;
            self.note_order(&order);
        }
        if is_new || old.is_some() {
            cx.note_uncounted(self.key, life, new, 1);
        }
        if let Some(old) = old {
            cx.note_uncounted(self.key, life, old, -1);
        }
        Ok(())
    }

    /// Takes out `members`, which have to be there, and to ascend or descend. If they are the outermost ones, and the
    /// caller knows that, `next` is the member that is outermost afterwards. The row has to be
    /// [saved](Context::save_sorted).
    ///
    /// # Errors
    /// The parts around the members cannot be read.
    pub async fn remove_scored(&mut self, cx: &mut Context<'_>, members: &[Scored], next: Option<&Scored>) -> Outcome {
        let bytes: usize = members.iter().map(|member| member.name.len() + SCORE_BYTES).sum();
        self.count(-(members.len() as i64), -(bytes as i64));
        if self.packed().is_some() {
            return self.change_packed(cx, |packed| {
                packed.retain(|part| !members.iter().any(|member| member.name == part.subkey));
            });
        }
        let life = self.life();
        let mut places = Vec::with_capacity(members.len());
        for member in members {
            cx.delete_member_part(life, ELEMENT_SPACE, &member.name)?;
            let place = member.place();
            cx.delete_part(life, ORDER, &place)?;
            places.push(place);
        }
        if self.is_empty() {
            // The row goes away, and with it all of its parts.
            return Ok(());
        }
        places.sort_unstable();
        let mut order = self.order()?;
        // A row from which members are taken may be a queue, so its ends are tracked from now on.
        let is_known = order.ends.is_some();
        let mut ends = order.ends.take().unwrap_or(OrderEnds { first: vec![0], last: vec![u8::MAX] });
        let left = |place: Option<&Vec<u8>>, bound: &[u8]| place.is_some_and(|place| place.starts_with(bound));
        let left = (left(places.first(), &ends.first), left(places.last(), &ends.last));
        let mut left = if is_known { left } else { (true, true) };
        if let (Some(next), Some(last)) = (next.map(Scored::place), places.last()) {
            let bound = OrderDetail::cut(&next).to_vec();
            if next > *last {
                (ends.first, left.0) = (bound, false);
            } else {
                (ends.last, left.1) = (bound, false);
            }
        }
        self.find_ends(cx, &mut ends, left, places.len()).await?;
        order.ends = Some(ends);
        self.note_order(&order);
        places.into_iter().for_each(|place| cx.note_uncounted(self.key, life, place, -1));
        Ok(())
    }

    /// Looks for the first member if the known one may have left (`left.0`), and for the last one (`left.1`). Up to
    /// `removed` members beside them may have left, too.
    async fn find_ends(
        &self,
        cx: &mut Context<'_>,
        ends: &mut OrderEnds,
        left: (bool, bool),
        removed: usize,
    ) -> Outcome {
        let life = self.life();
        for (is_last, _) in [(false, left.0), (true, left.1)].into_iter().filter(|(_, has_left)| *has_left) {
            let (from, to) =
                (Bound::Included(ends.first.clone()), ends.behind().map_or(Bound::Unbounded, Bound::Excluded));
            let mut rest = Some(Subkeys { space: ORDER, from, to, reverse: is_last });
            let found = loop {
                let page =
                    cx.parts(self.key, life, rest.take().ok_or_else(damaged)?, removed.clamp(2, PAGE_PARTS)).await?;
                if let Some(part) = page.parts.into_iter().next() {
                    break part.subkey;
                }
                rest = page.next;
            };
            let bound = OrderDetail::cut(&found).to_vec();
            if is_last {
                ends.last = bound;
            } else {
                ends.first = bound;
            }
        }
        Ok(())
    }

    /// Gives these members, which ascend, to a row without members.
    ///
    /// # Errors
    /// A name is too long.
    pub async fn fill(&mut self, cx: &mut Context<'_>, members: &[Scored]) -> Outcome {
        let bytes: usize = members.iter().map(|member| member.name.len() + SCORE_BYTES).sum();
        self.count(members.len() as i64, bytes as i64);
        members.iter().for_each(|member| self.note_member(&member.name, members.len() as u64));
        if members.len() as u64 <= PACKED_PARTS_MAX && bytes <= PACKED_BYTES_MAX {
            let values = members.iter().map(|member| value_of(self.kept(member.score))).collect::<Outcome<Vec<_>>>()?;
            return self.change_packed(cx, |packed| {
                let parts = members.iter().zip(&values).map(|(member, value)| PackedPart {
                    space: ELEMENT_SPACE,
                    subkey: &member.name,
                    value,
                    expire_at_ms: None,
                });
                *packed = parts.collect();
            });
        }
        self.head.packed = None;
        let (life, mut places) = (self.life(), Vec::with_capacity(members.len()));
        for (index, member) in members.iter().enumerate() {
            crate::turn::end_turn(cx.yields(), index).await;
            let score = self.kept(member.score);
            let (place, beside) = scored(score, &member.name);
            cx.put_member_part(life, ELEMENT_SPACE, &member.name, &value_of(score)?)?;
            cx.put_part(life, ORDER, &place, beside)?;
            places.push(place);
        }
        let mut order = self.order()?;
        let mut counted = Counted::new(self.key, life, ORDER, &order);
        counted.fill(cx, &places)?;
        counted.tell(&mut order);
        self.note_order(&order);
        Ok(())
    }

    fn note_order(&mut self, order: &OrderDetail) {
        let detail = order.encode();
        if self.head.detail != detail {
            self.head.detail = detail;
            self.is_changed = true;
        }
    }
}
