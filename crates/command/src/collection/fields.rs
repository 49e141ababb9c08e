//! Fields of a hash that expire before their row does.
//!
//! In a spread hash, such a field stands in a space of its own, with its deadline in front of its value. It stands once
//! more in the order of the deadlines ([`weir_model::parts::fields`]). A packed hash keeps the deadline beside the
//! field.
//!
//! The head counts a field until the field is taken out, but no command sees it from its deadline on. A packed hash
//! loses its expired fields as soon as it is read. The expired fields of a spread hash stay until they are
//! [swept](Collection::sweep), a few at a time. Reads skip them, and a command that tells how many fields a hash has
//! [counts them](Collection::count_expired).

use std::ops::Bound;

use weir_model::Value;
use weir_model::parts::fields::{DEADLINE_BYTES, DEADLINE_SPACE, MORTAL_SPACE, mortal_value, take_deadline};
use weir_model::parts::{ELEMENT_SPACE, HashDetail, MortalFields, PLACE_BYTES, PackedPart, PackedSearch, placed};

use super::Collection;
use super::members::{Member, MembersPage, place};
use crate::context::{Context, Part, Subkeys};
use crate::error::Outcome;

/// How many deadlines are counted between two turns.
const PAGE_DEADLINES: usize = 1000;

/// The subkey of `field` in the order of the deadlines.
fn deadline_subkey(version: u64, at_ms: u64, field: &[u8]) -> Vec<u8> {
    [&at_ms.to_be_bytes()[..], &placed(version, field)].concat()
}

/// All deadlines from `from_ms` on.
fn from(from_ms: u64) -> Subkeys {
    Subkeys { from: Bound::Included(from_ms.to_be_bytes().to_vec()), ..Subkeys::all(DEADLINE_SPACE) }
}

/// All deadlines from `from_ms` on up to `now_ms`, which is included.
fn until(from_ms: u64, now_ms: u64) -> Subkeys {
    Subkeys { to: Bound::Excluded(now_ms.saturating_add(1).to_be_bytes().to_vec()), ..from(from_ms) }
}

/// What is behind the subkey `after` of `deadlines`, the first of which are at `first_ms`. `None` if `after` is at
/// another time.
fn behind(deadlines: &Subkeys, first_ms: u64, after: &[u8]) -> Option<Subkeys> {
    let is_among_first = take_deadline(after).is_some_and(|(at_ms, _)| at_ms == first_ms);
    is_among_first.then(|| Subkeys { from: Bound::Excluded(after.to_vec()), ..deadlines.clone() })
}

/// The field in a part that is stored with a deadline.
fn mortal_member(Part { mut subkey, value }: Part) -> Option<Member> {
    let (at_ms, _) = take_deadline(&value)?;
    subkey.drain(..PLACE_BYTES.min(subkey.len()));
    Some(Member { name: subkey, value: value[DEADLINE_BYTES..].to_vec().into(), expire_at_ms: Some(at_ms) })
}

impl Context<'_> {
    /// Writes what was changed of a hash, as [`Context::save`] does.
    ///
    /// # Errors
    /// Its deadlines cannot be read; the key is too long.
    pub async fn save_hash(&mut self, hash: &mut Collection<'_>) -> Outcome {
        hash.settle_deadlines(self).await?;
        let now_ms = self.now_ms();
        if hash.is_changed && hash.head.end_ms(None).is_some_and(|end| end <= now_ms) {
            hash.is_changed = false;
            return self.delete(hash.key);
        }
        self.save(hash)
    }
}

impl Collection<'_> {
    /// The number and the first and last deadlines of the fields that expire before the row does.
    pub(crate) fn mortal(&self) -> Option<MortalFields> {
        self.head.mortal()
    }

    /// A moment before which no field expires; `None` where none will expire before the row does. Fields that have
    /// expired must have been [counted](Collection::count_expired).
    pub(crate) fn first_deadline(&self) -> Option<u64> {
        self.mortal().filter(|mortal| mortal.count > self.expired).map(|mortal| mortal.first_ms)
    }

    fn set_mortal(&mut self, mortal: Option<MortalFields>) {
        let is_large = self.head.is_large();
        // The row's own deadline is filled in when the head is written.
        self.head.detail = HashDetail { is_large, mortal, row_ms: None }.encode();
    }

    /// Whether the hash is spread and has fields that expire.
    pub(super) fn has_mortal_parts(&self) -> bool {
        self.packed().is_none() && self.mortal().is_some()
    }

    /// Removes from a packed hash the fields that have expired at `now_ms`.
    pub(super) fn drop_packed_expired(&mut self, now_ms: u64) {
        if self.mortal().is_none_or(|mortal| mortal.first_ms > now_ms) {
            return;
        }
        let Some(packed) = &mut self.head.packed else { return };
        let mut bytes = 0;
        let gone = packed.retain(|part| {
            let lives = part.expire_at_ms.is_none_or(|at| at > now_ms);
            bytes += if lives { 0 } else { (part.subkey.len() + part.value.len()) as u64 };
            lives
        });
        self.head.count = self.head.count.saturating_sub(gone as u64);
        self.head.bytes = self.head.bytes.saturating_sub(bytes);
        self.note_packed_deadlines();
    }

    /// Finds out which deadlines the fields of a packed hash have.
    pub(super) fn note_packed_deadlines(&mut self) {
        let Some(packed) = &self.head.packed else { return };
        let deadlines = packed.iter().filter_map(|part| part.expire_at_ms);
        let mortal = deadlines.fold(None, |found: Option<MortalFields>, at| {
            let found = found.unwrap_or(MortalFields { count: 0, first_ms: at, last_ms: at });
            let (first_ms, last_ms) = (found.first_ms.min(at), found.last_ms.max(at));
            Some(MortalFields { count: found.count + 1, first_ms, last_ms })
        });
        self.set_mortal(mortal);
    }

    /// The field called `name`, whether or not it has expired.
    ///
    /// # Errors
    /// The field cannot be read.
    pub async fn field(&self, cx: &mut Context<'_>, name: &[u8]) -> Outcome<Option<Member>> {
        let found = self.field_value(cx, name).await?;
        Ok(found.map(|(value, expire_at_ms)| Member { name: name.into(), value, expire_at_ms }))
    }

    /// The value of the field `name`, and when the field expires.
    pub(super) async fn field_value(&self, cx: &mut Context<'_>, name: &[u8]) -> Outcome<Option<(Value, Option<u64>)>> {
        if let Some(packed) = self.packed() {
            let search = PackedSearch::new(packed.as_bytes(), ELEMENT_SPACE, name);
            let found = search.found.map(|part| (Value::copy_of(part.value), part.expire_at_ms));
            cx.passed_packed(search.passed);
            cx.compared_packed(search.compared);
            if found.is_some() {
                self.copied(cx, 1);
            }
            return Ok(found);
        }
        if let Some(value) = cx.member_part(self.key, self.life(), ELEMENT_SPACE, name).await? {
            return Ok(Some((value, None)));
        }
        if self.mortal().is_none() {
            return Ok(None);
        }
        let part = cx.part(self.key, self.life(), MORTAL_SPACE, &placed(self.head.version, name)).await?;
        Ok(part.and_then(mortal_member).map(|member| (member.value, member.expire_at_ms)))
    }

    /// Puts a field that expires at `expire_at_ms` (`None` = with its row) in the place of `before`, which is what
    /// [`Collection::field`] gives for its name.
    ///
    /// # Errors
    /// The name is too long.
    pub fn put_field(
        &mut self,
        cx: &mut Context<'_>,
        before: Option<&Member>,
        name: &[u8],
        value: &[u8],
        expire_at_ms: Option<u64>,
    ) -> Outcome {
        let old_ms = before.and_then(|field| field.expire_at_ms);
        self.deadlines_changed |= old_ms != expire_at_ms;
        let bytes = (name.len() + value.len()) as i64;
        self.count(i64::from(before.is_none()), bytes - before.map_or(0, Member::bytes));
        if self.packed().is_some() {
            return self.change_packed(cx, |packed| {
                packed.put(PackedPart { space: ELEMENT_SPACE, subkey: name, value, expire_at_ms });
            });
        }
        let (life, version) = (self.life(), self.head.version);
        if let Some(old_ms) = old_ms.filter(|_| old_ms != expire_at_ms) {
            cx.delete_part(life, DEADLINE_SPACE, &deadline_subkey(version, old_ms, name))?;
        }
        if before.is_some() && old_ms.is_some() != expire_at_ms.is_some() {
            cx.delete_member_part(life, if old_ms.is_some() { MORTAL_SPACE } else { ELEMENT_SPACE }, name)?;
        }
        self.count_mortal(i64::from(expire_at_ms.is_some()) - i64::from(old_ms.is_some()));
        let Some(at_ms) = expire_at_ms else { return cx.put_member_part(life, ELEMENT_SPACE, name, value) };
        if let Some(known) = self.mortal().filter(|known| at_ms < known.first_ms) {
            self.set_mortal(Some(MortalFields { first_ms: at_ms, ..known }));
        }
        cx.put_member_part(life, MORTAL_SPACE, name, &mortal_value(at_ms, value))?;
        match old_ms == expire_at_ms {
            true => Ok(()),
            false => cx.put_part(life, DEADLINE_SPACE, &deadline_subkey(version, at_ms, name), b""),
        }
    }

    /// Takes out `field`, which has to be there.
    ///
    /// # Errors
    /// The name is too long.
    pub fn remove_field(&mut self, cx: &mut Context<'_>, field: &Member) -> Outcome {
        let Some(at_ms) = field.expire_at_ms else { return self.remove_member(cx, field) };
        self.deadlines_changed = true;
        self.count(-1, -field.bytes());
        if self.packed().is_some() {
            return self.change_packed(cx, |packed| {
                packed.remove(ELEMENT_SPACE, &field.name);
            });
        }
        self.count_mortal(-1);
        let version = self.head.version;
        cx.delete_member_part(self.life(), MORTAL_SPACE, &field.name)?;
        cx.delete_part(self.life(), DEADLINE_SPACE, &deadline_subkey(version, at_ms, &field.name))
    }

    /// Counts fields of a spread hash that have got a deadline, or have lost theirs. [`Collection::settle_deadlines`]
    /// finds out when the first and the last of them expire. Until then no field expires before the first deadline of
    /// the head.
    fn count_mortal(&mut self, more: i64) {
        if more != 0 {
            let known = self.mortal().unwrap_or(MortalFields { count: 0, first_ms: 1, last_ms: 1 });
            let count = known.count.saturating_add_signed(more);
            self.set_mortal((count > 0).then_some(MortalFields { count, ..known }));
        }
    }

    /// Finds out when the first and the last of the fields expire, if that may have changed.
    async fn settle_deadlines(&mut self, cx: &mut Context<'_>) -> Outcome {
        if !std::mem::take(&mut self.deadlines_changed) {
            return Ok(());
        }
        if self.packed().is_some() {
            self.note_packed_deadlines();
        } else if let Some(MortalFields { count, first_ms, .. }) = self.mortal() {
            // Fields that were taken out have left tombstones in front of that, which nobody should pass each time.
            let all = from(first_ms);
            // Nor should each step of a sweep pass the tombstones that the steps before it have left at the same
            // deadline: as long as there is one more field of this deadline, that is the first.
            let has_more = match behind(&until(first_ms, first_ms), first_ms, &self.swept_to) {
                Some(rest) => self.end_of_deadlines(cx, rest).await?.is_some(),
                None => false,
            };
            let first_ms = match has_more {
                true => Some(first_ms),
                false => self.end_of_deadlines(cx, all.clone()).await?,
            };
            let last_ms = self.end_of_deadlines(cx, Subkeys { reverse: true, ..all }).await?;
            let ends = first_ms.zip(last_ms);
            self.set_mortal(ends.map(|(first_ms, last_ms)| MortalFields { count, first_ms, last_ms }));
        }
        Ok(())
    }

    /// The first of `deadlines`, in their order.
    async fn end_of_deadlines(&self, cx: &mut Context<'_>, deadlines: Subkeys) -> Outcome<Option<u64>> {
        let mut left = Some(deadlines);
        while let Some(subkeys) = left {
            let page = cx.parts(self.key, self.life(), subkeys, 1).await?;
            if let Some(part) = page.parts.first() {
                return Ok(take_deadline(&part.subkey).map(|(at_ms, _)| at_ms));
            }
            left = page.next;
            cx.yields().now().await;
        }
        Ok(None)
    }

    /// Counts the fields that have expired and are still there. From now on [`Collection::len`] leaves them out.
    ///
    /// # Errors
    /// The deadlines cannot be read.
    pub async fn count_expired(&mut self, cx: &mut Context<'_>) -> Outcome {
        let now_ms = cx.now_ms();
        let Some(mortal) = self.mortal().filter(|mortal| mortal.first_ms <= now_ms) else { return Ok(()) };
        if self.packed().is_some() {
            return Ok(());
        }
        self.expired = 0;
        let mut left = Some(until(mortal.first_ms, now_ms));
        while let Some(subkeys) = left {
            let page = cx.parts(self.key, self.life(), subkeys, PAGE_DEADLINES).await?;
            self.expired += page.parts.len() as u64;
            left = page.next;
            cx.yields().now().await;
        }
        Ok(())
    }

    /// As [`Collection::members_from`], for a spread hash with fields that expire: the fields of both spaces up to the
    /// same place, without those that have expired.
    pub(super) async fn living_fields_from(
        &self,
        cx: &mut Context<'_>,
        from: u32,
        limit: usize,
    ) -> Outcome<MembersPage> {
        let now_ms = cx.now_ms();
        let (staying, staying_next) = self.placed_from(cx, ELEMENT_SPACE, from, limit).await?;
        let (mortal, mortal_next) = self.placed_from(cx, MORTAL_SPACE, from, limit).await?;
        let next = staying_next.into_iter().chain(mortal_next).min();
        let is_in = |part: &Part| next.is_none_or(|next| place(&part.subkey) < next);
        let mut members: Vec<Member> = staying.into_iter().filter(is_in).map(Member::spread).collect();
        let mortal = mortal.into_iter().filter(is_in).filter_map(mortal_member);
        members.extend(mortal.filter(|field| field.lives(now_ms)));
        Ok(MembersPage { members, next })
    }

    /// Takes out up to `limit` fields that have expired; gives whether there was any. The caller has to save the row as
    /// a hash. `after` is where the step before has ended, or empty: fields of the same deadline that it has taken out
    /// need not be passed again.
    ///
    /// # Errors
    /// The fields cannot be read.
    pub async fn sweep(&mut self, cx: &mut Context<'_>, limit: usize, after: &[u8]) -> Outcome<bool> {
        if self.packed().is_some() {
            // The packed hash in memory has lost these fields already; it has to be written without them.
            self.is_changed = true;
            return Ok(true);
        }
        let Some(MortalFields { first_ms, .. }) = self.mortal() else { return Ok(false) };
        let due = until(first_ms, cx.now_ms());
        let mut swept = match behind(&due, first_ms, after) {
            Some(rest) => self.sweep_among(cx, rest, limit).await?,
            None => 0,
        };
        if swept == 0 {
            // The step before may not have been written, or a field may have come that is in front of its end.
            swept = self.sweep_among(cx, due, limit).await?;
        }
        Ok(swept > 0)
    }

    /// Takes out up to `limit` fields that have a deadline among `deadlines`; gives how many.
    async fn sweep_among(&mut self, cx: &mut Context<'_>, deadlines: Subkeys, limit: usize) -> Outcome<usize> {
        let (mut swept, mut left) = (0, Some(deadlines));
        while let Some(subkeys) = left.filter(|_| swept < limit) {
            let page = cx.parts(self.key, self.life(), subkeys, limit - swept).await?;
            left = page.next;
            for part in page.parts {
                let subkey = part.subkey.get(DEADLINE_BYTES..).unwrap_or_default();
                let stored = cx.part(self.key, self.life(), MORTAL_SPACE, subkey).await?;
                if let Some(field) = stored.and_then(mortal_member) {
                    self.remove_field(cx, &field)?;
                    swept += 1;
                }
                self.swept_to = part.subkey;
            }
        }
        Ok(swept)
    }

    /// Where the next step of a sweep goes on.
    pub(crate) fn swept_to(&self) -> &[u8] {
        &self.swept_to
    }
}
